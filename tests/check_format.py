#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Holds C and C++ sources to .clang-format, as clang-format 22 reads it.

    check_format.py ROOT          one line a place that differs; exits with 1 if any
    check_format.py --fix ROOT    format the files that differ
    check_format.py --self-test   check that a difference is found

Exits with 77 (skipped) where clang-format 22 is not installed. Other versions format differently.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

SUFFIXES = (".cpp", ".h", ".c")
SKIPPED = ("build", ".git", "Inputs", "corpus")
FILES_AT_ONCE = 40
NOT_INSTALLED = 77


def find_tool():
    """clang-format 22 by its name with a version, or by the plain one; None if there is none."""
    for name in ("clang-format-22", "clang-format"):
        tool = shutil.which(name)
        if tool:
            said = subprocess.run([tool, "--version"], capture_output=True, text=True, check=True)
            if re.search(r"version 22\.", said.stdout):
                return tool
    return None


def sources(root):
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(f for f in folders if not f.startswith(SKIPPED))
        for name in sorted(files):
            if name.endswith(SUFFIXES):
                yield os.path.relpath(os.path.join(folder, name), root)


def findings(tool, root):
    """`FILE:LINE` of each place that clang-format would change."""
    files = list(sources(root))
    for first in range(0, len(files), FILES_AT_ONCE):
        said = subprocess.run(
            [tool, "--dry-run", *files[first : first + FILES_AT_ONCE]],
            cwd=root, capture_output=True, text=True, check=True,
        )
        for place in re.findall(r"^(.+:\d+):\d+: warning: code", said.stderr, re.MULTILINE):
            yield place


def self_test(tool):
    with tempfile.TemporaryDirectory() as root:
        with open(os.path.join(root, ".clang-format"), "w", encoding="utf-8") as file:
            file.write("BasedOnStyle: LLVM\n")
        for name, text in (("right.cpp", "int f();\n"), ("wrong.cpp", "int  f( );\n")):
            with open(os.path.join(root, name), "w", encoding="utf-8") as file:
                file.write(text)
        assert set(findings(tool, root)) == {"wrong.cpp:1"}


def main(arguments):
    tool = find_tool()
    if not tool:
        print("clang-format 22 is not installed")
        return NOT_INSTALLED
    if arguments == ["--self-test"]:
        self_test(tool)
        return 0
    if len(arguments) == 2 and arguments[0] == "--fix":
        root = arguments[1]
        files = sorted({place.rsplit(":", 1)[0] for place in findings(tool, root)})
        if files:
            subprocess.run([tool, "-i", *files], cwd=root, check=True)
        print("\n".join(files))
        return 0
    if len(arguments) != 1 or arguments[0].startswith("-"):
        sys.exit(__doc__)
    found = list(findings(tool, arguments[0]))
    for place in found:
        print(f"{place}: not as clang-format formats it; tests/check_format.py --fix . does")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
