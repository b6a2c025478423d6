# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layers of experts that all ranks share, each with a part of every expert: ag_grouped_gemm beside
NCCL's all-gather, torch's gather and its grouped product; grouped_gemm_rs beside that product,
torch's weighted sum of each token's rows, and NCCL's reduce-scatter."""

import torch
import torch.distributed as dist

from goals import shapes_of
from grouped import block_rows, products_of_picked
from harness import kernel_of, measured, ratio, team_for

# Relative, also of the peers'.
TOLERANCE = 1e-2


class Routing:
    """The tokens of all ranks, those of this one first and of the next one next; each goes to
    experts that were chosen at random, alike on all ranks."""

    def __init__(self, bench, tokens, experts, topk):
        self.tokens, self.experts, self.topk = tokens, experts, topk
        own = tokens // bench.ranks
        chosen = bench.random(tokens, experts, dtype=torch.float32).topk(topk).indices
        self.weight = torch.softmax(bench.random(tokens, topk, dtype=torch.float32), -1)
        for part in (chosen, self.weight):
            dist.broadcast(part, 0)
        self.own = slice(bench.rank * own, (bench.rank + 1) * own)
        # What peers sort by: ranks in their order.
        self.order = torch.argsort(chosen.flatten(), stable=True)
        self.counts = torch.bincount(chosen.flatten(), minlength=experts)
        self.ends = self.counts.cumsum(0).to(torch.int32)
        self.row_of = torch.empty_like(self.order)
        self.row_of[self.order] = torch.arange(self.order.numel(), device="cuda")
        # And as this rank has them.
        self.of_rank = own
        self.turned = chosen.roll(-bench.rank * own, 0)
        self.turned_weight = self.weight.roll(-bench.rank * own, 0).contiguous()

    def blocks(self, rows):
        """Picked rows in blocks of `rows` of one expert, as their tokens come; the experts of the
        blocks, from which rank behind this one to before which, and each choice's row."""
        chosen = self.turned.flatten()
        order = torch.argsort(chosen, stable=True)
        blocks = (self.counts + rows - 1) // rows
        expert = torch.arange(self.experts, device="cuda").repeat_interleave(blocks)
        first = (blocks.cumsum(0) - blocks)[chosen[order]]
        before = (self.counts.cumsum(0) - self.counts)[chosen[order]]
        place = first * rows + torch.arange(order.numel(), device="cuda") - before
        pick = torch.full((expert.numel() * rows,), self.tokens * self.topk, device="cuda")
        pick[place] = order
        picked = pick[pick < self.tokens * self.topk].sort().values
        assert torch.equal(picked, torch.arange(self.tokens * self.topk, device="cuda"))
        hop = pick.view(-1, rows) // self.topk // self.of_rank
        exists = pick.view(-1, rows) < self.tokens * self.topk
        low = torch.where(exists, hop, hop.max()).amin(1)
        high = torch.where(exists, hop, -1).amax(1) + 1
        come = torch.argsort(high, stable=True)
        pick = pick.view(-1, rows)[come].flatten()
        place = torch.empty(self.tokens * self.topk + 1, device="cuda", dtype=torch.int64)
        place[pick] = torch.arange(pick.numel(), device="cuda")
        hops = torch.stack((low[come], high[come]), 1)
        return (pick.to(torch.int32), expert[come].to(torch.int32),
                hops.to(torch.int32).contiguous(),
                place[:-1].view(self.tokens, self.topk).to(torch.int32).contiguous())


def grouped(bench, multiply, want):
    """Milliseconds of a peer; None where it is wrong or cannot run."""
    spent = bench.attempt(multiply)
    if spent is not None and (wrong := bench.error(multiply(), want)) > TOLERANCE:
        bench.say(f"peer: torch's grouped product is wrong: relative error {wrong:.2e}")
        return None
    return spent


def products(rows, counts, w):
    """Of rows that are sorted by expert."""
    parts = rows.split(counts.tolist())
    return torch.cat([(part.double() @ w[e].double().T).float() for e, part in enumerate(parts)])


