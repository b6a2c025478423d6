# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""More work never takes less time by the model: longer_launches.py DTILEC PROGRAM KERNEL TARGET [SEED].

For random launches, each of the sizes M, N and K is made larger; no configuration's estimate falls.
All rows begin at multiples of 128 bytes: a launch of longer ones that do is shorter than one of rows
that do not. Programs share loads in pairs only where half of the processors have work, so an estimate
may fall by what the shares are worth to few: 2 % are let pass.
"""

import json
import math
import random
import subprocess
import sys

dtilec, program, kernel, target = sys.argv[1:5]


def estimate(sizes):
    said = subprocess.run(
        [dtilec, "explain", program, "--kernel", kernel, "--target", target, "--json", "--sizes",
         ",".join(f"{name}={size}" for name, size in sizes.items())],
        capture_output=True, text=True, check=True,
    )
    return {str(row["constants"]): row["ns"] for row in json.loads(said.stdout)}


# Elements of two bytes in a line of the cache.
LINE = 64


def lines(size):
    return -(-size // LINE) * LINE


seed = int(sys.argv[5]) if len(sys.argv) > 5 else random.randrange(1 << 30)
print("seed", seed)
draw = random.Random(seed)
compared, wrong = 0, 0
for _ in range(6):
    sizes = {name: lines(int(math.exp(draw.uniform(0, 10)))) for name in "MNK"}
    before = estimate(sizes)
    for name in sizes:
        after = estimate({**sizes, name: lines(sizes[name] * 2 + draw.randrange(100))})
        for constants, time in before.items():
            compared += 1
            if after[constants] < 0.98 * time:
                wrong += 1
                print(f"{constants}: {time} at {sizes}, {after[constants]} with more of {name}")
print("compared:", compared > 0, "shorter:", wrong)
