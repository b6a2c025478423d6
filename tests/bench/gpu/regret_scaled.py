# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""f8 products of regret.py's joined kernels: a scale for each row of A and for each column of the
result, or one for each block of both operands."""

import torch
import torch.distributed as dist
import torch.nn.functional as F

from attention import gathered
from regret_case import Case, empty, kernel_of, refilled

F8 = torch.float8_e4m3fn
BLOCK = 128  # elements of a row of A, and rows and columns of B, that share a scale


class Operands:
    """A of some rows, B, their scales and a bias."""

    def __init__(self, bench, rows, n, k):
        self.a, self.b = empty(rows, k, dtype=F8), bench.random(n, k).to(F8)
        self.sa, self.sb = (torch.rand(1, side, device="cuda") + 0.1 for side in (rows, n))
        self.bias = bench.random(n)
        self.fill = refilled(bench, self.a)
        self.fill()

    def rest(self):
        """What a kernel takes behind A and its scales."""
        return self.b, self.sb[0], self.bias

    def multiplied(self, a, sa):
        return torch._scaled_mm(a, self.b.T, sa.view(-1, 1), self.sb, bias=self.bias,
                                out_dtype=torch.bfloat16, use_fast_accum=True)

    def exact(self, a, sa):
        scales = sa.double().view(-1, 1) * self.sb.double()
        return a.double() @ self.b.double().T * scales + self.bias.double()


def ag_row_scaled(bench, options, team, drawn):
    its = Operands(bench, drawn.m // bench.ranks, drawn.n, drawn.k)
    whole, c = empty(drawn.m, drawn.k, dtype=F8), empty(drawn.m, drawn.n)
    kernel = kernel_of(bench, options, "row_scaled_overlaps", "ag_row_scaled", T="bf16")

    def every():
        """The bytes of all ranks' rows, which NCCL has no elements for, and their scales."""
        return gathered(its.a.view(torch.uint8)).view(drawn.m, drawn.k), gathered(its.sa)

    def torchs():
        a, sa = every()
        return [a, its.multiplied(a.view(F8), sa)]

    def reference():
        a, sa = every()
        return [a, its.exact(a.view(F8), sa)]

    return Case(lambda: kernel(its.a, its.sa, *its.rest(), whole, c, team=team), its.fill,
                [whole.view(torch.uint8), c], reference, [torchs], 1e-2)


def scattered_products(bench, its, rows, n):
    """Torch's way to multiply operands and leave each rank `rows` rows of the sum, and the exact
    rows."""
    def torchs():
        out = empty(rows, n)
        dist.reduce_scatter_tensor(out, its.multiplied(its.a, its.sa))
        return [out]

    def reference():
        part = its.exact(its.a, its.sa)
        dist.all_reduce(part)
        return [part[bench.rank * rows:(bench.rank + 1) * rows]]

    return torchs, reference


def row_scaled_rs(bench, options, team, drawn):
    rows = drawn.m // bench.ranks
    its, y = Operands(bench, drawn.m, drawn.n, drawn.k), empty(rows, drawn.n)
    kernel = kernel_of(bench, options, "row_scaled_overlaps", "row_scaled_rs", T="bf16")

    torchs, reference = scattered_products(bench, its, rows, drawn.n)
    return Case(lambda: kernel(its.a, its.sa, *its.rest(), y, team=team), its.fill, [y], reference,
                [torchs], 1e-2)


class Blocks:
    """A of some rows, B, and a scale for each row and BLOCK columns of A and each block of B."""

    def __init__(self, bench, rows, n, k):
        self.a, self.b = empty(rows, k, dtype=F8), bench.random(n, k).to(F8)
        parts = k // BLOCK
        self.sa, self.sb = (torch.rand(*shape, device="cuda") + 0.1
                            for shape in ((parts, rows), (n // BLOCK, parts)))
        self.fill = refilled(bench, self.a)
        self.fill()

    def multiplied(self, a, sa):
        return F.scaled_mm(a, self.b.T, sa.T, F.ScalingType.BlockWise1x128, self.sb.T,
                           F.ScalingType.BlockWise128x128, output_dtype=torch.bfloat16)

    def exact(self, a, sa):
        rows = a.double() * sa.double().T.repeat_interleave(BLOCK, 1)
        blocks = self.sb.double().repeat_interleave(BLOCK, 0).repeat_interleave(BLOCK, 1)
        return rows @ (self.b.double() * blocks).T


def scaled_ag_gemm(bench, options, team, drawn):
    its, c = Blocks(bench, drawn.m // bench.ranks, drawn.n, drawn.k), empty(drawn.m, drawn.n)
    kernel = kernel_of(bench, options, "scaled_gemm_overlaps", "scaled_ag_gemm")

    def every():
        """All ranks' rows and their scales."""
        rows = gathered(its.a.view(torch.uint8)).flatten(0, 1).view(F8)
        return rows, gathered(its.sa).transpose(0, 1).reshape(len(its.sa), drawn.m)

    return Case(lambda: kernel(its.a, its.sa, its.b, its.sb, c, team=team), its.fill, [c],
                lambda: [its.exact(*every())], [lambda: [its.multiplied(*every())]], 1e-2)


def scaled_gemm_rs(bench, options, team, drawn):
    rows = drawn.m // bench.ranks
    its, y = Blocks(bench, drawn.m, drawn.n, drawn.k), empty(rows, drawn.n)
    kernel = kernel_of(bench, options, "scaled_gemm_overlaps", "scaled_gemm_rs")

    torchs, reference = scattered_products(bench, its, rows, drawn.n)
    return Case(lambda: kernel(its.a, its.sa, its.b, its.sb, y, team=team), its.fill, [y],
                reference, [torchs], 1e-2)
