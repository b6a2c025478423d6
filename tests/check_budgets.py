# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Holds what comes in kinds to its edit budget: in how many files one of a kind is spelled.

    check_budgets.py ROOT        one line a finding; exits with 1 if any
    check_budgets.py --self-test check that a kind over its budget is found

Where one more file has to name each of a kind, adding one has become dearer: derive the name from
the kind's table instead. Tests, pages, editors and the table of foreign habits, in which a kind may
have a row, are beside the budget.
"""

import os
import re
import sys

FOLDERS = ("grammar", "frontend", "sema", "ir", "backend")
SUFFIXES = (".c", ".cpp", ".h", ".def", ".g4", "CMakeLists.txt")
TABLES = {
    "commands": ("backend/driver/commands.def", r'^COMMAND\((\w+), "\w+"'),
    "passes": ("ir/transform/passes.def", r'^PASS\((\w+), "[\w-]+", \w+,'),
    "machines": ("ir/machine/machines.cpp", r'^    \{\.name = "(\w+)"'),
    "elementwise": ("frontend/base/elementwise.def", r"^ELEMENTWISE\((\w+),"),
    "statements": ("frontend/ast/ast_nodes.def", r"^STMT\((\w+)\)"),
    "providers": ("backend/device_library/providers.def", r'^PROVIDER\("\w+", "(\w+)"'),
}
# What others call by other names, which nothing needs.
OPTIONAL = ("frontend/base/habits.def",)


def snake(name):
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def kebab(name):
    return snake(name).replace("_", "-")


# kind: rows of its table that are counted (None: all), the words that spell one, files at most.
BUDGETS = {
    # The row, the options, the list of sources; its own file.
    "commands": (None,
                 lambda n: rf"case Command::{n}\b|\b(?:run|add){n}\(|^COMMAND\({n},|"
                           rf"\b{n.lower()}_command\.cpp", 4),
    # The row, the pipeline, the list of sources; its own file. Of those without attributes.
    "passes": (
        ("mergeNotifies", "takeArrivals", "loadMessages", "carryAwaits", "peelMasks",
         "skewProducts", "sinkAccumulatorInit"),
        lambda n: rf"\b{n}\(|^PASS\({n},|\b{kebab(n)}\b|\b{snake(n)}\.cpp", 4),
    # The row. The name of a vendor's default machine is elsewhere, too.
    "machines": (("h20", "b200", "a100", "a10", "l40s", "mi250x", "mi300x", "mi355x"),
                 lambda n: rf'\.name = "{n}"', 1),
    # The row, and the device functions of one that has no host library. The table of foreign habits
    # names it, too.
    "providers": (("rocshmem",), lambda n: rf"(?i)\b{n}", 2),
    # The row (elementwise.def), of which the IR, the tree, the functions of kernels and of tests
    # are made; what it gives (elementwise.h), for constants, the interpreter and references; what
    # LLVM makes of it (arith.cpp, or math.cpp where it is a polynomial). Of those that no pass and
    # no library of the host knows.
    "elementwise": (("Rsqrt", "Atan"), lambda n: rf"\b{n}\b|\"{n.lower()}\"", 3),
    # The row, the node, its parts for walkers; two printers; the parser; what checks it, copies it
    # for overlaps, lowers it and runs it in tests. Of those that every analysis needs not know.
    "statements": (("AssumeStmt", "AwaitStmt", "BreakStmt", "MeshStmt", "RequiresStmt", "WhileStmt",
                    "YieldStmt"), lambda n: rf"\b{n}\b", 14),
}


def read_sources(root):
    sources = {}
    for folder in FOLDERS:
        for place, _, names in os.walk(os.path.join(root, folder)):
            for name in names:
                path = os.path.relpath(os.path.join(place, name), root)
                if name.endswith(SUFFIXES) and path not in OPTIONAL:
                    with open(os.path.join(root, path), encoding="utf-8") as file:
                        sources[path] = file.read()
    return sources


def places(sources, pattern):
    pattern = re.compile(pattern, re.MULTILINE)
    return sorted(path for path, text in sources.items() if pattern.search(text))


def findings(sources, budgets):
    for kind, (chosen, pattern, budget) in budgets.items():
        table, row = TABLES[kind]
        rows = re.findall(row, sources[table], re.MULTILINE)
        for name in chosen or rows:
            if name not in rows:
                yield f"{table}: no row `{name}`, of which check_budgets.py counts the places"
                continue
            found = places(sources, pattern(name))
            if len(found) > budget:
                yield (f"{table}: `{name}` is spelled in {len(found)} files, and the budget of "
                       f"{kind} is {budget}: {', '.join(found)}")
        if not rows:
            yield f"{table}: no rows found"


def self_test():
    table = "backend/driver/commands.def"
    sources = {table: 'COMMAND(Go, "go", "goes",\n', "backend/a.cpp": "void addGo(App &app) {",
               "backend/b.cpp": "// Got.", "backend/CMakeLists.txt": "  go_command.cpp\n"}
    chosen, pattern, _ = BUDGETS["commands"]

    def held(budget, names=chosen):
        return list(findings(sources, {"commands": (names, pattern, budget)}))

    assert held(3) == []
    assert len(held(2)) == 1 and "3 files" in held(2)[0], held(2)
    assert "no row" in held(3, ("Stay",))[0]
    assert snake("mergeNotifies") == "merge_notifies"
    print("check_budgets: self-test passed")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    found = list(findings(read_sources(sys.argv[1]), BUDGETS))
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
