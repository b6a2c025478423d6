# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Holds the codes of messages to those that versions have had: none vanishes, none comes back.

    check_codes.py ROOT            one line a finding; exits with 1 if any
    check_codes.py --release ROOT  adds the codes that are new to docs/diagnostics/released.txt
    check_codes.py --self-test     check that lost and revived codes are found

A line of released.txt is a code, or a code and `retired`.
"""

import os
import re
import sys

RELEASED = os.path.join("docs", "diagnostics", "released.txt")


def read(*parts):
    with open(os.path.join(*parts), encoding="utf-8") as file:
        return file.read()


def codes_of(definitions):
    """The codes in the text of diagnostics.def."""
    return set(re.findall(r'^DIAG\(\w+, "([EW]\d{4})"', definitions, re.MULTILINE))


def released_codes(text):
    """From each code to whether it is retired."""
    lines = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    return {line[0]: line[1:] == ["retired"] for line in lines}


def findings(codes, released):
    for code, retired in sorted(released.items()):
        if retired and code in codes:
            yield f"{code} is retired; give the new message another code"
        if not retired and code not in codes:
            yield f"{code} is gone from diagnostics.def; write `{code} retired` in {RELEASED}"


def version_findings(root):
    """The language's version is dtile's without its PATCH."""
    header = read(root, "frontend", "base", "language_version.h")
    language = re.findall(r"kLanguage(?:Major|Minor) = (\d+)", header)
    product = re.search(r"project\(dtile VERSION (\d+)\.(\d+)", read(root, "CMakeLists.txt"))
    if language != list(product.groups()):
        yield f"language_version.h has {language}, CMakeLists.txt {product.groups()}"


def self_test():
    codes = codes_of('DIAG(a, "E0101", Error, "x")\nDIAG(b, "", Note, "y")\n'
                     'DIAG(c, "W0901", Warning, "z")\n')
    assert codes == {"E0101", "W0901"}, codes
    assert not list(findings(codes, released_codes("# words\nE0101\nE0102 retired\n")))
    assert list(findings(codes, released_codes("E0103\n"))) != []
    assert list(findings(codes, released_codes("E0101 retired\n"))) != []


def main(arguments):
    if arguments == ["--self-test"]:
        self_test()
        return 0
    release = "--release" in arguments
    root = [argument for argument in arguments if argument != "--release"][0]
    codes = codes_of(read(root, "frontend", "base", "diagnostics.def"))
    text = read(root, RELEASED)
    released = released_codes(text)
    if release:
        new = sorted(codes - set(released))
        with open(os.path.join(root, RELEASED), "a", encoding="utf-8") as file:
            file.writelines(code + "\n" for code in new)
        return 0
    found = list(findings(codes, released)) + list(version_findings(root))
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


sys.exit(main(sys.argv[1:]))
