#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The pages of docs/kernels, written for update_docs.py: one for each file of examples, from its
documentation comments and declarations, and what the checker says of each kernel.

Verdicts are those that VERDICTS expects, a test that fails where the checker says another thing.

As a program: checks itself.
"""

import os
import re

FOLDER = "docs/kernels"
VERDICTS = "tests/protocol/prove/examples_are_proved.test"
TELLS = "`dtilec check`"

# How a line of the checker begins: what a page says instead. The first that fits counts.
WORDS = [
    ("proved for all W and all sizes under what it requires and assumes",
     "proved for all numbers of ranks and all sizes, under what it requires and assumes"),
    ("proved for all W and all sizes under what it requires",
     "proved for all numbers of ranks and all sizes, under what it requires"),
    ("proved for all W and all sizes under what it assumes",
     "proved for all numbers of ranks and all sizes, under what it assumes"),
    ("proved for all W and all sizes", "proved for all numbers of ranks and all sizes"),
    ("checked", "checked by runs, not proved"),
    ("undecided", "undecided: the result depends on data, or some ranks or sizes were not run"),
]

# What README.md says of kernels: (group, what they do, pages). Every page is in one group.
GROUPS = [
    ("Products", "matrix products on one GPU: dense, quantized, gated, an expert for each block of "
     "rows", ["gemm", "split_k", "gemm_scaled", "swiglu", "grouped_gemm"]),
    ("Products over ranks", "a product overlapped with the collective before or after it, or "
     "divided among ranks",
     ["ag_gemm", "any_rows", "gemm_rs", "gemm_rs_add", "gemm_ar", "int8_gemm_ar",
      "scaled_gemm_overlaps", "row_scaled_overlaps", "all_to_all_gemm", "split_k_over_ranks",
      "mesh_gemm"]),
    ("Layers of tensor parallelism", "gated layers, norms and losses in one launch with their "
     "collectives", ["tp_mlp", "overlaps", "all_reduce_norm", "cross_entropy"]),
    ("Mixture of experts", "tokens to the ranks of their experts and back; experts that all ranks "
     "share; whole layers",
     ["moe", "served", "moe_once", "moe_quantized", "moe_prefill", "moe_layer", "m2n",
      "ag_grouped_gemm", "grouped_gemm_rs", "grouped_gemm_ar"]),
    ("Attention over ranks", "attention to positions of all ranks, by rings, all-gathers and "
     "all-to-alls",
     ["ring_attention", "causal_ring_attention", "gathered_attention", "ulysses",
      "ulysses_attention", "causal_ulysses"]),
    ("Decoding", "attention of one new token to keys that are spread over ranks",
     ["flash_decode", "paged_flash_decode"]),
    ("All-reduce", "sums for short and long vectors, few and many ranks",
     ["all_reduce", "ring_all_reduce", "halving_all_reduce", "tree_all_reduce"]),
    ("Other collectives", "all-gather, reduce-scatter, all-to-all, collectives with a root, over "
     "nodes, a barrier",
     ["all_gather", "reduce_scatter", "all_to_all", "collectives", "two_level", "by_plans",
      "barrier"]),
    ("Neighbours", "messages from rank to rank: the first program, stages with credits, edges of a "
     "grid", ["hello", "pipeline", "halo"]),
]


class Kernel:
    """A kernel or an overlap of an example: its comment, and its text up to its body."""

    def __init__(self, name, kind, comment, text, body):
        self.name, self.kind, self.comment, self.text, self.body = name, kind, comment, text, body
        self.verdict = None

    @property
    def is_group(self):
        """A name for several kernels, of which nothing is checked."""
        return self.kind == "kernel" and not self.body

    def clauses(self, word):
        """What stands between a word and the semicolon; strings have no semicolons."""
        found = re.findall(rf"^\s*{word}\s+([^;]*);", self.body, re.M)
        return [" ".join(clause.split()) for clause in found]


def comment_text(lines):
    """The paragraphs of a doc comment, a line each, and its figures, which are blocks between lines
    of ``` and keep their lines. A comment line without text separates paragraphs."""
    parts, at_figure = [[]], False
    for line in lines:
        text = line.strip()[3:].removeprefix(" ").rstrip()
        if text.startswith("```"):
            at_figure = not at_figure
            if at_figure:
                parts.append(["```text"])
            else:
                parts[-1].append(text)
                parts.append([])
        elif at_figure:
            parts[-1].append(text)
        elif text.strip():
            parts[-1].append(text.strip())
        else:
            parts.append([])
    if at_figure:
        raise SystemExit(f"a figure has no end: {parts[-1][1:2]}")
    return "\n\n".join(("\n" if part[0] == "```text" else " ").join(part)
                       for part in parts if part)


def refuse_figureless(pages):
    """A figure shows ranks, blocks, and what goes where."""
    for name, about, kernels in pages:
        if not any("```text" in text for text in [about] + [kernel.comment for kernel in kernels]):
            raise SystemExit(f"`{name}` has no figure in its comments: a block between lines of "
                             "```, of ranks, blocks and arrows")


