# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""dtile.vllm and dtile.sglang against stand-ins of the interfaces that those document, on ranks that
are threads: tokens go to their experts, each of which doubles and adds its number, and come back.
Kernels are what examples/moe/served.dtile says, written here in plain Python."""

import random
import sys
import threading
import types

import torch

import dtile
import dtile.moe
from dtile import _groups, _programs, kernels, sglang, vllm
from thread_ranks import run_on

HIDDEN, TOPK, MAX = 4, 2, 5


class Kernel:
    def __init__(self, name, sizes):
        self.name, self.sizes = name, sizes

    def __call__(self, *tensors, team, out=None):
        return (self.dispatch if self.name == "dispatch" else self.combine)(team, tensors, out)

    def dispatch(self, team, tensors, out):
        x, ids = tensors
        size = self.sizes
        assert x.shape[1] == size["H"] and ids.dtype is torch.int32
        sent = [(ids[t, j], (team.rank * size["MAX"] + t) * size["TOPK"] + j,
                 [x[t, h] for h in range(size["H"])])
                for t in range(x.shape[0]) for j in range(size["TOPK"])]
        rows = torch.empty(size["EPR"], size["CAP"], size["H"])
        origin = torch.empty(size["EPR"], size["CAP"], dtype=torch.int32)
        count = torch.empty(size["EPR"], dtype=torch.int32)
        for e in range(size["EPR"]):
            count[(e,)] = 0
        for expert, number, row in sum(team.meeting.gather(team.rank, sent), []):
            if expert // size["EPR"] != team.rank:
                continue
            e = expert % size["EPR"]
            slot = int(count[(e,)])
            count[(e,)] = slot + 1
            origin[e, slot] = number
            for h, value in enumerate(row):
                rows[e, slot, h] = value
        return rows, origin, count

    def combine(self, team, tensors, out):
        rows, origin, count, ids, weights = tensors
        size = self.sizes
        assert weights.dtype is torch.float32 and ids.dtype is torch.int32
        sent = [(origin[e, s], [rows[e, s, h] for h in range(size["H"])])
                for e in range(size["EPR"]) for s in range(int(count[(e,)]))]
        back = dict(sum(team.meeting.gather(team.rank, sent), []))
        out = out if out is not None else rows.new_empty((ids.shape[0], size["H"]))
        for t in range(ids.shape[0]):
            for h in range(size["H"]):
                out[t, h] = sum(weights[t, j] * back[(team.rank * size["MAX"] + t) *
                                                     size["TOPK"] + j][h]
                                for j in range(size["TOPK"]) if ids[t, j] >= 0)
        return out


def experts(rows, count, first):
    """What the local experts make of their rows: twice the row and the expert's number."""
    out = rows.new_empty(rows.shape)
    for e in range(rows.shape[0]):
        for s in range(int(count[(e,)])):
            for h in range(rows.shape[2]):
                out[e, s, h] = 2 * rows[e, s, h] + first + e
    return out


def tokens(rank, ranks):
    """Its own number of tokens, of which some lack an expert."""
    source = random.Random(rank)
    n = rank + 2
    x, ids, weights = (torch.empty(n, HIDDEN), torch.empty(n, TOPK, dtype=torch.int32),
                       torch.empty(n, TOPK))
    for t in range(n):
        for h in range(HIDDEN):
            x[t, h] = source.randint(-8, 8)
        for j in range(TOPK):
            ids[t, j] = -1 if (t, j) == (1, 1) else (source.randint(0, ranks - 1) * 2 + j)
            weights[t, j] = source.choice((0.5, 1, 2))
    return x, ids, weights


def same(out, x, ids, weights, what):
    for t in range(x.shape[0]):
        for h in range(HIDDEN):
            want = sum(weights[t, j] * (2 * x[t, h] + ids[t, j]) for j in range(ids.shape[1])
                       if ids[t, j] >= 0)
            assert out[t, h] == want, f"{what}: {t}, {h} is {out[t, h]}, not {want}"


def refused(words, call):
    try:
        call()
    except (dtile.DtileError, NotImplementedError) as error:
        assert words in str(error), f"{error}, without `{words}`"
    else:
        raise AssertionError(f"it was accepted: {words}")


