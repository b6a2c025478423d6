# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products of experts and what moves their tokens, of regret.py's joined kernels: a whole layer in
one launch, experts on other ranks than attention, and experts that all ranks share."""

import torch
import torch.distributed as dist
import torch.nn.functional as F

from attention import gathered
from grouped import block_rows
from regret_case import Case, all_reduces, empty, kernel_of, refilled, where
from regret_experts import TOPK, goes_to
from regret_shapes import BATCHES, EXPERTS_OF_RANK, LAYER_EXPERTS


def sent(part, sends, comes):
    """So many rows to each rank, and as many as each rank sends."""
    out = torch.empty(sum(comes), *part.shape[1:], device="cuda", dtype=part.dtype)
    dist.all_to_all_single(out, part.contiguous(), comes, sends)
    return out


def through_experts(bench, x, expert, weight, of_rank, products):
    """What a user of torch writes: each token goes once to each rank of its experts. There its rows
    are multiplied, sorted by expert, and their weighted sum returns. `products` takes rows and
    where those of each expert end."""
    table = goes_to(expert, of_rank, bench.ranks)
    sends = table.sum(0)
    comes = torch.empty_like(sends)
    dist.all_to_all_single(comes, sends)
    token = table.T.nonzero()[:, 1]
    sends, comes = sends.tolist(), comes.tolist()
    rows, chosen, weights = (sent(part[token], sends, comes) for part in (x, expert, weight))
    own = chosen - bench.rank * of_rank
    at, choice = ((own >= 0) & (own < of_rank)).nonzero(as_tuple=True)
    order = torch.argsort(own[at, choice])
    at, choice = at[order], choice[order]
    ends = torch.bincount(own[at, choice], minlength=of_rank).cumsum(0).to(torch.int32)
    sums = torch.zeros(rows.shape, device="cuda")
    if len(at):
        sums.index_add_(0, at, products(rows[at], ends).float() * weights[at, choice, None])
    back = sent(sums.to(x.dtype), comes, sends)
    return torch.zeros(x.shape, device="cuda").index_add_(0, token, back.float()).to(x.dtype)


def through_experts_exactly(bench, x, expert, weight, of_rank, product):
    """In f64, every rank's experts for the tokens of all ranks. `product` takes an expert of this
    rank and its rows."""
    every, chosen, weights = (gathered(part).flatten(0, 1) for part in (x, expert, weight))
    total = torch.zeros(every.shape, device="cuda", dtype=torch.float64)
    for e in range(of_rank):
        token, choice = (chosen == bench.rank * of_rank + e).nonzero(as_tuple=True)
        made = product(e, every[token].double())
        total.index_add_(0, token, made * weights[token, choice, None].double())
    dist.all_reduce(total)
    return total[bench.rank * len(x):(bench.rank + 1) * len(x)]


def chosen_among(bench, tokens, experts, first=0):
    """TOPK experts for each token, and their weights."""
    scores = bench.random(tokens, experts, dtype=torch.float32)
    weight = torch.softmax(bench.random(tokens, TOPK, dtype=torch.float32), -1)
    return (scores.topk(TOPK).indices + first).to(torch.int32), weight


def moe_layer(bench, options, team, drawn):
    """M tokens of each rank of N elements; K elements between the two products of an expert."""
    tokens, h, f, w = drawn.m, drawn.n, drawn.k, bench.ranks
    of_rank = LAYER_EXPERTS // w
    x, y = bench.random(tokens, h), empty(tokens, h)
    expert, weight = chosen_among(bench, tokens, of_rank * w)
    up, down = bench.random(of_rank, 2, f, h) / h**0.5, bench.random(of_rank, h, f) / f**0.5
    # An expert gets at most each token once.
    kernel = kernel_of(bench, options, "moe_layer", "moe_layer", T="bf16", TOPK=TOPK, EPR=of_rank,
                       CAP=w * tokens, H=h)
    gate = torch.compile(lambda both: F.silu(both[:, :f]) * both[:, f:], dynamic=True)

    def products(rows, ends):
        both = torch._grouped_mm(rows, up.view(of_rank, 2 * f, h).transpose(1, 2), offs=ends)
        return torch._grouped_mm(gate(both), down.transpose(1, 2), offs=ends)

    def exact(e, rows):
        first, other = (rows @ part.double().T for part in up[e])
        return F.silu(first) * other @ down[e].double().T

    return Case(lambda: kernel(x, expert, weight, up, down, y, team=team), refilled(bench, x), [y],
                lambda: [through_experts_exactly(bench, x, expert, weight, of_rank, exact)],
                [lambda: [through_experts(bench, x, expert, weight, of_rank, products)]], 2e-2)


def attention_to_experts(bench, options, team, drawn):
    """The first half of the ranks have BATCHES micro-batches of M tokens of N elements each, the
    others have experts. The peer sends all micro-batches at once."""
    tokens, h, w = drawn.m, drawn.n, bench.ranks
    first = w // 2
    attends = bench.rank < first
    x, y = bench.random(BATCHES, tokens, h), empty(BATCHES, tokens, h)
    experts = (w - first) * EXPERTS_OF_RANK
    expert, weight = (part.view(BATCHES, tokens, TOPK) for part in chosen_among(
        bench, BATCHES * tokens, experts, first * EXPERTS_OF_RANK))
    matrix = bench.random(EXPERTS_OF_RANK, h, h) / h**0.5
    kernel = kernel_of(bench, options, "m2n", "attention_to_experts", T="bf16", TOPK=TOPK,
                       EPR=EXPERTS_OF_RANK, H=h)

    def torchs():
        here = [part.flatten(0, 1)[:BATCHES * tokens if attends else 0]
                for part in (x, expert, weight)]
        made = through_experts(
            bench, *here, EXPERTS_OF_RANK,
            lambda rows, ends: torch._grouped_mm(rows, matrix.transpose(1, 2), offs=ends))
        return [where(attends, made)]

    def reference():
        made = through_experts_exactly(
            bench, *(part.flatten(0, 1) for part in (x, expert, weight)), EXPERTS_OF_RANK,
            lambda e, rows: rows @ matrix[e].double().T)
        return [where(attends, made)]

    return Case(lambda: kernel(first, x, expert, weight, matrix, y, team=team),
                refilled(bench, x), [y], reference, [torchs], 1e-2,
                ordered=lambda: [where(attends, y.flatten(0, 1))])


def grouped_gemm_ar(bench, options, team, drawn):
    """M tokens and their choices, alike on all ranks; N columns, and K of the inputs a rank."""
    tokens, n, k = drawn.m, drawn.n, drawn.k
    of_block = block_rows(tokens * TOPK, LAYER_EXPERTS)
    chosen, weight = chosen_among(bench, tokens, LAYER_EXPERTS)
    for part in (chosen, weight):
        dist.broadcast(part, 0)
    flat = chosen.flatten().long()
    order = torch.argsort(flat, stable=True)
    counts = torch.bincount(flat, minlength=LAYER_EXPERTS)
    ends = counts.cumsum(0).to(torch.int32)
    # Each choice's row where rows are sorted by expert, without and with what fills blocks.
    row, place = torch.empty_like(flat), torch.empty_like(flat)
    row[order] = torch.arange(len(flat), device="cuda")
    blocks = (counts + of_block - 1) // of_block
    filled = (blocks.cumsum(0) - blocks) * of_block - (counts.cumsum(0) - counts)
    place[:] = row + filled[flat]
    expert = torch.arange(LAYER_EXPERTS, device="cuda").repeat_interleave(blocks).to(torch.int32)

    rows, w = empty(len(flat), k), bench.random(LAYER_EXPERTS, n, k)
    x = torch.zeros(len(expert) * of_block, k, device="cuda", dtype=rows.dtype)
    out = empty(tokens, n)
    where_to = place.view(tokens, TOPK).to(torch.int32)
    kernel = kernel_of(bench, options, "grouped_gemm_ar", "grouped_gemm_ar", T="bf16",
                       BM=of_block, TOPK=TOPK)

    def fill():
        rows.copy_(bench.random(*rows.shape))
        x[place[order]] = rows

    @torch.compile
    def summed(made, z):
        z.copy_((made[row].view(tokens, TOPK, n).float() * weight[..., None]).sum(1))

    def torchs(z, add):
        summed(torch._grouped_mm(rows, w.transpose(1, 2), offs=ends), z)
        return [add()]

    def reference():
        parts = rows.double().split(counts.tolist())
        made = torch.cat([part @ w[e].double().T for e, part in enumerate(parts)])
        total = (made[row].view(tokens, TOPK, n) * weight[..., None].double()).sum(1)
        dist.all_reduce(total)
        return [total]

    fill()
    return Case(lambda: kernel(x, expert, w, where_to, weight, out, team=team), fill, [out],
                reference, [lambda way=way: torchs(*way) for way in all_reduces(bench, tokens, n)],
                1e-2)
