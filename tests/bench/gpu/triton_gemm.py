# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The peer for one GPU beside cuBLAS: a persistent matrix product in Triton, operands and result
through tensor descriptors (TMA), tiles in bands of rows that share what the L2 holds, and the best
of a few tile shapes."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def _product(a, b, c, rows, cols, inner, PROGRAMS: tl.constexpr, BM: tl.constexpr,
             BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    across = tl.cdiv(cols, BN)
    down = tl.cdiv(rows, BM)
    for tile in tl.range(tl.program_id(0), down * across, PROGRAMS, flatten=True):
        band = tile // (GROUP * across)
        height = min(GROUP, down - band * GROUP)
        inside = tile % (GROUP * across)
        m = (band * GROUP + inside % height) * BM
        n = (inside // height) * BN
        total = tl.zeros((BM, BN), dtype=tl.float32)
        for step in range(tl.cdiv(inner, BK)):
            left = a.load([m, step * BK])
            right = b.load([n, step * BK])
            total = tl.dot(left, right.T, total)
        c.store([m, n], total.to(tl.bfloat16))


# BM, BN, BK, stages, warps
_CHOICES = ((128, 256, 64, 3, 8), (128, 256, 64, 4, 8), (128, 128, 64, 4, 4), (256, 128, 64, 3, 8),
            (128, 128, 128, 3, 8))


def launches(a, b, c):
    """One function a tile shape, each of which computes c = a · bᵀ."""
    (rows, inner), cols = a.shape, b.shape[0]
    programs = torch.cuda.get_device_properties(a.device).multi_processor_count

    def make(bm, bn, bk, stages, warps):
        operands = (TensorDescriptor.from_tensor(a, [bm, bk]),
                    TensorDescriptor.from_tensor(b, [bn, bk]),
                    TensorDescriptor.from_tensor(c, [bm, bn]))

        def launch():
            _product[(programs,)](*operands, rows, cols, inner, PROGRAMS=programs, BM=bm, BN=bn,
                                  BK=bk, GROUP=8, num_stages=stages, num_warps=warps)

        return launch

    return [make(*choice) for choice in _CHOICES]
