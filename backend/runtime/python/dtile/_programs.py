# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where the kernels of dtile.ops come from: built ahead of time beside the package, or built from
their program at the first use and kept as dtile.build keeps it."""

import ctypes
import os

from ._abi import DtileUnavailable, check, runtime
from .build import build
from .kernels import load

# Kernel: the program under examples/ that has it, and its name there.
PROGRAMS = {
    "all_gather_matmul": ("ag_gemm/any_rows", "ag_gemm"),
    "matmul_reduce_scatter": ("gemm_rs/gemm_rs", "gemm_rs"),
    "matmul_all_reduce": ("gemm_ar/gemm_ar", "gemm_ar"),
    "one_shot": ("all_reduce/all_reduce", "one_shot"),
    "two_shot": ("all_reduce/all_reduce", "scatter_gather"),
    "all_reduce": ("all_reduce/all_reduce", "allreduce"),
    "all_reduce_symmetric": ("all_reduce/all_reduce", "allreduce_symmetric"),
    "all_gather": ("all_gather/all_gather", "allgather"),
    "reduce_scatter": ("reduce_scatter/reduce_scatter", "reducescatter"),
    "row_scaled_matmul": ("row_scaled_overlaps/row_scaled_overlaps", "row_scaled"),
    "tensor_scaled_matmul": ("row_scaled_overlaps/row_scaled_overlaps", "tensor_scaled"),
    "all_gather_row_scaled_matmul": ("row_scaled_overlaps/row_scaled_overlaps", "ag_row_scaled"),
    "all_gather_tensor_scaled_matmul":
        ("row_scaled_overlaps/row_scaled_overlaps", "ag_tensor_scaled"),
    "row_scaled_matmul_reduce_scatter":
        ("row_scaled_overlaps/row_scaled_overlaps", "row_scaled_rs"),
    "tensor_scaled_matmul_reduce_scatter":
        ("row_scaled_overlaps/row_scaled_overlaps", "tensor_scaled_rs"),
}

# The same of kernels that are built for the sizes of a model, where they are used.
CONFIGURED = {
    "dispatch": ("moe/served", "dispatch_served"),
    "combine": ("moe/served", "combine_served"),
}

# Element types that these programs are built for.
TYPES = ("bf16", "f16", "f32")

# Code for Hopper and later uses what only their own architecture has.
_OWN = {"sm_90": "sm_90a", "sm_100": "sm_100a"}

_HERE = os.path.dirname(os.path.abspath(__file__))

_kernels = {}


def file_name(program, dtype):
    """Of the shared object of a program for an element type."""
    return f"lib{os.path.basename(program)}-{dtype}.so"


def _folders():
    """Where programs are: beside the package, where it is installed, in a checkout."""
    up = os.path.dirname(_HERE)
    return [os.path.join(_HERE, "programs"), os.path.join(up, "examples"),
            os.path.join(up, "..", "..", "..", "examples")]


def _arch(team, local):
    text = ctypes.create_string_buffer(64)
    check(runtime().dtile_device_arch(team.target.encode(), team.devices[local], text, len(text)))
    arch = text.value.decode()
    return _OWN.get(arch, arch)


def _library(program, dtype, team, local, constants):
    ahead = os.path.join(_HERE, "kernels", file_name(program, dtype))
    if not constants and os.path.exists(ahead):
        return load(ahead)
    for folder in _folders():
        source = os.path.join(folder, program + ".dtile")
        if os.path.exists(source):
            return build(os.path.normpath(source), target=team.target, arch=_arch(team, local),
                         T=dtype, **dict(constants))
    raise DtileUnavailable(f"{program}.dtile is not found: it is installed with the package "
                           "(dtile/programs) unless the package is incomplete")


def kernel(name, dtype, team, local=0, **constants):
    """A kernel for an element type, on the GPU of a rank of this process; those of CONFIGURED with
    the constants of a model."""
    values = tuple(sorted(constants.items()))
    key = (name, dtype, team.target, team.devices[local], values)
    found = _kernels.get(key)
    if found is None:
        program, symbol = CONFIGURED[name] if constants else PROGRAMS[name]
        # A program has several of them.
        library = (program, *key[1:])
        if library not in _kernels:
            _kernels[library] = _library(program, dtype, team, local, values)
        found = _kernels[key] = getattr(_kernels[library], symbol)
    return found
