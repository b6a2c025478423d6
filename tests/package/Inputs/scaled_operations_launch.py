# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The operations of dtile.ops on f8 with scales, with kernels that dtilec built, on GPUs that are
host memory: which kernels take which scales, and what is refused. As one process of two.

    scaled_operations_launch.py LIBRARY"""

import os
import sys

import torch

import dtile
from dtile import _abi, _programs, kernels
from operations_launch import allocate_on, stream_of
from refusals import refuse

F8 = torch.float8_e4m3fn


def main():
    torch.current = rank = int(os.environ["RANK"])
    from dtile import ops

    kernels._dtype_numbers = {torch.float32: 13, torch.int32: 3, torch.float16: 11,
                              F8: _abi.DTYPES.index("f8e4m3")}
    # Of fewer variants than a first use builds.
    built, library_of = dtile.load(sys.argv[1]), _programs._library
    _programs._library = lambda program, *rest: (
        built if program.startswith("row_scaled") else library_of(program, *rest))
    team = ops.enable(symmetric_bytes=8 << 20)
    torch.allocate = allocate_on(team)
    torch.streams[rank] = stream_of(team)

    def gather(A=torch.empty(6, 40, dtype=F8), B=torch.empty(24, 40, dtype=F8).t(),
               A_scale=torch.empty(1), B_scale=torch.empty(1), bias=None, result_scale=None,
               out_dtype=torch.float32, call=torch.ops.dtile.fused_all_gather_scaled_matmul,
               count=1, dim=0):
        return call(A, [B] * count, A_scale, [B_scale] * count, dim, "0", [bias] * count,
                    [result_scale] * count, [out_dtype] * count, [False] * count)

    def scatter(A=torch.empty(6, 40, dtype=F8), B=torch.empty(24, 40, dtype=F8).t(),
                A_scale=torch.empty(1), B_scale=torch.empty(1), op="sum", dim=0, shape=None,
                bias=None, out_dtype=torch.float32,
                call=torch.ops.dtile.fused_scaled_matmul_reduce_scatter):
        return call(A, B, A_scale, B_scale, op, dim, dim, "0", shape, bias, None, out_dtype)

    asks = {"call": ops.fused_all_gather_scaled_matmul.refusal}
    asks_scatter = {"call": ops.fused_scaled_matmul_reduce_scatter.refusal}
    print("one scale each", flush=True)
    whole, (out,) = gather()
    print(f"{whole.shape} {whole.dtype} {out.shape} {out.dtype}", flush=True)
    print("rows and columns, a bias, two products", flush=True)
    gather(A_scale=torch.empty(6, 1), B_scale=torch.empty(1, 24), bias=torch.empty(24), count=2)
    print("scattered", flush=True)
    print(scatter().shape, scatter(A_scale=torch.empty(6, 1)).shape, scatter(dim=1).shape,
          flush=True)
    print("supported:", repr(gather(**asks)), repr(scatter(**asks_scatter)), flush=True)
    meta = torch.empty(6, 40, dtype=F8, device="meta")
    whole, (out,) = gather(A=meta)
    print("traced:", whole.shape, out.shape, scatter(A=meta, dim=1).shape, flush=True)
    for what, given in {
            "A of f16": {"A": torch.empty(6, 40, dtype=torch.float16)},
            "no out_dtype": {"out_dtype": None},
            "another out_dtype": {"out_dtype": torch.int32},
            "result_scale": {"result_scale": torch.empty(1)},
            "scales of f16": {"A_scale": torch.empty(1, dtype=torch.float16)},
            "scales of A": {"A_scale": torch.empty(5, 1)},
            "scales of B": {"B_scale": torch.empty(1, 23)},
            "bias": {"bias": torch.empty(23)},
            "no B": {"count": 0},
            "last dimension": {"dim": 1}}.items():
        print(f"{what}: {gather(**given, **asks)}", flush=True)
    print("bias of columns:", scatter(dim=1, bias=torch.empty(24), **asks_scatter), flush=True)
    print("output_shape:", scatter(shape=[2, 2, 24], **asks_scatter), flush=True)
    print("uneven:", scatter(A=torch.empty(5, 40, dtype=F8), **asks_scatter), flush=True)
    refuse("lists", lambda: ops.fused_all_gather_scaled_matmul(
        meta, [meta.t()], torch.empty(1), [], 0, "0", [None], [None], [torch.float32], [False]))
    team.synchronize()
    team.barrier()
    ops.close()


main()
