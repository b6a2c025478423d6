# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Holds the word lists of the editors, of the grammar's page and of the fuzzer to the lexer.

    check_keywords.py ROOT        one line a finding; exits with 1 if any
    check_keywords.py --self-test check that a missing and a surplus word are found
"""

import json
import os
import re
import sys


def read(root, *parts):
    with open(os.path.join(root, *parts), encoding="utf-8") as file:
        return file.read()


def lexer_words(text):
    """The keywords and the context words of DtileLexer.g4."""
    keywords, _, rest = text.partition("// Keywords")[2].partition("// Context words")
    context = rest.partition("// Punctuation.")[0]
    literal = re.compile(r"^[A-Z_]+: '([a-z_]+)';$", re.MULTILINE)
    return set(literal.findall(keywords)), set(literal.findall(context))


def element_types(text):
    return set(re.findall(r'^DTYPE\(\w+, "(\w+)"', text, re.MULTILINE))


# Types that are no element types.
OTHER_TYPES = {"dtype", "signal", "token"}


def textmate_words(text):
    """(keywords, context words, types) that dtile.tmLanguage.json highlights."""

    def words(entry):
        found = set()
        for pattern in repository[entry]["patterns"]:
            # What looks around or escapes is no word of its own.
            match = re.sub(r"\(\?<?[=!][^)]*\)|\\[a-zA-Z]|\[[^\]]*\]", " ", pattern["match"])
            found |= set(re.findall(r"[a-z][a-z0-9_]+", match))
        return found

    repository = json.loads(text)["repository"]
    return words("keywords"), words("context-words"), words("types")


def vim_words(text):
    """The same of dtile.vim."""
    keywords, context, types = set(), set(), set()
    for line in text.splitlines():
        keyword = re.match(r"syntax keyword dtile(\w+) (.*)$", line)
        match = re.match(r"syntax match dtile(?:Mode|Control|Declaration) (.*)$", line)
        if keyword and keyword[1] in ("Declaration", "Control", "Boolean"):
            keywords |= set(keyword[2].split())
        elif keyword and keyword[1] == "Type":
            types |= set(keyword[2].split())
        elif match:
            # What is highlighted stands behind a look-behind, and between \zs and \ze.
            shown = match[1].split(r"\@<=")[-1].split(r"\zs")[-1].split(r"\ze")[0]
            context |= set(re.findall(r"[a-z_]+", re.sub(r"\\[a-z]|\[[^\]]*\]", " ", shown)))
    return keywords, context, types


def page_words(text):
    """(keywords, context words) that grammar/README.md lists."""

    def words(title):
        sentence = re.search(rf"\*\*{title}\*\*[^:]*: ((?:`\w+` ?)+)", text)
        return set(re.findall(r"`(\w+)`", sentence[1])) if sentence else set()

    return words("Keywords"), words("Context words")


def dictionary_words(text):
    return set(re.findall(r'^"([a-z_]+)"$', text, re.MULTILINE))


def table_words(text):
    """(keywords, context words) of editors/lsp/keywords.def."""
    rows = re.findall(r'^(KEYWORD|CONTEXT_WORD)\("([a-z_]+)"\)$', text, re.MULTILINE)
    return ({word for kind, word in rows if kind == "KEYWORD"},
            {word for kind, word in rows if kind == "CONTEXT_WORD"})


def emacs_words(text):
    """(keywords, context words) that dtile-mode.el highlights."""

    def words(name):
        found = re.search(rf"\(defconst {name}\s+'\(([^)]*)\)", text)
        return set(re.findall(r'"([a-z_]+)"', found[1])) if found else set()

    constants = re.search(r"regexp-opt '\(([^)]*)\) 'symbols\) \. font-lock-constant-face", text)
    return (words("dtile-keywords") | set(re.findall(r'"([a-z_]+)"', constants[1])),
            words("dtile-context-words"))


def compare(where, what, found, wanted):
    """Findings: words of the lexer that are missing, and words that it does not have."""
    missing = [f"{where}: {what} `{word}` is missing" for word in sorted(wanted - found)]
    surplus = [f"{where}: `{word}` is no {what}" for word in sorted(found - wanted)]
    return missing + surplus


def check(root):
    keywords, context = lexer_words(read(root, "grammar", "DtileLexer.g4"))
    types = element_types(read(root, "frontend", "base", "dtypes.def")) | OTHER_TYPES
    findings = []
    if len(keywords) < 20 or len(context) < 10 or len(types) < 15:
        findings.append("check_keywords.py: does not understand the lexer or dtypes.def any more")
    editors = {
        "editors/vscode/syntaxes/dtile.tmLanguage.json": textmate_words,
        "editors/vim/syntax/dtile.vim": vim_words,
    }
    for path, words_of in editors.items():
        found = words_of(read(root, *path.split("/")))
        findings += compare(path, "keyword", found[0], keywords)
        findings += compare(path, "context word", found[1], context)
        findings += compare(path, "type", found[2], types)
    for path, words_of in {"editors/emacs/dtile-mode.el": emacs_words,
                           "grammar/README.md": page_words,
                           "editors/lsp/keywords.def": table_words}.items():
        found = words_of(read(root, *path.split("/")))
        findings += compare(path, "keyword", found[0], keywords)
        findings += compare(path, "context word", found[1], context)
    path = "tests/fuzz/parser_fuzz.dict"
    found = dictionary_words(read(root, *path.split("/")))
    findings += compare(path, "word", found - {"done", "signal"}, keywords | context)
    return findings


def self_test():
    keywords, context = lexer_words(
        "// Keywords: all.\nFN: 'fn';\nLET: 'let';\n"
        "// Context words: x.\nBY: 'by';\n// Punctuation.\nX: 'x';\n"
    )
    assert (keywords, context) == ({"fn", "let"}, {"by"})
    vim = (
        "syntax keyword dtileControl fn\n"
        r"syntax match dtileMode /\<over\s\+\zs\%(by\|to\)\>/"
        "\n"
        r"syntax match dtileControl /\%(\<when\s\+\)\@<=all\>/"
        "\n"
    )
    assert vim_words(vim) == ({"fn"}, {"by", "to", "all"}, set())
    table = 'KEYWORD("fn")\nCONTEXT_WORD("by")\n'
    assert table_words(table) == ({"fn"}, {"by"})
    assert compare("f", "keyword", {"fn", "x"}, keywords) == [
        "f: keyword `let` is missing",
        "f: `x` is no keyword",
    ]
    textmate = {
        "keywords": [r"\b(?:fn|let)\b"],
        "context-words": [r"(?<=\bwhen)\s+all\b"],
        "types": [],
    }
    repository = {k: {"patterns": [{"match": m} for m in v]} for k, v in textmate.items()}
    assert textmate_words(json.dumps({"repository": repository})) == ({"fn", "let"}, {"all"}, set())


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        sys.exit(0)
    problems = check(sys.argv[1])
    print("\n".join(problems), end="\n" if problems else "")
    sys.exit(1 if problems else 0)
