# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Team.trim gives back room of kernels' own objects: python_trims.py PROGRAM FOLDER."""

import ctypes
import sys

import dtile
from dtile import _abi, kernels

HEAP = 64 << 20


class Tensor:
    """What the package asks of a tensor."""

    dtype = "bf16"

    def __init__(self, team, rank, shape):
        function = _abi.runtime().dtile_device_alloc
        function.argtypes = [ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64,
                             ctypes.POINTER(ctypes.c_void_p)]
        address = ctypes.c_void_p()
        _abi.check(function(team._handle, rank, 2 * shape[0] * shape[1], ctypes.byref(address)))
        self.address, self.shape = address.value, shape

    def data_ptr(self):
        return self.address

    def stride(self):
        return (self.shape[1], 1)

    def dim(self):
        return 2


def fits(team, size):
    """Whether the symmetric heap has an object of this size."""
    address = ctypes.c_void_p()
    try:
        _abi.check(_abi.runtime().dtile_symm_alloc(team._handle, size, ctypes.byref(address)))
    except dtile.DtileOutOfMemory:
        return False
    _abi.check(_abi.runtime().dtile_symm_free(team._handle, address))
    return True


kernels._dtype_numbers = {"bf16": 12}
kernel = dtile.build(sys.argv[1], arch="sm_80", folder=sys.argv[2]).ag_gemm
lib = _abi.runtime()
with dtile.Team.local([0], symmetric_bytes=HEAP) as team:
    handle, stream, graph = team._handle, ctypes.c_void_p(), ctypes.c_void_p()
    print("empty:", fits(team, HEAP - 4096))
    arguments = [Tensor(team, 0, shape) for shape in ((256, 4096), (64, 4096), (256, 64))]
    _abi.check(lib.dtile_team_stream(ctypes.c_void_p(handle.value), 0, ctypes.byref(stream)))
    kernel(*arguments, stream=stream.value)
    # What a graph uses does not make room for others.
    _abi.check(lib.dtile_capture_begin(ctypes.c_void_p(handle.value), 0))
    kernel(*arguments, stream=stream.value)
    _abi.check(lib.dtile_capture_end(ctypes.c_void_p(handle.value), 0, ctypes.byref(graph)))
    print("captured:", fits(team, HEAP - 4096))
    team.trim()
    print("trimmed:", fits(team, HEAP - 4096))
    team.trim(captured=True)
    print("trimmed with graphs:", fits(team, HEAP - 4096))
try:
    team.trim()
except dtile.DtileInvalid as error:
    print("closed:", error)
