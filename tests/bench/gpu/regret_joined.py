# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels of regret.py that join communication with what is around it, a rank a GPU: with nothing
pinned but sizes, beside what a user of torch writes. Results of both are checked first."""

import itertools

import torch
import torch.distributed as dist
import torch.nn.functional as F

from harness import team_for
from regret_attention import (causal_gathered_attention, causal_ulysses, flash_decode,
                              ring_attention, ulysses, ulysses_attention)
from regret_case import (Case, all_reduces, check, empty, exchanged, fastest_peer, kernel_of,
                         refilled)
from regret_collectives import (barrier, broadcast, gather, halving_all_reduce, ring_all_reduce,
                                scatter, tree_all_reduce)
from regret_expert_layers import attention_to_experts, grouped_gemm_ar, moe_layer
from regret_experts import combine, combine_once, dispatch_prefill, dispatch_quantized, tp_mlp
from regret_grids import cannon, heat_step, pipeline, summa
from regret_guard import default_beside_peer, guarded, is_over, told
from regret_rows import gated, layer_norm, rms_norm, softmax
from regret_scaled import ag_row_scaled, row_scaled_rs, scaled_ag_gemm, scaled_gemm_rs

EPS = 1e-5


# ---- Each operation: what M, N and K are, stands in regret_shapes.py ----


def all_reduce_norm(bench, options, team, drawn):
    m, h = drawn.m, drawn.n
    x, residual, weight = bench.random(m, h), bench.random(m, h), bench.random(h)
    dist.broadcast(residual, 0)
    dist.broadcast(weight, 0)
    hidden, y = empty(m, h), empty(m, h)
    # The folder's README says which is for which.
    name = "one_shot" if m <= 64 else "two_shot"
    kernel = kernel_of(bench, options, "all_reduce_norm", name, T="bf16", H=h)

    @torch.compile
    def rest(total):
        added = total + residual
        return [added, F.rms_norm(added, (h,), weight, EPS)]

    def reference():
        total = x.double()
        dist.all_reduce(total)
        total += residual.double()
        return [total, F.rms_norm(total.bfloat16().double(), (h,), weight.double(), EPS)]

    # Sums are made in place, as after a projection.
    ways = all_reduces(bench, m, h)

    def prepare():
        for z, _ in ways:
            z.copy_(x)

    peers = [lambda add=add: rest(add()) for _, add in ways]
    return Case(lambda: kernel(x, residual, weight, EPS, hidden, y, team=team),
                refilled(bench, x), [hidden, y], reference, peers, 1e-2, prepare)


def all_to_all_gemm(bench, options, team, drawn):
    w, rows, n, k = bench.ranks, drawn.m // bench.ranks, drawn.n, drawn.k
    parts, b, c = bench.random(w, rows, k), bench.random(n, k), empty(w * rows, n)
    kernel = kernel_of(bench, options, "all_to_all_gemm", "all_to_all_gemm", T="bf16")
    return Case(lambda: kernel(parts, b, c, team=team), refilled(bench, parts, b), [c],
                lambda: [exchanged(parts).view(w * rows, k).double() @ b.double().T],
                [lambda: [torch.matmul(exchanged(parts).view(w * rows, k), b.T)]], 1e-2)


def cross_entropy(bench, options, team, drawn):
    m, v = drawn.m, drawn.n
    logits, loss = bench.random(m, v), empty(m, dtype=torch.float32)
    target = torch.randint(0, v * bench.ranks, (m,), device="cuda")
    dist.broadcast(target, 0)
    kernel = kernel_of(bench, options, "cross_entropy", "cross_entropy", T="bf16")
    column = target - bench.rank * v
    inside = (column >= 0) & (column < v)
    safe = torch.where(inside, column, 0)[:, None]

    @torch.compile
    def own(x):
        """As three numbers a row would be sent: log-sum-exp, and the target's logit or 0."""
        x = x.float()
        picked = torch.where(inside, x.gather(1, safe)[:, 0], 0.0)
        return torch.stack([torch.logsumexp(x, 1), picked])

    def torchs():
        stats = empty(bench.ranks, 2, m, dtype=torch.float32)
        dist.all_gather_into_tensor(stats, own(logits))
        return [torch.logsumexp(stats[:, 0], 0) - stats[:, 1].sum(0)]

    def reference():
        every = empty(bench.ranks, m, v)
        dist.all_gather_into_tensor(every, logits)
        return [F.cross_entropy(every.transpose(0, 1).reshape(m, -1).double(), target,
                                reduction="none")]

    return Case(lambda: kernel(logits, target, loss, team=team), refilled(bench, logits), [loss],
                reference, [torchs], 1e-4)


