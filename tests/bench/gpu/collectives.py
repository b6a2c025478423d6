# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operands, checks and peers of the collectives."""

import torch
import torch.distributed as dist


def refill(bench, x):
    """Fresh random data into memory that peers read: no rank refills before all have ended."""
    torch.cuda.synchronize()
    dist.barrier()
    x.copy_(bench.random(*x.shape))
    torch.cuda.synchronize()
    dist.barrier()


def all_reduce_peers(bench, count, fused):
    """Milliseconds for `count` bf16: of NCCL, and of the fastest of NCCL and, if `fused`, torch's
    one shot and two shots."""
    z = bench.random(count)
    nccl = bench.milliseconds(lambda: dist.all_reduce(z))
    shots = []
    if fused:
        import torch.distributed._symmetric_memory as symm

        group = dist.group.WORLD.group_name
        s = symm.empty(count, device="cuda", dtype=torch.bfloat16)
        symm.rendezvous(s, dist.group.WORLD)
        if count <= 1 << 19:
            shots.append(bench.attempt(
                lambda: torch.ops.symm_mem.one_shot_all_reduce(s, "sum", group)))
        shots.append(bench.attempt(
            lambda: torch.ops.symm_mem.two_shot_all_reduce_(s, "sum", group)))
    return nccl, min([nccl] + [shot for shot in shots if shot is not None])


class Exchange:
    """An all-to-all: `rows` rows of `hidden` elements from each rank to each, for two experts a
    rank."""

    def __init__(self, bench, rows, hidden, dtype):
        self.bench, self.rows, self.dtype = bench, rows, dtype
        self.src = bench.random(rows * bench.ranks, hidden, dtype=dtype)
        experts = torch.arange(2 * bench.ranks + 1, device="cuda", dtype=torch.int32)
        self.starts = experts * (rows // 2)
        self.out = torch.empty_like(self.src)

    def buffers(self, team):
        """What a kernel receives into: rows and counts, two halves that launches fill in turn."""
        w, hidden = self.bench.ranks, self.src.shape[1]
        return (team.symm_empty((2, w, self.rows, hidden), self.dtype),
                team.symm_empty((2, w, 2), torch.int32))

    def error(self, launch, recv, splits):
        """The largest error of the first launches of a kernel."""
        bench, worst = self.bench, 0.0
        for call in range(4):
            self.src.copy_(bench.random(*self.src.shape, dtype=self.dtype))
            bench.poison(recv)
            splits.zero_()
            torch.cuda.synchronize()
            dist.barrier()
            launch()
            torch.cuda.synchronize()
            want = torch.empty_like(self.src)
            dist.all_to_all_single(want, self.src)
            got = recv[call % 2].reshape(self.src.shape)
            worst = max(worst, bench.error(got, want), bench.error(
                splits[call % 2], torch.full_like(splits[0], self.rows // 2)))
            dist.barrier()
        return worst

    def nccl(self):
        dist.all_to_all_single(self.out, self.src)
