# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What every benchmark on GPUs does: checks first, on fresh random data; then GPU time, ranks
started together, the median of many, the slowest rank; one JSON object a line, a table at the
end."""

import json
import os
import time

import dtile
import torch
import torch.distributed as dist

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "examples")


def source_of(options, name):
    """The file of a program: of `--source`, else the example. `ag_gemm/any_rows` is that file of
    the example ag_gemm."""
    path = name if "/" in name else f"{name}/{name}"
    return options.source.get(name, os.path.join(EXAMPLES, path + ".dtile"))


def team_for(bench, options):
    return dtile.Team.from_torch(symmetric_bytes=options.heap << 20, wait_timeout_ms=10_000)


def build(bench, options, name, flags=(), **constants):
    """The kernels of a program, and the seconds that building took; rank 0 compiles first, the
    others find what it has built."""
    library, seconds = None, 0.0
    for turn in (bench.rank == 0, bench.rank != 0):
        if turn:
            begin = time.perf_counter()
            library = dtile.build(source_of(options, name), arch=options.arch, flags=flags,
                                  **constants)
            seconds = time.perf_counter() - begin
        dist.barrier()
    return library, seconds


def kernel_of(bench, options, program, name, **constants):
    """One kernel of a program. `constants`: types, and what callers see in the shapes of
    arguments; everything else the compiler chooses, but for what `--pin` says."""
    library, _ = build(bench, options, program, flags=("--kernel", name),
                       **(options.pin | constants))
    return getattr(library, name)


def measured(bench, name, launch, check):
    """Milliseconds and error of a launch that `check` found right: (None, error) where it did
    not."""
    try:
        good, error = check(name, launch)
    except dtile.DtileError as failure:
        bench.failures += 1
        bench.say(f"FAILED {name}: {failure}")
        return None, None
    return (bench.milliseconds(launch) if good else None), error


class Bench:
    """The process group, and the rows that were measured."""

    def __init__(self, runs=20):
        self.rank = int(os.environ["RANK"])
        self.ranks = int(os.environ["WORLD_SIZE"])
        self.runs = runs
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        device = torch.device("cuda", torch.cuda.current_device())
        dist.init_process_group("nccl", device_id=device)
        self.one = torch.zeros(1, device="cuda")
        self.seed = 1000 * self.rank + int(time.time()) % 1000
        self.rows = []
        self.failures = 0
        out = os.environ.get("OUT")
        self.file = open(os.path.join(out, "bench.jsonl"), "a") if out and self.rank == 0 else None

    # ---- Data ----

    def random(self, *shape, dtype=torch.bfloat16):
        """Never the same twice, never the same on two ranks."""
        self.seed += 1
        generator = torch.Generator(device="cuda").manual_seed(self.seed)
        if dtype == torch.uint8:
            return torch.randint(0, 256, shape, device="cuda", dtype=dtype, generator=generator)
        return torch.randn(*shape, device="cuda", generator=generator).to(dtype)

    @staticmethod
    def poison(tensor):
        tensor.fill_(float("nan") if tensor.dtype.is_floating_point else 0xA5)

    # ---- Checks ----

    @staticmethod
    def worst(value):
        """The largest of all ranks; not a number counts as infinite."""
        value = torch.as_tensor(value, device="cuda").double()
        worst = torch.nan_to_num(value, nan=float("inf"), posinf=float("inf")).float().reshape(1)
        dist.all_reduce(worst, op=dist.ReduceOp.MAX)
        return worst.item()

    def error(self, got, want):
        """The relative error of the worst rank; not a number counts as infinite."""
        want = want.double()
        return self.worst((got.double() - want).norm() / want.norm().clamp_min(1e-30))

    def check(self, what, launch, fill, output, reference, tolerance, times=3, error=None):
        """Runs `launch` on fresh inputs; True when every run was right. `error`: how far an output
        is from a reference, by default as `Bench.error` says."""
        worst = 0.0
        for _ in range(times):
            fill()
            self.poison(output)
            launch()
            torch.cuda.synchronize()
            worst = max(worst, (error or self.error)(output, reference()))
        good = worst <= tolerance
        if not good:
            self.failures += 1
            self.say(f"WRONG {what}: relative error {worst:.2e}, at most {tolerance:.0e}")
        return good, worst

    # ---- Time ----

    def milliseconds(self, f, warm=3):
        """GPU time: enqueuing is hidden behind a sleep, and ranks leave a collective together."""
        for _ in range(warm):
            f()
        torch.cuda.synchronize()
        times = []
        for _ in range(self.runs):
            start = torch.cuda.Event(enable_timing=True)
            stop = torch.cuda.Event(enable_timing=True)
            torch.cuda._sleep(4_000_000)
            dist.all_reduce(self.one)
            start.record()
            f()
            stop.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(stop))
        median = torch.tensor(sorted(times)[self.runs // 2], device="cuda")
        dist.all_reduce(median, op=dist.ReduceOp.MAX)
        return median.item()

    def attempt(self, f):
        """The time of a peer, or None where it cannot run this: all ranks decide alike."""
        try:
            f()
            torch.cuda.synchronize()
            failed = 0.0
        except Exception as error:  # a peer's failure is no failure of ours
            self.say("peer:", str(error).split("\n")[0][:120])
            failed = 1.0
        anywhere = torch.tensor([failed], device="cuda")
        dist.all_reduce(anywhere, op=dist.ReduceOp.MAX)
        return None if anywhere.item() else self.milliseconds(f)

    # ---- Results ----

    def say(self, *words):
        if self.rank == 0:
            print(*words, flush=True)

    def row(self, **values):
        self.rows.append(values)
        if self.rank == 0:
            text = json.dumps({key: round(value, 5) if isinstance(value, float) else value
                               for key, value in values.items()})
            print(text, flush=True)
            if self.file:
                self.file.write(text + "\n")
                self.file.flush()

    def finish(self):
        """The table; the number of failures is everybody's."""
        self.say(f"\n{torch.cuda.get_device_name()}, {self.ranks} "
                 f"{'rank' if self.ranks == 1 else 'ranks'}, torch {torch.__version__}; ms; ratio: "
                 "the peer's time over dtile's")
        columns = []
        for row in self.rows:
            columns += [key for key in row if key not in columns]
        cells = [columns] + [[_text(row.get(key)) for key in columns] for row in self.rows]
        widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
        for line in cells:
            padded = [cell.ljust(width) for cell, width in zip(line, widths)]
            self.say("| " + " | ".join(padded) + " |")
        self.say(f"{self.failures} wrong")
        dist.destroy_process_group()
        return self.failures


def _text(value):
    if value is None:
        return ""
    if not isinstance(value, float):
        return str(value)
    return f"{value:.1e}" if value != 0 and abs(value) < 1e-3 else f"{value:.4g}"


def ratio(peer, own):
    return None if peer is None or not own else round(peer / own, 3)
