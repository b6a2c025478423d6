#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Writes the .npy files of this folder with NumPy: python3 make.py. They are checked in, so that tests need no NumPy.

import os

import numpy as np

os.chdir(os.path.dirname(os.path.abspath(__file__)))

KINDS = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]
for kind in KINDS:
    name = "bool" if kind == "?" else kind
    np.save(f"counting_{name}.npy", (np.arange(12) - (0 if kind[0] in "?u" else 4)).reshape(3, 4).astype(kind))

np.save("fortran.npy", np.asfortranarray(np.arange(24, dtype="f4").reshape(2, 3, 4)))
np.save("scalar.npy", np.float64(2.5))
np.save("empty.npy", np.zeros((0, 7), dtype="f4"))
np.save("vector.npy", np.arange(5, dtype="i8"))
np.save("big_endian.npy", np.arange(3, dtype=">f4"))
np.save("complex.npy", np.zeros(2, dtype="c8"))
np.save("structured.npy", np.zeros(2, dtype=[("x", "f4"), ("y", "i4")]))
np.save("object.npy", np.array([{}], dtype=object))
np.save("raw16.npy", np.array([0x3F80, 0xC000], dtype="u2").view("V2"))
np.save("raw8.npy", np.array([0x38, 0xC0], dtype="u1").view("V1"))
np.save("bits16.npy", np.array([0x3F80, 0xC000], dtype="u2"))
for version in [(1, 0), (2, 0), (3, 0)]:
    with open(f"version{version[0]}.npy", "wb") as file:
        np.lib.format.write_array(file, np.arange(6, dtype="f4").reshape(2, 3), version=version)
