# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Collectives of regret.py that are no part of a layer: all-reduces around a ring, by halving and
along trees; collectives with a root, which is the last rank; a barrier."""

import torch
import torch.distributed as dist

from attention import gathered
from regret_case import Case, all_reduces, empty, kernel_of, refilled, where

# Cycles of a GPU that a rank comes late to a barrier: 10 ms at 2 GHz; and half of them.
LATE, HALF_MS = 20_000_000, 5.0


# ---- All-reduces of N elements ----


def ring_all_reduce(bench, options, team, drawn):
    kernel = kernel_of(bench, options, "ring_all_reduce", "ring_all_reduce", T="bf16")
    return reduced(bench, team, drawn, kernel)


def halving_all_reduce(bench, options, team, drawn):
    kernel = kernel_of(bench, options, "halving_all_reduce", "halving_all_reduce", T="bf16")
    return reduced(bench, team, drawn, kernel)


def tree_all_reduce(bench, options, team, drawn):
    kernel = kernel_of(bench, options, "tree_all_reduce", "tree_all_reduce", T="bf16")
    return reduced(bench, team, drawn, kernel)


def reduced(bench, team, drawn, kernel):
    x, y, ways = bench.random(drawn.n), empty(drawn.n), all_reduces(bench, drawn.n)

    def prepare():
        for z, _ in ways:
            z.copy_(x)

    def reference():
        want = x.double()
        dist.all_reduce(want)
        return [want]

    return Case(lambda: kernel(x, y, team=team), refilled(bench, x), [y], reference,
                [lambda add=add: [add()] for _, add in ways], 1e-2, prepare)


# ---- With a root; N elements of a rank ----


def broadcast(bench, options, team, drawn):
    root = bench.ranks - 1
    x, y, z = bench.random(drawn.n), empty(drawn.n), empty(drawn.n)
    kernel = kernel_of(bench, options, "collectives", "broadcast", T="bf16")

    def nccl():
        dist.broadcast(z, root)
        return [z]

    def reference():
        want = x.double()
        dist.broadcast(want, root)
        return [want]

    return Case(lambda: kernel(root, x, y, team=team), refilled(bench, x), [y], reference, [nccl],
                0.0, lambda: z.copy_(x))


def scatter(bench, options, team, drawn):
    root, w = bench.ranks - 1, bench.ranks
    x, y, z = bench.random(w, drawn.n), empty(drawn.n), empty(drawn.n)
    kernel = kernel_of(bench, options, "collectives", "scatter", T="bf16")

    def nccl():
        dist.scatter(z, list(x) if bench.rank == root else None, root)
        return [z]

    def reference():
        whole = x.double()
        dist.broadcast(whole, root)
        return [whole[bench.rank]]

    return Case(lambda: kernel(root, x, y, team=team), refilled(bench, x), [y], reference, [nccl],
                0.0)


def gather(bench, options, team, drawn):
    root, w = bench.ranks - 1, bench.ranks
    x, y, z = bench.random(drawn.n), empty(w, drawn.n), empty(w, drawn.n)
    kernel = kernel_of(bench, options, "collectives", "gather", T="bf16")
    here = bench.rank == root

    def nccl():
        dist.gather(x, list(z) if here else None, root)
        return [where(here, z)]

    return Case(lambda: kernel(root, x, y, team=team), refilled(bench, x), [y],
                lambda: [where(here, gathered(x).double())], [nccl], 0.0,
                ordered=lambda: [where(here, y)])


# ---- Without data ----


def barrier(bench, options, team, drawn):
    """The last rank comes late, and all others have to wait for it. A stream waits, not the host,
    so NCCL's is an all-reduce of one number. That peers wait is not checked."""
    kernel = kernel_of(bench, options, "barrier", "barrier_by_dissemination")
    launch = lambda: kernel(team=team)
    one = torch.ones(1, device="cuda")

    def waited():
        """1 where a launch ended no earlier than the last rank began it."""
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        dist.barrier()
        begin.record()
        if bench.rank == bench.ranks - 1:
            torch.cuda._sleep(LATE)
        launch()
        end.record()
        torch.cuda.synchronize()
        return torch.full((1,), float(begin.elapsed_time(end) > HALF_MS), device="cuda")

    def nccl():
        dist.all_reduce(bench.one)
        return [one]

    peers = [nccl]
    if bench.ranks > 1:
        import torch.distributed._symmetric_memory as symm

        handle = symm.rendezvous(symm.empty(1, device="cuda", dtype=torch.float32),
                                 dist.group.WORLD)

        def signals():
            handle.barrier(channel=0)
            return [one]

        peers.append(signals)
    return Case(launch, lambda: None, [], lambda: [one], peers, 0.0, ordered=lambda: [waited()])