def int8_gemm_ar(bench, options, team, drawn):
    m, n, k = drawn.m, drawn.n, drawn.k
    a, b = (torch.zeros(rows, k, device="cuda", dtype=torch.int8) for rows in (m, n))
    sa, sb = torch.rand(m, device="cuda"), torch.rand(n, device="cuda")
    dist.broadcast(sa, 0)
    dist.broadcast(sb, 0)
    c = empty(m, n)
    name = "int8_gemm_ar_one_shot" if m <= 256 else "int8_gemm_ar_two_shot"
    kernel = kernel_of(bench, options, "int8_gemm_ar", name, T="bf16")
    scaled = torch.compile(lambda total: (total.float() * (sa[:, None] * sb)).bfloat16())

    def fill():
        for tensor in (a, b):
            tensor.copy_(bench.random(*tensor.shape, dtype=torch.uint8).view(torch.int8))

    def torchs():
        total = torch._int_mm(a, b.T)
        dist.all_reduce(total)
        return [scaled(total)]

    def reference():
        total = a.double() @ b.double().T
        dist.all_reduce(total)
        return [total * (sa.double()[:, None] * sb.double())]

    return Case(lambda: kernel(a, b, sa, sb, c, team=team), fill, [c], reference, [torchs], 5e-3)


def split_k_gemm(bench, options, team, drawn):
    a, b = bench.random(drawn.m, drawn.k), bench.random(drawn.n, drawn.k)
    c = empty(drawn.m, drawn.n)
    kernel = kernel_of(bench, options, "split_k_over_ranks", "split_k_gemm", T="bf16")

    def fill():
        for tensor in (a, b):
            tensor.copy_(bench.random(*tensor.shape))
            dist.broadcast(tensor, 0)

    fill()
    return Case(lambda: kernel(a, b, c, team=team), fill, [c],
                lambda: [a.double() @ b.double().T], [lambda: [torch.matmul(a, b.T)]], 1e-2)


OPERATIONS = {"all_reduce_norm": all_reduce_norm, "all_to_all_gemm": all_to_all_gemm,
              "ulysses": ulysses, "ulysses_attention": ulysses_attention,
              "cross_entropy": cross_entropy, "int8_gemm_ar": int8_gemm_ar,
              "split_k_gemm": split_k_gemm, "causal_ulysses": causal_ulysses,
              "causal_gathered_attention": causal_gathered_attention,
              "flash_decode": flash_decode, "tp_mlp": tp_mlp,
              "dispatch_prefill": dispatch_prefill, "dispatch_quantized": dispatch_quantized,
              "ag_row_scaled": ag_row_scaled, "row_scaled_rs": row_scaled_rs,
              "scaled_ag_gemm": scaled_ag_gemm, "scaled_gemm_rs": scaled_gemm_rs,
              "ring_attention": ring_attention, "combine": combine, "combine_once": combine_once,
              "moe_layer": moe_layer, "attention_to_experts": attention_to_experts,
              "grouped_gemm_ar": grouped_gemm_ar, "summa": summa, "cannon": cannon,
              "pipeline": pipeline, "heat_step": heat_step, "broadcast": broadcast,
              "scatter": scatter, "gather": gather, "barrier": barrier,
              "ring_all_reduce": ring_all_reduce, "halving_all_reduce": halving_all_reduce,
              "tree_all_reduce": tree_all_reduce, "rms_norm": rms_norm, "layer_norm": layer_norm,
              "softmax": softmax, "gated": gated}


def measure(bench, options, log, drawn):
    """The line of a shape."""
    key = drawn.key
    with guarded(bench, log, key, options.guard), team_for(bench, options) as team:
        case = OPERATIONS[drawn.op](bench, options, team, drawn)
        torch.cuda.synchronize()
        dist.barrier()
        good, error = check(bench, key, case)
        if not good:
            log.write("failed", key=key, why=f"wrong: relative error {error:.1e}")
            return
        times = default_beside_peer(bench, options, case.launch,
                                    lambda: fastest_peer(bench, case))
        sizes = {name: value for name, value in drawn._asdict().items() if value}
        log.write("shape", key=key, **sizes, **times, error=error)
        bench.say(told(key, times))
    torch.cuda.empty_cache()


def run(bench, options, log, until, draw):
    """Draws until time is over."""
    for drawn in itertools.islice(draw(log.settings, bench.ranks), options.shapes):
        if drawn.key not in log.known:
            measure(bench, options, log, drawn)
        if is_over(bench, until):
            return
