# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures what a kernel leaves to the compiler, and builds it with what was found."""

import ctypes
import fcntl
import os
import struct
import tempfile

from . import _abi, _cache
from ._abi import DtileInvalid, check, runtime
from .build import build, command_for, digest, folder_for, run, stem_of
from .kernels import _is_shape

# NumPy's names of the integers that have to make sense.
_INTEGERS = {"int16": "<i2", "int32": "<i4", "int64": "<i8"}


def _machine(target, device):
    text = ctypes.create_string_buffer(256)
    check(runtime().dtile_machine_name(target.encode(), device, text, len(text)))
    return text.value.decode()


def _write_npy(path, tensor, descr):
    """What NumPy would write, without it."""
    tensor = tensor.detach().cpu().contiguous()
    shape = "".join(f"{size}, " for size in tensor.shape)
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}"
    header += " " * (-(10 + len(header) + 1) % 64) + "\n"
    data = ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size())
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)


def _words(kernel, values, folder):
    """Options of `dtilec tune` for a launch, and what tells it from others."""
    words, known = [], []
    for value, (name, kind, _, _, _) in zip(values, kernel.params):
        if value is None:
            continue
        if kind == _abi.PARAM_SCALAR:
            number = int(value) if isinstance(value, bool) else value
            words += ["--arg", f"{name}={number!r}"]
            known.append((name, number))
            continue
        if not _is_shape(value) and not hasattr(value, "shape"):
            raise DtileInvalid(f"{kernel.name}, argument `{name}`: a tensor or a shape is wanted, "
                               f"not a {type(value).__name__}")
        shape = tuple(int(size) for size in (value if _is_shape(value) else value.shape))
        words += ["--shape", f"{name}={'x'.join(map(str, shape))}"]
        known.append((name, shape))
        descr = None if _is_shape(value) else _INTEGERS.get(str(value.dtype).rsplit(".", 1)[-1])
        if descr:
            path = os.path.join(folder, f"{len(words)}.npy")
            _write_npy(path, value, descr)
            words += ["--arg", f"{name}={path}"]
    return words, known


def tune(kernel, *args, ranks=1, devices=None, seconds=60, **named):
    """Measures what `kernel`, of dtile.build, leaves to the compiler, for launches with such
    arguments: tensors, shapes or numbers, in order or by name; outputs may be left out. Gives the
    kernel that launches the fastest. `ranks` are measured in one process of their own, on
    `devices`. What was measured is kept beside what was built, and is not measured again: of
    several processes one measures, and the others wait for it."""
    request = getattr(kernel._library, "_request", None)
    if request is None:
        raise DtileInvalid(f"{kernel.name} is not of dtile.build, so that nobody knows its program")
    request = dict(request)
    values = kernel._arrange(args, None, named)
    constants = {name: value for name, value in request.items()
                 if name not in ("source", "target", "arch", "folder", "flags", "shmem", "sizes")}
    source, target = request["source"], request["target"]
    command = command_for("tune", source, target, request["arch"], constants)
    machine = _machine(target, devices[0] if devices else 0)
    stamp = os.stat(command[0])
    folder = folder_for(request["folder"])
    flags = request["flags"]
    if len(flags) > 1 and flags[-2] == "--tuning":
        flags = flags[:-2]
    place = os.path.join(folder, f"{stem_of(source)}-" + digest(
        os.path.abspath(source), command, flags, machine, stamp.st_size, stamp.st_mtime_ns))
    table, done = place + ".tune", place + ".tuned"
    command += ["--kernel", kernel.name, "--ranks", str(ranks), "--seconds", str(seconds)]
    if devices:
        command += ["--devices", ",".join(map(str, devices))]
    with tempfile.TemporaryDirectory(prefix="tune-", dir=folder) as own, open(done, "a+") as file:
        words, known = _words(kernel, values, own)
        # Without what was tuned before, the library's name says what the program's files hold.
        plain = build(**{**request, "flags": flags})
        key = digest(os.path.basename(plain._path), kernel.name, known, ranks)
        # It goes with a process that dies.
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        if key not in file.read().split() or not os.path.exists(table):
            run(command + words + ["-o", table])
            file.write(key + "\n")
            file.flush()
    if not _cache.is_trusted(table):
        raise DtileInvalid(f"{table} could have been written by others; remove it")
    return getattr(build(**{**request, "flags": (*flags, "--tuning", table)}), kernel.name)
