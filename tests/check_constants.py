# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Finds constants of one name in two files: one of them was copied, or they need two names.

    check_constants.py ROOT        one line a finding; exits with 1 if any
    check_constants.py --self-test check that copies are found, and other constants are not

Checked are the folders whose code is about one machine: the IR and the back ends (ROOTS). A
constant counts if its name ends in a unit or role (ROLES): bytes, threads, rows, … `kReservedBytes`
of a pass, and of the back end that lays out memory for it, has to be one constant in a header that
both include. A constant whose value is another constant's name (`kRows = TargetFacts::kGroupRows`)
is no copy. APART lists names that several files may have, and why.
"""

import collections
import os
import re
import sys

ROLES = ("Bytes", "Threads", "Warps", "Lanes", "Registers", "Stages", "Slots", "Align",
         "Alignment", "Padding", "Rows", "Columns", "Barrier", "Barriers", "Group", "Programs")
ROOTS = ("backend/amdgpu", "backend/gpu", "backend/host", "backend/launch", "backend/llvm",
         "backend/nvptx", "ir")

# Name -> why files may each have one.
APART = {"kThreads": "members of warp roles, each of its own warps"}

DECLARATION = re.compile(r"\bconstexpr\b[^;]*;")
CONSTANT = re.compile(r"\b(k[A-Z]\w*)\s*=\s*([^,;]+)")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def constants(text):
    """(name, value) of each constant with a role that a file defines by a value of its own."""
    for declaration in DECLARATION.findall(COMMENT.sub("", text)):
        for name, value in CONSTANT.findall(declaration):
            is_alias = re.fullmatch(r"[\w:]*\bk[A-Z]\w*", value.strip())
            if name.endswith(ROLES) and not is_alias:
                yield name, " ".join(value.split())


def check(files):
    """`files`: path -> text. Findings, one line each."""
    places = collections.defaultdict(list)
    for path, text in sorted(files.items()):
        for name, value in constants(text):
            places[name].append((path, value))
    findings = []
    for name, where in sorted(places.items()):
        if len({path for path, _ in where}) > 1 and name not in APART:
            others = ", ".join(f"{path} ({value})" for path, value in where[1:])
            findings.append(f"{where[0][0]}: `{name}` ({where[0][1]}) stands in {others}, too; "
                            "define it once in a header, or say in its name what is different")
    findings += [f"check_constants.py: `{name}` of APART is in fewer than two files"
                 for name in APART if len({path for path, _ in places[name]}) < 2]
    return findings


def sources(root):
    for top in ROOTS:
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in names:
                if name.endswith((".cpp", ".h")):
                    path = os.path.join(folder, name)
                    with open(path, encoding="utf-8") as file:
                        yield os.path.relpath(path, root), file.read()


def self_test():
    apart = {f"apart{i}.cpp": "".join(f"constexpr int {name} = {i};\n" for name in APART)
             for i in (1, 2)}

    def found(*texts):
        return check({**apart, **{f"{i}.cpp": text for i, text in enumerate(texts)}})

    copied = "constexpr int64_t kRowBytes = 16;"
    assert len(found(copied, copied)) == 1, "an equal constant"
    assert len(found(copied, "inline constexpr int64_t kRowBytes = 4 * 8;")) == 1, "another value"
    member = "struct A {\n  static constexpr int kOne = 1, kRowBytes = 2;\n};"
    assert len(found(copied, member)) == 1, "the second of a declaration"
    assert "0.cpp" in found(copied, copied)[0] and "1.cpp (16)" in found(copied, copied)[0]
    assert not found(copied, "// constexpr int64_t kRowBytes = 16;"), "a comment"
    assert not found(copied, "int64_t kRowBytes = 3;"), "no constant"
    assert not found(copied, "constexpr int64_t kRowBytes = TargetFacts::kRowBytes;"), "an alias"
    assert not found(copied, "constexpr int64_t kColumnBytes = 16;"), "another name"
    assert not found(copied + copied), "twice in one file"
    assert not found("constexpr int kDeep = 1;", "constexpr int kDeep = 1;"), "no role"
    assert len(check({})) == len(APART), "exceptions that nothing needs"
    return 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    if len(arguments) != 1:
        print(__doc__)
        return 2
    files = dict(sources(arguments[0]))
    findings = check(files)
    print("\n".join(findings))
    print(f"check_constants: {len(files)} files, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
