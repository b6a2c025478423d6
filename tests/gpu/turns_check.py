# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels that write one buffer at peers, one after the other, with ranks that come late.

Two kernels take halves of the buffer in turn, each by the number of its own launches, and one fills
both once it has heard from its peers. Launches are queued without a pause, in one random order; a
random rank sleeps before it looks at what has come, which must then still be there. Then the first
kernel from a graph, which leaves the others to be refused.

All ranks are of this process: one a GPU, or two on the only one.

usage: python3 tests/gpu/turns_check.py [RANKS]     ($DTILEC; $SEED; dtile in PYTHONPATH)
"""

import os
import random
import sys

import torch

import dtile

HERE = os.path.dirname(os.path.abspath(__file__))
LAUNCHES, SOURCES, ROWS, HIDDEN = 300, 16, 64, 1024
# Clocks: a quarter of a millisecond, many launches.
NAP = 500_000


class Ranks:
    """The kernels, what each rank sends, and a stream a rank."""

    def __init__(self, count, seed):
        gpus = torch.cuda.device_count()
        self.devices = [rank % gpus for rank in range(count)]
        self.streams = [torch.cuda.Stream(device) for device in self.devices]
        self.team = dtile.Team.local(self.devices, symmetric_bytes=256 << 20,
                                     wait_timeout_ms=10_000)
        library = dtile.build(os.path.join(HERE, "../../examples/all_to_all/all_to_all.dtile"),
                              HIDDEN=HIDDEN, MAX=ROWS, EPR=2, P=8)
        fill = dtile.build(os.path.join(HERE, "Inputs/fill_when_heard.dtile"))
        self.kernels = {"whole": library.all_to_all_unscaled, "split": library.all_to_all_split,
                        "filled": fill.fill_when_heard}
        self.counts = dict.fromkeys(self.kernels, 0)
        # What rank r sends to rank p, alike on all devices.
        generator = torch.Generator().manual_seed(seed)
        sources = torch.randn(SOURCES, count, count, ROWS, HIDDEN, generator=generator).bfloat16()
        starts = torch.arange(2 * count + 1, dtype=torch.int32) * (ROWS // 2)
        self.sources = [sources.cuda(device) for device in self.devices]
        self.starts = [starts.cuda(device) for device in self.devices]
        self.wrong = [torch.zeros(LAUNCHES, dtype=torch.int64, device=device)
                      for device in self.devices]
        recv = self.team.symm_empty((2, count, ROWS, HIDDEN), torch.bfloat16)
        splits = self.team.symm_empty((2, count, 2), torch.int32)
        self.recv = [self.team.symm_on(recv, rank) for rank in range(count)]
        self.splits = [self.team.symm_on(splits, rank) for rank in range(count)]
        # Torch loads kernels when they are first used, for which nothing may wait on that GPU.
        for rank in range(count):
            with self.on(rank):
                torch.cuda._sleep(1)
                self.look(rank, "whole", 0, 0)
        self.synchronize()

    def synchronize(self):
        self.team.synchronize()
        for device in self.devices:
            torch.cuda.synchronize(device)

    def launch(self, rank, name, source):
        mine = self.sources[rank][source, rank]
        if name == "filled":
            self.kernels[name](mine, self.recv[rank], team=self.team, rank=rank)
        else:
            self.kernels[name](mine.reshape(-1, HIDDEN), self.starts[rank], self.recv[rank],
                               self.splits[rank], team=self.team, rank=rank)

    def half(self, name):
        """The half that the last launch of this kernel has filled."""
        return (self.counts[name] - 1) % 2

    def look(self, rank, name, source, number):
        come = self.recv[rank][self.half(name)]
        self.wrong[rank][number] = (come != self.sources[rank][source, :, rank]).sum()

    def on(self, rank):
        torch.cuda.set_device(self.devices[rank])
        return torch.cuda.stream(self.streams[rank])


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    seed = int(os.environ.get("SEED", "0")) or random.randrange(1 << 30)
    choose = random.Random(seed)
    ranks = Ranks(count, seed)
    failures = 0
    for number in range(LAUNCHES):
        name = choose.choice(["whole", "whole", "whole", "split", "split", "filled"])
        late = choose.randrange(count) if choose.random() < 0.3 else None
        ranks.counts[name] += 1
        for rank in range(count):
            with ranks.on(rank):
                ranks.launch(rank, name, number % SOURCES)
                if rank == late:
                    torch.cuda._sleep(NAP)
                ranks.look(rank, name, number % SOURCES, number)
    ranks.synchronize()
    failures += sum(int((wrong != 0).sum()) for wrong in ranks.wrong)

    # Warm, so that the graphs go without meetings.
    graphs = [torch.cuda.CUDAGraph() for _ in range(count)]
    ranks.counts["whole"] += 1
    for rank in range(count):
        with ranks.on(rank):
            ranks.launch(rank, "whole", 0)
    ranks.synchronize()
    for rank, graph in enumerate(graphs):
        with ranks.on(rank), torch.cuda.graph(graph, stream=ranks.streams[rank],
                                              capture_error_mode="thread_local"):
            ranks.launch(rank, "whole", 1)
    for _ in range(5):
        ranks.counts["whole"] += 1
        for rank, graph in enumerate(graphs):
            with ranks.on(rank):
                graph.replay()
                ranks.look(rank, "whole", 1, 0)
        ranks.synchronize()
        failures += sum(int(wrong[0] != 0) for wrong in ranks.wrong)
    for name in ("split", "filled"):
        try:
            ranks.launch(0, name, 0)
            failures += 1
            print(f"kernel `{name}` may write what a graph relies on")
        except dtile.DtileError as error:
            failures += "a captured launch of kernel `all_to_all_unscaled" not in str(error)
    ranks.team.close()
    print(f"{LAUNCHES} launches of {len(ranks.kernels)} kernels on {count} ranks, "
          f"{torch.cuda.device_count()} GPUs, seed {seed}: {failures} wrong")
    return 1 if failures else 0


sys.exit(main())
