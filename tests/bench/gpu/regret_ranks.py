# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layers and collectives of regret.py, a rank a GPU: what the library gives, with nothing pinned,
beside cuBLAS and NCCL."""

import itertools

import torch
import torch.distributed as dist

import layers
import reduced
import regret_shapes
from collectives import Exchange, all_reduce_peers, refill
from harness import kernel_of, team_for
from regret_guard import default_beside_peer, guarded, is_over, told

# Programs, and kernels that a caller who chooses nothing gets.
KERNELS = {"ag_gemm": ("ag_gemm/any_rows", "ag_gemm"), "gemm_rs": ("gemm_rs", "gemm_rs"),
           "gemm_ar": ("gemm_ar", "gemm_ar"), "all_reduce": ("all_reduce", "allreduce_symmetric"),
           "all_gather": ("all_gather", "allgather"),
           "reduce_scatter": ("reduce_scatter", "reducescatter"),
           "all_to_all": ("all_to_all", "all_to_all_split")}
LAYER_TOLERANCE, SUM_TOLERANCE = 1e-2, 5e-3


# ---- Each operation: (launch, its check, its peer) ----


def plain_layer(bench, options, team, drawn):
    """ag_gemm or gemm_rs, and cuBLAS and NCCL one after the other."""
    its = layers.Layer(bench, drawn.op, drawn.m, *drawn.model)
    kernel = kernel_of(bench, options, *KERNELS[drawn.op])
    launch = lambda: kernel(its.a, its.b, its.out, team=team)
    check = lambda: bench.check(drawn.key, launch, its.fill, its.out, its.reference,
                                LAYER_TOLERANCE, times=2)
    return launch, check, lambda: bench.milliseconds(its.sequential)


def gemm_ar(bench, options, team, drawn):
    """And cuBLAS, then the fastest of NCCL and torch's all-reduces."""
    a, b = bench.random(drawn.m, drawn.k), bench.random(drawn.n, drawn.k)
    c, product = (torch.empty(drawn.m, drawn.n, device="cuda", dtype=torch.bfloat16)
                  for _ in range(2))
    kernel = kernel_of(bench, options, *KERNELS["gemm_ar"])
    launch = lambda: kernel(a, b, c, team=team)

    def fill():
        a.copy_(bench.random(*a.shape))
        b.copy_(bench.random(*b.shape))

    def reference():
        want = a.double() @ b.double().T
        dist.all_reduce(want)
        return want

    check = lambda: bench.check(drawn.key, launch, fill, c, reference, reduced.TOLERANCE, times=2)
    multiply = lambda out: torch.matmul(a, b.T, out=out)
    return launch, check, lambda: reduced.sequential(bench, multiply, product, reference())[0]


def all_reduce(bench, options, team, drawn):
    """And the fastest of NCCL and torch's one shot and two shots."""
    x, y = (team.symm_empty((drawn.count,), torch.bfloat16) for _ in range(2))
    x.copy_(bench.random(drawn.count))
    kernel = kernel_of(bench, options, *KERNELS["all_reduce"], T="bf16")
    launch = lambda: kernel(x, y, team=team)

    def reference():
        want = x.double()
        dist.all_reduce(want)
        return want

    check = lambda: bench.check(drawn.key, launch, lambda: refill(bench, x), y, reference,
                                SUM_TOLERANCE)
    return launch, check, lambda: all_reduce_peers(bench, drawn.count, options.fused)[1]


def all_gather(bench, options, team, drawn):
    """x[N] of each rank to y[W, N], and NCCL."""
    w, share = bench.ranks, drawn.count // bench.ranks
    x, y = team.symm_empty((share,), torch.bfloat16), team.symm_empty((w, share), torch.bfloat16)
    x.copy_(bench.random(share))
    out = torch.empty(w * share, device="cuda", dtype=torch.bfloat16)
    kernel = kernel_of(bench, options, *KERNELS["all_gather"], T="bf16")
    launch = lambda: kernel(x, y, team=team)
    nccl = lambda: dist.all_gather_into_tensor(out, x)

    def reference():
        nccl()
        return out.view(w, share)

    check = lambda: bench.check(drawn.key, launch, lambda: refill(bench, x), y, reference, 0.0)
    return launch, check, lambda: bench.milliseconds(nccl)


def reduce_scatter(bench, options, team, drawn):
    """Rank r gets the sum of all ranks' x[r, :], and NCCL."""
    w, share = bench.ranks, drawn.count // bench.ranks
    x, y = team.symm_empty((w, share), torch.bfloat16), team.symm_empty((share,), torch.bfloat16)
    x.copy_(bench.random(w, share))
    out = torch.empty(share, device="cuda", dtype=torch.bfloat16)
    kernel = kernel_of(bench, options, *KERNELS["reduce_scatter"], T="bf16")
    launch = lambda: kernel(x, y, team=team)

    def reference():
        want = torch.empty(share, device="cuda", dtype=torch.float64)
        dist.reduce_scatter_tensor(want, x.double().flatten())
        return want

    check = lambda: bench.check(drawn.key, launch, lambda: refill(bench, x), y, reference,
                                SUM_TOLERANCE)
    nccl = lambda: dist.reduce_scatter_tensor(out, x.view(-1))
    return launch, check, lambda: bench.milliseconds(nccl)


def all_to_all(bench, options, team, drawn):
    """Rows for two experts of each rank, and NCCL."""
    rows = drawn.count // drawn.hidden // bench.ranks
    its = Exchange(bench, rows, drawn.hidden, torch.bfloat16)
    recv, splits = its.buffers(team)
    kernel = kernel_of(bench, options, *KERNELS["all_to_all"], T="bf16", HIDDEN=drawn.hidden,
                       MAX=rows, EPR=2)
    launch = lambda: kernel(its.src, its.starts, recv, splits, team=team)

    def check():
        off = its.error(launch, recv, splits)
        if off != 0:
            bench.failures += 1
            bench.say(f"WRONG {drawn.key}: relative error {off:.2e}")
        return off == 0, off

    return launch, check, lambda: bench.milliseconds(its.nccl)


OPERATIONS = {"ag_gemm": plain_layer, "gemm_rs": plain_layer, "gemm_ar": gemm_ar,
              "all_reduce": all_reduce, "all_gather": all_gather,
              "reduce_scatter": reduce_scatter, "all_to_all": all_to_all}


def measure(bench, options, log, drawn):
    """The line of a shape."""
    key = drawn.key
    with guarded(bench, log, key, options.guard), team_for(bench, options) as team:
        launch, check, peer_of = OPERATIONS[drawn.op](bench, options, team, drawn)
        torch.cuda.synchronize()
        dist.barrier()
        good, error = check()
        if not good:
            log.write("failed", key=key, why=f"wrong: relative error {error:.1e}")
            return
        times = default_beside_peer(bench, options, launch, peer_of)
        sizes = {name: value for name, value in drawn._asdict().items() if value}
        log.write("shape", key=key, **sizes, **times, error=error)
        bench.say(told(key, times))
    torch.cuda.empty_cache()


def run(bench, options, log, until):
    """Draws until time is over."""
    draw = regret_shapes.layers if options.layers else regret_shapes.collectives
    for drawn in itertools.islice(draw(log.settings, bench.ranks), options.shapes):
        if drawn.key not in log.known:
            measure(bench, options, log, drawn)
        if is_over(bench, until):
            return
