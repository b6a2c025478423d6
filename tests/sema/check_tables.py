#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Holds sema's tables to its documentation and tests: check_tables.py SOURCE [--write].

The list of built-in functions in sema/README.md is that of calls.def; each row of diagnostics.def
that sema reports is shown by a file here that is named for it. --write renews the list.
"""

import os
import re
import sys

# Shown by tests/unit/sema/sema_test.cpp: no single file can.
SHOWN_ELSEWHERE = {"instance_has_errors"}


def builtin_table(source):
    rows = ["| call | meaning |", "| --- | --- |"]
    with open(os.path.join(source, "sema", "calls", "calls.def"), encoding="utf-8") as file:
        for name, signature, doc in re.findall(
            r'^CALL\(\w+, "(\w+)", "((?:[^"\\]|\\.)*)", "((?:[^"\\]|\\.)*)"\)', file.read(), re.M
        ):
            calls = ", ".join(name + s.strip() for s in re.split(r", (?=\()", signature))
            rows.append(f"| `{calls}` | {doc} |".replace('\\"', '"').replace("|x", "\\|x"))
    return "\n".join(rows) + "\n"


def reported(source):
    ids = set()
    for folder, _, names in os.walk(os.path.join(source, "sema")):
        for name in names:
            if name.endswith(".cpp"):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    ids |= set(re.findall(r"diag::(\w+)", file.read()))
    return {i for i in ids if not i.startswith("note_")} - {"Id"}


def main(source, write):
    findings = []
    path = os.path.join(source, "sema", "README.md")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    wanted = "<!-- calls.def -->\n" + builtin_table(source) + "<!-- end -->"
    renewed = re.sub(r"<!-- calls\.def -->\n.*?<!-- end -->", lambda _: wanted, text, flags=re.S)
    if renewed != text:
        if write:
            with open(path, "w", encoding="utf-8") as file:
                file.write(renewed)
        else:
            findings.append("sema/README.md: the built-in functions are not those of calls.def")
    shown = {re.sub(r"^(fail|warn)_|\.\w+$", "", f) for f in os.listdir(os.path.dirname(__file__))}
    for row in sorted(reported(source) - shown - SHOWN_ELSEWHERE):
        findings.append(f"no tests/sema/fail_{row} or warn_{row} shows this message")
    print("\n".join(findings) or "tables, pages and tests agree")
    return 1 if findings else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], "--write" in sys.argv[2:]))
