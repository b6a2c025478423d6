# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tunes kernels for this machine's processors by the Python package: python_tunes.py INPUTS FOLDER."""

import array
import ast
import os
import shutil
import subprocess
import sys

inputs, folder = sys.argv[1:]
log = os.path.join(folder, "log")
wrapper = os.path.join(folder, "dtilec")
with open(wrapper, "w") as file:
    file.write(f'#!/bin/sh\necho "$1" >> {log}\nexec "$REAL" "$@"\n')
os.chmod(wrapper, 0o755)
os.environ["DTILEC"] = wrapper

import dtile
from dtile import tune as tune_function
from dtile.tune import _words, _write_npy


def calls():
    """What dtilec was asked for since the last time."""
    if not os.path.exists(log):
        return ""
    with open(log) as file:
        words = file.read().split()
    os.unlink(log)
    return " ".join(words)


def launches():
    table, = (name for name in os.listdir(kept) if name.endswith(".tune"))
    with open(os.path.join(kept, table)) as file:
        return sum(line.startswith("W=1 ") for line in file)


def attempt(what, call):
    try:
        call()
    except dtile.DtileError as error:
        print(f"{what}: {type(error).__name__}: {error}".splitlines()[0])


program = os.path.join(folder, "row_sums.dtile")
kept = os.path.join(folder, "kept")
shutil.copy(os.path.join(inputs, "row_sums.dtile"), program)
plain = dtile.build(program, target="host", folder=kept).row_sums
tuned = dtile.tune(plain, (8, 4000), seconds=1)
print("first:", calls())
dtile.tune(plain, (8, 4000), seconds=1)
print("again:", calls())
dtile.tune(plain, x=(8, 100), seconds=1)
print("other rows:", calls())
print("table:", launches(), "launches")
dtile.tune(tuned, (2, 100), (2,), seconds=1)
print("tuned further:", calls())
print("table:", launches(), "launches")
with open(program, "a") as file:
    file.write("\nkernel more(x: out f32[N]) over (n in N by 8) { x[n] = zeros<f32>[8]; }\n")
changed = dtile.build(program, target="host", folder=kept).row_sums
dtile.tune(changed, (8, 4000), seconds=1)
print("another program:", calls())

code = ("import sys, dtile; dtile.tune(dtile.build(sys.argv[1], target='host', "
        "folder=sys.argv[2]).row_sums, (5, 999), seconds=1)")
both = [subprocess.Popen([sys.executable, "-c", code, program, kept]) for _ in range(2)]
fine = all([process.wait() == 0 for process in both])
print("of two processes one measured:", fine and calls().split().count("tune") == 1)


class Numbers:
    """What a kernel with a number is called with."""
    name = "scaled"
    params = [("scale", 1, 0, 13, 0)]


print("numbers:", *_words(Numbers, [0.5], folder)[0])


class Tensor:
    """As much of a tensor of PyTorch as is needed."""

    def __init__(self, values):
        self._values = array.array("i", values)
        self.shape = (len(values),)
        self.detach = self.cpu = self.contiguous = lambda: self

    def data_ptr(self):
        return self._values.buffer_info()[0]

    def numel(self):
        return len(self._values)

    def element_size(self):
        return self._values.itemsize


path = os.path.join(folder, "x.npy")
_write_npy(path, Tensor([1, 2, 3]), "<i4")
with open(path, "rb") as file:
    content = file.read()
length = int.from_bytes(content[8:10], "little")
header = ast.literal_eval(content[10:10 + length].decode())
print("integers:", (content[:6], header["shape"],
                    content[10 + length:] == array.array("i", [1, 2, 3]).tobytes() and
                    (10 + length) % 64 == 0))
attempt("no program", lambda: tune_function(dtile.load(plain._library._path).row_sums, (8, 4000)))
attempt("no shape", lambda: dtile.tune(plain, 3))
attempt("wrong rank", lambda: dtile.tune(plain, (8, 4000, 2), seconds=1))
