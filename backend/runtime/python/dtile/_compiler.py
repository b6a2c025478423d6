# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The command dtilec of the wheel."""

import os
import sys


def main():
    """Becomes the compiler."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "dtilec")
    try:
        os.execv(path, ["dtilec", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"dtilec: {path} cannot be run ({error}): install the wheel again")
