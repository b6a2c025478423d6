#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Says which rows of the tables no test shows.

    check_coverage.py ROOT        check a checkout; one line a finding; exits with 1 if any
    check_coverage.py --self-test check that every rule can fail

Rules:
  op          each operation of ir/core/ops.def stands in a file of tests/ir
  attribute   each attribute of ir/core/attributes.def is written in a file of tests/ir
  pass        each pass of ir/transform/passes.def is in a RUN line under tests/transform,
              tests/schedule or tests/protocol
  diagnostic  each code of frontend/base/diagnostics.def, or the name of its row, stands in a test
  style       messages start with a lower case letter, and end without a full stop
  exemption   what is exempted below is still without a test

The exemptions may only become fewer.
"""

import os
import re
import sys
import tempfile

# Codes that no test can show, with the reason.
EXEMPT_DIAGNOSTICS = {}
# Operations and passes that have no test yet.
EXEMPT_OPS = {}
EXEMPT_PASSES = {}

TEST_SUFFIXES = (".dtile", ".dtir", ".test", ".cpp", ".h", ".py")


def files_under(folder, suffixes):
    for path, _, names in sorted(os.walk(folder)):
        for name in sorted(names):
            if name.endswith(suffixes):
                with open(os.path.join(path, name), encoding="utf-8", errors="replace") as file:
                    yield os.path.join(path, name), file.read()


def table(root, path):
    """The text of a table, with that of the tables that it includes."""
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return re.sub(r'^#include "(.*)"$', lambda m: table(root, m[1]), file.read(), flags=re.M)


def rows(root, path, macro, pattern):
    found = re.findall(rf"^{macro}\({pattern}", table(root, path), re.M)
    if not found:
        sys.exit(f"{path}: no rows of {macro}")
    return found


def without_comments(text):
    return re.sub(r"^\s*//.*$", "", text, flags=re.M)


def check_ops(root):
    text = "\n".join(
        without_comments(text)
        for path, text in files_under(os.path.join(root, "tests/ir"), (".dtir", ".test"))
    )
    # An operation begins a line, or stands behind the equals sign of its results.
    words = set(re.findall(r"(?:^|=|\{)\s*([a-z_][\w.]*)(?=[ \n(@{])", text, re.M))
    for op in rows(root, "ir/core/ops.def", "(?:OP|ELEMENTWISE)", r'\w+, "([^"]+)"'):
        if (op in words) == (op in EXEMPT_OPS):
            yield f"op: `{op}` is in no file of tests/ir" if op not in words else (
                f"exemption: op `{op}` has a test"
            )
    names = {
        name: name
        for name in rows(root, "ir/core/attributes.def", "ATTR", r"\w+, (\w+)")
    }
    for name in names:
        if name in ("name", "callee"):
            continue
        if not re.search(rf"\b{name} = ", text):
            yield f"attribute: `{name}` is written in no file of tests/ir"


def check_passes(root):
    run_lines = []
    for folder in ("transform", "schedule", "protocol"):
        folder = os.path.join(root, "tests", folder)
        for _, text in files_under(folder, (".dtir", ".dtile", ".test")):
            run_lines += re.findall(r"RUN:.*--pass[= ](\S+|\"[^\"]*\").*", text)
            run_lines += re.findall(r"RUN:.*\"--pass=([^\"]*)\".*", text)
    run = {
        name
        for line in run_lines
        for name in re.findall(r"[a-z][a-z-]*", re.sub(r"\([^)]*\)", "", line))
    }
    for name in rows(root, "ir/transform/passes.def", "PASS", r'\w+, "([^"]+)"'):
        if name not in run and name not in EXEMPT_PASSES:
            yield f"pass: no test runs `{name}`"
        if name in run and name in EXEMPT_PASSES:
            yield f"exemption: pass `{name}` has a test"


def check_diagnostics(root):
    tests = "\n".join(text for _, text in files_under(os.path.join(root, "tests"), TEST_SUFFIXES)
                      if "EXEMPT_DIAGNOSTICS" not in text)
    shown = {}
    for name, code, message in rows(
        root, "frontend/base/diagnostics.def", "DIAG", r'(\w+), "(\w*)", \w+, "((?:[^"\\]|\\.)*)"'
    ):
        if re.match(r"[A-Z]", message) and not re.match(r"[A-Z]{2}", message):
            yield f"style: the message of {name} starts with a capital"
        if message.endswith("."):
            yield f"style: the message of {name} ends with a full stop"
        if not code:
            continue
        is_shown = f"[{code}]" in tests or f'"{code}"' in tests or re.search(
            rf"\bdiag::{name}\b", tests
        )
        shown[code] = shown.get(code, False) or bool(is_shown)
    for code, is_shown in shown.items():
        if not is_shown and code not in EXEMPT_DIAGNOSTICS:
            yield f"diagnostic: no test shows {code}"
        if is_shown and code in EXEMPT_DIAGNOSTICS:
            yield f"exemption: {code} has a test"


def check(root):
    return [*check_ops(root), *check_passes(root), *check_diagnostics(root)]


def self_test():
    with tempfile.TemporaryDirectory() as root:

        def write(path, text):
            path = os.path.join(root, path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)

        write("ir/core/ops.def", '#include "ir/sums.def"\nOP(Wait, "wait", …\nOP(If, "if", …\n')
        write("ir/sums.def", 'ELEMENTWISE(Add, "add", …\n')
        write("ir/core/attributes.def", "ATTR(If, kind, …\nATTR(If, axis, …\n")
        write("ir/transform/passes.def",
              'PASS(f, "cse", …\nPASS(g, "dce", …\nPASS(h, "a-b", …\n')
        write("frontend/base/diagnostics.def",
              'DIAG(one, "E1", Error, "fine")\nDIAG(two, "E2", Error, "Not fine.")\n'
              'DIAG(three, "E3", Error, "UTF-8 is fine")\nDIAG(note, "", Note, "fine")\n')
        write("tests/ir/a.dtir",
              "func @f {\n  %x = add %y, %y {axis = 1} : index\n"
              "  // wait here, kind = 2\n  if %b {\n")
        write("tests/transform/a.dtir", '// RUN: %dtilec ir --pass=cse %s\n// dce\n')
        write("tests/schedule/a.dtir", '// RUN: %dtilec ir "--pass=x(dce=1),a-b" %s\n')
        write("tests/unit/a.cpp", "EXPECT(diag::three) [E1]")
        found = check(root)
    expected = [
        "op: `wait` is in no file of tests/ir",
        "attribute: `kind` is written in no file of tests/ir",
        "pass: no test runs `dce`",
        "style: the message of two starts with a capital",
        "style: the message of two ends with a full stop",
        "diagnostic: no test shows E2",
    ]
    if found != expected:
        print("found:", *found, "expected:", *expected, sep="\n  ")
        return 1
    print("every rule can fail")
    return 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    if len(arguments) != 1 or arguments[0].startswith("-"):
        sys.exit(__doc__)
    findings = check(arguments[0])
    print("\n".join(findings) or "every row has a test")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
