# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""dtile.ops with kernels that dtilec built, on GPUs that are host memory: which kernels are
launched, what is refused, and that a trace launches nothing. As one process of two, or alone."""

import ctypes
import os
import time

import torch
import torch.distributed as dist

import dtile
from dtile import _abi, _groups, kernels
from refusals import refuse


def allocate_on(team):
    function = _abi.runtime().dtile_device_alloc
    function.argtypes = [ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64,
                         ctypes.POINTER(ctypes.c_void_p)]

    def allocate(count):
        address = ctypes.c_void_p()
        _abi.check(function(team._handle, 0, 4 * max(count, 1), ctypes.byref(address)))
        return address.value
    return allocate


def stream_of(team):
    function = _abi.runtime().dtile_team_stream
    function.argtypes = [ctypes.c_void_p, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p)]
    stream = ctypes.c_void_p()
    _abi.check(function(team._handle, 0, ctypes.byref(stream)))
    return stream.value


class Mesh:
    ndim, mesh_dim_names = 2, ("data", "tensor")

    def get_group(self):
        raise AssertionError("which one?")


def main():
    rank = int(os.environ.get("RANK", "0"))
    torch.current = rank
    from dtile import ops
    from dtile.moe import AllToAll

    kernels._dtype_numbers = {torch.float32: 13, torch.int32: 3}
    refuse("no such group", lambda: ops.enable("nobody"))
    refuse("another rank's group", lambda: ops.enable(-100))
    refuse("a mesh", lambda: ops.enable(Mesh()))
    world, dist.group.WORLD = dist.group.WORLD, None
    refuse("no groups", ops.enable)
    dist.group.WORLD = world
    team = ops.enable(symmetric_bytes=8 << 20)
    refuse("twice", ops.enable)
    print(f"team of {team.size}; the current one: {dtile.Team._current}", flush=True)
    torch.allocate = allocate_on(team)
    torch.streams[rank] = stream_of(team)
    x = torch.empty(6, 40)
    for turn in range(2):
        y = torch.ops.dtile.one_shot_all_reduce(x, "sum", "0")
        assert y.shape == x.shape and y.address != x.address
    print("supported:", ops.one_shot_all_reduce.supports(x, "sum", "0"),
          ops.one_shot_all_reduce.supports(x, "sum", world), flush=True)
    refuse("different operations", lambda: (
        torch.ops.dtile.one_shot_all_reduce(torch.empty(77), "sum", "0") if rank == 1 else
        torch.ops.dtile.two_shot_all_reduce(x, "sum", "0")))
    huge = torch.empty(1 << 22, device="meta")
    print("too large:", ops.one_shot_all_reduce.refusal(huge, "sum", "0"), flush=True)
    print("max:", ops.one_shot_all_reduce.refusal(x, "max", "0"), flush=True)
    refuse("element type", lambda: torch.ops.dtile.all_reduce(
        torch.empty(4, dtype=torch.int32), "sum", "0"))
    refuse("dimension", lambda: torch.ops.dtile.reduce_scatter(x, "sum", 2, "0"))
    refuse("uneven", lambda: torch.ops.dtile.reduce_scatter(torch.empty(5, 4), "sum", 0, "0"))
    refuse("columns", lambda: torch.ops.dtile.fused_all_gather_matmul(
        x, [torch.empty(41, 8)], 0, "0", return_A=False))
    print("no group:", ops.all_reduce.refusal(x, "sum"), flush=True)
    moe = AllToAll("0", hidden=16, experts=4, topk=2, max_tokens=8, dtype=torch.float32)
    tokens, ids = torch.empty(8, 16), torch.empty(8, 2, dtype=torch.int32)
    rows, origin, count = moe.dispatch(tokens, ids)
    print("dispatched:", rows.shape, origin.shape, count.shape, count.dtype, flush=True)
    out = torch.empty(8, 16)
    assert moe.combine(rows, origin, count, ids, torch.empty(8, 2), out=out) is out
    print("tokens:", moe.supports(8), moe.supports(3), moe.supports(9), flush=True)
    # A trace: of 5 rows by 7 on each rank, nothing is launched, and no team is asked.
    _groups._teams.clear()
    meta = torch.empty(5, 7, device="meta")
    whole, outs = torch.ops.dtile.fused_all_gather_matmul(
        meta, [torch.empty(7, 3, device="meta"), torch.empty(7, 2, device="meta")], 0, "0")
    print("traced:", whole.shape, [out.shape for out in outs], flush=True)
    refuse("traced columns", lambda: torch.ops.dtile.fused_matmul_all_reduce(
        meta, torch.empty(6, 3, device="meta"), "sum", "0"))
    _groups._teams["0"] = team
    team.synchronize()
    # Teams end together.
    team.barrier()
    ops.close()


if __name__ == "__main__":
    main()
