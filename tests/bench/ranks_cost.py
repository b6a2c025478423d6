#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What it costs to run many ranks on few cores: the cores' time for ag_gemm on 8 ranks beside
the sum of the products that those ranks compute, each by gemm on one rank and core. Results of
both are checked first.

    tests/bench/ranks_cost.py [DTILEC]        default: build/bin/dtilec; needs python3-numpy
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
RANKS, ROWS, K, N = 8, 256, 512, 1024
REPEAT = 20


def median_ms(dtilec, folder, example, ranks, arguments, cores):
    """The median time of a launch on these processors, as `dtilec run --time` has it."""
    source = str(ROOT / f"examples/{example}/{example}.dtile")
    command = ["taskset", "-c", cores, dtilec, "run", source, "--kernel", example, "--time",
               "--ranks", str(ranks), "--repeat", str(REPEAT), *arguments]
    result = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return float(re.search(r"median ([0-9.]+) ms", result.stdout + result.stderr).group(1))


def check(got, wanted):
    worst = float(np.max(np.abs(got - wanted)))
    if not worst <= 1e-3:
        sys.exit(f"wrong result: off by {worst}")


def main():
    dtilec = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "build/bin/dtilec"))
    cores = os.cpu_count()
    random = np.random.default_rng()
    with tempfile.TemporaryDirectory() as folder:
        shards = [random.uniform(-1, 1, (ROWS, K)).astype(np.float32) for _ in range(RANKS)]
        b = random.uniform(-1, 1, (N, K)).astype(np.float32)
        a = np.concatenate(shards)
        for rank, shard in enumerate(shards):
            np.save(f"{folder}/shard{rank}.npy", shard)
        np.save(f"{folder}/a.npy", a)
        np.save(f"{folder}/b.npy", b)
        wanted = a.astype(np.float64) @ b.T.astype(np.float64)
        one = median_ms(dtilec, folder, "gemm", 1,
                        ["--arg", "a=a.npy", "--arg", "b=b.npy", "--out", "c=c.npy"], "0")
        check(np.load(f"{folder}/c.npy"), wanted)
        all_ranks = median_ms(dtilec, folder, "ag_gemm", RANKS, [
            "--arg", "shard=shard@rank.npy", "--arg", "b=b.npy", "--out", "c=c@rank.npy"],
                              f"0-{cores - 1}")
        for rank in range(RANKS):
            check(np.load(f"{folder}/c{rank}.npy"), wanted)
    print(f"gemm {RANKS * ROWS}x{N}x{K} f32, 1 rank, 1 core      {one:8.2f} ms")
    print(f"ag_gemm of it, {RANKS} ranks, {cores} cores          {all_ranks:8.2f} ms")
    ratio = all_ranks * cores / (RANKS * one)
    print(f"cost of the ranks / sum of their work      {ratio:8.2f}   (goal 1.3)")


if __name__ == "__main__":
    main()
