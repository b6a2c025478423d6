# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a trace costs on a GPU: ag_gemm of two ranks at random sizes, built without and with calls
for traces, and with these while a trace is on. A table of times on the device, medians of launches
in turn, from the first rank's begin to the last one's end; results are checked first.

usage: python3 tests/gpu/trace_cost.py [SEED]     ($DTILEC; dtile in PYTHONPATH)
"""

import contextlib
import os
import random
import statistics
import sys
import tempfile

import torch

import dtile

HERE = os.path.dirname(os.path.abspath(__file__))
RANKS, SHAPES, LAUNCHES, REPEATS = 2, 4, 8, 9


def build(flags):
    return dtile.build(os.path.join(HERE, "../../examples/ag_gemm/ag_gemm.dtile"),
                       flags=flags).ag_gemm


class Launches:
    """Launches of a kernel on all ranks, with data of their own."""

    def __init__(self, rows, columns, depth):
        self.shards = [torch.randn(rows, depth, device="cuda").bfloat16() for _ in range(RANKS)]
        self.b = torch.randn(columns, depth, device="cuda").bfloat16()
        self.outs = [torch.empty(RANKS * rows, columns, device="cuda", dtype=torch.bfloat16)
                     for _ in range(RANKS)]
        self.streams = [torch.cuda.Stream() for _ in range(RANKS)]
        self.wanted = torch.cat(self.shards).float() @ self.b.float().T

    def run(self, kernel, team, launches):
        """Microseconds a launch, from the first rank's begin to the last one's end."""
        begins = [torch.cuda.Event(enable_timing=True) for _ in range(RANKS)]
        ends = [torch.cuda.Event(enable_timing=True) for _ in range(RANKS)]
        torch.cuda.synchronize()
        for rank, stream in enumerate(self.streams):
            begins[rank].record(stream)
        for _ in range(launches):
            for rank, stream in enumerate(self.streams):
                with torch.cuda.stream(stream):
                    kernel(self.shards[rank], self.b, out=self.outs[rank], team=team, rank=rank)
        for rank, stream in enumerate(self.streams):
            ends[rank].record(stream)
        team.synchronize()
        torch.cuda.synchronize()
        return max(begin.elapsed_time(end) for begin in begins for end in ends) * 1e3 / launches

    def are_right(self):
        return all(torch.allclose(out.float(), self.wanted, rtol=2e-2, atol=0.5)
                   for out in self.outs)


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else random.randrange(1 << 16)
    draw = random.Random(seed)
    torch.manual_seed(seed)
    plain, traceable = build(()), build(("--trace",))
    print(f"seed {seed}, {RANKS} ranks on one GPU, µs a launch")
    print("rows x columns x depth, a rank    plain  with calls  traced  traced/plain")
    wrong, ratios = 0, []
    with tempfile.TemporaryDirectory() as folder, \
            dtile.Team.local([0] * RANKS, symmetric_bytes=512 << 20,
                             wait_timeout_ms=10_000) as team:
        for _ in range(SHAPES):
            sizes = [128 * draw.randint(2, 32) for _ in range(3)]
            launches = Launches(*sizes)
            ways = [(plain, False), (traceable, False), (traceable, True)]
            times = [[] for _ in ways]
            for repeat in range(REPEATS):
                for way, (kernel, is_on) in enumerate(ways):
                    trace = (team.trace(os.path.join(folder, "trace.json"), 4_000_000)
                             if is_on else contextlib.nullcontext())
                    for out in launches.outs:
                        out.fill_(7.0)
                    with trace:
                        time = launches.run(kernel, team, LAUNCHES)
                    if repeat:
                        times[way].append(time)
                    wrong += not launches.are_right()
            medians = [statistics.median(each) for each in times]
            ratios.append(medians[2] / medians[0])
            print(f"{'x'.join(map(str, sizes)):<30}{medians[0]:>9.1f}{medians[1]:>12.1f}"
                  f"{medians[2]:>8.1f}{ratios[-1]:>14.3f}", flush=True)
    print(f"geometric mean {statistics.geometric_mean(ratios):.3f}, {wrong} results wrong")
    return 1 if wrong else 0


sys.exit(main())
