# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tunes products of random shapes on a GPU, and runs what was built with the table.

    python3 tests/gpu/tune_check.py [--shapes N] [--seconds S] [--seed X]
                                    ($DTILEC; dtile in PYTHONPATH)

For each shape: `tune` ends in time, `explain` says that its choice runs, and a kernel that was made
with the table gives what torch gives. Prints by how much the measured choices are faster than the
model's, by `tune` and again here.
"""

import argparse
import math
import os
import random
import re
import subprocess
import sys
import tempfile
import time

import torch

import dtile

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.join(HERE, "../../examples/gemm/gemm.dtile")
DTILEC = os.environ.get("DTILEC", "dtilec")


def shapes(count, seed):
    """Rows from 1 to 16384, the others multiples of 8 from 256 to 8192, log-uniform."""
    numbers = random.Random(seed)
    log = lambda low, high: int(math.exp(numbers.uniform(math.log(low), math.log(high))))
    return [(log(1, 16384), log(32, 1024) * 8, log(32, 1024) * 8) for _ in range(count)]


def microseconds(call):
    """The least of several batches of launches, in the caller's stream."""
    call()
    torch.cuda.synchronize()
    least = math.inf
    for _ in range(5):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(20):
            call()
        end.record()
        torch.cuda.synchronize()
        least = min(least, begin.elapsed_time(end) * 1000 / 20)
    return least


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shapes", type=int, default=20)
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()

    print(f"seed {options.seed}")
    todo = shapes(options.shapes, options.seed)
    with tempfile.TemporaryDirectory() as folder:
        table = os.path.join(folder, "gemm.tune")
        launches = ";".join(f"M={m},N={n},K={k}" for m, n, k in todo)
        begin = time.monotonic()
        subprocess.run([DTILEC, "tune", SOURCE, "--target", "nvptx", "--kernel", "gemm",
                        "--sizes", launches, "--seconds", str(options.seconds), "-o", table],
                       check=True)
        took = time.monotonic() - begin
        with open(table, encoding="utf-8") as file:
            text = file.read()
        arch = re.search(r"^target nvptx (\w+)$", text, re.MULTILINE).group(1)
        lines = re.findall(r"^W=1 .* : ([\d.]+) us instead of ([\d.]+)$", text, re.MULTILINE)
        assert len(lines) == len(set(todo)), (len(lines), len(todo))
        gains = [float(usual) / float(own) for own, usual in lines]
        dtile.Team.local([0]).use()
        usual = dtile.build(SOURCE, folder=folder).gemm
        tuned = dtile.build(SOURCE, folder=folder, flags=("--tuning", table)).gemm
        again = []
        for m, n, k in todo:
            said = subprocess.run([DTILEC, "explain", SOURCE, "--target", "nvptx", "--arch", arch,
                                   "--kernel", "gemm", "--tuning", table, "--sizes",
                                   f"M={m},N={n},K={k}"], check=True, stdout=subprocess.PIPE,
                                  text=True).stdout
            assert "which runs" in said and "measured for W=1" in said, said
            a = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
            b = torch.randn(n, k, device="cuda", dtype=torch.bfloat16)
            c = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
            tuned(a, b, out=c)
            torch.cuda.synchronize()
            torch.testing.assert_close(c, a @ b.T, rtol=2e-2, atol=2e-2 * k ** 0.5)
            again.append(microseconds(lambda: usual(a, b, out=c)) /
                         microseconds(lambda: tuned(a, b, out=c)))
    mean = lambda values: math.exp(sum(map(math.log, values)) / len(values))
    print(f"{len(todo)} shapes in {took:.0f} s; faster than the model's choice by "
          f"{mean(gains):.3f} as tuned, {mean(again):.3f} again, least {min(again):.3f}")
    # What is decided within noise may come out the other way round.
    sys.exit(mean(again) < 0.99 or took > options.seconds * 1.5 + 60)


if __name__ == "__main__":
    main()
