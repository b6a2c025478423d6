#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Imports algorithms, checks them, and runs those that are right: check_algorithms.py DTILEC FOLDER.

A line for each: its name, the verdict, what is said of its contract, and its test on host ranks
against references in f64. Exits with 1 where a program is not in canonical layout, a check accepts
what a test finds wrong, or a right algorithm fails.
"""

import concurrent.futures
import os
import re
import subprocess
import sys


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def judge(dtilec, path):
    name = os.path.basename(path)
    program = path.rsplit(".", 1)[0] + ".dtile"
    made = run(dtilec, "import", path, "-o", program)
    if made.returncode:
        return f"{name}: not imported\n{made.stderr}", False
    isLaidOut = run(dtilec, "fmt", "--check", program).returncode == 0
    check = run(dtilec, "check", program)
    test = run(dtilec, "test", program)
    ranks = re.search(r"_on_(\d+)<", open(program, encoding="utf-8").read()).group(1)
    kept = f"ensures holds for W in {{{ranks}}}" in check.stdout
    codes = sorted(set(re.findall(r"error: .*\[(E\d+)\]", check.stderr)))
    verdict = "refused " + " ".join(codes) if check.returncode else "accepted"
    passed = test.returncode == 0
    line = f"{name}: {verdict}, contract {'holds' if kept else 'open'}, test {'passes' if passed else 'fails'}"
    isRight = not name.startswith("wrong_")
    isFine = isLaidOut and (check.returncode == 0) == isRight and (passed and kept or not isRight)
    return line + ("" if isFine else "\n" + check.stdout + check.stderr + test.stdout), isFine


def main():
    dtilec, folder = sys.argv[1:]
    paths = [os.path.join(folder, name) for name in sorted(os.listdir(folder))
             if name.endswith((".xml", ".json"))]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        results = list(pool.map(lambda path: judge(dtilec, path), paths))
    for line, _ in results:
        print(line)
    return 0 if all(isFine for _, isFine in results) else 1


if __name__ == "__main__":
    sys.exit(main())
