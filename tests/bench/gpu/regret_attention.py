# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention of regret.py's joined kernels: heads and positions exchanged, keys gathered, and keys
spread over ranks."""

import math

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.attention.bias import causal_lower_right

from attention import gathered
from regret_case import HEAD, Case, empty, exchanged, kernel_of, refilled


def ulysses(bench, options, team, drawn):
    w, length, heads = bench.ranks, drawn.m // bench.ranks, drawn.n
    x, y = bench.random(length, w * heads, HEAD), empty(w * length, heads, HEAD)
    kernel = kernel_of(bench, options, "ulysses", "to_heads", T="bf16")

    def torchs():
        parts = x.view(length, w, heads, HEAD).transpose(0, 1)
        return [exchanged(parts).view(w * length, heads, HEAD)]

    return Case(lambda: kernel(x, y, team=team), refilled(bench, x), [y], torchs, [torchs], 0.0)


def all_heads(bench, team, drawn, kernel, causal):
    """Attention to all positions, from and to this rank's positions of all heads."""
    w, length, heads = bench.ranks, drawn.m // bench.ranks, drawn.n
    q, y = bench.random(w, heads, 1, length, HEAD), empty(w, heads, 1, length, HEAD)
    k, v = bench.random(w, heads, length, HEAD), bench.random(w, heads, length, HEAD)
    scale = 1 / math.sqrt(HEAD)

    def whole(x):
        """All positions of this rank's heads."""
        return exchanged(x.view(w, heads, length, HEAD)).transpose(0, 1).reshape(
            1, heads, w * length, HEAD)

    def torchs(kind=torch.bfloat16):
        made = F.scaled_dot_product_attention(*(whole(x).to(kind) for x in (q, k, v)), scale=scale,
                                              is_causal=causal)
        parts = made.view(heads, w, length, HEAD).transpose(0, 1)
        return [exchanged(parts).view(w, heads, 1, length, HEAD)]

    return Case(lambda: kernel(q, k, v, scale, y, team=team), refilled(bench, q, k, v), [y],
                lambda: torchs(torch.float32), [torchs], 1e-2)


def ulysses_attention(bench, options, team, drawn):
    kernel = kernel_of(bench, options, "ulysses_attention", "ulysses_attention", T="bf16", D=HEAD)
    return all_heads(bench, team, drawn, kernel, causal=False)


def causal_ulysses(bench, options, team, drawn):
    kernel = kernel_of(bench, options, "causal_ulysses", "causal_ulysses", T="bf16", D=HEAD)
    return all_heads(bench, team, drawn, kernel, causal=True)


def causal_gathered_attention(bench, options, team, drawn):
    """Each rank has the chunks `rank` and `2 W - 1 - rank` of 2 W."""
    w, heads, chunk = bench.ranks, drawn.n, drawn.m // (2 * bench.ranks)
    chunks = (bench.rank, 2 * w - 1 - bench.rank)
    q = bench.random(heads, 1, 2, chunk, HEAD)
    k, v = (bench.random(heads, 2, chunk, HEAD) for _ in range(2))
    y, scale = torch.empty_like(q), 1 / math.sqrt(HEAD)
    kernel = kernel_of(bench, options, "gathered_attention", "causal_gathered_attention", T="bf16",
                       D=HEAD)

    def whole(x):
        """The chunks of all ranks in the order of the sequence, head by head."""
        halves = gathered(x)
        parts = torch.cat([halves[:, :, 0], halves[:, :, 1].flip(0)])
        return parts.transpose(0, 1).reshape(1, heads, drawn.m, HEAD)

    def torchs(kind=torch.bfloat16):
        keys, values = (whole(x).to(kind) for x in (k, v))
        made = []
        for half, number in enumerate(chunks):
            end = (number + 1) * chunk
            made.append(F.scaled_dot_product_attention(
                q[:, 0, half][None].to(kind), keys[:, :, :end], values[:, :, :end],
                attn_mask=causal_lower_right(chunk, end), scale=scale)[0])
        return [torch.stack(made, 1)[:, None]]

    return Case(lambda: kernel(q, k, v, scale, y, team=team), refilled(bench, q, k, v), [y],
                lambda: torchs(torch.float32), [torchs], 1e-2)


def ring_attention(bench, options, team, drawn):
    """Attention of each rank's positions to those of all."""
    heads, own = drawn.n, drawn.m // bench.ranks
    q = bench.random(heads, 1, own, HEAD)
    k, v = (bench.random(heads, own, HEAD) for _ in range(2))
    y, scale = torch.empty_like(q), 1 / math.sqrt(HEAD)
    kernel = kernel_of(bench, options, "ring_attention", "ring_attention", T="bf16", D=HEAD)

    def whole(x):
        """All positions, head by head."""
        return gathered(x).transpose(0, 1).reshape(1, heads, drawn.m, HEAD)

    def torchs():
        made = F.scaled_dot_product_attention(q.transpose(0, 1), whole(k), whole(v), scale=scale)
        return [made.transpose(0, 1)]

    def reference():
        keys, values = whole(k)[0], whole(v)[0]
        want = torch.empty(q.shape, device="cuda", dtype=torch.float64)
        for h in range(heads):
            scores = q[h, 0].double() @ keys[h].double().T * scale
            want[h, 0] = torch.softmax(scores, -1) @ values[h].double()
        return [want]

    return Case(lambda: kernel(q, k, v, scale, y, team=team), refilled(bench, q, k, v), [y],
                reference, [torchs], 1e-2)


def flash_decode(bench, options, team, drawn):
    """N sequences of M keys, spread over ranks in equal parts; 8 queries to each of 8 key heads."""
    own, n = drawn.m // bench.ranks, drawn.n
    q, y = empty(n, 8, 8, HEAD), empty(n, 8, 8, HEAD)
    k, v = (bench.random(n, own, 8, HEAD) for _ in range(2))
    lens = torch.full((n,), own, device="cuda", dtype=torch.int32)
    scale = 1 / math.sqrt(HEAD)
    kernel = kernel_of(bench, options, "flash_decode", "flash_decode", T="bf16", G=8, D=HEAD)

    def fill():
        q.copy_(bench.random(*q.shape))
        dist.broadcast(q, 0)
        k.copy_(bench.random(*k.shape))

    @torch.compile
    def merged(parts, sums):
        return (parts.float() * torch.softmax(sums, 0)[..., None]).sum(0).bfloat16()

    def torchs():
        # The queries of a key head are as one head's queries at several positions.
        part, sums = torch.ops.aten._scaled_dot_product_flash_attention(
            q, *(x.transpose(1, 2) for x in (k, v)), scale=scale)[:2]
        return [merged(gathered(part), gathered(sums))]

    def reference():
        want = torch.empty(q.shape, device="cuda", dtype=torch.float64)
        for i in range(n):
            for h in range(8):
                scores = q[i, h].double() @ k[i, :, h].double().T * scale
                top = scores.amax(-1, keepdim=True)
                dist.all_reduce(top, op=dist.ReduceOp.MAX)
                weights = torch.exp(scores - top)
                total, values = weights.sum(-1, keepdim=True), weights @ v[i, :, h].double()
                dist.all_reduce(total)
                dist.all_reduce(values)
                want[i, h] = values / total
        return [want]

    fill()
    return Case(lambda: kernel(q, k, v, lens, scale, y, team=team), fill, [y], reference, [torchs],
                1e-2)
