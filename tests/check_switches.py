# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Holds the rule of CONTRIBUTING.md for `switch`: one that must be complete has no `default`.

    check_switches.py ROOT        one line a finding; exits with 1 if any
    check_switches.py --self-test check that such switches are found, and others are not

Where there is no `default`, the compiler names the enumerators that are missing (-Werror=switch).
Where there is one, it says nothing, and a new enumerator quietly goes there. That is right for a
switch about a few of them. One that names most of an enumeration is meant to be complete: name the
others, too, and leave out `default`.
"""

import collections
import os
import re
import sys

# A switch over an enumeration of at least so many enumerators, with a default, names fewer than
# this share of them.
FEWEST = 4
MOST_NAMED = 0.75

ROOTS = ("backend", "editors", "frontend", "ir", "sema")
IGNORED = re.compile(r'//[^\n]*|/\*.*?\*/|(?P<text>"(?:\\.|[^"\\\n])*")|'
                     r"(?P<char>'(?:\\.|[^'\\\n])')", re.DOTALL)
ENUM = re.compile(r"\benum class (\w+)[^{;]*\{([^}]*)\}")
TABLE = re.compile(r'#\s*include\s+"([\w./]+\.def)"')
ROW = re.compile(r"^[A-Z_]+\((\w+)", re.MULTILINE)
CASE = re.compile(r"\bcase\s+(?:\w+::)*?(\w+)::(\w+)\s*:(?!:)")


def without_comments(text):
    """Texts stay, as tables are included by them."""
    return IGNORED.sub(lambda found: found["text"] or " ", text)


def braces_end(text, begin):
    depth = 0
    for at in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return at
    return len(text)


def rows(tables, path):
    """Enumerators of a table and of those that it includes."""
    text = without_comments(tables.get(path, ""))
    found = set(ROW.findall(text))
    for inner in TABLE.findall(text):
        found |= rows(tables, inner)
    return found


def enumerators(files, tables):
    """Name -> enumerators; of a name that several enumerations have the largest."""
    found = {}
    for text in files.values():
        for name, body in ENUM.findall(without_comments(text)):
            own = set(re.findall(r"^\s*(\w+)\s*(?:=[^,]*)?(?:,|$)",
                                 re.sub(r"^\s*#.*$", "", body, flags=re.MULTILINE)
                                 .replace(",", ",\n"), re.MULTILINE))
            for path in TABLE.findall(body):
                own |= rows(tables, path)
            found[name] = max(found.get(name, set()), own, key=len)
    return found


def switches(text):
    """(line, named enumerators by enumeration, tables, has a default) of each switch, without what
    switches in it say."""
    inner = []
    for begin in reversed([found.start() for found in re.finditer(r"\bswitch \(", text)]):
        brace = text.find("{", begin)
        end = braces_end(text, brace)
        body = text[brace:end]
        for first, last in inner:
            if begin < first < end:
                body = body.replace(text[first:last], "")
        inner.append((brace, end))
        named = collections.defaultdict(set)
        for enum, name in CASE.findall(body):
            named[enum].add(name)
        yield (text.count("\n", 0, begin) + 1, named, TABLE.findall(body),
               re.search(r"\bdefault\s*:", body) is not None)


def check(files, tables):
    """`files`: path -> C++; `tables`: path -> .def. Findings, one line each."""
    enums = enumerators(files, tables)
    findings = []
    for path, text in sorted(files.items()):
        for line, named, included, has_default in switches(without_comments(text)):
            for enum, names in named.items():
                all_names = enums.get(enum, set())
                for table in included:
                    names = names | (rows(tables, table) & all_names)
                count = len(names & all_names)
                if has_default and len(all_names) >= FEWEST and \
                        count >= MOST_NAMED * len(all_names):
                    findings.append(f"{path}:{line}: names {count} of the {len(all_names)} "
                                    f"enumerators of {enum}: name all, and leave out `default`")
    return findings


def sources(root):
    files, tables = {}, {}
    for top in ROOTS:
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in names:
                kind = files if name.endswith((".cpp", ".h")) else tables
                if name.endswith((".cpp", ".h", ".def")):
                    path = os.path.join(folder, name)
                    with open(path, encoding="utf-8") as file:
                        kind[os.path.relpath(path, root)] = file.read()
    return files, tables


def self_test():
    enum = "enum class Kind : uint8_t {\n  // No case A:\n  A = 1, B,\n  C,\n  D\n};\n"
    table = {"kinds.def": '// K(X)\nK(A, 1)\nK(B, 2)\n#include "more.def"\n', "more.def": "K(C)\n"}
    from_table = 'enum class Kind {\n#define K(N) N,\n#include "kinds.def"\n  D\n};\n'

    def found(cases, enum=enum, default="default: return 0;"):
        return check({"a.h": enum, "a.cpp": f"switch (kind) {{ {cases} {default} }}"}, table)

    most = "case Kind::A: case Kind::B: case x::Kind::C: return 1;"
    assert len(found(most)) == 1 and "names 3 of the 4" in found(most)[0]
    assert len(found(most, from_table)) == 1, "an enumeration from tables"
    assert not found(most, default=""), "the compiler's"
    assert not found("case Kind::A: case Kind::B: return 1;"), "about some"
    assert not found("case Kind::A: // case Kind::B: case Kind::C:\n return 1;"), "comments"
    some = f"case Kind::A: switch (other) {{ {most} }} return 1;"
    assert not found(some), "a complete one in one about some"
    assert len(found(f"switch (other) {{ {most} default: return 2; }} case Kind::A:")) == 1
    macro = 'case Kind::D:\n#define K(N) case Kind::N:\n#include "kinds.def"\n return 1;'
    assert len(found(macro)) == 1, "cases from a table"
    assert not found("case '{': return 1;"), "a brace that is a character"
    return 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    if len(arguments) != 1:
        print(__doc__)
        return 2
    files, tables = sources(arguments[0])
    if len(enumerators(files, tables).get("OpKind", ())) < 50:
        print("check_switches.py: does not understand the tables of operations any more")
        return 1
    findings = check(files, tables)
    print("\n".join(findings))
    print(f"check_switches: {len(files)} files, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
