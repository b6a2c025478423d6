# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Holds the documentation to sentences that are read once, to the field's words, and to its links.

    check_prose.py ROOT [FILE…]           one line a finding; exits with 1 if any
    check_prose.py --links ROOT FOLDER    links of the pages of a folder alone
    check_prose.py --self-test            check that each kind is found, and nothing else

Of every *.md file: no sentence over 35 words, no paragraph over 120, none of the private words
below, and links and names of other pages that exist. Each cell of a table is a paragraph. Code and
quotations are not read as prose. What scripts/update_docs.py generates from doc comments is. Code
in Python has to parse.
"""

import ast
import os
import re
import sys

MOST_WORDS = 35
MOST_PARAGRAPH_WORDS = 120

# Words of this project's past: (pattern in prose, what to write).
PRIVATE_WORDS = [
    (r"walkers?", "warp role"),
    (r"(?<!reason )(?<!reasons )(?<!idea )(?<!hidden )(?<!fall )(?<!falls )(?<!fell )"
     r"(?<!left )(?<!lag )(?<!lags )(?<!launch )(?<!launches )behind", "after, below, beyond"),
    (r"meetings?", "barrier"),
    (r"(?:ranks|threads|programs|groups|roles|warps|lanes|processes|all|they) meet", "barrier"),
    (r"crooked", "unaligned"),
    (r"brought|brings?", "loads, prefetches, copies"),
    (r"(?:has|have) come", "has arrived"),
    (r"such ones?", "the noun"),
    (r"places? in the source", "source location"),
    (r"\w+ (?:is|are) no (?:function|value|tile|signal|object|element|operand)s?", "is not a"),
    (r"nobody|everybody|somebody", "the rank, thread, program or person"),
    (r"groups? of warps", "warpgroup"),
    (r"(?:flagged words|words? (?:that carry|with|carrying) flags)", "LL message"),
    (r"(?:rows (?:that are )?picked|picked rows|picks? (?:the )?rows)", "gathered rows"),
    (r"copied loops?", "multistage loop"),
    (r"(?:kept|waiting) operands?", "resident operand"),
    (r"short sums?", "sums that need promotion"),
]
# Names that were changed, wherever they stand but in what is generated.
OLD_NAMES = {
    "defer-stores": "specialize-stores",
    "bring-tiles": "prefetch-epilogue",
    "part-outputs": "split-epilogue",
    "delay-products": "skew-products",
    "start-at-zero": "sink-accumulator-init",
    "guard-masks": "peel-masks",
    "load-together": "batch-loads",
    "copy-ahead": "multistage-copies",
    "flag-words": "ll-messages",
    "body_weights": "body_cost",
    "turned_memory": "epoch_buffers",
}
# Pages whose prose is not held to this yet; their links are. Only ever shorter.
PENDING = ("CHANGELOG.md",)

ABBREVIATIONS = re.compile(r"\b(e\.g|i\.e|et al|vs|cf|approx|Sec|Fig|No)\.")
LINK = re.compile(r"!?\[([^\]]*)\]\(([^)\s]+)\)")


def is_pending(path):
    return path.startswith(PENDING)


def blank(match):
    return "\n" * match[0].count("\n")


def without_comments(text):
    """The text with comments as empty lines, so that line numbers stay."""
    return re.sub(r"<!--.*?-->", blank, text, flags=re.S)


def without_generated(text):
    """The text with generated parts and comments as empty lines, so that line numbers stay."""
    text = re.sub(r"<!-- generated: (\S+) -->.*?<!-- end of \1 -->", blank, text, flags=re.S)
    return without_comments(text)


def cells(row):
    """What the cells of a table's row say, line by line; nothing of the line below its head."""
    split = re.split(r"(?<!\\)\||<br>", row.strip("|"))
    return [cell.strip() for cell in split if re.search(r"\w", cell)]


def blocks(text):
    """(first line, text) of each paragraph, item, heading and cell; no code or quotations."""
    found, current, begin, fence = [], [], 0, None

    def end():
        if current:
            found.append((begin, " ".join(current)))
        current.clear()

    for number, line in enumerate(without_comments(text).splitlines(), 1):
        stripped = line.strip()
        marker = re.match(r"(```+|~~~+)", stripped)
        if fence:
            fence = None if marker and stripped.startswith(fence) else fence
            continue
        if marker:
            fence = marker[1]
            end()
        elif stripped.startswith("|"):
            end()
            found += [(number, cell) for cell in cells(stripped)]
        elif not stripped or stripped[0] == ">" or re.fullmatch(r"[-=*_ ]{3,}", stripped):
            end()
        elif not current and line.startswith("    ") and not (found and begin == number - 1):
            # Indented code, unless it goes on with an item.
            continue
        else:
            if re.match(r"(#+ |[-*+] |\d+\. )", stripped):
                end()
                stripped = re.sub(r"^(#+|[-*+]|\d+\.) ", "", stripped)
            if not current:
                begin = number
            current.append(stripped)
            if line.startswith("#"):
                end()
    end()
    return found


