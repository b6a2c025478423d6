#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How long dtilec takes: each example to scheduled IR and to an object file, start-up, and a
generated file of 50,000 lines. Whole commands, wall clock, the median of several runs.

    tests/bench/compile_time.py [DTILEC]        default: build/bin/dtilec
"""

import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUNS = 5
LINES = 50_000


def median_ms(command):
    """The median over RUNS of the command's wall time, after one run that is not counted."""
    times = []
    for run in range(RUNS + 1):
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if run:
            times.append(1000 * (time.perf_counter() - start))
    return statistics.median(times)


def generated_program(lines):
    """Kernels that send, wait and compute, one after the other, until there are so many lines."""
    out = []
    number = 0
    while len(out) < lines:
        out += [
            f"/// Kernel {number}.",
            f"kernel k{number}<T: dtype = f32, B = 64>(",
            "    a: in T[N], b: in T[N], c: out T[N],",
            "    box: scratch symm T[W, N], s: symm signal[W],",
            ") {",
            "    role send over (peer in 0..W) {",
            "        let gone = put(a[:], box@peer[rank(), :]);",
            "        notify(s@peer[rank()], after: gone);",
            "    }",
            "    role work over (i in N by B) {",
            "        let x0 = a[i];",
        ]
        out += [f"        let x{j + 1} = x{j} * b[i] + {j}.5;" for j in range(30)]
        out += [
            "        var acc = cast<T>(x30);",
            "        for r in 0..W { acc += box[r, i] after wait(s[r]); }",
            "        c[i] = acc;",
            "    }",
            "}",
            "",
        ]
        number += 1
    return "\n".join(out) + "\n"


def main():
    dtilec = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "build/bin/dtilec")
    print(f"{'dtilec --version':32} {median_ms([dtilec, '--version']):8.1f} ms   (goal 50)")
    print(f"{'example':32} {'to IR -O2':>11} {'to object':>11}   (goals 20 and 300 ms)")
    with tempfile.TemporaryDirectory() as folder:
        for example in sorted((ROOT / "examples").glob("*/*.dtile")):
            to_ir = median_ms([dtilec, "ir", "-O2", str(example)])
            target = os.path.join(folder, "a.o")
            to_object = median_ms([dtilec, "build", str(example), "-o", target])
            print(f"{example.stem:32} {to_ir:8.1f} ms {to_object:8.1f} ms")
        big = os.path.join(folder, "big.dtile")
        pathlib.Path(big).write_text(generated_program(LINES))
        start = time.perf_counter()
        subprocess.run([dtilec, "ir", "-O2", big], check=True, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        name = f"{LINES} lines to IR -O2"
        print(f"{name:32} {seconds:8.2f} s  {peak:8.0f} MiB   (goals 3 s, 1024 MiB)")


if __name__ == "__main__":
    main()
