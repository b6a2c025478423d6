#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What programs and compiled kernels rely on: the symbols that libdtile_rt.so exports, with their
declarations, and the constants and layouts of the public headers, as a list that is kept beside
this file.

    list_abi.py LIBRARY [--cc CC] [--nm NM] [--update]

Says how the list differs, and ends with 1 where it does. `--update` writes it anew: then say in
kernel_abi.h (DTILE_ABI_VERSION), or by a structure's size, what programs of before are to make of
it.
"""

import argparse
import difflib
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
HEADERS = ("dtile.h", "kernel_abi.h", "device_abi.h", "trace/trace_abi.h")
LIST = os.path.join(HERE, "abi.txt")


def read_headers():
    """The text of all headers without comments and line ends that are escaped."""
    text = ""
    for header in HEADERS:
        with open(os.path.join(SOURCE, "backend", "runtime", header), encoding="utf-8") as file:
            text += file.read() + "\n"
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S).replace("\\\n", " ")
    return re.sub(r"//[^\n]*", " ", text)


def field_names(body):
    for field in body.split(";"):
        function = re.search(r"\(\s*\*\s*(?:const\s*\*\s*)?(\w+)\s*\)\s*\(", field)
        if function:
            yield function.group(1)
            continue
        for declarator in field.split(","):
            name = re.search(r"(\w+)\s*(?:\[[^]]*\]\s*)*$", declarator)
            if name:
                yield name.group(1)


def layout_program(text):
    """A C program that prints constants, sizes and offsets."""
    lines = []
    for name, value in re.findall(r"^#define (DTILE_\w+) +(\S.*)$", text, flags=re.M):
        if not name.endswith("_INIT") and name != "DTILE_API":
            lines.append(f'printf("{name} %lld\\n", (long long)({value.strip()}));')
    for body in re.findall(r"typedef enum \w+ \{([^}]*)\}", text):
        for constant in body.split(","):
            name = constant.split("=")[0].strip()
            if name:
                lines.append(f'printf("{name} %lld\\n", (long long)({name}));')
    for kind, name, body in re.findall(r"typedef (struct|union) (\w+) \{([^}]*)\}", text):
        lines.append(f'printf("{kind} {name}: %zu bytes\\n", sizeof({name}));')
        for field in field_names(body):
            lines.append(f'printf("  {field} at %zu, %zu bytes\\n", offsetof({name}, {field}), '
                         f"sizeof((({name} *)0)->{field}));")
    includes = "".join(f'#include "backend/runtime/{header}"\n' for header in HEADERS)
    body = "\n  ".join(lines)
    return f"{includes}#include <stdio.h>\nint main(void) {{\n  {body}\n  return 0;\n}}\n"


def layouts(text, cc):
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "layouts")
        with open(program + ".c", "w", encoding="utf-8") as file:
            file.write(layout_program(text))
        subprocess.run([cc, "-std=c11", "-I", SOURCE, program + ".c", "-o", program], check=True)
        return subprocess.run([program], check=True, stdout=subprocess.PIPE,
                              text=True).stdout.splitlines()


def exports(text, library, nm):
    listed = subprocess.run([nm, "-D", "--defined-only", library], check=True,
                            stdout=subprocess.PIPE, text=True).stdout
    declarations = re.sub(r"\s+", " ", re.sub(r"^#.*$", ";", text, flags=re.M))
    for line in sorted(listed.splitlines(), key=lambda line: line.split()[-1]):
        kind, name = line.split()[-2:]
        found = re.search(r"(?:^|[;{}]|\bDTILE_API|\)\))\s*((?:const |struct )?\w+\s*\**\s*" +
                          re.escape(name.split("@")[0]) + r"\s*\([^;]*\));", declarations)
        yield f"{kind} {name}: {found.group(1).strip() if found else 'not declared'}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library")
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--nm", default="nm")
    parser.add_argument("--update", action="store_true")
    options = parser.parse_args()
    text = read_headers()
    found = layouts(text, options.cc) + ["", *exports(text, options.library, options.nm)]
    if options.update:
        with open(LIST, "w", encoding="utf-8") as file:
            file.write("\n".join(found) + "\n")
        return 0
    with open(LIST, encoding="utf-8") as file:
        kept = file.read().splitlines()
    differences = list(difflib.unified_diff(kept, found, "abi.txt", "as built", lineterm="", n=1))
    if differences:
        print("\n".join(differences))
        print(f"\nIf this is meant: {os.path.relpath(__file__, SOURCE)} --update "
              "build/lib/libdtile_rt.so, and see its head.")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