def plain(text):
    """Prose with code, quotations and formulas as one word each, and links as what they show."""
    text = re.sub(r"``[^`].*?``|`[^`]*`", "Code", text)
    text = LINK.sub(lambda match: match[1], text)
    text = re.sub(r"https?://\S+|github\.com/\S+", "Link", text)
    text = re.sub(r'"[^"]*"|“[^”]*”', "Quote", text)
    return re.sub(r"\*\*|(?<!\w)[*_]|[*_](?!\w)", "", text)


def words(text):
    return [word for word in text.split() if re.search(r"\w", word)]


def sentences(text):
    text = ABBREVIATIONS.sub(lambda match: match[1].replace(".", "") + " ", text)
    return [p for p in re.split(r"(?<=[.!?])[)”]?\s+(?=[\"“(A-Z0-9`\[])", text) if words(p)]


def prose_findings(path, text):
    findings = []
    for line, block in blocks(text):
        shown = plain(block)
        if len(words(shown)) > MOST_PARAGRAPH_WORDS:
            findings.append(f"{path}:{line}: a paragraph of {len(words(shown))} words; split it")
        for sentence in sentences(shown):
            count = len(words(sentence))
            if count > MOST_WORDS:
                begin = " ".join(words(sentence)[:6])
                findings.append(f"{path}:{line}: a sentence of {count} words: {begin} …")
        for pattern, instead in PRIVATE_WORDS:
            for match in re.finditer(rf"\b(?:{pattern})\b", shown, re.IGNORECASE):
                findings.append(f"{path}:{line}: `{match[0]}`: write {instead}")
    return findings


def name_findings(path, text):
    findings = []
    for number, line in enumerate(without_generated(text).splitlines(), 1):
        for old, new in OLD_NAMES.items():
            if re.search(rf"(?<![\w/-]){old}(?![\w-])", line):
                findings.append(f"{path}:{number}: `{old}` is called `{new}`")
    return findings


def anchors(text):
    """What GitHub calls the headings of a page."""
    found = set()
    fence = False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            fence = not fence
        heading = re.match(r"#+ (.*)", line)
        if heading and not fence:
            title = LINK.sub(lambda match: match[1], heading[1]).lower()
            slug = re.sub(r"[^\w\- ]", "", title).strip().replace(" ", "-")
            found.add(slug)
    return found


def link_findings(root, path, text, names=True):
    """Links, and names of pages in back-ticks, that lead nowhere."""
    findings = []
    folder = os.path.dirname(path)
    fence = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fence = not fence
        if fence:
            continue
        for match in LINK.finditer(re.sub(r"`[^`]*`", "Code", line)):
            target, _, anchor = match[2].partition("#")
            if re.match(r"\w+:", match[2]):
                continue
            there = os.path.normpath(os.path.join(folder, target)) if target else path
            whole = os.path.join(root, there)
            if not os.path.exists(whole):
                findings.append(f"{path}:{number}: no `{match[2]}`")
            elif anchor and there.endswith(".md"):
                with open(whole, encoding="utf-8") as file:
                    if anchor not in anchors(file.read()):
                        findings.append(f"{path}:{number}: no heading `#{anchor}` in {there}")
        for name in re.findall(r"`([\w./-]+\.md)`", line) if names else ():
            if name.endswith(("CODE.md", "NAME.md")):
                # Stands for a name.
                continue
            if not any(os.path.exists(os.path.join(root, base, name)) for base in ("", folder)):
                findings.append(f"{path}:{number}: no page `{name}`")
    return findings


