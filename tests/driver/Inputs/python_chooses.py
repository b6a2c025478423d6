# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Launches a kernel for certain shapes on GPUs that do nothing: which variant runs is told by
DTILE_LOG_LAUNCHES.

    python_chooses.py SOURCE KERNEL FOLDER SHAPES…

SHAPES are those of a launch, as 54x64,728x64,27x728; the same shapes again are the same arguments.
"""

import ctypes
import sys

import dtile
from dtile import _abi, kernels


class Tensor:
    """What the package asks of a tensor. Its address is aligned, as torch's are."""

    def __init__(self, team, shape, rank):
        function = _abi.runtime().dtile_device_alloc
        function.argtypes = [ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64,
                             ctypes.POINTER(ctypes.c_void_p)]
        size = 2
        for extent in shape:
            size *= extent
        address = ctypes.c_void_p()
        _abi.check(function(team._handle, rank, size, ctypes.byref(address)))
        self.address, self.shape, self.dtype = address.value, tuple(shape), "bf16"

    def data_ptr(self):
        return self.address

    def stride(self):
        return tuple(self.shape[1] if d == 0 else 1 for d in range(2))

    def dim(self):
        return len(self.shape)


def main():
    source, kernel, folder, *launches = sys.argv[1:]
    kernels._dtype_numbers = {"bf16": 12}
    library = dtile.build(source, arch="sm_90a", folder=folder)
    team = dtile.Team.local([0, 1])
    arguments = {}
    for launch in launches:
        shapes = [tuple(map(int, shape.split("x"))) for shape in launch.split(",")]
        for rank in range(team.size):
            if (launch, rank) not in arguments:
                arguments[launch, rank] = [Tensor(team, shape, rank) for shape in shapes]
            getattr(library, kernel)(*arguments[launch, rank], rank=rank, stream=0)


if __name__ == "__main__":
    main()
