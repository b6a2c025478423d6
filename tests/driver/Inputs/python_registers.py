# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Registers memory that the driver has made for somebody else, and launches with it."""

import ctypes
import sys

import dtile
from dtile import kernels
from refusals import refuse

BYTES = 4 << 20


class Tensor:
    def __init__(self, address, count):
        self.address, self.shape, self.dtype = address, (count,), "f32"

    def data_ptr(self):
        return self.address

    def stride(self):
        return (1,)

    def dim(self):
        return 1


def allocate(cuda):
    """As an allocator does that shares memory."""
    handle, address = ctypes.c_uint64(), ctypes.c_uint64()
    assert cuda.cuMemCreate(ctypes.byref(handle), ctypes.c_size_t(BYTES), None,
                            ctypes.c_uint64(0)) == 0
    assert cuda.cuMemAddressReserve(ctypes.byref(address), ctypes.c_size_t(BYTES),
                                    ctypes.c_size_t(0), ctypes.c_uint64(0), ctypes.c_uint64(0)) == 0
    assert cuda.cuMemMap(address, ctypes.c_size_t(BYTES), ctypes.c_size_t(0), handle,
                         ctypes.c_uint64(0)) == 0
    cuda.cuMemRelease(handle)
    return address.value


class Handle:
    """What a rendezvous of PyTorch's symmetric memory gives."""

    def __init__(self, address):
        self.buffer_ptrs, self.buffer_size = [address], BYTES


def main():
    kernels._dtype_numbers = {"f32": 13}
    team = dtile.Team.from_env()
    kernel = dtile.build(sys.argv[1], arch="sm_80", folder=sys.argv[2]).allreduce_symmetric
    cuda = ctypes.CDLL("libcuda.so.1")
    x, y = allocate(cuda), allocate(cuda)
    own = team._handle
    stream = ctypes.c_void_p()
    dtile._abi.check(dtile._abi.runtime().dtile_team_stream(own, 0, ctypes.byref(stream)))

    def launch(count=1024):
        return kernel(Tensor(x, count), Tensor(y + 256, count), stream=stream)
    refuse("before", launch)
    team.register(Handle(x))
    team.register([y], BYTES)
    refuse("registered", launch)
    refuse("too long", lambda: launch(BYTES // 4))
    refuse("twice", lambda: team.register(Handle(x)))
    refuse("two addresses", lambda: team.register([x, y], BYTES))
    refuse("no size", lambda: team.register([x]))
    refuse("a tensor", lambda: team.register(Tensor(x, 1024)))
    refuse("no handle", lambda: team.register(None))
    refuse("memory of the host", lambda: team.register([id(team)], BYTES))
    plain = ctypes.c_void_p()
    dtile._abi.check(dtile._abi.runtime().dtile_device_alloc(own, 0, ctypes.c_int64(BYTES),
                                                             ctypes.byref(plain)))
    refuse("plain memory", lambda: team.register([plain.value], BYTES))
    team.unregister(Handle(x))
    refuse("unregistered", launch)
    refuse("again", lambda: team.unregister(Handle(x)))
    # Ends what is still registered.
    team.close()
    print("closed")


main()
