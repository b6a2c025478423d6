# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arguments that callers of the Python package cannot mean."""

import os
import sys

import dtile
from refusals import refuse


def main():
    refuse("a number", lambda: dtile.Team(2))
    refuse("bytes", lambda: dtile.Team.local([0], symmetric_bytes=1 << 70))
    refuse("text", lambda: dtile.Team.local([0], symmetric_bytes="1GB"))
    refuse("timeout", lambda: dtile.Team.local([0], wait_timeout_ms=1 << 40))
    refuse("target", lambda: dtile.Team.local([0], target=None))
    refuse("devices", lambda: dtile.Team.local(2))
    refuse("names", lambda: dtile.Team.local(["a"]))
    library = dtile.build(sys.argv[1], arch="sm_80", folder=sys.argv[2])
    k = library.rms
    team = dtile.Team.local([0])
    refuse("size", lambda: k._shape_args([(1 << 70, 16), None, 0, 0, 0, 0]))
    refuse("broken size", lambda: k._shape_args([(4.5, 16), None, 0, 0, 0, 0]))
    refuse("no scalar", lambda: k._shape_args([(8, 16), None, "a", 0, 0, 0]))
    refuse("rank", lambda: k.refusal((8, 16), rank="a"))
    refuse("other rank", lambda: k.refusal((8, 16), rank=1))
    refuse("path", lambda: dtile.load(None))
    with open(library._path, "rb") as file:
        whole = file.read()
    for what, content in (("cut off", whole[:-1]), ("a quarter", whole[:len(whole) // 4]),
                          ("text file", b"kernels\n")):
        path = os.path.join(sys.argv[2], what.replace(" ", "_") + ".so")
        with open(path, "wb") as file:
            file.write(content)
        refuse(what, lambda: dtile.load(path))
    team.close()
    refuse("closed", team.use)
    refuse("barrier", team.barrier)


main()
