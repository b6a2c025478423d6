#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes the edits that messages suggest: apply_fixes.py DTILEC FILE OUTPUT.

OUTPUT is FILE with the fix-its of `dtilec check` made; there must be one at least.
"""

import json
import subprocess
import sys


def main(dtilec, path, output):
    checked = subprocess.run(
        [dtilec, "check", "--diagnostics=json", path], capture_output=True, text=True
    )
    edits = [fix for message in json.loads(checked.stderr) for fix in message["fixes"]]
    if not edits:
        return "no fix-its"
    with open(path, encoding="utf-8") as file:
        text = file.read()
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    # From the end, so that places stay what they were.
    for fix in sorted(edits, key=lambda fix: (fix["line"], fix["column"]), reverse=True):
        begin = starts[fix["line"] - 1] + fix["column"] - 1
        end = starts[fix["endLine"] - 1] + fix["endColumn"] - 1
        text = text[:begin] + fix["text"] + text[end:]
    with open(output, "w", encoding="utf-8") as file:
        file.write(text)
    return None


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
