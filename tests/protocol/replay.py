#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs a failed exploration again: replay.py DTILEC FILE OUTPUT.

OUTPUT is what `dtilec test --explore` printed; the seed that it names must fail again, twice.
"""

import re
import subprocess
import sys


def main(dtilec, path, output):
    with open(output, encoding="utf-8") as file:
        found = re.search(r"run it again with (--schedule=random:\d+)", file.read())
    if not found:
        return "no seed was printed"
    command = [dtilec, "test", found[1], "--executor", "interp", path]
    runs = [subprocess.run(command, capture_output=True) for _ in range(2)]
    if any(run.returncode != 1 for run in runs):
        return f"{found[1]} does not fail again"
    if runs[0].stdout.split(b"\n")[-2:] != runs[1].stdout.split(b"\n")[-2:]:
        return f"{found[1]} gives two results"
    return None


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
