# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""dispatch_once and combine_once of moe_once.dtile beside NCCL's all-to-all: of a row for each
expert that a token has, and of a row for each rank, as dispatch_once sends them. NCCL is told how
many rows go where, and gets them in order: what that takes is left out, to its favour."""

import torch
import torch.distributed as dist

from attention import gathered
from harness import kernel_of, measured, ratio, team_for

# Tokens of a rank, experts of a token, elements of a row; experts of all ranks.
TOKENS, TOPK, HIDDEN = 128, 8, 7168
EXPERTS = 256
NAMES = {torch.uint8: "u8", torch.bfloat16: "bf16"}


def nccl_all_to_all(bench, rows_to, dtype):
    """Milliseconds of an all-to-all that sends `rows_to[p]` rows to rank p."""
    counts = gathered(rows_to).tolist()
    sends, comes = counts[bench.rank], [row[bench.rank] for row in counts]
    src = bench.random(sum(sends), HIDDEN, dtype=dtype)
    out = torch.empty(sum(comes), HIDDEN, device="cuda", dtype=dtype)
    return bench.milliseconds(lambda: dist.all_to_all_single(out, src, comes, sends))


class Tokens:
    """Tokens of a rank, the experts that they go to, and where dispatch_once puts them."""

    def __init__(self, bench, options, team, dtype):
        self.bench, self.dtype = bench, dtype
        w = bench.ranks
        self.of_rank = EXPERTS // w
        self.x = bench.random(TOKENS, HIDDEN, dtype=dtype)
        self.expert = torch.empty(TOKENS, TOPK, device="cuda", dtype=torch.int32)
        self.place = torch.empty(TOKENS, w, device="cuda", dtype=torch.int32)
        self.rows = team.symm_empty((2, w, TOKENS, HIDDEN), dtype)
        self.chosen = team.symm_empty((2, w, TOKENS, TOPK), torch.int32)
        self.count = team.symm_empty((2, w), torch.int32)
        kernel = kernel_of(bench, options, "moe_once", "dispatch_once", **constants(bench, dtype))
        self.launch = lambda: kernel(self.x, self.expert, self.rows, self.chosen,
                                                    self.count, self.place, team=team)
        self.launched = 0

    def dispatch(self):
        """Dispatches other tokens to other experts; which half they are in."""
        self.x.copy_(self.bench.random(TOKENS, HIDDEN, dtype=self.dtype))
        scores = self.bench.random(TOKENS, EXPERTS, dtype=torch.float32)
        self.expert.copy_(scores.topk(TOPK).indices)
        self.bench.poison(self.rows)
        self.count.fill_(-1)
        torch.cuda.synchronize()
        dist.barrier()
        self.launch()
        torch.cuda.synchronize()
        self.launched += 1
        return (self.launched - 1) % 2

    def wrong(self, half):
        """What did not arrive as it should have, on any rank."""
        me = self.bench.rank
        places, sources, wanted = gathered(self.place), gathered(self.x), gathered(self.expert)
        mine = (wanted // self.of_rank == me).any(-1)
        off = (places[:, :, me] >= 0).ne(mine).sum()
        off += self.count[half].ne(mine.sum(1)).sum()
        for r in range(self.bench.ranks):
            at = places[r, mine[r], me].long()
            off += at.unique().numel() != at.numel()
            off += self.rows[half, r, at].ne(sources[r, mine[r]]).any(-1).sum()
            off += self.chosen[half, r, at].ne(wanted[r, mine[r]]).any(-1).sum()
        dist.all_reduce(off)
        return off.item()

    def each(self):
        """Rows for each rank where each expert of a token gets its own."""
        return torch.bincount((self.expert // self.of_rank).flatten(), minlength=self.bench.ranks)

    def once(self):
        return (self.place >= 0).sum(0)


def row(bench, op, type_, spent, error, dtype, each, once):
    """Beside NCCL; `each` and `once`: rows for each rank."""
    nccl, nccl_once = (nccl_all_to_all(bench, to, dtype) for to in (each, once))
    bench.row(op=op, M=TOKENS, N=TOPK, K=HIDDEN, type=type_, dtile=spent, error=error, nccl=nccl,
              nccl_once=nccl_once, ratio=ratio(nccl, spent), ratio_once=ratio(nccl_once, spent))


def constants(bench, dtype):
    return {"T": NAMES[dtype], "TOPK": TOPK, "EPR": EXPERTS // bench.ranks, "MAX": TOKENS,
            "H": HIDDEN}


def dispatch(bench, options):
    for dtype in NAMES:
        with team_for(bench, options) as team:
            tokens = Tokens(bench, options, team, dtype)
            spent = None
            wrong = sum(tokens.wrong(tokens.dispatch()) for _ in range(4))
            if wrong:
                bench.failures += 1
                bench.say(f"WRONG dispatch_once {NAMES[dtype]}: {wrong} rows")
            else:
                spent = bench.milliseconds(tokens.launch)
            row(bench, "dispatch", NAMES[dtype], spent, 0.0, dtype, tokens.each(), tokens.once())


def combine(bench, options):
    """What came goes back, after other values have been put in its place."""
    dtype = torch.bfloat16
    with team_for(bench, options) as team:
        tokens = Tokens(bench, options, team, dtype)
        came = tokens.count[tokens.dispatch()].clone()
        answers = torch.empty(bench.ranks, TOKENS, HIDDEN, device="cuda", dtype=dtype)
        y = torch.empty_like(tokens.x)

        def reference():
            back = torch.empty_like(answers)
            dist.all_to_all_single(back, answers)
            want = torch.zeros(TOKENS, HIDDEN, device="cuda", dtype=torch.float64)
            for p in range(bench.ranks):
                there = tokens.place[:, p] >= 0
                want[there] += back[p, tokens.place[there, p].long()].double()
            return want

        # Rows are read from `answers`; kernels other than dispatch_once have no TOPK and EPR.
        seen = {key: value for key, value in constants(bench, dtype).items()
                if key in ("T", "MAX", "H")}
        kernel = kernel_of(bench, options, "moe_once", "combine_once", **seen)
        spent, error = measured(
            bench, "combine_once", lambda: kernel(answers, came, tokens.place, y, team=team),
            lambda name, launch: bench.check(
                name, launch, lambda: answers.copy_(bench.random(*answers.shape)), y, reference,
                5e-3))
        each, once = (gathered(to)[:, bench.rank] for to in (tokens.each(), tokens.once()))
        row(bench, "combine", NAMES[dtype], spent, error, dtype, each, once)
