# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Asks the kernels of dtile.ops whether they take the sizes of models that are in use, on a team of
two GPUs with heaps of 2 GiB. Nothing is launched. Prints what is refused.

    models_are_supported.py FOLDER     with a library of each program, as _programs.py names it"""

import os
import sys

import dtile
from dtile import _abi, _programs, kernels

# Rows that an AllGather-GEMM gathers from all ranks.
ROWS = (1, 16, 512, 4091, 8192)
# Columns of all ranks' weights, and the length of the sums of its products. A GEMM-ReduceScatter
# adds up the former, and has the latter as columns.
LAYERS = {
    "LLaMA-7B": (11008, 4096), "LLaMA-3.1-8B": (14336, 4096), "LLaMA-3.1-70B": (28672, 8192),
    "Qwen2-72B": (29568, 8192), "LLaMA-3.1-405B": (53248, 16384), "GPT-3": (49152, 12288),
    "Qwen3-32B": (25600, 5120), "6656 columns": (6656, 16384), "square": (16384, 16384),
}
# Rows, columns, and a rank's part of the sum's length.
ALL_REDUCED = ((1024, 8192, 1024), (1024, 8192, 3584), (2048, 8192, 3584), (16384, 8192, 3584),
               (32, 5120, 25600), (28000, 7168, 4096), (2048, 5120, 3200))
# Bytes of a vector that is gathered, scattered or reduced.
VECTORS = (2, 4 << 10, 10 << 10, 640 << 10, 1 << 20, 128 << 20)
# Every rank has room for all ranks' vectors.
MOST_IN_ONE_SHOT = 1 << 20


def questions(ranks):
    """Kernel, and the shapes of its tensors."""
    ones, none = (1,), (0,)
    for columns, k in LAYERS.values():
        n = -(-columns // ranks)
        for rows in ROWS:
            mine = -(-rows // ranks)
            every = mine * ranks
            yield "all_gather_matmul", (mine, k), (n, k), (every, n)
            yield "matmul_reduce_scatter", (every, n), (k, n), (mine, k)
            yield "matmul_all_reduce", (rows, n), (k, n), (rows, k)
            yield ("all_gather_row_scaled_matmul", (mine, k), (1, mine), (n, k), (n,), none,
                   (every, k), (every, n))
            yield ("all_gather_tensor_scaled_matmul", (mine, k), ones, (n, k), ones, (n,),
                   (every, k), (every, n))
            yield ("row_scaled_matmul_reduce_scatter", (every, n), (1, every), (k, n), (k,), (k,),
                   (mine, k))
            yield ("tensor_scaled_matmul_reduce_scatter", (every, n), ones, (k, n), ones, none,
                   (mine, k))
            yield "row_scaled_matmul", (every, k), (1, every), (n, k), (n,), none, (every, n)
            yield "tensor_scaled_matmul", (every, k), ones, (n, k), ones, none, (every, n)
    for rows, n, k in ALL_REDUCED:
        yield "matmul_all_reduce", (rows, k), (n, k), (rows, n)
    for size in VECTORS:
        count = size // 2
        yield "two_shot", (count,), (count,)
        yield "all_reduce", (count,), (count,)
        if size <= MOST_IN_ONE_SHOT:
            yield "one_shot", (count,), (count,)
        yield "all_gather", (count,), (ranks, count)
        yield "reduce_scatter", (ranks, count), (count,)


def main():
    kernels._dtype_numbers = {}
    loaded = {}
    for name, (program, symbol) in _programs.PROGRAMS.items():
        path = os.path.join(sys.argv[1], _programs.file_name(program, "bf16"))
        loaded[name] = getattr(dtile.load(path), symbol)
    refused, asked, names = 0, 0, set()
    with dtile.Team.local(range(2), symmetric_bytes=2 << 30) as team:
        for name, *shapes in questions(team.size):
            asked += 1
            names.add(name)
            why = loaded[name].refusal(*shapes, team=team)
            if why:
                refused += 1
                print(f"{name} {shapes}: {why}")
    # What takes arguments in symmetric memory of the caller's is asked with tensors only.
    assert names == set(loaded) - {"all_reduce_symmetric"}, set(loaded) - names
    print(f"{asked} questions about {len(names)} kernels, {refused} refused")


main()
