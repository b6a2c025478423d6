# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One rank's part of a tensor-parallel layer, ag_gemm or gemm_rs: its operands, what comes out, and
its peer, cuBLAS and NCCL one after the other."""

import torch
import torch.distributed as dist


class Layer:
    """bf16. Of `m` rows, the model's `hidden` and `ffn`, both in all; W ranks divide `m` and `ffn`.

    ag_gemm: a[m/W, hidden] of each rank, gathered, times b[ffn/W, hidden] transposed.
    gemm_rs: a[m, ffn/W] times b[hidden, ffn/W] transposed, summed over the ranks; m/W rows each.
    """

    def __init__(self, bench, op, m, hidden, ffn):
        w = bench.ranks
        self.bench, self.gathers = bench, op == "ag_gemm"
        n, k = (ffn // w, hidden) if self.gathers else (hidden, ffn // w)
        self.a = bench.random(m // w if self.gathers else m, k)
        self.b = bench.random(n, k)
        rows = m if self.gathers else m // w
        self.out = torch.empty(rows, n, device="cuda", dtype=torch.bfloat16)
        self.peer_out = torch.empty_like(self.out)
        self.full = torch.empty(m, k if self.gathers else n, device="cuda", dtype=torch.bfloat16)
        # Bytes that a rank gets from the others.
        self.moved = (w - 1) / w * self.full.numel() * 2

    def fill(self):
        """Fresh random operands."""
        self.a.copy_(self.bench.random(*self.a.shape))
        self.b.copy_(self.bench.random(*self.b.shape))

    def reference(self):
        """What comes out, summed in f64."""
        if self.gathers:
            self.move()
            return self.full.double() @ self.b.double().T
        part = self.a.double() @ self.b.double().T
        want = torch.empty(self.out.shape, device="cuda", dtype=torch.float64)
        dist.reduce_scatter_tensor(want, part)
        return want

    def multiply(self):
        """cuBLAS."""
        if self.gathers:
            return torch.matmul(self.full, self.b.T, out=self.peer_out)
        return torch.matmul(self.a, self.b.T, out=self.full)

    def move(self):
        """NCCL."""
        if self.gathers:
            dist.all_gather_into_tensor(self.full, self.a)
        else:
            dist.reduce_scatter_tensor(self.peer_out, self.full)

    def sequential(self):
        """One after the other, into `peer_out`."""
        for step in (self.move, self.multiply) if self.gathers else (self.multiply, self.move):
            step()
