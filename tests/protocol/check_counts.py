#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Derived counts of random kernels.

    check_counts.py DTILEC FOLDER FIRST LAST

Writes a kernel for each seed from FIRST up to LAST into FOLDER. One role notifies cells of ranks
that it finds by sums, quotients, remainders, blocks and comparisons; another one waits for all
cells. Tests each on 1 to 4 ranks and 9 sizes by the interpreter, which compares what arrives with
what was derived. Prints those that fail.
"""

import os
import random
import subprocess
import sys

KERNEL = """kernel k(x: in f32[M], y: out f32[M + 8 + W], s: symm signal[M + 8 + W]) {{
    role send over ({space}) {{ {notify} }}
    role keep over (i in 0..M + 8 + W) {{ await wait(s[i]); y[i] = x[0]; }}
}}
test "counts" ranks (1, 2, 3, 4) {{
    for size in 1..10 {{ let y = k(random<f32>[size](seed: 1)); expect y == y; }}
}}
"""


def places(choose, c):
    """A space, which ranks its bodies notify, and which cells."""
    row = "m in 0..M"
    one = ["m % W", f"(m / {c}) % W", "(rank() + m) % W", "(rank() + 1) % W", "rank()"]
    of_row = ["m", "m / W", f"m / {c}", f"m % {c}", f"m / {c} / W", f"(m + rank()) / {c}"]
    forms = [
        (row, one, of_row),
        (f"m in 0..M by {c}", one[3:], ["m.index", "m.lo", "m.index / 2", "m.index % 2"]),
        (f"a in 0..{c}, {row}", ["(rank() + a) % W"], of_row + [f"(m * {c} + a) / {c}"]),
        (f"h in 0..W, {row}", ["h", "(rank() + h) % W", "(rank() - h + W) % W", "(h * 2) % W"],
         of_row + ["(h + m) / 2", "(h * M + m) % (M + 1)"]),
        ("i in 0..blocks(M, W)", ["(i * W + rank()) % W", "(rank() + 1) % W", "(i + rank()) % W"],
         ["i * W + rank()", "i", f"(i * W + rank()) / {c}"]),
    ]
    space, ranks, cells = choose(forms)
    return space, choose(ranks), choose(cells)


def kernel(seed):
    draw = random.Random(seed)
    c = draw.choice([2, 3, 4, 5])
    space, rank, cell = places(draw.choice, c)
    notify = f"notify(s@({rank})[{cell}]);"
    if draw.random() < 0.25:
        rounds = draw.choice(["W", "2", "W - 1"])
        notify = f"for j in 0..{rounds} {{ notify(s@(({rank} + j) % W)[{cell}]); }}"
    position = "i" if space.startswith("i ") else "m.lo" if " by " in space else "m"
    condition = draw.choice(["", f"P < M", f"P > {c}", f"P != {c}", f"P == {c}", "P % 2 == 0",
                             "P >= 1 && P < M - 1", "P / 2 < 3", "P % W == rank()"])
    if condition:
        notify = f"if {condition.replace('P', position)} {{ {notify} }}"
    return KERNEL.format(space=space, notify=notify)


def main():
    dtilec, folder, first, last = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    failed = 0
    for seed in range(int(first), int(last)):
        path = os.path.join(folder, f"counts_{seed}.dtile")
        with open(path, "w", encoding="utf-8") as file:
            file.write(kernel(seed))
        done = subprocess.run([dtilec, "test", path, "--executor", "interp"], check=False,
                              capture_output=True, text=True)
        if done.returncode != 0:
            failed += 1
            print(f"seed {seed}:\n{kernel(seed)}{done.stdout}{done.stderr}")
    print(f"{failed} of {int(last) - int(first)} kernels failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
