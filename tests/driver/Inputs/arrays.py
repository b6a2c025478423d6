# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes the arrays that run_reads_and_writes_arrays.test gives to kernels, and checks what they wrote."""

import sys

import numpy as np

what, folder = sys.argv[1:3]
read = lambda name: np.load(f"{folder}/{name}.npy")
if what == "make":
    random = np.random.default_rng(7)
    for rank in range(3):
        np.save(f"{folder}/x{rank}.npy", random.random(130, dtype=np.float32))
    np.save(f"{folder}/sum.npy", random.random(130, dtype=np.float32))
    np.save(f"{folder}/half.npy", random.random(5).astype(np.float16))
    np.save(f"{folder}/bits.npy", np.array([0x3F80, 0x4000, 0xC040], np.uint16))
    np.save(f"{folder}/matrix.npy", np.zeros((3, 4), np.float32))
    np.save(f"{folder}/double.npy", np.zeros(130))
    np.save(f"{folder}/short.npy", np.zeros(3, np.float32))
elif what == "exchange":
    ranks = int(sys.argv[3])
    for rank in range(ranks):
        wanted = read("sum") + read(f"x{(rank - 1) % ranks}")
        for executor in ("host", "interp"):
            assert (read(f"{executor}{rank}") == wanted).all(), (executor, rank)
elif what == "scale":
    assert (read("y") == read("x0") * np.float32(-2.5)).all()
    half = read("half").astype(np.float32) * np.float32(-2.5)
    assert read("half_y").dtype == np.float16
    assert (read("half_y") == half.astype(np.float16)).all()
elif what == "bits":
    # bfloat16 1, 2 and -3, doubled.
    assert list(read("bits_y").view(np.uint16)) == [0x4000, 0x4080, 0xC0C0]
