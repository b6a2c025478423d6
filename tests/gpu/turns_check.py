# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels that write one buffer at peers, one after the other, with ranks that come late.

Two kernels take halves of the buffer in turn, each by the number of its own launches, and one fills
both once it has heard from its peers. Launches are queued without a pause, in one random order; a
random rank sleeps before it looks at what has come, which must then still be there. Then the first
kernel from a graph, which leaves the second to be refused.

usage: torchrun --standalone --nproc-per-node N tests/gpu/turns_check.py     ($DTILEC; $SEED)
"""

import os
import random
import sys

import torch
import torch.distributed as dist

import dtile

HERE = os.path.dirname(os.path.abspath(__file__))
LAUNCHES, ROWS, HIDDEN = 300, 64, 1024
# Clocks: a quarter of a millisecond, many launches.
NAP = 500_000


def build(rank, path, **constants):
    """Rank 0 compiles first, the others find what it has built."""
    library = None
    for turn in (rank == 0, rank != 0):
        if turn:
            library = dtile.build(os.path.join(HERE, path), **constants)
        dist.barrier()
    return library


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=torch.device("cuda", torch.cuda.current_device()))
    rank, w = dist.get_rank(), dist.get_world_size()
    seed = torch.tensor([int(os.environ.get("SEED", "0")) or random.randrange(1 << 30)],
                        device="cuda")
    dist.broadcast(seed, 0)
    seed = seed.item()
    choose = random.Random(seed)
    example = "../../examples/all_to_all/all_to_all.dtile"
    library = build(rank, example, HIDDEN=HIDDEN, MAX=ROWS, EPR=2)
    kernels = {"whole": library.all_to_all_unscaled, "split": library.all_to_all_split,
               "filled": build(rank, "Inputs/fill_when_heard.dtile").fill_when_heard}
    generator = torch.Generator(device="cuda")
    generator.manual_seed(seed)
    # What rank r sends to rank p, alike on all ranks.
    sources = torch.randn(16, w, w, ROWS, HIDDEN, device="cuda", generator=generator).bfloat16()
    starts = torch.arange(2 * w + 1, device="cuda", dtype=torch.int32) * (ROWS // 2)
    wrong = torch.zeros(LAUNCHES, device="cuda", dtype=torch.int64)
    failures = 0
    with dtile.Team.from_torch(symmetric_bytes=256 << 20, wait_timeout_ms=10_000) as team:
        recv = team.symm_empty((2, w, ROWS, HIDDEN), torch.bfloat16)
        splits = team.symm_empty((2, w, 2), torch.int32)
        counts = dict.fromkeys(kernels, 0)

        def launch(name, number):
            """And the half that holds what has come."""
            mine = sources[number % 16, rank]
            if name == "filled":
                kernels[name](mine, recv, team=team)
            else:
                kernels[name](mine.reshape(w * ROWS, HIDDEN), starts, recv, splits, team=team)
            counts[name] += 1
            return recv[(counts[name] - 1) % 2]

        def look(number, come):
            wrong[number] = (come != sources[number % 16, :, rank]).sum()

        recv.fill_(float("nan"))
        for number in range(LAUNCHES):
            name = choose.choice(["whole", "whole", "whole", "split", "split", "filled"])
            late, isLate = choose.randrange(w), choose.random() < 0.3
            come = launch(name, number)
            if isLate and rank == late:
                torch.cuda._sleep(NAP)
            look(number, come)
        team.synchronize()
        dist.all_reduce(wrong)
        torch.cuda.synchronize()
        failures += int((wrong != 0).sum())

        # Warm, so that the graph goes without meetings.
        launch("whole", 0)
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            kernels["whole"](sources[1, rank].reshape(w * ROWS, HIDDEN), starts, recv, splits,
                             team=team)
        for _ in range(5):
            graph.replay()
            counts["whole"] += 1
            wrong[0] = (recv[(counts["whole"] - 1) % 2] != sources[1, :, rank]).sum()
            torch.cuda.synchronize()
            dist.barrier()
            failures += int(wrong[0] != 0)
        try:
            launch("split", 0)
            failures += 1
            print("a second kernel wrote what a graph relies on", flush=True)
        except dtile.DtileError as error:
            failures += "a captured launch of kernel `all_to_all_unscaled`" not in str(error)
        torch.cuda.synchronize()
        dist.barrier()
    if rank == 0:
        print(f"{LAUNCHES} launches of {len(kernels)} kernels on {w} ranks, seed {seed}: "
              f"{failures} wrong")
    dist.destroy_process_group()
    return 1 if failures else 0


sys.exit(main())