def check(rank, ranks):
    sizes = {"hidden": HIDDEN, "experts": 2 * ranks, "topk": TOPK, "max_tokens": MAX,
             "dtype": torch.float32}
    group = types.SimpleNamespace(group_name="all", rank=rank, size=ranks)
    x, ids, weights = tokens(rank, ranks)
    kernel = sys.modules["vllm.model_executor.layers.fused_moe.modular_kernel"]

    manager = vllm.DtileAll2AllManager(group)
    handle = manager.get_handle(sizes)
    assert manager.get_handle(dict(sizes)) is handle
    ends = vllm.DtilePrepareAndFinalize(handle, "config", "quantization")
    assert ends.activation_format == kernel.FusedMoEActivationFormat.BatchedExperts
    assert (ends.topk_indices_dtype(), ends.max_num_tokens_per_rank(), ends.num_dispatchers(),
            ends.output_is_reduced()) == (torch.int32, MAX, ranks, True)
    plain, delegate = types.SimpleNamespace(quant_dtype=None), kernel.TopKWeightAndReduceDelegate()
    for turn in range(2):
        rows, scale, found, no_ids, no_weights = ends.prepare(x, weights, ids, 2 * ranks, None,
                                                              False, plain, False)
        assert scale is None and no_ids is None and no_weights is None
        assert rows.shape == (2, ranks * MAX, HIDDEN)
        made = experts(rows, found.expert_num_tokens, 2 * rank)
        out = torch.empty(x.shape[0], HIDDEN)
        ends.finalize(out, made, weights, ids, False, delegate)
        same(out, x, ids, weights, f"vLLM, {turn}")
    refused("no dispatch before", lambda: ends.finalize(out, made, weights, ids, False, delegate))
    refused("experts must delegate", lambda: ends.finalize(
        out, made, weights, ids, False, kernel.TopKWeightAndReduceContiguous()))
    refused("use experts that quantize", lambda: ends.prepare(
        x, weights, ids, 2 * ranks, None, False, types.SimpleNamespace(quant_dtype="f8"), False))
    refused("but the handle was made for", lambda: ends.prepare(
        x, weights, ids, 2 * ranks + 1, None, False, plain, False))
    refused("a token has one expert", lambda: ends.prepare(
        x, weights, ids, 2 * ranks, None, True, plain, False))
    refused("prepare dispatches", lambda: manager.dispatch(x, weights, ids))
    refused("finalize combines", lambda: manager.combine(x))

    # Weights on inputs: of one expert a token.
    one = manager.get_handle({**sizes, "topk": 1})
    ends = vllm.DtilePrepareAndFinalize(one, "config", "quantization")
    first, half = torch.empty(x.shape[0], 1, dtype=torch.int32), torch.empty(x.shape[0], 1)
    for t in range(x.shape[0]):
        first[t, 0], half[t, 0] = ids[t, 0], weights[t, 0]
    rows, _, found, _, _ = ends.prepare(x, half, first, 2 * ranks, None, True, plain, False)
    out = torch.empty(x.shape[0], HIDDEN)
    ends.finalize(out, experts(rows, found.expert_num_tokens, 2 * rank), half, first, True,
                  delegate)
    same(out, x * half, first, torch.ones_like(half), "vLLM, weights on inputs")

    dispatcher = sglang.DtileDispatcher(group, **sizes)
    deepep = sys.modules["sglang.srt.layers.moe.token_dispatcher.deepep"]
    routed = types.SimpleNamespace(topk_ids=ids, topk_weights=weights)
    output = dispatcher.dispatch(x, routed)
    assert isinstance(output, deepep.DeepEPLLDispatchOutput) and output.hidden_states_scale is None
    assert output.expected_m == (x.shape[0] * ranks * TOPK + 2 * ranks) // (2 * ranks)
    made = experts(output.hidden_states, output.masked_m, 2 * rank)
    same(dispatcher.combine(deepep.DeepEPLLCombineInput(made, output.topk_ids,
                                                        output.topk_weights)),
         x, ids, weights, "SGLang")
    dispatcher.dispatch(x, routed)
    refused("no combine between", lambda: dispatcher.dispatch(x, routed))

    if ranks > 1:
        refused("cannot be shared evenly", lambda: dtile.moe.AllToAll(
            "all", HIDDEN, ranks + 1, TOPK, MAX, torch.float32))
    refused("experts is 0; it must be from 1", lambda: dtile.moe.AllToAll(
        "all", HIDDEN, 0, TOPK, MAX, torch.float32))
    refused("capacity is 0; it must be from 1", lambda: dtile.moe.AllToAll(
        "all", HIDDEN, ranks, TOPK, MAX, torch.float32, capacity=0))
    refused("tokens are of bf16, f16, f32", lambda: dtile.moe.AllToAll(
        "all", HIDDEN, ranks, TOPK, MAX, torch.int32))
    refused("at most 5 rows of 4", lambda: handle.dispatch(torch.empty(MAX + 1, HIDDEN), ids))
    refused("expert numbers have the shape", lambda: handle.dispatch(x, first))
    refused("but this was made for", lambda: handle.dispatch(
        torch.empty(2, HIDDEN, dtype=torch.float16), ids))


def main():
    kernels._dtype_numbers = {torch.float32: 13, torch.int32: 3, torch.float16: 11}
    _programs.kernel = lambda name, dtype, team, local=0, **sizes: Kernel(name, sizes)
    here = threading.local()
    _groups.team_of = lambda name: here.team

    def work(team):
        here.team = team
        check(team.rank, team.size)

    failures = [failure for ranks in (1, 2, 3) for failure in run_on(ranks, work)]
    print("\n".join(failures) or "experts get their tokens, and answers come back")
    return 1 if failures else 0


sys.exit(main())
