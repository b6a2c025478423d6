# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ranks in a row and in a mesh, of regret.py's joined kernels: stages of a pipeline, bands of a
grid, blocks of matrices."""

import functools
import math

import torch
import torch.distributed as dist
import torch.nn.functional as F

from attention import gathered
from regret_case import Case, empty, kernel_of, refilled, where

RATE = 0.1  # of a step of the heat equation


# ---- In a row ----


def pipeline(bench, options, team, drawn):
    """M micro-batches of N elements; each rank is a stage. The peer does not wait for its sends
    until all are made."""
    rank, last = bench.rank, bench.ranks - 1
    x, y, out = bench.random(drawn.m, drawn.n), empty(drawn.m, drawn.n), empty(drawn.m, drawn.n)
    scale, bias = (bench.random(drawn.n, dtype=torch.float32) for _ in range(2))
    kernel = kernel_of(bench, options, "pipeline", "pipeline", T="bf16")
    stage = torch.compile(lambda h: torch.relu(h.float() * scale + bias).bfloat16())

    def torchs():
        sends = []
        for batch, box in zip(x, out):
            if rank > 0:
                dist.recv(box, rank - 1)
                batch = box
            made = stage(batch)
            if rank < last:
                sends.append((dist.isend(made, rank + 1), made))
            else:
                box.copy_(made)
        for work, _ in sends:
            work.wait()
        return [where(rank == last, out)]

    def reference():
        h = x.double()
        dist.broadcast(h, 0)
        for its_scale, its_bias in zip(gathered(scale), gathered(bias)):
            h = torch.relu(h * its_scale.double() + its_bias.double()).bfloat16().double()
        return [where(rank == last, h)]

    return Case(lambda: kernel(x, scale, bias, y, team=team), refilled(bench, x), [y], reference,
                [torchs], 1e-2, ordered=lambda: [where(rank == last, y)])


def heated(whole):
    """A step for all rows but the first and the last."""
    inner = whole[1:-1]
    wide = F.pad(inner, (1, 1))
    near = whole[:-2] + whole[2:] + wide[:, :-2] + wide[:, 2:]
    return inner + RATE * (near - 4 * inner)


def heat_step(bench, options, team, drawn):
    """M rows of N elements a rank."""
    m, n, rank, last = drawn.m, drawn.n, bench.rank, bench.ranks - 1
    x = bench.random(m, n, dtype=torch.float32)
    y, edges = torch.empty_like(x), torch.zeros(2, n, device="cuda")
    kernel = kernel_of(bench, options, "halo", "heat_step", T="f32")
    step = torch.compile(lambda own, ends: heated(torch.cat([ends[:1], own, ends[1:]])))

    def torchs():
        ops = []
        for peer, own, edge in ((rank - 1, x[0], edges[0]), (rank + 1, x[-1], edges[1])):
            if 0 <= peer <= last:
                ops += [dist.P2POp(dist.isend, own, peer), dist.P2POp(dist.irecv, edge, peer)]
        for work in dist.batch_isend_irecv(ops) if ops else ():
            work.wait()
        return [step(x, edges)]

    def reference():
        whole = F.pad(gathered(x).view(-1, n), (0, 0, 1, 1))
        return [heated(whole[rank * m:(rank + 1) * m + 2].double())]

    return Case(lambda: kernel(x, RATE, y, team=team), refilled(bench, x), [y], reference,
                [torchs], 1e-5)


# ---- In a mesh ----


def columns_of(ranks):
    """Columns of a mesh that is not higher than wide, and as square as its number of ranks lets."""
    return next(c for c in range(math.isqrt(ranks - 1) + 1, ranks + 1) if ranks % c == 0)


@functools.lru_cache
def groups(ranks, columns):
    """NCCL's groups of this rank: those in its row of the mesh, and those in its column."""
    rank, mine = dist.get_rank(), []
    rows = [list(range(first, first + columns)) for first in range(0, ranks, columns)]
    for lines in (rows, list(zip(*rows))):
        made = [dist.new_group(list(line)) for line in lines]
        mine.append(next(group for group, line in zip(made, lines) if rank in line))
    return mine


def summa(bench, options, team, drawn):
    columns = columns_of(bench.ranks)
    kernel = kernel_of(bench, options, "mesh_gemm", "summa", T="bf16", Q=columns)
    return blocks_multiplied(bench, team, drawn, kernel, columns)


def cannon(bench, options, team, drawn):
    columns = math.isqrt(bench.ranks)
    kernel = kernel_of(bench, options, "mesh_gemm", "cannon", T="bf16", P=columns)
    return blocks_multiplied(bench, team, drawn, kernel, columns)


def blocks_multiplied(bench, team, drawn, kernel, columns):
    """M rows and N columns of a rank's block of the result, K of the whole sum."""
    m, n, k, lines = drawn.m, drawn.n, drawn.k, bench.ranks // columns
    a, b, c = bench.random(m, k // columns), bench.random(k // lines, n), empty(m, n)
    row, column = groups(bench.ranks, columns)

    def along(tensor, group, count):
        """The blocks of a group's ranks."""
        whole = empty(count, *tensor.shape)
        dist.all_gather_into_tensor(whole, tensor, group=group)
        return whole

    def operands():
        left = along(a, row, columns).transpose(0, 1).reshape(m, k)
        return left, along(b, column, lines).view(k, n)

    def reference():
        left, right = operands()
        return [left.double() @ right.double()]

    return Case(lambda: kernel(a, b, c, team=team), refilled(bench, a, b), [c], reference,
                [lambda: [torch.matmul(*operands())]], 1e-2)