def closing(text, at):
    """Past the bracket that closes the one at `at`; comments may hold any."""
    depth, pairs = 0, {"(": 1, "{": 1, ")": -1, "}": -1}
    while True:
        if text.startswith("//", at):
            at = text.index("\n", at)
        depth += pairs.get(text[at], 0)
        at += 1
        if depth == 0:
            return at


def kernels_of(text):
    """In the order of the file."""
    declared = re.compile(r"((?:^///.*\n)*)^(kernel|overlap) (\w+)", re.M)
    for found in declared.finditer(text):
        begin = found.start(2)
        if found[2] == "overlap":
            # Clauses end with a semicolon, and steps with the brace of the body.
            if text[found.end():].lstrip().startswith("="):
                end = text.index(";", begin) + 1
            else:
                end = text.index("\n}", begin) + 2
            yield Kernel(found[3], found[2], comment_text(found[1].splitlines()), text[begin:end],
                         "")
            continue
        end = closing(text, text.index("(", begin))
        body = re.compile(r"[;{]").search(text, end)
        # A space before the body has no braces.
        rest = text[body.start():closing(text, body.start())] if body[0] == "{" else ""
        stop = end if rest else body.end()
        yield Kernel(found[3], found[2], comment_text(found[1].splitlines()), text[begin:stop],
                     rest)


def expected(text):
    """(kernel, verdict) in the order of the test. The checker numbers a name that an imported file
    has as well."""
    return re.findall(r"^// CHECK: `(\w+?)(?:_\d+)?`: (.*)$", text, re.M)


def give_verdicts(pages, lines):
    """Each kernel gets its line: those of the test are in the order of paths and declarations."""
    checked = [kernel for _, _, kernels in pages for kernel in kernels if not kernel.is_group]
    names = [kernel.name for kernel in checked]
    if names != [name for name, _ in lines]:
        at = next((i for i, (a, b) in enumerate(zip(names, lines)) if a != b[0]),
                  min(len(names), len(lines)))
        missing = names[at] if at < len(names) else lines[at][0]
        raise SystemExit(f"{VERDICTS}: the line of `{missing}` is missing or at another place "
                         f"(kernel {at + 1} of {len(names)})")
    for kernel, (name, line) in zip(checked, lines):
        words = [mine for its, mine in WORDS if line.startswith(its)]
        if not words:
            raise SystemExit(f"{VERDICTS}: what the line of `{name}` says is in no row of WORDS")
        kernel.verdict = words[0]


def prose(text):
    """Markdown would take these characters for its own; code stays."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"([*<|])", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)


def visible(text):
    """A declaration without what callers do not pass."""
    lines = [line for line in text.splitlines()
             if not re.match(r"\s*\w+\s*:\s*(scratch\s+symm\b|symm\s+signal\b)", line)]
    return "\n".join(lines)


def section(kernel):
    lines = [f"## `{kernel.name}`", ""]
    if kernel.comment:
        lines += [prose(kernel.comment), ""]
    lines += ["```dtile", visible(kernel.text), "```", ""]
    rows = [("requires", f"`{clause}`") for clause in kernel.clauses("requires")]
    for clause in kernel.clauses("assume"):
        condition, _, why = clause.partition(" because ")
        rows.append(("assumes", f"`{condition}`: " + prose(why.strip('"'))))
    rows += [("ensures", f"`{clause}`") for clause in kernel.clauses("ensures")]
    if kernel.verdict:
        rows.append((TELLS, kernel.verdict))
    lines += [f"- {word}: {what}" for word, what in rows]
    return lines + [""] if rows else lines


def page(path, about, kernels):
    """What stands between the markers of a page."""
    lines = [prose(about), "", f"The program is [{path}](../../{path}), with its tests. Scratch "
             "objects and signals, which callers do not pass, are omitted below.", ""]
    for kernel in kernels:
        lines += section(kernel)
    return "\n".join(lines[:-1])


def index(pages):
    """A table for each group."""
    of_name, lines = {name: (about, kernels) for name, about, kernels in pages}, []
    for group, _, names in GROUPS:
        lines += ["", f"## {group}", "", "| page | kernels | what it is |", "| --- | --- | --- |"]
        for name in names:
            about, kernels = of_name[name]
            # Not at the points of names.
            first = re.split(r"\n\n|(?<=[a-z0-9)]{2}\.)\s(?=[A-Z])", about)[0].rstrip(".")
            lines.append(f"| [{name}]({name}.md) | "
                         + ", ".join(f"`{kernel.name}`" for kernel in kernels)
                         + f" | {prose(first)} |")
    return "\n".join(lines[1:])


def groups_table():
    """The kernels of README.md; written() says whether it has all of them."""
    lines = ["| group | kernels | what they do |", "| --- | --- | --- |"]
    for group, does, names in GROUPS:
        links = ", ".join(f"[{name}]({FOLDER}/{name}.md)" for name in names)
        lines.append(f"| {group} | {links} | {does} |")
    return "\n".join(lines)


def refuse_ungrouped(names):
    """Each page is in one group."""
    grouped = [name for _, _, names_ in GROUPS for name in names_]
    for name in names:
        if grouped.count(name) != 1:
            raise SystemExit(f"`{name}` is in {grouped.count(name)} groups of "
                             "scripts/kernel_pages.py; each file of examples is in one")
    for name in grouped:
        if name not in names:
            raise SystemExit(f"`{name}` of scripts/kernel_pages.py is no file of examples")


def written(root):
    """{path of a page: its text}."""
    def read(path):
        with open(os.path.join(root, path), encoding="utf-8") as file:
            return file.read()

    pages, paths = [], {}
    for folder in sorted(os.listdir(os.path.join(root, "examples"))):
        whole = os.path.join(root, "examples", folder)
        for file in sorted(os.listdir(whole)) if os.path.isdir(whole) else []:
            if not file.endswith(".dtile"):
                continue
            path = f"examples/{folder}/{file}"
            text = read(path)
            about = comment_text(line for line in text.splitlines() if line.startswith("//!"))
            name = file[:-len(".dtile")]
            pages.append((name, about, list(kernels_of(text))))
            paths[name] = path
    refuse_ungrouped([name for name, _, _ in pages])
    refuse_figureless(pages)
    give_verdicts(pages, expected(read(VERDICTS)))
    result = {f"{FOLDER}/README.md": "# Kernels\n\nA page for each file of "
              "[examples](../../examples/README.md): formula, shapes, figure, contract and "
              "verdict.\n\n"
              "<!-- generated: kernels -->\n" + index(pages) + "\n<!-- end of kernels -->\n"}
    for name, about, kernels in pages:
        result[f"{FOLDER}/{name}.md"] = (f"# {name}\n\n<!-- generated: {name} -->\n"
                                         + page(paths[name], about, kernels)
                                         + f"\n<!-- end of {name} -->\n")
    return result


SAMPLE = """//! About a * b.

