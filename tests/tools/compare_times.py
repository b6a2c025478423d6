# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whether the second of two predictions of `dtilec explain --json` is so many times the first.

    compare_times.py FIRST SECOND LEAST MOST
"""

import json
import sys


def nanoseconds(path):
    with open(path, encoding="utf-8") as file:
        made = json.load(file)
    return min(row["ns"] for row in made) if isinstance(made, list) else made["ns"]


def main(first, second, least, most):
    factor = nanoseconds(second) / nanoseconds(first)
    print(f"{factor:.3f}")
    return 0 if float(least) <= factor <= float(most) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
