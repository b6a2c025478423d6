# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls kernels through the Python package, with tensors that are no more than an address."""

import ctypes
import os
import sys

import dtile
from dtile import _abi, kernels
from refusals import refuse


class Tensor:
    """What the package asks of a tensor."""

    def __init__(self, team, shape, dtype="bf16", rank=0, stride=None):
        function = _abi.runtime().dtile_device_alloc
        function.argtypes = [ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64,
                             ctypes.POINTER(ctypes.c_void_p)]
        address = ctypes.c_void_p()
        _abi.check(function(team._handle, rank, 1 << 16, ctypes.byref(address)))
        self.team, self.rank = team, rank
        self.address, self.shape, self.dtype = address.value, tuple(shape), dtype
        self.strides = stride or tuple(shape[1] if d == 0 else 1 for d in range(len(shape)))

    def data_ptr(self):
        return self.address

    def stride(self):
        return self.strides

    def dim(self):
        return len(self.shape)

    def new_empty(self, shape, dtype):
        return Tensor(self.team, shape, dtype, self.rank)


def look_at_scratch(team, kernel):
    """Where a launch has left something, which no kernel of this driver does."""

    class Runtime:
        @staticmethod
        def dtile_kernel_scratch(_team, local, _kernel, name, out):
            assert (local, name) == (team.local_count - 1, b"a")
            out._obj.data, out._obj.dtype, out._obj.ndim = 4096, 13, 2
            out._obj.size[:2] = (3, 5)
            return 0

    own, kernels.runtime = kernels.runtime, Runtime
    team._tensor_at = lambda *place: place
    last = team.first_local + team.local_count - 1
    print("scratch:", *kernel.scratch("a", rank=last)[2:], flush=True)
    kernels.runtime = own


def main():
    kernels._dtype_numbers = {"bf16": 12, "f32": 13}
    library = dtile.build(sys.argv[1], arch="sm_80", folder=sys.argv[2])
    refuse("no team", lambda: library.gemm())
    team = dtile.Team.from_env() if "RANK" in os.environ else dtile.Team.local([0, 1])
    print(f"team: {team.size} ranks, {team.local_count} here, on {team.devices}", flush=True)
    k = library.gemm
    print(k, flush=True)
    a, b, c = (Tensor(team, shape) for shape in ((64, 32), (128, 32), (64, 128)))
    assert k(a, b, c, stream=0) is c
    assert k(a, b, out=c, stream=0) is c
    assert k(b=b, c=c, a=a, stream=0) is c
    if team.local_count > 1:
        x, y, z = (Tensor(team, shape, rank=1) for shape in ((64, 32), (128, 32), (64, 128)))
        assert k(x, y, z, rank=1, stream=0) is z
        refuse("other GPU", lambda: k(x, b, c, stream=0))
    made = k(a, b, stream=0)
    print(f"made: {made.shape} {made.dtype}", flush=True)
    for shapes in (((64, 32), (128, 32)), ((64, 32), (128, 32), (64, 127)), ((64, 32), (128, 31))):
        print(f"supports {shapes}: {k.supports(*shapes)} {k.refusal(*shapes)}", flush=True)
    assert k.supports(a, b, c) and k.supports(a, b) and k.supports(b=b, a=(64, 32))
    refuse("no scratch", lambda: k.scratch("a"))
    look_at_scratch(team, k)
    odd = Tensor(team, (64, 32), "complex")
    print(f"no type: {k.supports(odd, b)} {k.refusal(odd, b)}", flush=True)
    refuse("no shape", lambda: k.supports(a, 1))
    refuse("too few", lambda: k(a, stream=0))
    refuse("too many outputs", lambda: k(a, b, out=(c, c), stream=0))
    refuse("unknown name", lambda: k(a, b, c, d=1, stream=0))
    refuse("no tensor", lambda: k(a, 1, c, stream=0))
    refuse("element type", lambda: k(a, Tensor(team, (128, 32), "f32"), c, stream=0))
    refuse("no such type", lambda: k(a, Tensor(team, (128, 32), "complex"), c, stream=0))
    refuse("shape", lambda: k(a, b, Tensor(team, (64, 127)), stream=0))
    refuse("overlap", lambda: k(a, b, b, stream=0))
    refuse("no kernel", lambda: library.nothing)
    team.synchronize()
    team.barrier()
    team.close()


main()
