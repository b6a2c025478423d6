# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products of experts beside torch's grouped product of rows that were gathered before (and what is
made of these products), and beside that product alone."""

import torch
from torch.nn import functional

from goals import shapes_of
from harness import kernel_of, measured, ratio, team_for



def block_rows(rows, experts):
    """Rows of a block, which callers choose, as the shapes of what they pass depend on it: as many
    as an expert has on average, from 64 to 128."""
    return 128 if rows >= 96 * experts else 64


class Routing:
    """Tokens whose experts are chosen at random, and their rows sorted by expert."""

    def __init__(self, bench, tokens, experts, topk):
        self.tokens, self.experts, self.topk = tokens, experts, topk
        chosen = bench.random(tokens, experts, dtype=torch.float32).topk(topk).indices.flatten()
        self.order = torch.argsort(chosen, stable=True)
        self.counts = torch.bincount(chosen, minlength=experts)
        self.ends = self.counts.cumsum(0).to(torch.int32)

    def blocks(self, rows):
        """Numbers of picked rows, each expert's padded to blocks of `rows`, and the experts of the
        blocks."""
        blocks = (self.counts + rows - 1) // rows
        expert = torch.arange(self.experts, device="cuda").repeat_interleave(blocks)
        pick = torch.full((expert.numel() * rows,), self.tokens * self.topk, device="cuda")
        # A row's place: where its expert's blocks begin, and how far behind its expert's first.
        sorted_expert = torch.arange(self.experts, device="cuda").repeat_interleave(self.counts)
        first = blocks.cumsum(0) - blocks
        before = self.counts.cumsum(0) - self.counts
        number = torch.arange(self.order.numel(), device="cuda")
        pick[first[sorted_expert] * rows + number - before[sorted_expert]] = self.order
        return pick.to(torch.int32), expert.to(torch.int32)


def products_of_picked(x, token, expert, w):
    """Of the tokens that rows pick, each block of rows with its expert; in f64, kept as f32. Rows
    that pick the token behind the last are zeros."""
    padded = torch.cat((x, torch.zeros_like(x[:1])))
    picked = padded[token].view(expert.numel(), -1, x.shape[1])
    return torch.cat([(rows.double() @ w[e].double().T).float()
                      for rows, e in zip(picked, expert.tolist())])


class Plain:
    """grouped_gemm: one matrix an expert."""

    op, tolerance = "grouped_gemm", 5e-3
    products = staticmethod(products_of_picked)

    @staticmethod
    def weights(bench, experts, n, k):
        return bench.random(experts, n, k)

    @staticmethod
    def columns(n):
        return n

    @staticmethod
    def finished(products):
        return products


class Gated:
    """grouped_swiglu: of N columns of products the first half are gates, the others go through."""

    op, tolerance = "grouped_swiglu", 1e-2

    @staticmethod
    def weights(bench, experts, n, k):
        whole = bench.random(experts, n, k)
        for e in range(experts):
            whole[e] /= k**0.5
        return whole.view(experts, 2, n // 2, k)

    @staticmethod
    def columns(n):
        return n // 2

    @staticmethod
    def finished(products):
        gates, others = products.chunk(2, dim=1)
        return functional.silu(gates) * others

    @staticmethod
    def products(x, token, expert, w):
        both = products_of_picked(x, token, expert, w.view(len(w), -1, w.shape[-1]))
        return Gated.finished(both.double())


def products_of(kind):
    """The suite of a kernel whose experts are of such a kind."""
    def suite(bench, options):
        for shape in shapes_of("grouped_products"):
            products(kind, shape, bench, options)

    suite.__name__ = kind.op
    return suite


def products(kind, shape, bench, options):
    tokens, n, k, experts, topk = shape
    routing = Routing(bench, tokens, experts, topk)
    x = bench.random(tokens, k)
    w = kind.weights(bench, experts, n, k)

    def fill():
        x.copy_(bench.random(tokens, k))

    with team_for(bench, options) as team:
        rows = options.pin.get("BM") or block_rows(tokens * topk, experts)
        pick, expert = routing.blocks(int(rows))
        y = torch.empty(pick.numel(), kind.columns(n), device="cuda", dtype=torch.bfloat16)
        kernel = kernel_of(bench, options, "grouped_gemm", kind.op, BM=rows, TOPK=topk)
        spent, error = measured(
            bench, kind.op, lambda: kernel(x, pick, expert, w, y, team=team),
            lambda name, launch: bench.check(
                name, launch, fill, y, lambda: kind.products(x, pick // topk, expert, w),
                kind.tolerance))
    token = routing.order // topk
    weights = w.view(experts, n, k).transpose(1, 2)
    gathered = x[token]

    def multiply():
        return torch._grouped_mm(gathered, weights, offs=routing.ends)

    product = bench.attempt(multiply)
    both = bench.attempt(
        lambda: kind.finished(torch._grouped_mm(x[token], weights, offs=routing.ends)))
    if product is not None:
        parts = gathered.double().split(routing.counts.tolist())
        want = torch.cat([part @ weights[e].double() for e, part in enumerate(parts)])
        if (wrong := bench.error(multiply(), want)) > 5e-3:
            bench.say(f"peer: torch's grouped product is wrong: relative error {wrong:.2e}")
            product = both = None
    bench.row(op=kind.op, M=tokens, N=n, K=k, experts=experts, topk=topk, dtile=spent,
              BM=rows, error=error, torch_product=product, best_peer=both,
              ratio=ratio(both, spent), ratio_product=ratio(product, spent),
              tflops=spent and round(2e-9 * tokens * topk * n * k / spent))
