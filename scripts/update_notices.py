#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes THIRD-PARTY-NOTICES.txt from the copyright files of the packages that dtile is built from.

    update_notices.py [OUTPUT]

Wanted where a library is added, or where a package's new version says something else. The files are
/usr/share/doc/PACKAGE/copyright, in Debian's machine-readable form: paragraphs `Files:` with their
copyright and the name of a license, and paragraphs with a license's text. Only paragraphs about
files that become part of dtilec or of libdtile_rt are taken.
"""

import fnmatch
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# Name, package, where it ends up, and files of the package that stand for what is linked.
COMPONENTS = [
    ("LLVM, with lld and Polly", "llvm-22-dev", "part of dtilec; its clang made the device library",
     ["llvm/lib/Support/*", "llvm/include/llvm/*", "llvm/lib/Support/regcomp.c",
      "llvm/lib/Support/MD5.cpp", "lld/*", "polly/*"]),
    ("ANTLR 4, the C++ runtime", "libantlr4-runtime-dev", "part of dtilec",
     ["runtime/src/Parser.cpp", "runtime/src/support/guid.cpp",
      "runtime/src/tree/IterativeParseTreeWalker.h"]),
    ("CLI11", "libcli11-dev", "part of dtilec", ["include/CLI/CLI.hpp"]),
    ("JSON for Modern C++", "nlohmann-json3-dev", "part of dtilec",
     ["include/nlohmann/json.hpp", "single_include/nlohmann/json.hpp"]),
    ("Expat", "libexpat1-dev", "part of dtilec", ["expat/lib/expat.h"]),
    ("Boost.Context", "libboost-context1.74-dev",
     "two routines in assembler are part of libdtile_rt and of dtilec",
     ["libs/context/src/asm/make_x86_64_sysv_elf_gas.S",
      "libs/context/src/asm/jump_x86_64_sysv_elf_gas.S"]),
]

# Texts that some packages leave out.
COMMON_TEXTS = {"bsd-3-clause": "/usr/share/common-licenses/BSD"}

HEAD = """\
Third-party notices

dtilec and libdtile_rt are under the Apache License 2.0 with LLVM exceptions (LICENSE). They contain
parts of what follows, under the terms given. Where a text refers to the Apache License 2.0, that is
the one in LICENSE. A dtilec that was linked with DTILE_STATIC also contains zlib (zlib License),
zstd (BSD License) and GCC's libstdc++ and libgcc (GPL 3 with the GCC Runtime Library Exception).

Written by scripts/update_notices.py.
"""


def paragraphs(text):
    """A list of dictionaries from fields to values, their lines joined by newlines."""
    result = []
    for block in re.split(r"\n\s*\n", text):
        fields, name = {}, None
        for line in block.split("\n"):
            if line[:1] not in ("", " ", "\t", "#"):
                name, _, value = line.partition(":")
                fields[name] = value.strip()
            elif name:
                fields[name] += "\n" + line.strip()
        if fields:
            result.append(fields)
    return result


def licence_name(paragraph):
    return paragraph.get("License", "").split("\n")[0].strip()


def matching(paragraphs_of_files, file):
    """The last paragraph that speaks of a file, as the form has it."""
    found = None
    for paragraph in paragraphs_of_files:
        if any(fnmatch.fnmatch(file, pattern) for pattern in paragraph["Files"].split()):
            found = paragraph
    return found


def section(name, package, where, files):
    path = os.path.join("/usr/share/doc", package, "copyright")
    with open(path, encoding="utf-8") as file:
        all_paragraphs = paragraphs(file.read())
    of_files = [p for p in all_paragraphs if "Files" in p]
    texts = {}
    for paragraph in all_paragraphs:
        lines = paragraph.get("License", "").split("\n")
        if len(lines) > 1:
            texts.setdefault(licence_name(paragraph).lower(), "\n".join(lines[1:]))
    taken = []
    for file in files:
        paragraph = matching(of_files, file)
        if paragraph is not None and paragraph not in taken:
            taken.append(paragraph)
    if not taken:
        sys.exit(f"{path} says nothing of {files}")
    out = ["=" * 80, f"{name}: {where}", ""]
    licences = []
    for paragraph in taken:
        out += [f"Copyright: {line.strip()}" for line in paragraph["Copyright"].split("\n") if line]
        out += [f"License: {licence_name(paragraph)}", ""]
        if licence_name(paragraph).lower() not in [known.lower() for known in licences]:
            licences.append(licence_name(paragraph))
    for licence in licences:
        if licence.lower() not in texts and licence.lower() in COMMON_TEXTS:
            with open(COMMON_TEXTS[licence.lower()], encoding="utf-8") as file:
                texts[licence.lower()] = file.read().strip()
        if licence.lower() not in texts:
            sys.exit(f"{path} has no text of {licence}")
        out += [licence, ""]
        out += [re.sub(r"^\.$", "", line) for line in texts[licence.lower()].split("\n")]
        out.append("")
    return "\n".join(out)


def main(arguments):
    output = arguments[0] if arguments else os.path.join(ROOT, "THIRD-PARTY-NOTICES.txt")
    text = "\n".join([HEAD] + [section(*component) for component in COMPONENTS])
    with open(output, "w", encoding="utf-8") as file:
        file.write(text.rstrip() + "\n")


main(sys.argv[1:])
