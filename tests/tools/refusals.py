# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""For tests of the Python package's errors: prints what a call is refused for."""

import dtile


def refuse(what, call):
    try:
        call()
    except (dtile.DtileError, AttributeError) as error:
        print(f"{what}: {type(error).__name__}: {error}", flush=True)
    else:
        print(f"{what}: accepted", flush=True)
