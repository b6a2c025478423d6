# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels along rows of regret.py's joined ones, which no rank shares: norms, softmax and a gated
activation, beside what torch.compile makes of the same."""

import torch
import torch.nn.functional as F

from regret_case import Case, empty, kernel_of, refilled

EPS = 1e-5


def row_kernel(name, function, others, *scalars):
    """The builder of a case. `function` of x in any type, and of what `others` (names of shapes:
    "row" or "matrix") say is passed behind it."""
    def build(bench, options, team, drawn):
        m, n = drawn.m, drawn.n
        x, y = bench.random(m, n), empty(m, n)
        rest = [bench.random(*((n,) if shape == "row" else (m, n))) for shape in others]
        kernel = kernel_of(bench, options, "rows", name, T="bf16")
        # Each shape has code of its own, as torch compiles it where sizes do not change.
        torch._dynamo.reset()
        compiled = torch.compile(function, dynamic=False)
        return Case(lambda: kernel(x, *rest, *scalars, y, team=team), refilled(bench, x), [y],
                    lambda: [function(x.double(), *(each.double() for each in rest))],
                    [lambda: [compiled(x, *rest)]], 1e-2)
    return build


rms_norm = row_kernel("rms_norm", lambda x, w: F.rms_norm(x, w.shape, w, EPS), ["row"], EPS)
layer_norm = row_kernel("layer_norm", lambda x, w, b: F.layer_norm(x, w.shape, w, b, EPS),
                        ["row", "row"], EPS)
softmax = row_kernel("softmax", lambda x: F.softmax(x, -1), [])
gated = row_kernel("gated", lambda x, g: F.silu(x) * g, ["matrix"])
