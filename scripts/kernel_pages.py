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
    """The paragraphs of a doc comment, a line each; a comment line without text separates them."""
    text = "\n".join(line.strip()[3:].strip() for line in lines).strip("\n")
    return "\n\n".join(" ".join(part.split("\n")) for part in re.split(r"\n\n+", text))


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
    lines = ["| page | kernels | what it is |", "| --- | --- | --- |"]
    for name, about, kernels in pages:
        # Not at the points of names.
        first = re.split(r"\n\n|(?<=[a-z0-9)]{2}\.)\s(?=[A-Z])", about)[0].rstrip(".")
        lines.append(f"| [{name}]({name}.md) | "
                     + ", ".join(f"`{kernel.name}`" for kernel in kernels)
                     + f" | {prose(first)} |")
    return "\n".join(lines)


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
    give_verdicts(pages, expected(read(VERDICTS)))
    result = {f"{FOLDER}/README.md": "# Kernels\n\nA page for each file of "
              "[examples](../../examples/README.md): formula, shapes, contract and verdict.\n\n"
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
    assert "## `add`\n\nAdds one.\n\nSlowly.\n\n```" in text
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


if __name__ == "__main__":
    self_test()
