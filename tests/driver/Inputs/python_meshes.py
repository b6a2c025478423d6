# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sizes of axes follow from the mesh of a team, or of a launch."""

import ctypes
import os
import sys

import dtile
import torch
from dtile import _abi
from dtile._meshes import Mesh, same_everywhere
from refusals import refuse


class DeviceMesh:
    """What the package asks of PyTorch's: here the ranks in their order."""

    def __init__(self, sizes, names, ranks=None):
        self.sizes, self.ndim, self.mesh_dim_names = sizes, len(sizes), names
        self.ranks = ranks or list(range(sizes[0] * sizes[1]))
        self.mesh = self

    def size(self, axis):
        return self.sizes[axis]

    def flatten(self):
        return self

    def tolist(self):
        return self.ranks

    def get_group(self):
        raise AssertionError("a mesh of several dimensions has several groups")


def allocate_on(team):
    function = _abi.runtime().dtile_device_alloc
    function.argtypes = [ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64,
                         ctypes.POINTER(ctypes.c_void_p)]

    def allocate(count):
        address = ctypes.c_void_p()
        _abi.check(function(team._handle, 0, 4 * max(count, 1), ctypes.byref(address)))
        return address.value
    return allocate


def shapes(title, kernel, *args, **named):
    made = kernel(*args, stream=0, **named)
    print(f"{title}: {made.shape}", flush=True)


def main():
    library = dtile.build(sys.argv[1], arch="sm_80", folder=sys.argv[2])
    torch.cuda.current_device = lambda: int(os.environ["RANK"])
    refuse("order of ranks",
           lambda: dtile.Team.from_torch(DeviceMesh((2, 1), ("node", "local"), [1, 0])))
    team = dtile.Team.from_torch(DeviceMesh((1, 2), ("dp", "tp")))
    print(f"team of {team.size}: {team.mesh}", flush=True)
    torch.allocate = allocate_on(team)
    k = library.of_the_node
    print(k.__doc__.splitlines()[-1], flush=True)
    x = torch.empty(70, dtype=torch.float32)
    shapes("of the team", k, x)
    shapes("of the launch", k, x, mesh=(2, 1))
    shapes("named", k, x, mesh={"node": 2, "local": 1})
    shapes("by hand", k, x, L=2)
    print(f"supports: {k.supports(x)} {k.supports(x, mesh=(2, 1))}", flush=True)
    team.mesh = None
    refuse("no mesh", lambda: k(x, stream=0))
    shapes("all arguments", k, 1, x)
    refuse("other ranks", lambda: k(x, mesh=(2, 2), stream=0))
    refuse("no sizes", lambda: setattr(team, "mesh", ()))
    refuse("other ranks of the team", lambda: setattr(team, "mesh", (3, 1)))
    refuse("one axis", lambda: k(x, mesh=(2,), stream=0))
    refuse("other order", lambda: k(x, mesh={"local": 2, "node": 1}, stream=0))
    refuse("given twice", lambda: k(x, mesh=(1, 2), L=1, stream=0))
    refuse("known places", lambda: library.of_two(x, mesh=(2, 1), stream=0))
    shapes("known", library.of_two, x, mesh=(1, 2))
    refuse("no axes", lambda: library.flat(x, mesh=(1, 2), stream=0))
    other = torch.empty(71, dtype=torch.float32)
    refuse("unequal launches", lambda: k(other, L=1 + team.rank, stream=0))
    refuse("unequal", lambda: same_everywhere([Mesh((2, 4)), Mesh((2, 4)), Mesh((4, 2))]))
    refuse("unequal names", lambda: same_everywhere([Mesh((2, 4), ("a", "b")), None]))
    team.barrier()


main()
