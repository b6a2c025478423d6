#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the tables of the documentation from the .def files that they describe.

    update_docs.py          rewrite what lies between the markers
    update_docs.py --check  change nothing; say which tables are stale, and exit with 1 if any

A table stands between two lines:

    <!-- generated: NAME -->
    <!-- end of NAME -->
"""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def fields(row):
    """The comma-separated arguments of one macro call; strings without their quotes."""
    result, current, in_string = [], "", False
    i = 0
    while i < len(row):
        c = row[i]
        if in_string and c == "\\":
            current += row[i + 1]
            i += 1
        elif c == '"':
            in_string = not in_string
        elif c == "," and not in_string:
            result.append(current.strip())
            current = ""
        else:
            current += c
        i += 1
    result.append(current.strip())
    return result


def rows(path, macro):
    """The rows of a table, in order, as (section, fields); a section is a comment on its own."""
    section = ""
    for line in read(path).splitlines():
        if line.startswith("// ") and not line.startswith("//  "):
            section = line[3:]
        elif line.startswith(macro + "("):
            yield section, fields(line[len(macro) + 1 : line.rindex(")")])


def cell(text):
    return text.replace("|", "\\|")


def ops_table():
    attributes = {}
    for _, (op, name, kind, presence, meaning) in rows("ir/core/attributes.def", "ATTR"):
        text = f"`{name}`: {kind.lower()}" + ("" if presence == "Required" else ", optional")
        attributes.setdefault(op, []).append(f"{text} ({meaning})")
    lines, current = [], None
    for section, (op, text, operands, results, regions, effects, meaning) in rows(
        "ir/core/ops.def", "OP"
    ):
        if section != current:
            current = section
            lines += ["", f"**{section.split('. ')[0].rstrip('.')}**", ""]
            lines.append("| op | operands | results | effects | meaning |")
            lines.append("| --- | --- | --- | --- | --- |")
        operands = f"`{operands}`" if operands else ""
        results = "" if results == "none" else f"`{results}`"
        if regions != "0":
            results += (", " if results else "") + f"{regions} region" + "s" * (regions != "1")
        if op in attributes:
            meaning += ". Attributes: " + "; ".join(attributes[op])
        effects = "" if effects == "None" else effects.replace(" |", ",")
        columns = [f"`{text}`", operands, results, effects, meaning]
        lines.append("| " + " | ".join(cell(column) for column in columns) + " |")
    return "\n".join(lines).strip()


def passes_table():
    lines = ["| pass | kind | what it does |", "| --- | --- | --- |"]
    for _, (_, name, kind, meaning) in rows("ir/transform/passes.def", "PASS"):
        lines.append(f"| `{name}` | {kind.lower()} | {cell(meaning)} |")
    return "\n".join(lines)


# (document, name of the table, what writes it)
TABLES = [
    ("ir/README.md", "operations", ops_table),
    ("ir/README.md", "passes", passes_table),
]


def main(arguments):
    if arguments not in ([], ["--check"]):
        sys.exit(__doc__)
    stale = []
    for path, name, write in TABLES:
        text = read(path)
        begin, end = f"<!-- generated: {name} -->\n", f"<!-- end of {name} -->"
        if begin not in text or end not in text:
            sys.exit(f"{path}: no markers for {name}")
        before, rest = text.split(begin, 1)
        old, after = rest.split(end, 1)
        new = write() + "\n"
        if old == new:
            continue
        stale.append(f"{path}: the table of {name} is stale; run scripts/update_docs.py")
        if not arguments:
            with open(os.path.join(ROOT, path), "w", encoding="utf-8") as file:
                file.write(before + begin + new + end + after)
    if arguments:
        print("\n".join(stale) or "all tables are up to date")
        return 1 if stale else 0
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
