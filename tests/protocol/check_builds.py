#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builds refuse the wrong programs, too: check_builds.py DTILEC FOLDER.

But for two kinds: a build for the host does not ask about room on a machine with less of it, and
has one set of values of the compiler's choices, which may be right where others are not.
"""

import concurrent.futures
import os
import re
import subprocess
import sys

# E0537: no room on a machine that the build is not for; and a verdict of other values.
OTHERS = re.compile(r"\[?E0537\]?|CHECK-NEXT: not refused with")


def accepts(dtilec, path):
    with open(path, encoding="utf-8") as file:
        if OTHERS.search(file.read()):
            return False
    command = [dtilec, "build", "--emit=header", "-o", "-", path]
    return subprocess.run(command, capture_output=True, timeout=120, check=False).returncode == 0


def main(dtilec, folder):
    paths = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        built = list(pool.map(lambda path: accepts(dtilec, path), paths))
    findings = [path for path, isBuilt in zip(paths, built) if isBuilt]
    print("\n".join(findings) or f"{len(paths)} programs")
    return 1 if findings or not paths else 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2]))
