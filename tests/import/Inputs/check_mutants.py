#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Damages algorithms in one place each: check_mutants.py DTILEC FOLDER.

Files are cut off, and numbers and words in them exchanged. No file may crash the importer, and each
message has a file, line and column. Of what is imported, some are checked and run: where the checker
accepts an algorithm and its contract, its test passes.
"""

import os
import random
import re
import subprocess
import sys

CHECKED = 12
NUMBERS = ["0", "1", "2", "3", "7", "-1", "4097", "18446744073709551616", "1e999", "x", ""]
WORDS = {"rrc": "rcs", "rcs": "rrs", "re": "cpy", "cpy": "re", "allreduce": "broadcast",
         "wait": "signal", "signal": "wait", "put": "get", "memory": "switch", "step": "op"}


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def mutants(text, random_):
    for _ in range(5):
        yield text[:random_.randrange(len(text))]
    places = [m.span() for m in re.finditer(r"-?\d+", text)]
    for begin, end in random_.sample(places, min(8, len(places))):
        yield text[:begin] + random_.choice(NUMBERS) + text[end:]
    places = [m.span() for m in re.finditer(r"\b(" + "|".join(WORDS) + r")\b", text)]
    for begin, end in random_.sample(places, min(4, len(places))):
        yield text[:begin] + WORDS[text[begin:end]] + text[end:]
    lines = text.split("\n")
    for _ in range(4):
        at = random_.randrange(len(lines))
        yield "\n".join(lines[:at] + lines[at + 1:])
        yield "\n".join(lines[:at] + [lines[at]] + lines[at:])


def main():
    dtilec, folder = sys.argv[1:]
    random_ = random.Random(29)
    refused, imported, faults = 0, [], []
    for name in sorted(os.listdir(folder)):
        if not name.endswith((".xml", ".json")) or name.startswith("wrong_"):
            continue
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            text = file.read()
        for number, mutant in enumerate(mutants(text, random_)):
            if mutant == text:
                continue
            path = os.path.join(folder, f"mutant_{number}_{name}")
            with open(path, "w", encoding="utf-8") as file:
                file.write(mutant)
            program = path + ".dtile"
            made = run(dtilec, "import", path, "-o", program)
            if made.returncode == 0:
                imported.append((text, path, program))
                continue
            refused += 1
            places = re.findall(rf"^{re.escape(path)}:\d+:\d+: error: .*\[E11\d\d\]$",
                                made.stderr, re.M)
            if made.returncode != 1 or not places:
                faults.append(f"{path}: {made.returncode}\n{made.stderr}")
            os.remove(path)
    random_.shuffle(imported)
    wrong = 0
    for _, path, program in imported[:CHECKED]:
        check = run(dtilec, "check", program)
        test = run(dtilec, "test", program)
        wrong += check.returncode == 1
        isAccepted = check.returncode == 0 and "ensures holds" in check.stdout
        if check.returncode not in (0, 1, 3) or (isAccepted and test.returncode):
            faults.append(f"{program}: check {check.returncode}, test {test.returncode}\n"
                          + check.stdout + check.stderr + test.stdout)
    print("\n".join(faults))
    print(f"{refused} refused, {len(imported)} imported; of {CHECKED}, {wrong} are wrong")
    # A test that finds nothing to refuse tests nothing.
    return 1 if faults or refused < 100 or len(imported) < CHECKED or wrong == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
