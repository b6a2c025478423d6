# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arguments with default values, which callers of the Python package leave out."""

import sys

import dtile
from refusals import refuse


def main():
    k = dtile.build(sys.argv[1], arch="sm_80", folder=sys.argv[2]).rms
    team = dtile.Team.local([0])
    print(k, flush=True)
    print(k.__doc__, flush=True)
    rows = (8, 16)
    # Outputs may be left out, too, so that two numbers of arguments have two meanings.
    for args, named in (((rows,), {}), ((rows, 0.5), {}), ((rows, rows), {}), ((rows, 0.5, 2.0), {}),
                        ((rows, rows, 0.5), {}), ((rows,), {"twice": True}),
                        ((rows, rows, 0.5, 2.0, 7, True), {}), ((rows,), {"y": rows, "shift": 1})):
        print("arguments:", *k._arrange(args, None, dict(named)), flush=True)
        assert k.supports(*args, **named), k.refusal(*args, **named)
    refuse("none", lambda: k._arrange((), None, {}))
    refuse("too many", lambda: k._arrange((rows, rows, 1, 2, 3, 4, 5), None, {}))
    team.close()


main()
