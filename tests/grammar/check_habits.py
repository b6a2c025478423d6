#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Types habits of other languages into a kernel: check_habits.py DTILEC HABITS FOLDER.

A record of HABITS is lines that belong together; an empty line ends it:

    y[m, n] = x[m, n] ** 2.0;             what is typed, as the body of a kernel
    says: a power is `pow(x, y)`          stands in the one message, or in a note of it
    fixed: y[m, n] = pow(x[m, n], 2.0);   what the fix-its make of it, and compiles

What begins with `top: ` is a whole file. `errors: 2` allows a second message; without `fixed:`
there is no fix-it.
"""

import json
import os
import subprocess
import sys

KERNEL = (
    "kernel k<B = 64>(x: in f32[M, N], y: out f32[M, N]) over (m in M by B, n in N by B) {\n"
    "    %s\n}\n"
)


def records(path):
    with open(path, encoding="utf-8") as file:
        blocks = file.read().split("\n\n")
    for block in blocks:
        record = {"typed": "", "says": [], "errors": 1, "fixed": None}
        for line in block.split("\n"):
            key, _, rest = line.partition(": ")
            if key == "says":
                record["says"].append(rest)
            elif key == "errors":
                record["errors"] = int(rest)
            elif key == "fixed":
                record["fixed"] = rest
            elif line and not line.startswith("//"):
                record["typed"] += ("\n" if record["typed"] else "") + line
        if record["typed"]:
            yield record


def text_of(typed):
    if typed.startswith("top: "):
        return typed[len("top: "):] + "\n"
    return KERNEL % typed


def check(dtilec, path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    run = subprocess.run([dtilec, "check", "--diagnostics=json", path],
                         capture_output=True, text=True)
    return json.loads(run.stderr) if run.stderr else []


def repaired(text, edits):
    lines = text.split("\n")
    for fix in sorted(edits, key=lambda fix: (fix["line"], fix["column"]), reverse=True):
        first, last = fix["line"] - 1, fix["endLine"] - 1
        before = lines[first][: fix["column"] - 1]
        behind = lines[last][fix["endColumn"] - 1:]
        lines[first:last + 1] = [before + fix["text"] + behind]
    return "\n".join(lines)


def findings(dtilec, path, record):
    text = text_of(record["typed"])
    messages = check(dtilec, path, text)
    errors = [message for message in messages if message["severity"] == "error"]
    said = "\n".join(message["message"] + "\n" +
                     "\n".join(note["message"] for note in message["notes"])
                     for message in errors)
    if len(errors) != record["errors"]:
        yield f"{len(errors)} errors, not {record['errors']}:\n{said}"
    for words in record["says"]:
        if words not in said:
            yield f"does not say {words!r}, but:\n{said}"
    edits = [fix for message in errors for fix in message["fixes"]]
    if record["fixed"] is None:
        if edits:
            yield f"has fix-its that make {repaired(text, edits)!r}"
        return
    if not edits:
        yield "has no fix-it"
        return
    fixed = repaired(text, edits)
    if fixed != text_of(record["fixed"]):
        yield f"fix-its make {fixed!r}"
    left = [message for message in check(dtilec, path, fixed) if message["severity"] == "error"]
    if left:
        yield f"what the fix-its make does not compile: {left[0]['message']}"


def main(dtilec, habits, folder):
    os.makedirs(folder, exist_ok=True)
    count = failed = 0
    for count, record in enumerate(records(habits), 1):
        path = os.path.join(folder, f"habit{count}.dtile")
        for finding in findings(dtilec, path, record):
            failed += 1
            print(f"{record['typed']}\n  {finding}")
    print(f"{count} habits, {failed} findings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
