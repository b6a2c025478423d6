# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Transfers by the copy engine, on two or more GPUs of this machine.

An AllGather-GEMM whose rows the copy engine sends: random shapes, each checked against a product in
float64; many launches with other inputs in one run, without a pause, where a random rank comes
late; a graph of one launch, replayed 100 times with other inputs; a shape whose chunks are too many
for the copy engine, beside one for which it sends. Then times, beside the same kernel whose
programs send. DTILE_LOG_LAUNCHES=1 says which way a launch took.

usage: python3 tests/gpu/copy_engine_check.py [RANKS]     ($DTILEC; $SEED; dtile in PYTHONPATH)
"""

import os
import random
import statistics
import sys
import time

import torch

import dtile

HERE = os.path.dirname(os.path.abspath(__file__))
LAUNCHES, REPLAYS, TIMED = 200, 100, 30
# Clocks: a quarter of a millisecond.
NAP = 500_000
TOLERANCE = 2e-2


class Ranks:
    """The kernels, and a stream a rank."""

    def __init__(self, count):
        self.count = count
        self.devices = list(range(count))
        self.streams = [torch.cuda.Stream(device) for device in self.devices]
        self.team = dtile.Team.local(self.devices, symmetric_bytes=4 << 30,
                                     wait_timeout_ms=20_000)
        library = dtile.build(os.path.join(HERE, "Inputs/copy_engine.dtile"))
        self.kernels = {"programs": library.by_programs, "engine": library.by_engine}

    def on(self, rank):
        torch.cuda.set_device(self.devices[rank])
        return torch.cuda.stream(self.streams[rank])

    def launch(self, name, shards, weights, outs):
        for rank in range(self.count):
            with self.on(rank):
                self.kernels[name](shards[rank], weights[rank], outs[rank], team=self.team,
                                   rank=rank)

    def synchronize(self):
        self.team.synchronize()
        for device in self.devices:
            torch.cuda.synchronize(device)


class Work:
    """Inputs of one shape, several of them, and what comes out."""

    def __init__(self, ranks, rows, columns, depth, sets, generator):
        def numbers(*shape):
            return torch.randn(*shape, generator=generator).bfloat16()

        self.ranks = ranks
        self.shape = (rows, columns, depth)
        whole = [numbers(ranks.count * rows, depth) for _ in range(sets)]
        weight = numbers(columns, depth)
        self.wanted = [(one.double().cuda(0) @ weight.double().cuda(0).T).cpu() for one in whole]
        self.shards = [[one[rank * rows:(rank + 1) * rows].contiguous().cuda(device)
                        for rank, device in enumerate(ranks.devices)] for one in whole]
        self.weights = [weight.cuda(device) for device in ranks.devices]
        self.outs = [torch.zeros(ranks.count * rows, columns, dtype=torch.bfloat16, device=device)
                     for device in ranks.devices]

    def launch(self, name, number):
        self.ranks.launch(name, self.shards[number], self.weights, self.outs)

    def wrong(self, number):
        """Ranks whose result is far from the product in float64."""
        scale = self.wanted[number].abs().max()
        return sum(bool((out.double().cpu() - self.wanted[number]).abs().max() > TOLERANCE * scale)
                   for out in self.outs)


def microseconds(work, name):
    """The median time of a launch on all ranks."""
    times = []
    for _ in range(TIMED):
        work.ranks.synchronize()
        begin = time.perf_counter()
        work.launch(name, 0)
        work.ranks.synchronize()
        times.append(1e6 * (time.perf_counter() - begin))
    return statistics.median(times)


def check_shapes(ranks, choose, generator):
    failures = 0
    for _ in range(12):
        rows = choose.choice([1, 7, 64, 1000, 1024, 1025, 4096, 5000])
        columns, depth = choose.choice([256, 1000, 4096]), choose.choice([64, 512, 1000, 4096])
        work = Work(ranks, rows, columns, depth, 2, generator)
        for number in (0, 1):
            work.launch("engine", number)
            ranks.synchronize()
            found = work.wrong(number)
            failures += found
            if found:
                print(f"{rows} x {columns} x {depth}: wrong on {found} ranks")
    return failures


def check_many(ranks, choose, generator):
    """Launches without a pause; the results of each are kept on the device."""
    works = [Work(ranks, rows, 1024, 1024, 8, generator) for rows in (2048, 3000)]
    kept = []
    for number in range(LAUNCHES):
        work = choose.choice(works)
        late = choose.randrange(ranks.count) if choose.random() < 0.2 else None
        if late is not None:
            with ranks.on(late):
                torch.cuda._sleep(NAP)
        work.launch(choose.choice(["engine", "engine", "programs"]), number % 8)
        for rank in range(ranks.count):
            with ranks.on(rank):
                kept.append((work, number % 8, rank, work.outs[rank].double().sum(dim=1)))
    ranks.synchronize()
    failures = 0
    for work, number, _rank, sums in kept:
        wanted = work.wanted[number].sum(dim=1)
        scale = wanted.abs().max() + work.shape[1]
        failures += bool((sums.cpu() - wanted).abs().max() > TOLERANCE * scale)
    return failures


def check_graph(ranks, generator):
    work = Work(ranks, 4096, 2048, 1024, 4, generator)
    work.launch("engine", 0)
    ranks.synchronize()
    inputs = [torch.empty_like(shard) for shard in work.shards[0]]
    # Inputs of a graph stay where they are.
    ranks.launch("engine", inputs, work.weights, work.outs)
    ranks.synchronize()
    graphs = [torch.cuda.CUDAGraph() for _ in range(ranks.count)]
    for rank, graph in enumerate(graphs):
        with ranks.on(rank), torch.cuda.graph(graph, stream=ranks.streams[rank],
                                              capture_error_mode="thread_local"):
            ranks.kernels["engine"](inputs[rank], work.weights[rank], work.outs[rank],
                                    team=ranks.team, rank=rank)
    failures = 0
    for replay in range(REPLAYS):
        for rank, graph in enumerate(graphs):
            with ranks.on(rank):
                inputs[rank].copy_(work.shards[replay % 4][rank])
                graph.replay()
        if replay % 10 in (0, 9):
            ranks.synchronize()
            failures += work.wrong(replay % 4)
        # A launch beside graphs.
        if replay % 25 == 24:
            work.launch("engine", 1)
            ranks.synchronize()
            failures += work.wrong(1)
    ranks.synchronize()
    return failures


def main():
    gpus = torch.cuda.device_count()
    count = int(sys.argv[1]) if len(sys.argv) > 1 else min(gpus, 2)
    if count < 2 or count > gpus:
        print(f"copy_engine_check.py needs two GPUs or more, and there are {gpus}")
        return 0
    seed = int(os.environ.get("SEED", "0")) or random.randrange(1 << 30)
    choose, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    ranks = Ranks(count)
    # Torch loads kernels when they are first used, for which nothing may wait on that GPU.
    for rank in range(count):
        with ranks.on(rank):
            torch.cuda._sleep(1)
            torch.zeros(8, 8, dtype=torch.bfloat16, device="cuda").double().sum(dim=1)
    ranks.synchronize()
    failures = {"shapes": check_shapes(ranks, choose, generator),
                "many launches": check_many(ranks, choose, generator),
                "graph": check_graph(ranks, generator)}
    print(f"{count} GPUs, seed {seed}: " +
          ", ".join(f"{name} {wrong} wrong" for name, wrong in failures.items()))
    print("rows a rank, columns, depth: programs, copy engine (us a launch, with the host's time)")
    for shape in ((1024, 4096, 4096), (2048, 8192, 4096), (4096, 8192, 8192), (8192, 8192, 8192)):
        work = Work(ranks, *shape, 1, generator)
        times = {}
        for name in ("programs", "engine", "programs", "engine"):
            work.launch(name, 0)
            times[name] = min(times.get(name, float("inf")), microseconds(work, name))
        print(f"  {shape}: {times['programs']:.0f}, {times['engine']:.0f}")
    ranks.team.close()
    return 1 if any(failures.values()) else 0


sys.exit(main())