def ag_grouped_gemm(bench, options):
    for tokens, hidden, ffn, experts, topk in shapes_of("expert_layers"):
        routing = Routing(bench, tokens, experts, topk)
        n = 2 * ffn // bench.ranks
        shard = bench.random(routing.of_rank, hidden)
        w = bench.random(experts, n, hidden)
        whole = torch.empty(tokens, hidden, device="cuda", dtype=torch.bfloat16)

        def fill():
            shard.copy_(bench.random(*shard.shape))

        def gathered():
            dist.all_gather_into_tensor(whole, shard)
            return whole

        with team_for(bench, options) as team:
            rows = options.pin.get("BM") or block_rows(tokens * topk, experts)
            pick, expert, hops, _ = routing.blocks(int(rows))
            y = torch.empty(pick.numel(), n, device="cuda", dtype=torch.bfloat16)
            kernel = kernel_of(bench, options, "ag_grouped_gemm", "ag_grouped_gemm", BM=rows,
                               TOPK=topk)

            def reference():
                turned = gathered().roll(-bench.rank * routing.of_rank, 0)
                return products_of_picked(turned, pick // topk, expert, w)

            spent, error = measured(
                bench, "ag_grouped_gemm",
                lambda: kernel(shard, pick, expert, hops, w, y, team=team),
                lambda name, launch: bench.check(name, launch, fill, y, reference, TOLERANCE,
                                                 times=2))
        weights = w.transpose(1, 2)
        token = routing.order // topk
        want = products(gathered()[token], routing.counts, w)
        both = grouped(bench, lambda: torch._grouped_mm(
            gathered()[token], weights, offs=routing.ends), want)
        sorted_rows = gathered()[token]
        alone = grouped(bench, lambda: torch._grouped_mm(
            sorted_rows, weights, offs=routing.ends), want)
        bench.row(op="ag_grouped_gemm", M=tokens, hidden=hidden, ffn=ffn, experts=experts,
                  topk=topk, dtile=spent, error=error, product=alone,
                  all_gather=bench.milliseconds(gathered), best_peer=both,
                  ratio=ratio(both, spent))


def grouped_gemm_rs(bench, options):
    for tokens, hidden, ffn, experts, topk in shapes_of("expert_layers"):
        routing = Routing(bench, tokens, experts, topk)
        k = ffn // bench.ranks
        # What this rank's part of the first layer has made of each choice of each token.
        made = bench.random(tokens * topk, k)
        w = bench.random(experts, hidden, k)
        out = torch.empty(routing.of_rank, hidden, device="cuda", dtype=torch.bfloat16)

        def fill():
            made.copy_(bench.random(*made.shape))

        def summed(rows):
            parts = rows[routing.row_of].view(tokens, topk, hidden)
            return (parts * routing.weight[..., None].to(parts.dtype)).sum(1)

        def reference():
            share = summed(products(made[routing.order], routing.counts, w)).double()
            dist.all_reduce(share)
            return share[routing.own]

        with team_for(bench, options) as team:
            block = options.pin.get("BM") or block_rows(tokens * topk, experts)
            pick, expert, _, place = routing.blocks(int(block))
            x = torch.zeros(pick.numel(), k, device="cuda", dtype=torch.bfloat16)
            kernel = kernel_of(bench, options, "grouped_gemm_rs", "grouped_gemm_rs", BM=block,
                               TOPK=topk)

            def sort():
                fill()
                turned = made.view(tokens, topk * k).roll(-routing.own.start, 0)
                x[place.flatten().long()] = turned.reshape(tokens * topk, k)

            spent, error = measured(
                bench, "grouped_gemm_rs",
                lambda: kernel(x, expert, w, place, routing.turned_weight, out, team=team),
                lambda name, launch: bench.check(name, launch, sort, out, reference, TOLERANCE,
                                                 times=2))
        weights = w.transpose(1, 2)
        rows = made[routing.order]
        result = torch.empty_like(out)

        def multiply():
            return torch._grouped_mm(rows, weights, offs=routing.ends)

        def sequential():
            dist.reduce_scatter_tensor(result, summed(multiply()))
            return result

        both = grouped(bench, sequential, reference())
        alone = bench.attempt(multiply)
        share = summed(multiply())
        bench.row(op="grouped_gemm_rs", M=tokens, hidden=hidden, ffn=ffn, experts=experts,
                  topk=topk, dtile=spent, error=error, product=alone,
                  reduce_scatter=bench.milliseconds(
                      lambda: dist.reduce_scatter_tensor(result, share)),
                  best_peer=both, ratio=ratio(both, spent))