/// Adds
/// one.
///
/// ```
/// x ──→  *y*
///   |
/// ```
/// Slowly.
kernel add<B = auto>(
    x   : in   f32[N],  // of a caller :)
    box : scratch symm f32[N],
    y   : out  f32[N],
    sent: symm signal[1],
) over (i in N by B) {
    requires N >= 1;
    assume N < 9 because "it is `small`";
    y[i] = x[i];
    ensures y ~= x;
}

kernel either(x: in f32[N], y: out f32[N]) = add | add;

overlap joined = add with { x <- plan(z) };

overlap steps(x: in f32[N], y: out f32[N]) {
    let h = add(x);
    y = add(h);
}
"""


def self_test():
    kernels = list(kernels_of(SAMPLE))
    assert [kernel.name for kernel in kernels] == ["add", "either", "joined", "steps"]
    assert [kernel.is_group for kernel in kernels] == [False, True, False, False]
    lines = expected("// CHECK: `add`: checked for W\n// CHECK: `joined_2`: proved for all W and "
                     "all sizes; checked\n// CHECK: requires: `N`\n"
                     "// CHECK: `steps`: proved for all W and all sizes\n")
    give_verdicts([("sample", "", kernels)], lines)
    text = page("examples/sample.dtile", "About a * b.", kernels)
    assert ("## `add`\n\nAdds one.\n\n```text\nx ──→  *y*\n  |\n```\n\nSlowly.\n\n```dtile"
            in text)
    assert r"About a \* b." in text
    assert "    y = add(h);\n}\n" in text
    assert "box" not in text and "sent" not in text and "of a caller :)" in text
    assert "- requires: `N >= 1`\n- assumes: `N < 9`: it is `small`\n- ensures: `y ~= x`" in text
    assert f"- {TELLS}: checked by runs, not proved" in text
    assert f"- {TELLS}: proved for all numbers of ranks and all sizes\n" in text + "\n"
    assert "= add | add;" in text and "x <- plan(z)" in text
    for wrong in (lines[:1], lines[::-1], [("add", "refused"), lines[1]]):
        try:
            give_verdicts([("sample", "", kernels)], wrong)
        except SystemExit:
            continue
        raise AssertionError(f"taken: {wrong}")
    refuse_figureless([("sample", "About.", kernels), ("other", "About.\n\n```text\n→\n```", [])])
    try:
        refuse_figureless([("sample", "About.", kernels[1:])])
    except SystemExit as refusal:
        assert "no figure" in str(refusal)
    else:
        raise AssertionError("a page without a figure is taken")
    every = [name for _, _, names in GROUPS for name in names]
    refuse_ungrouped(every)
    for wrong in (every[1:], every + ["another"]):
        try:
            refuse_ungrouped(wrong)
        except SystemExit:
            continue
        raise AssertionError("a page of no group, or a group's name of no page, is taken")
    try:
        comment_text(["/// ```", "/// x"])
    except SystemExit:
        return
    raise AssertionError("a figure without its end is taken")


if __name__ == "__main__":
    self_test()
