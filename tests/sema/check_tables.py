#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Holds sema's messages to their tests: check_tables.py SOURCE.

Each row of diagnostics.def that sema reports is shown by a file here that is named for it.
"""

import os
import re
import sys

# Shown by tests/unit/sema/sema_test.cpp: no single file can.
SHOWN_ELSEWHERE = {"instance_has_errors"}


def reported(source):
    ids = set()
    for folder, _, names in os.walk(os.path.join(source, "sema")):
        for name in names:
            if name.endswith(".cpp"):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    ids |= set(re.findall(r"diag::(\w+)", file.read()))
    return {i for i in ids if not i.startswith("note_")} - {"Id"}


def main(source):
    shown = {re.sub(r"^(fail|warn)_|\.\w+$", "", f) for f in os.listdir(os.path.dirname(__file__))}
    findings = [
        f"no tests/sema/fail_{row} or warn_{row} shows this message"
        for row in sorted(reported(source) - shown - SHOWN_ELSEWHERE)
    ]
    print("\n".join(findings) or "each message has an example")
    return 1 if findings else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
