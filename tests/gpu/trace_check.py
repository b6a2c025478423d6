# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes a trace from Python: ag_gemm on two ranks of GPU 0, whose results stay right.

usage: python3 tests/gpu/trace_check.py FILE.json     ($DTILEC; dtile in PYTHONPATH)
"""

import os
import sys

import torch

import dtile

HERE = os.path.dirname(os.path.abspath(__file__))
RANKS, ROWS, COLUMNS, DEPTH, LAUNCHES = 2, 512, 512, 256, 3


def main():
    kernel = dtile.build(os.path.join(HERE, "../../examples/ag_gemm/ag_gemm.dtile"),
                         flags=("--trace",)).ag_gemm
    torch.manual_seed(1)
    shards = [torch.randn(ROWS, DEPTH, device="cuda").bfloat16() for _ in range(RANKS)]
    b = torch.randn(COLUMNS, DEPTH, device="cuda").bfloat16()
    outs = [torch.empty(RANKS * ROWS, COLUMNS, device="cuda", dtype=torch.bfloat16)
            for _ in range(RANKS)]
    streams = [torch.cuda.Stream() for _ in range(RANKS)]
    wanted = torch.cat(shards).float() @ b.float().T
    torch.cuda.synchronize()
    with dtile.Team.local([0] * RANKS, symmetric_bytes=64 << 20, wait_timeout_ms=10_000) as team:
        with team.trace(sys.argv[1]) as trace:
            for _ in range(LAUNCHES):
                for rank, stream in enumerate(streams):
                    with torch.cuda.stream(stream):
                        kernel(shards[rank], b, out=outs[rank], team=team, rank=rank)
                team.synchronize()
    wrong = [out for out in outs if not torch.allclose(out.float(), wanted, rtol=2e-2, atol=0.5)]
    print(f"{LAUNCHES} launches on {RANKS} ranks traced, {trace.dropped} slices left out, "
          f"{len(wrong)} results wrong")
    return 1 if wrong or trace.dropped else 0


sys.exit(main())