def code_findings(path, text):
    """Examples of Python that are none, such as one whose lines were filled like prose."""
    findings = []
    for match in re.finditer(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        try:
            ast.parse(match[1])
        except SyntaxError as error:
            line = text.count("\n", 0, match.start()) + 1 + (error.lineno or 1)
            findings.append(f"{path}:{line}: no Python: {error.msg}")
    return findings


def check_page(root, path, text):
    findings = link_findings(root, path, text) + code_findings(path, text)
    if not is_pending(path):
        findings += prose_findings(path, text) + name_findings(path, text)
    return findings


def pages(root):
    for folder, names, files in os.walk(root):
        names[:] = sorted(n for n in names if not n.startswith((".", "build")) and n != "shared")
        for name in sorted(files):
            if name.endswith(".md"):
                yield os.path.relpath(os.path.join(folder, name), root)


def check(root, chosen=()):
    found = list(chosen) or list(pages(root))
    if not chosen and len(found) < 20:
        return ["check_prose.py: does not find the pages any more"]
    findings = []
    for path in found:
        with open(os.path.join(root, path), encoding="utf-8") as file:
            findings += check_page(root, path, file.read())
    return findings


def check_links(root, folder):
    findings = []
    for page in pages(os.path.join(root, folder)):
        path = os.path.join(folder, page)
        with open(os.path.join(root, path), encoding="utf-8") as file:
            findings += link_findings(root, path, file.read(), names=False)
    return findings


def self_test():
    long = "One " + "word " * (MOST_WORDS - 1) + "more."
    assert [f.split(": ", 1)[1][:22] for f in prose_findings("p", f"Short.\n\n{long}\n")] == [
        f"a sentence of {MOST_WORDS + 1} words"[:22]
    ]
    # Code, quotations and comments are no prose; two short sentences and two cells are not one.
    half = "Word " + "word " * 18 + "word."
    for text in (
        f"```\n{long} walker\n```\n",
        f"| {half} {half} | {half} |\n| --- | :-: |\n",
        f"| {half[:-1]} | {half[:-1]} |\n| {half[:-1]} | `x \\| walker` |\n",
        f"> {long} walker\n",
        f"Said \"{long[:-1]} walker\" once.\n",
        f"Said `{long[:-1]} walker` once.\n",
        f"{half} {half}\n",
        f"- {half[:-1]}\n- {half[:-1]}\n",
        f"<!-- {long} walker -->\n",
        "<!-- generated: x -->\nPass copy-ahead.\n<!-- end of x -->\n",
        "See e.g. Code, i.e. " + "word " * 20 + "word.\n",
        "The reason behind it. A rank is a launch behind. Requirements are met.\n",
    ):
        assert prose_findings("p", text) + name_findings("p", text) == [], text
    # Each cell of a table is prose, in the line of its row.
    table = f"| what | why |\n| --- | --- |\n| {long} | The first line<br>The walker waits. |\n"
    assert [f.split(" ", 1)[0] for f in prose_findings("p", table)] == ["p:3:", "p:3:"]
    assert prose_findings("p", table)[1] == "p:3: `walker`: write warp role"
    # What is generated from doc comments is prose.
    assert prose_findings("p", f"<!-- generated: x -->\n{long}\n<!-- end of x -->\n")
    assert prose_findings("p", "word. " * 121)[0].startswith("p:1: a paragraph of 121 words")
    for text, word in (
        ("The walker waits.", "walker"),
        ("It comes behind the loop.", "behind"),
        ("A meeting of all.", "meeting"),
        ("Where threads meet.", "threads meet"),
        ("The tile is brought.", "brought"),
        ("When the data has come.", "has come"),
        ("A tile or such one.", "such one"),
        ("A name that is no value.", "that is no value"),
        ("Groups of warps multiply.", "Groups of warps"),
    ):
        assert prose_findings("p", f"\n{text}\n") == [
            f"p:2: `{word}`: write "
            + next(new for old, new in PRIVATE_WORDS if re.fullmatch(old, word, re.I) or
                   re.search(rf"(?i)\b(?:{old})\b", text))
        ], text
    assert name_findings("p", "Pass `copy-ahead` runs.") == [
        "p:1: `copy-ahead` is called `multistage-copies`"
    ]
    assert anchors("# A `b` c\n## D, e!\n") == {"a-b-c", "d-e"}
    assert code_findings("p", "```python\na = 1\nb = a\n```\n```\na = 1 b\n```\n") == []
    assert code_findings("p", "Code:\n\n```python\na = 1\na = 1 b\n```\n") == [
        "p:5: no Python: invalid syntax"
    ]
    here = os.path.dirname(os.path.abspath(__file__))
    name = os.path.basename(__file__)
    assert link_findings(here, "x.md", f"[a]({name}) [b](https://x.y) `[c](d)`") == []
    assert link_findings(here, "x.md", "[a](gone.md) and `gone.md`") == [
        "x.md:1: no `gone.md`",
        "x.md:1: no page `gone.md`",
    ]


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        sys.exit(0)
    if sys.argv[1] == "--links":
        problems = check_links(*sys.argv[2:])
    else:
        problems = check(sys.argv[1], sys.argv[2:])
    print("\n".join(problems), end="\n" if problems else "")
    sys.exit(1 if problems else 0)
