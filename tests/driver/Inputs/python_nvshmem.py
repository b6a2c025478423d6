# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A rank of a team of NVSHMEM's: builds a kernel, launches it, says what the library was asked."""

import ctypes
import os
import sys

import dtile
from dtile import _abi, kernels
from dtile._nvshmem import nvshmem_home


class Vector:
    """What the package asks of a tensor."""

    def __init__(self, team, size):
        function = _abi.runtime().dtile_device_alloc
        function.argtypes = [ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64,
                             ctypes.POINTER(ctypes.c_void_p)]
        address = ctypes.c_void_p()
        _abi.check(function(team._handle, 0, 4 * size, ctypes.byref(address)))
        self.address, self.shape, self.dtype = address.value, (size,), "f32"

    def data_ptr(self):
        return self.address

    def stride(self):
        return (1,)

    def dim(self):
        return 1


def main():
    kernels._dtype_numbers = {"f32": 13}
    print("home:", nvshmem_home(), flush=True)
    try:
        library = dtile.build(sys.argv[1], arch="sm_90a", folder=sys.argv[2], shmem="nvshmem")
        team = dtile.Team.from_env(symmetric_bytes=1 << 20)
        x, y = Vector(team, 64), Vector(team, 64)
        for _ in range(2):
            library.shift(x, y, stream=0)
        team.synchronize()
        team.close()
    except dtile.DtileError as error:
        print(f"{type(error).__name__}: {error}", flush=True)
        return
    host = ctypes.CDLL(os.path.join(nvshmem_home(), "lib", "libnvshmem_host.so.3"))
    print(ctypes.string_at(ctypes.addressof(ctypes.c_char.in_dll(host, "fake_nvshmem_log"))).decode())


main()
