# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layers of regret.py's joined kernels: tokens on the way to their experts and back, and a gated
layer."""

import torch
import torch.distributed as dist
import torch.nn.functional as F

from attention import gathered
from regret_case import Case, empty, exchanged, kernel_of, refilled

EXPERTS, TOPK = 256, 8
BLOCK = 128  # elements of a scale
FEW = 128  # tokens of a rank for which decoding has buffers


def tp_mlp(bench, options, team, drawn):
    rows, n, k = drawn.m // bench.ranks, drawn.n, drawn.k
    x, g, u = bench.random(rows, k), bench.random(n, k), bench.random(n, k)
    w, y, whole = bench.random(k, n), empty(rows, k), empty(drawn.m, k)
    kernel = kernel_of(bench, options, "tp_mlp", "tp_mlp", T="bf16")
    gate = torch.compile(lambda one, other: F.silu(one) * other)

    def torchs():
        dist.all_gather_into_tensor(whole, x)
        out = empty(rows, k)
        dist.reduce_scatter_tensor(out, gate(whole @ g.T, whole @ u.T) @ w.T)
        return [out]

    def reference():
        every = gathered(x).view(drawn.m, k).double()
        part = (F.silu(every @ g.double().T) * (every @ u.double().T)) @ w.double().T
        dist.all_reduce(part)
        return [part[bench.rank * rows:(bench.rank + 1) * rows]]

    return Case(lambda: kernel(x, g, u, w, y, team=team), refilled(bench, x), [y], reference,
                [torchs], 2e-2)


def constants(bench, drawn, most):
    return {"T": "bf16", "TOPK": TOPK, "EPR": EXPERTS // bench.ranks, "MAX": most, "H": drawn.n}


def dispatch_prefill(bench, options, team, drawn):
    kernel = kernel_of(bench, options, "moe_prefill", "dispatch_prefill",
                       **constants(bench, drawn, drawn.m))
    return dispatched(bench, team, drawn, kernel, drawn.m, weighted=True)


def dispatch_quantized(bench, options, team, drawn):
    kernel = kernel_of(bench, options, "moe_quantized", "dispatch_quantized",
                       **constants(bench, drawn, FEW))
    return dispatched(bench, team, drawn, kernel, FEW, weighted=False)


def goes_to(expert, of_rank, w):
    """Which token goes to which of `w` ranks."""
    table = torch.zeros(len(expert), w, device="cuda", dtype=torch.bool)
    return table.scatter_(1, (expert // of_rank).long(), True)


def dispatched(bench, team, drawn, kernel, most, weighted):
    """M tokens of each rank, N elements each, once to each rank of their experts, with the weights
    of these if `weighted`. The peer tells others how many rows go where."""
    tokens, h, w = drawn.m, drawn.n, bench.ranks
    of_rank = EXPERTS // w
    f8 = torch.float8_e4m3fn
    x = bench.random(tokens, h)
    weight = [torch.rand(tokens, TOPK, device="cuda")] * weighted
    expert = empty(tokens, TOPK, dtype=torch.int32)
    place = empty(tokens, w, dtype=torch.int32)
    rows = team.symm_empty((2, w, most, h), f8)
    scales = team.symm_empty((2, w, most, h // BLOCK), torch.float32)
    chosen = team.symm_empty((2, w, most, TOPK), torch.int32)
    weights = [team.symm_empty((2, w, most, TOPK), torch.float32) for _ in weight]
    count = team.symm_empty((2, w), torch.int32)
    launches = [0]

    def launch():
        kernel(x, expert, *weight, rows, scales, chosen, *weights, count, place, team=team)
        launches[0] += 1

    def fill():
        x.copy_(bench.random(tokens, h))
        scores = bench.random(tokens, of_rank * w, dtype=torch.float32)
        expert.copy_(scores.topk(TOPK).indices)
        # Not a number, in f8.
        rows.view(torch.uint8).fill_(0x7F)
        torch.cuda.synchronize()
        dist.barrier()

    @torch.compile
    def quantized(values):
        parts = values.float().view(tokens, h // BLOCK, BLOCK)
        scale = parts.abs().amax(-1).clamp_min(1e-10) / 448
        return (parts / scale[..., None]).to(f8).view(tokens, h), scale

    def torchs():
        table = goes_to(expert, of_rank, w)
        sends = table.sum(0)
        comes = torch.empty_like(sends)
        dist.all_to_all_single(comes, sends)
        token = table.T.nonzero()[:, 1]
        sends, comes = sends.tolist(), comes.tolist()
        came = []
        for part in (*quantized(x), expert, *weight):
            # NCCL has no elements of f8.
            part = part.view(torch.uint8) if part.dtype == f8 else part
            out = empty(sum(comes), part.shape[1], dtype=part.dtype)
            dist.all_to_all_single(out, part[token].contiguous(), comes, sends)
            came.append(out)
        return [came[0].view(f8), *came[1:]]

    def ordered():
        """What the last launch brought, in the order of ranks and of their tokens."""
        half, at = (launches[0] - 1) % 2, gathered(place)[:, :, bench.rank].long()
        source, token = (at >= 0).nonzero(as_tuple=True)
        came = [held[half, source, at[source, token]]
                for held in (rows.view(torch.uint8), scales, chosen, *weights)]
        return [came[0].view(f8), *came[1:]]

    def reference():
        tables = gathered(goes_to(expert, of_rank, w))[:, :, bench.rank]
        values, scale = quantized(x)
        every = [gathered(part)[tables]
                 for part in (values.view(torch.uint8), scale, expert, *weight)]
        return [every[0].view(f8).double(), *every[1:]]

    fill()
    return Case(launch, fill, [place], reference, [torchs], 1e-2, ordered=ordered)


def combine(bench, options, team, drawn):
    """A row comes back to M tokens of each rank from each of their experts, N elements each. The
    peer knows from the dispatch how many rows go where, and their order."""
    tokens, h, w = drawn.m, drawn.n, bench.ranks
    of_rank, choices = EXPERTS // w, drawn.m * TOPK
    most = w * tokens  # an expert gets at most each token once
    scores = bench.random(tokens, of_rank * w, dtype=torch.float32)
    expert, weight = scores.topk(TOPK).indices, torch.rand(tokens, TOPK, device="cuda")
    # Which choices of all ranks are of this rank's experts, sorted by expert.
    its = gathered(expert).flatten() - bench.rank * of_rank
    number = ((its >= 0) & (its < of_rank)).nonzero()[:, 0]
    number = number[torch.argsort(its[number], stable=True)]
    own = its[number]
    count = torch.bincount(own, minlength=of_rank)
    slot = torch.arange(len(own), device="cuda") - (count.cumsum(0) - count)[own]
    origin = torch.zeros(of_rank, most, device="cuda", dtype=torch.int32)
    origin[own, slot] = number.to(torch.int32)
    count = count.to(torch.int32)
    packed, rows, y = empty(len(own), h), empty(of_rank, most, h), empty(tokens, h)
    kernel = kernel_of(bench, options, "moe", "combine", T="bf16", TOPK=TOPK, EPR=of_rank,
                       CAP=most, H=h)

    def fill():
        packed.copy_(bench.random(*packed.shape))
        rows[own, slot] = packed

    by_rank = torch.argsort(number // choices, stable=True)
    sends = torch.bincount(number // choices, minlength=w).tolist()
    comes = torch.bincount(expert.flatten() // of_rank, minlength=w).tolist()
    at = torch.argsort(torch.argsort(expert.flatten(), stable=True)).view(tokens, TOPK)
    summed = torch.compile(lambda back: (back[at].float() * weight[..., None]).sum(1).bfloat16())

    def torchs():
        back = empty(choices, h)
        dist.all_to_all_single(back, packed[by_rank], comes, sends)
        return [summed(back)]

    def reference():
        every = torch.zeros(w * choices, h, device="cuda", dtype=torch.float64)
        every[number] = packed.double()
        dist.all_reduce(every)
        mine = every.view(w, tokens, TOPK, h)[bench.rank]
        return [(mine * weight[..., None].double()).sum(1)]

    fill()
    return Case(lambda: kernel(rows, origin, count, weight, y, team=team), fill, [y], reference,
                [torchs], 1e-2)


def combine_once(bench, options, team, drawn):
    """The same, where a row comes back from each rank that a token went to."""
    tokens, h, w = drawn.m, drawn.n, bench.ranks
    of_rank = EXPERTS // w
    scores = bench.random(tokens, of_rank * w, dtype=torch.float32)
    goes = goes_to(scores.topk(TOPK).indices, of_rank, w)
    place = torch.where(goes, goes.cumsum(0) - 1, -1)
    comes = goes.sum(0)
    sends = gathered(comes)[:, bench.rank]
    rows, y = empty(w, FEW, h), empty(tokens, h)
    packed = empty(int(sends.sum()), h)
    there = torch.arange(FEW, device="cuda") < sends[:, None]
    count, places = sends.to(torch.int32), place.to(torch.int32)
    kernel = kernel_of(bench, options, "moe_once", "combine_once", T="bf16", MAX=FEW, H=h)

    def fill():
        rows.copy_(bench.random(*rows.shape))
        packed.copy_(rows[there])

    at = torch.where(goes, place + comes.cumsum(0) - comes, 0)
    sends, comes = sends.tolist(), comes.tolist()

    @torch.compile
    def summed(back):
        return torch.where(goes[..., None], back[at].float(), 0.0).sum(1).bfloat16()

    def torchs():
        back = empty(sum(comes), h)
        dist.all_to_all_single(back, packed, comes, sends)
        return [summed(back)]

    def reference():
        back, want = exchanged(rows), torch.zeros(tokens, h, device="cuda", dtype=torch.float64)
        for p in range(w):
            want[goes[:, p]] += back[p, place[goes[:, p], p]].double()
        return [want]

    fill()
    return Case(lambda: kernel(rows, count, places, y, team=team), fill, [y], reference, [torchs],
                1e-2)
