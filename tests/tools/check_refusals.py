#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Holds docs/staged_spaces.md to the reasons that stage-loads gives: check_refusals.py SOURCE.

Each reason for which a product is not staged begins with a row of the table "Why a loop is not
staged", and each row is the beginning of a reason.
"""

import glob
import os
import re
import sys

TITLE = "## Why a loop is not staged"


def reasons(code):
    """String constants of more than three words that are returned, kept as reasons, or refused."""
    # Neighbouring constants are one.
    code = re.sub(r'"\s*\n\s*"', "", code)
    # A reason, not the words before each of them.
    code = code.replace('"operands of this product are not staged: "', "")
    pattern = r'(?:return|refuse\([^";+]*,|constexpr const char \*\w+ =)\s*"([^"]+)"'
    return [text for text in re.findall(pattern, code) if text.count(" ") > 3]


def rows(page):
    section = page.split(TITLE + "\n", 1)[1].split("\n## ", 1)[0]
    table = re.findall(r"^\| ([^|]+) \|", section.split("\n\n| remark of")[0], re.MULTILINE)
    return [row for row in table if row not in ("remark", "---")]


def main(source):
    pattern = os.path.join(source, "ir", "schedule", "**", "stage_loads.cpp")
    paths = glob.glob(pattern, recursive=True)
    with open(paths[0], encoding="utf-8") as file:
        said = reasons(file.read())
    with open(os.path.join(source, "docs", "staged_spaces.md"), encoding="utf-8") as file:
        listed = rows(file.read())
    if len(said) < 10:
        return ["check_refusals.py: does not find the reasons in stage_loads.cpp any more"]
    findings = [
        f"docs/staged_spaces.md: no row for: {reason}"
        for reason in said
        if not any(reason.startswith(row) for row in listed)
    ]
    return findings + [
        f"docs/staged_spaces.md: stage-loads never says: {row}"
        for row in listed
        if not any(reason.startswith(row) for reason in said)
    ]


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    problems = main(sys.argv[1])
    print("\n".join(problems) or "all reasons are listed")
    sys.exit(1 if problems else 0)
