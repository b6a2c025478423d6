#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the tables of the documentation from the .def files that they describe, the programs of
the tutorial from their files, and the pages of kernels from the examples (kernel_pages.py).

    update_docs.py          rewrite what lies between the markers, and the pages of kernels
    update_docs.py --check  change nothing; say what is stale, and exit with 1 if anything is

A table or a program stands between two lines:

    <!-- generated: NAME -->
    <!-- end of NAME -->

TABLES says which names a page has. A name that ends in .dtile is a file beside the page.
"""

import os
import re
import sys

import kernel_pages

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


def own_rows(path, macro):
    """The rows that stand in the file itself, or what it includes, as (section, fields or path)."""
    section = ""
    for line in read(path).splitlines():
        if line.startswith("// ") and not line.startswith("//  "):
            section = line[3:]
        elif line.startswith("#include "):
            yield section, line.split('"')[1]
        elif line.startswith(macro + "("):
            yield section, fields(line[len(macro) + 1 : line.rindex(")")])


ELEMENTWISE = "frontend/base/elementwise.def"


def elementwise_row(macro, row):
    """What a table that includes elementwise.def makes of one of its rows; None of others."""
    operation, name, arity, _, call, meaning = row
    if macro == "OP":
        operands = {"Unary": "val", "Binary": "val,val"}[arity]
        return [operation, name, operands, "same", "0", "None", meaning]
    signature = {"CALL": "(x) -> x", "TEST_BUILTIN": "(x) -> array"}[macro]
    return [operation, name, signature, meaning] if call == "Function" else None


def rows(path, macro):
    """The rows of a table, in order, as (section, fields); a section is a comment on its own.

    Rows of an included table are in the section in which it is included.
    """
    for section, row in own_rows(path, macro):
        if row == ELEMENTWISE:
            made = (elementwise_row(macro, f) for _, f in own_rows(row, "ELEMENTWISE"))
            yield from ((section, f) for f in made if f)
        elif isinstance(row, str):
            yield from ((section, f) for _, f in rows(row, macro))
        else:
            yield section, row


def cell(text):
    return text.replace("|", "\\|")


def attributes():
    """(op, key, type, whether it is required, what writes it or None, meaning) of each row.

    Rows name the type themselves, or their key has a row KEY(key, type) and they name the writer.
    """
    path = "ir/core/attributes.def"
    types = {key: kind for _, (key, kind) in rows(path, "KEY")}
    values = {}
    if os.path.exists(os.path.join(ROOT, "ir/core/attribute_enums.def")):
        for _, (enumeration, _, text) in rows("ir/core/attribute_enums.def", "VALUE"):
            values.setdefault(enumeration, []).append(text)
    # An enumeration's values say more than its name.
    types = {key: " or ".join(values.get(kind, [kind])) for key, kind in types.items()}
    for _, (op, key, third, fourth, meaning) in rows(path, "ATTR"):
        if third in ("Required", "Optional"):
            yield op, key, types[key], third == "Required", fourth, meaning
        else:
            yield op, key, third, fourth == "Required", None, meaning


def op_names():
    return {op: text for _, (op, text, *_) in rows("ir/core/ops.def", "OP")}


def ops_table():
    of_op = {}
    for op, key, kind, is_required, _, meaning in attributes():
        text = f"`{key}`: {kind.lower()}" + ("" if is_required else ", optional")
        of_op.setdefault(op, []).append(f"{text} ({meaning})")
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
        if op in of_op:
            meaning += "<br>".join(["", *of_op[op]])
        effects = "" if effects == "None" else effects.replace(" |", ",")
        columns = [f"`{text}`", operands, results, effects, meaning]
        lines.append("| " + " | ".join(cell(column) for column in columns) + " |")
    return "\n".join(lines).strip()


def passes_table():
    lines = ["| pass | kind | what it does |", "| --- | --- | --- |"]
    for _, (_, name, kind, meaning) in rows("ir/transform/passes.def", "PASS"):
        lines.append(f"| `{name}` | {kind.lower()} | {cell(meaning)} |")
    return "\n".join(lines)


def schedule_attributes_table():
    """What passes write; all optional attributes, where the table does not say what writes them."""
    names, found = op_names(), {}
    for op, key, kind, is_required, writer, meaning in attributes():
        if is_required or writer == "lowering":
            continue
        writers = ", ".join(f"`{name}`" for name in (writer or "").split(", ") if name)
        row = (f"`{key}`", kind.lower(), writers, cell(meaning))
        found.setdefault(row, []).append(f"`{names[op]}`")
    lines = ["| on | attribute | type | written by | meaning |", "| --- | --- | --- | --- | --- |"]
    for row, ops in found.items():
        lines.append(f"| {', '.join(ops)} | " + " | ".join(row) + " |")
    return "\n".join(lines)


def element_types_table():
    what = {"Bool": "truth", "Int": "signed integer", "UInt": "unsigned integer", "Float": "float"}
    lines = ["| type | bits | kind |", "| --- | --- | --- |"]
    for _, (_, name, bits, kind) in rows("frontend/base/dtypes.def", "DTYPE"):
        lines.append(f"| `{name}` | {bits} | {what[kind]} |")
    return "\n".join(lines)


CALLS = ("sema/calls/calls.def", "CALL")
TEST_CALLS = ("sema/declarations/test_builtins.def", "TEST_BUILTIN")


def calls_table(table):
    """Calls by group; a group is a comment of few words on its own."""
    lines, current = [], None
    for section, (_, name, signature, meaning) in rows(*table):
        is_group = re.fullmatch(r"[A-Z][\w ,:]+\.", section)
        group = section.rstrip(".") if is_group else "This launch"
        if group != current:
            current = group
            lines += ["", f"**{group}**", "", "| call | meaning |", "| --- | --- |"]
        calls = ", ".join(name + s.strip() for s in re.split(r", (?=[(<])", signature))
        lines.append(f"| `{cell(calls)}` | {cell(meaning)} |")
    return "\n".join(lines).strip()


def one_sided_table():
    """Names of one list alone, by group."""

    def names(table):
        return {f[1]: section.rstrip(".") for section, f in rows(*table)}

    kernels, tests = names(CALLS), names(TEST_CALLS)
    lines = ["| only in | names |", "| --- | --- |"]
    for where, here, there in (("kernels, `fn`", kernels, tests), ("tests", tests, kernels)):
        only = ", ".join(f"`{name}`" for name in here if name not in there)
        lines.append(f"| {where} | {only} |")
    return "\n".join(lines)


def machine_fields_table():
    """What machine files may say."""
    lines = ["| field | unit | from | to | meaning |", "| --- | --- | --- | --- | --- |"]
    for _, (name, _, unit, least, most, meaning) in rows("ir/machine/timing_fields.def", "TIMING"):
        least, most = (f"{float(bound):g}" for bound in (least, most))
        lines.append(f"| `{name}` | {unit} | {least} | {most} | {cell(meaning)} |")
    return "\n".join(lines)


def program(page, name):
    text = read(os.path.join(os.path.dirname(page), name))
    return "```dtile\n" + text.rstrip() + "\n```"


# (document, name of the table, what writes it)
TABLES = [
    ("ir/README.md", "operations", ops_table),
    ("ir/README.md", "passes", passes_table),
    ("ir/README.md", "schedule-attributes", schedule_attributes_table),
    ("docs/language.md", "element-types", element_types_table),
    ("docs/language.md", "built-in-functions", lambda: calls_table(CALLS)),
    ("docs/language.md", "test-functions", lambda: calls_table(TEST_CALLS)),
    ("docs/language.md", "one-sided-names", one_sided_table),
    ("docs/calibrate.md", "machine-fields", machine_fields_table),
    ("README.md", "kernels", kernel_pages.groups_table),
]
# The page of which every marker that is a program's name is filled with that program.
TUTORIAL = "docs/tutorial.md"


def tables():
    yield from TABLES
    for name in re.findall(r"<!-- generated: (\S+\.dtile) -->", read(TUTORIAL)):
        yield TUTORIAL, name, lambda name=name: program(TUTORIAL, name)


def update_pages(rewrite):
    """The pages of kernels: which are stale, or of no example."""
    pages = kernel_pages.written(ROOT)
    folder = os.path.join(ROOT, kernel_pages.FOLDER)
    present = {f"{kernel_pages.FOLDER}/{name}" for name in
               (os.listdir(folder) if os.path.isdir(folder) else [])}
    stale = [path for path, text in pages.items() if path not in present or read(path) != text]
    left = sorted(present - pages.keys())
    if rewrite:
        os.makedirs(folder, exist_ok=True)
        for path in stale:
            with open(os.path.join(ROOT, path), "w", encoding="utf-8") as file:
                file.write(pages[path])
        for path in left:
            os.remove(os.path.join(ROOT, path))
    return ([f"{path} is stale; run scripts/update_docs.py" for path in stale]
            + [f"{path} is of no example; run scripts/update_docs.py" for path in left])


def main(arguments):
    if arguments not in ([], ["--check"]):
        sys.exit(__doc__)
    stale = update_pages(not arguments)
    for path, name, write in tables():
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
        print("\n".join(stale) or "all tables and pages are up to date")
        return 1 if stale else 0
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
