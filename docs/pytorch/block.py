# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A transformer block, tensor-parallel with its sequence sharded, in plain PyTorch and with dtile:

    NCCL_NVLS_ENABLE=0 torchrun --nproc-per-node 2 docs/pytorch/block.py

Both are compiled and captured in a CUDA graph. Prints how far their numbers are apart, and how much
faster the block became."""

import os
import sys

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as collectives
import torch.nn.functional as F

HEADS, WIDTH, FEATURES = 16, 4096, 14336


class Plain:
    def __init__(self, group):
        self.group = group

    def gather_matmul(self, x, w):
        return collectives.all_gather_tensor(x, 0, self.group) @ w

    def matmul_scatter(self, x, w):
        return collectives.reduce_scatter_tensor(x @ w, "sum", 0, self.group)


# [changed lines]
import dtile.ops


class WithDtile(Plain):
    def gather_matmul(self, x, w):
        return torch.ops.dtile.fused_all_gather_matmul(x, [w], 0, self.group, return_A=False)[1][0]

    def matmul_scatter(self, x, w):
        return torch.ops.dtile.fused_matmul_reduce_scatter(x, w, "sum", 0, self.group)
# [end]


def block(x, weights, by):
    """`x` has this rank's rows of the sequence; the weights this rank's heads and features."""
    qkv, out, up, down = weights
    q, k, v = by.gather_matmul(F.rms_norm(x, (WIDTH,)), qkv).chunk(3, -1)
    q, k, v = (t.unflatten(-1, (-1, WIDTH // HEADS)).transpose(0, 1) for t in (q, k, v))
    heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    x = x + by.matmul_scatter(heads.transpose(0, 1).flatten(1), out)
    return x + by.matmul_scatter(F.silu(by.gather_matmul(F.rms_norm(x, (WIDTH,)), up)), down)


def captured(by, x, weights):
    """The block as a graph, and its output."""
    compiled = torch.compile(block, fullgraph=True)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            compiled(x, weights, by)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = compiled(x, weights, by)
    return graph, out


def milliseconds(graph, runs=50):
    best = float("inf")
    for _ in range(5):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        dist.barrier()
        begin.record()
        for _ in range(runs):
            graph.replay()
        end.record()
        end.synchronize()
        best = min(best, begin.elapsed_time(end) / runs)
    return best


def main(rows=4096):
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=torch.device("cuda", torch.cuda.current_device()))
    rank, ranks = dist.get_rank(), dist.get_world_size()
    group = dist.group.WORLD.group_name
    dtile.ops.enable(symmetric_bytes=1 << 30)
    torch.manual_seed(rank)
    shapes = ((WIDTH, 3 * WIDTH // ranks), (WIDTH // ranks, WIDTH), (WIDTH, FEATURES // ranks),
              (FEATURES // ranks, WIDTH))
    weights = [torch.randn(n, k, device="cuda", dtype=torch.bfloat16).t() / k ** 0.5
               for k, n in shapes]
    x = torch.randn(rows // ranks, WIDTH, device="cuda", dtype=torch.bfloat16)
    times, outs = [], []
    for by in (Plain(group), WithDtile(group)):
        graph, out = captured(by, x, weights)
        times.append(milliseconds(graph))
        outs.append(out.float())
    error = ((outs[0] - outs[1]).abs().max() / outs[0].abs().max()).item()
    print(f"rank {rank}: plain {times[0]:.3f} ms, with dtile {times[1]:.3f} ms: "
          f"{times[0] / times[1]:.2f} times as fast; numbers differ by {error:.1e}", flush=True)
    torch.cuda.synchronize()
    dtile.ops.close()
    dist.destroy_process_group()
    return 0 if error < 2e-2 else 1


sys.exit(main())
