#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Holds tests/protocol/README.md to the programs beside it: check_corpus.py FOLDER.

Every program of wrong/ stands in the table, every name of the table is a program, and every kind
has three or more.
"""

import os
import re
import sys


def main(folder):
    with open(os.path.join(folder, "README.md"), encoding="utf-8") as file:
        rows = re.findall(r"^\| ([^|]+) \| ((?:`\w+` ?)+)\|$", file.read(), re.M)
    wrong = {name[:-6] for name in os.listdir(os.path.join(folder, "wrong"))}
    right = {name[:-6] for name in os.listdir(os.path.join(folder, "right"))}
    listed = [name for _, names in rows for name in re.findall(r"`(\w+)`", names)]
    findings = [f"{name} is in no row" for name in sorted(wrong - set(listed))]
    findings += [f"{name} is in the table, and no program" for name in listed if name not in wrong]
    findings += [f"{name} is in two rows" for name in sorted(set(listed)) if listed.count(name) > 1]
    for kind, names in rows:
        programs = re.findall(r"`(\w+)`", names)
        if len(programs) < 3:
            findings.append(f"{kind}: {len(programs)} programs; three are wanted")
        if not right & set(programs):
            findings.append(f"{kind}: no right twin")
    counts = f"{len(rows)} kinds, {len(wrong)} wrong and {len(right)} right programs"
    print("\n".join(findings) or counts)
    return 1 if findings or not rows else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
