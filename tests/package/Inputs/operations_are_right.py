# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What dtile.ops computes, on ranks that are threads: kernels are what their `ensures` says, written
here in plain Python."""

import itertools
import random
import sys
import threading

import torch

from dtile import _groups, _programs, kernels, ops, vllm
from dtile._abi import DTYPES
from thread_ranks import run_on


def matrix(tensor):
    """Rows of numbers, at once: memory may be written later."""
    return [[tensor[i, j] for j in range(tensor.shape[1])] for i in range(tensor.shape[0])]


def times_transposed(a, b):
    return [[sum(x * y for x, y in zip(row, other)) for other in b] for row in a]


def fill(tensor, rows):
    assert tensor.is_contiguous() and tensor.numel() == sum(map(len, rows))
    flat = tensor.view(-1)
    for i, value in enumerate(itertools.chain.from_iterable(rows)):
        flat[(i,)] = value


def summed(vectors):
    return [sum(values) for values in zip(*vectors)]


class Kernel:
    def __init__(self, name):
        self.name = name

    def queue_of_vectors(self, *tensors, team):
        vectors = [tensor.view(-1) for tensor in tensors]

        def queue(*begins):
            self(*[torch.Tensor(begin, vector.shape, vector.strides, vector.dtype)
                   for begin, vector in zip(begins, vectors)], team=team)

        return queue

    def refusal(self, *tensors, team):
        return "it has 13 elements" if tensors[0].numel() == 13 else ""

    def __call__(self, *tensors, team):
        if "scaled" in self.name:
            return self.scaled(*tensors, team=team)
        *given, out = tensors
        read = [t.list() if t.dim() == 1 else matrix(t) for t in given]
        if self.name == "all_gather_matmul":
            rows = sum(team.meeting.gather(team.rank, read[0]), [])
            return fill(out, times_transposed(rows, read[1]))
        if self.name in ("matmul_reduce_scatter", "matmul_all_reduce"):
            product = times_transposed(*read)
            all_of_them = team.meeting.gather(team.rank, product)
            total = [summed(rows) for rows in zip(*all_of_them)]
            share = len(total) // team.size
            scattered = total[team.rank * share:(team.rank + 1) * share]
            return fill(out, total if self.name == "matmul_all_reduce" else scattered)
        all_of_them = team.meeting.gather(team.rank, read[0])
        if self.name == "all_gather":
            assert out.dim() == 2
            return fill(out, all_of_them)
        if self.name == "reduce_scatter":
            return fill(out, [summed(parts[team.rank] for parts in all_of_them)])
        assert self.name in ("one_shot", "two_shot", "all_reduce")
        return fill(out, [summed(all_of_them)])

    def scaled(self, a, a_scale, b, b_scale, bias, *outs, team):
        by_rows = self.name.removeprefix("all_gather_").startswith("row_scaled")
        assert a_scale.shape == ((1, a.shape[0]) if by_rows else (1,)), a_scale.shape
        assert b_scale.shape == ((b.shape[0],) if by_rows else (1,)), b_scale.shape
        assert a_scale.is_contiguous() and b_scale.is_contiguous() and bias.is_contiguous()
        rows, scales = matrix(a), a_scale.list()
        if self.name.startswith("all_gather"):
            rows = sum(team.meeting.gather(team.rank, rows), [])
            if by_rows:
                scales = sum(team.meeting.gather(team.rank, scales), [])
            fill(outs[0], rows)
        product = times_transposed(rows, matrix(b))
        added = bias.list() or [0] * b.shape[0]
        of_row = scales if by_rows else scales * len(rows)
        of_column = b_scale.list() if by_rows else b_scale.list() * b.shape[0]
        product = [[value * s * t + plus for value, t, plus in zip(row, of_column, added)]
                   for row, s in zip(product, of_row)]
        if self.name.endswith("reduce_scatter"):
            total = [summed(parts) for parts in zip(*team.meeting.gather(team.rank, product))]
            share = len(total) // team.size
            product = total[team.rank * share:(team.rank + 1) * share]
        fill(outs[-1], product)


def made(shape, seed, by_columns=False):
    """Small whole numbers, so that sums are exact in any order."""
    source = random.Random(seed)
    tensor = torch.empty(*(shape[::-1] if by_columns else shape))
    for index in itertools.product(*map(range, tensor.shape)):
        tensor[index] = source.randint(-4, 4)
    return tensor.t() if by_columns else tensor


def at(tensor, dim, first):
    """The part of a tensor from `first` on, as an index changes in one dimension."""
    return lambda index: tensor[tuple(i + first if d == dim else i for d, i in enumerate(index))]


def product(tensor, b):
    """Element of a matrix product over the last dimension."""
    return lambda index: sum(tensor[(*index[:-1], k)] * b[k, index[-1]]
                             for k in range(tensor.shape[-1]))


def same(tensor, shape, element, what):
    assert tensor.shape == tuple(shape), f"{what}: {tensor.shape}, not {shape}"
    for index in itertools.product(*map(range, shape)):
        assert tensor[index] == element(index), f"{what}: {index} is {tensor[index]}, not " \
                                                f"{element(index)}"


def gathered(tensors, dim):
    """Element of all ranks' tensors side by side."""
    size = tensors[0].shape[dim]
    return lambda index: at(tensors[index[dim] // size], dim, -(index[dim] // size) * size)(index)


def with_size(shape, dim, size):
    return [size if d == dim else old for d, old in enumerate(shape)]


def f8(shape, seed, by_columns=False):
    tensor = made(shape, seed, by_columns)
    tensor.dtype = torch.float8_e4m3fn
    return tensor


def single(number):
    tensor = torch.empty(1)
    tensor[(0,)] = number
    return tensor.view(1, 1)


def scaled_product(a, a_scale, b, b_scale, bias):
    """Element of a product with scales."""
    def element(index):
        of_row = a_scale.list()[0] if a_scale.numel() == 1 else a_scale[(*index[:-1], 0)]
        of_column = b_scale.list()[0] if b_scale.numel() == 1 else b_scale[0, index[-1]]
        plus = 0 if bias is None else bias[(index[-1],)]
        return product(a, b)(index) * of_row * of_column + plus
    return element


def check_scaled(rank, ranks):
    everyone = range(ranks)
    shapes = (((3, 4), 0), ((1, 4), 0), ((2, 3, 4), 0), ((2, 3, 4), 1))
    for (shape, dim), by_row, by_column in itertools.product(shapes, (False, True, "all"),
                                                             (False, True)):
        shards = [f8(shape, 10 + r) for r in everyone]
        full = with_size(shape, dim, ranks * shape[dim])
        scales = [made((*shape[:-1], 1), 20 + r) if by_row else
                  single(3 + (r if shape[0] == 1 else 0)) for r in everyone]
        mine = scales[rank]
        if by_row == "all":
            mine = made((*full[:-1], 1), 0)
            for index in mine._indices():
                mine[index] = gathered(scales, dim)(index)
        Bs = [f8((4, n), 30 + n, by_columns=n == 5) for n in (5, 2)]
        B_scales = [made((1, B.shape[1]), 40) if by_column else single(2) for B in Bs]
        biases = [None, made((2,), 50)]
        what = f"fused_all_gather_scaled_matmul {shape} {dim} {by_row} {by_column}"
        whole, outs = torch.ops.dtile.fused_all_gather_scaled_matmul(
            shards[rank], Bs, mine, B_scales, dim, "all", biases, [None, None],
            [torch.float32, torch.float32], [False, True])
        same(whole, full, gathered(shards, dim), what)
        for B, B_scale, bias, out in zip(Bs, B_scales, biases, outs):
            products = [made((*shape[:-1], B.shape[1]), 0) for _ in everyone]
            for r in everyone:
                for index in products[r]._indices():
                    products[r][index] = scaled_product(shards[r], scales[r], B, B_scale,
                                                        bias)(index)
            same(out, with_size(full, len(shape) - 1, B.shape[1]), gathered(products, dim), what)
    for shape, dim, flat, op, by_row in itertools.product(
            ((2 * ranks, 4), (2, ranks, 4), (2, 3, 4)), (0, 1, 2), (False, True), ("sum", "avg"),
            (False, True)):
        result = (*shape[:-1], 2 * ranks)
        if dim >= len(shape) or result[dim] % ranks != 0:
            continue
        tensors = [f8(shape, 60 + r) for r in everyone]
        scales = [made((*shape[:-1], 1), 70 + r) if by_row else single(r) for r in everyone]
        Bs = [f8((4, 2 * ranks), 80 + r, by_columns=True) for r in everyone]
        B_scales = [made((1, 2 * ranks), 90 + r) if by_row else single(2) for r in everyone]
        biases = [None if dim == len(shape) - 1 else made((2 * ranks,), 95 + r) for r in everyone]
        parts = [scaled_product(*operands)
                 for operands in zip(tensors, scales, Bs, B_scales, biases)]
        A, A_scale = tensors[rank], scales[rank]
        if flat:
            # As PyTorch's compiler calls it.
            A = A.flatten(0, -2)
            A_scale = A_scale.flatten(0, -2) if by_row else A_scale
        size = result[dim] // ranks
        out = torch.ops.dtile.fused_scaled_matmul_reduce_scatter(
            A, Bs[rank], A_scale, B_scales[rank], op, dim, 0 if flat else dim, "all",
            list(result) if flat else None, biases[rank], None, torch.float32, True)
        same(out, with_size(result, dim, size), lambda index: sum(
            part(tuple(i + rank * size if d == dim else i for d, i in enumerate(index)))
            for part in parts) / (1 if op == "sum" else ranks),
            f"fused_scaled_matmul_reduce_scatter {shape} {dim} {flat} {op} {by_row}")


def check(rank, ranks):
    everyone = range(ranks)
    for shape, dim in (((3, 4), 0), ((2, 3, 4), 0), ((2, 3, 4), 1)):
        shards = [made(shape, 10 + r) for r in everyone]
        full = with_size(shape, dim, ranks * shape[dim])
        for by_columns, widths, return_A in itertools.product((False, True), ((5,), (5, 2)),
                                                              (True, False)):
            Bs = [made((4, n), 20 + i, by_columns) for i, n in enumerate(widths)]
            what = f"fused_all_gather_matmul {shape} {dim} {by_columns} {widths} {return_A}"
            whole, outs = torch.ops.dtile.fused_all_gather_matmul(shards[rank], Bs, dim, "all",
                                                                  return_A=return_A)
            assert (whole is not None) == return_A, what
            if return_A:
                same(whole, full, gathered(shards, dim), what)
            for B, out in zip(Bs, outs):
                products = [made((*shape[:-1], B.shape[1]), 0) for _ in everyone]
                for r in everyone:
                    for index in products[r]._indices():
                        products[r][index] = product(shards[r], B)(index)
                same(out, with_size(full, len(shape) - 1, B.shape[1]), gathered(products, dim),
                     what)
    for shape, dim, op in itertools.product(((2 * ranks, 4), (2, ranks, 4), (2, 3, ranks)),
                                            (0, 1, 2), ("sum", "avg")):
        tensors = [made(shape, 30 + r) for r in everyone]
        share = 1 if op == "sum" else ranks

        def total(index):
            return sum(t[index] for t in tensors) / share
        if dim < len(shape) and shape[dim] % ranks == 0:
            size = shape[dim] // ranks
            mine = ops.reduce_scatter(tensors[rank], op, dim, group_name="all")
            same(mine, with_size(shape, dim, size), lambda index: total(
                tuple(i + rank * size if d == dim else i for d, i in enumerate(index))),
                f"reduce_scatter {shape} {dim} {op}")
        if dim < len(shape):
            same(ops.all_gather(tensors[rank], dim, "all"),
                 with_size(shape, dim, ranks * shape[dim]), gathered(tensors, dim), "all_gather")
        B = made((shape[-1], 2 * ranks), 40 + rank)
        Bs = [made((shape[-1], 2 * ranks), 40 + r) for r in everyone]

        def product_total(index):
            return sum(product(t, b)(index) for t, b in zip(tensors, Bs)) / share
        result = (*shape[:-1], 2 * ranks)
        if dim < len(shape) and result[dim] % ranks == 0:
            size = result[dim] // ranks
            out = torch.ops.dtile.fused_matmul_reduce_scatter(tensors[rank], B, op, dim, "all")
            same(out, with_size(result, dim, size), lambda index: product_total(
                tuple(i + rank * size if d == dim else i for d, i in enumerate(index))),
                f"fused_matmul_reduce_scatter {shape} {dim} {op}")
        same(ops.fused_matmul_all_reduce(tensors[rank], B, op, "all"), result, product_total,
             "fused_matmul_all_reduce")
        own = tensors[rank]
        for name in ("one_shot_all_reduce", "two_shot_all_reduce", "all_reduce"):
            same(getattr(torch.ops.dtile, name)(own, op, "all"), shape, total, name)
        out = made(shape, 50)
        assert ops.one_shot_all_reduce_out(own, op, "all", out) is out
        same(out, shape, total, "one_shot_all_reduce_out")
        inputs = made(shape, 30 + rank)
        assert ops.two_shot_all_reduce_(inputs, op, "all") is inputs
        same(inputs, shape, total, "two_shot_all_reduce_")

    reducer = vllm.DtileAllReduce("all", max_size=4096)
    reducer.finalize_p2p()
    assert reducer.disabled == (ranks == 1)
    tensors = [made((3, 5), 60 + r) for r in everyone]
    with reducer.capture():
        summed_up = reducer.custom_all_reduce(tensors[rank])
    if ranks == 1:
        assert summed_up is None
        return
    same(summed_up, (3, 5), lambda index: sum(t[index] for t in tensors), "DtileAllReduce")
    # What is too large, empty, of another type, or refused by the kernel is left to others.
    for left in (torch.empty(1024), torch.empty(0), torch.empty(4, dtype=torch.int32),
                 torch.empty(13)):
        assert reducer.custom_all_reduce(left) is None, left
    reducer.close()
    assert not reducer.should_custom_ar(tensors[rank])


def main():
    kernels._dtype_numbers = {torch.float32: 13, torch.float8_e4m3fn: DTYPES.index("f8e4m3")}
    _programs.kernel = lambda name, dtype, team, local=0: Kernel(name)
    here = threading.local()
    _groups.team_of = lambda name: here.team
    # Ranks are threads here: each has its own.
    ops._Run.of = lambda name: ops._Run(here.team)

    def work(team):
        here.team = team
        check(team.rank, team.size)
        check_scaled(team.rank, team.size)

    failures = [failure for ranks in (1, 2, 4) for failure in run_on(ranks, work)]
    print("\n".join(failures) or "all operations are right on 1, 2 and 4 ranks")
    return 1 if failures else 0


sys.exit(main())
