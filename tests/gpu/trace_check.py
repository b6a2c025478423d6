# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes a trace from Python: ag_gemm on two ranks of GPU 0, or in a job with a rank and a GPU for
each process, whose results stay right.

usage: python3 tests/gpu/trace_check.py FILE.json     ($DTILEC; dtile in PYTHONPATH)
       torchrun --nproc-per-node 2 tests/gpu/trace_check.py FILE-@rank.json
"""

import contextlib
import os
import sys

import torch

import dtile

HERE = os.path.dirname(os.path.abspath(__file__))
RANKS, ROWS, COLUMNS, DEPTH, LAUNCHES = 2, 512, 512, 256, 3


def main():
    job = "RANK" in os.environ
    mine = [int(os.environ["RANK"])] if job else list(range(RANKS))
    assert not job or int(os.environ["WORLD_SIZE"]) == RANKS
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) if job else 0)
    kernel = dtile.build(os.path.join(HERE, "../../examples/ag_gemm/ag_gemm.dtile"),
                         flags=("--trace",)).ag_gemm
    torch.manual_seed(1)
    shards = [torch.randn(ROWS, DEPTH, device="cuda").bfloat16() for _ in range(RANKS)]
    b = torch.randn(COLUMNS, DEPTH, device="cuda").bfloat16()
    outs = {rank: torch.empty(RANKS * ROWS, COLUMNS, device="cuda", dtype=torch.bfloat16)
            for rank in mine}
    streams = {rank: torch.cuda.Stream() for rank in mine}
    wanted = torch.cat(shards).float() @ b.float().T
    torch.cuda.synchronize()
    options = {"symmetric_bytes": 64 << 20, "wait_timeout_ms": 10_000}
    path = sys.argv[1].replace("@rank", str(mine[0]))
    with contextlib.ExitStack() as stack:
        team = stack.enter_context(dtile.Team.from_env(**options) if job
                                   else dtile.Team.local([0] * RANKS, **options))
        with team.trace(path) as trace:
            for _ in range(LAUNCHES):
                for rank, stream in streams.items():
                    with torch.cuda.stream(stream):
                        kernel(shards[rank], b, out=outs[rank], team=team,
                               **({} if job else {"rank": rank}))
                team.synchronize()
    wrong = [rank for rank, out in outs.items()
             if not torch.allclose(out.float(), wanted, rtol=2e-2, atol=0.5)]
    print(f"{LAUNCHES} launches on ranks {mine} traced, {trace.dropped} slices left out, "
          f"{len(wrong)} results wrong")
    return 1 if wrong or trace.dropped else 0


sys.exit(main())
