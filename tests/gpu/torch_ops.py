# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""dtile.ops under the real PyTorch, a GPU a rank:

    PYTHONPATH=… torchrun --nproc-per-node 2 tests/gpu/torch_ops.py [--replays 1000]

Results are compared with PyTorch's collectives and products. A block with three operations is
compiled (fullgraph), captured in a CUDA graph, and replayed with new inputs. The last lines say how
long the host is busy in an operation, and in the launch of its kernel by the C ABI, in the same
run. Ends with 1 where anything is wrong. NCCL's multicast stays off: set NCCL_NVLS_ENABLE=0."""

import argparse
import itertools
import os
import sys
import time

os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
os.environ.setdefault("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")

import torch
import torch.distributed as dist

import dtile
from dtile import _programs
from dtile._abi import runtime


class Check:
    def __init__(self):
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        device = torch.device("cuda", torch.cuda.current_device())
        dist.init_process_group("nccl", device_id=device)
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.group = dist.group.WORLD.group_name
        self.generator = torch.Generator(device="cuda")
        self.generator.manual_seed(1000 * self.rank + int(time.time()) % 1000)
        self.failures = 0

    def say(self, *words):
        if self.rank == 0:
            print(*words, flush=True)

    def random(self, *shape, dtype=torch.bfloat16):
        return torch.randn(*shape, device="cuda", generator=self.generator).to(dtype)

    # ---- What an operation is, by PyTorch's own ----

    def gathered(self, x, dim=0):
        mine = x.movedim(dim, 0).contiguous()
        out = mine.new_empty(self.ranks * mine.shape[0], *mine.shape[1:])
        dist.all_gather_into_tensor(out, mine)
        return out.movedim(0, dim)

    def summed(self, x, op="sum"):
        out = x.float().clone()
        dist.all_reduce(out)
        return out / self.ranks if op == "avg" else out

    def scattered(self, x, dim=0, op="sum"):
        return self.summed(x, op).chunk(self.ranks, dim)[self.rank]

    # ---- Comparison ----

    def expect(self, what, got, want):
        """Sums of products of normal numbers: the error goes with the size of the sums."""
        got, want = got.float(), want.float()
        if got.shape != want.shape:
            return self.report(what, False, f"shape {tuple(got.shape)}, not {tuple(want.shape)}")
        error = (got - want).abs().max() / want.abs().max().clamp(min=1e-6)
        return self.report(what, bool(error < 2e-2), f"error {error.item():.1e}")

    def report(self, what, is_right, words):
        right = torch.tensor([int(is_right)], device="cuda")
        dist.all_reduce(right, op=dist.ReduceOp.MIN)
        if not right.item():
            self.failures += 1
            print(f"rank {self.rank}: WRONG {what}: {words}", flush=True)
        else:
            self.say(f"right {what}: {words}")

    def refused(self, what, call, words):
        try:
            call()
        except Exception as error:
            return self.report(what, words in str(error), str(error).splitlines()[0])
        return self.report(what, False, "it was accepted")


def check_signatures(check):
    """Those of torch.ops.symm_mem, where this version has them."""
    for name in ("fused_all_gather_matmul", "fused_matmul_reduce_scatter",
                 "fused_all_gather_scaled_matmul", "fused_scaled_matmul_reduce_scatter",
                 "one_shot_all_reduce", "one_shot_all_reduce_out", "two_shot_all_reduce_"):
        theirs = getattr(torch.ops.symm_mem, name, None)
        if theirs is None:
            check.say(f"this PyTorch has no symm_mem.{name}")
            continue
        ours = str(getattr(torch.ops.dtile, name).default._schema).replace("dtile::", "symm_mem::")
        # Versions of PyTorch differ in whether a shape may be symbolic.
        there = str(theirs.default._schema)
        check.report(f"signature of {name}",
                     ours.replace("SymInt", "int") == there.replace("SymInt", "int"),
                     f"{ours}, there {there}")


def check_results(check):
    ops, group, W = torch.ops.dtile, check.group, check.ranks
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        kind = str(dtype).removeprefix("torch.")
        for rows, k, n in ((512, 1024, 768), (37, 192, 130), (1, 64, 8)):
            x = check.random(rows, k, dtype=dtype)
            for weight in (check.random(n, k, dtype=dtype).t(), check.random(k, n, dtype=dtype)):
                dist.broadcast(weight.t() if weight.t().is_contiguous() else weight, 0)
                stored = "columns" if weight.stride(0) == 1 else "rows"
                what = f"fused_all_gather_matmul {kind} {rows}x{k}x{n}, B by {stored}"
                whole, (out,) = ops.fused_all_gather_matmul(x, [weight], 0, group, return_A=False)
                check.expect(what, out, check.gathered(x).float() @ weight.float())
                check.report(what + ", no A", whole is None, "")
            whole, outs = ops.fused_all_gather_matmul(x, [weight, weight], 0, group)
            check.expect("… A", whole, check.gathered(x))
            check.expect("… second product", outs[1], check.gathered(x).float() @ weight.float())
            a = check.random(W * rows, k, dtype=dtype)
            own = check.random(n, k, dtype=dtype).t()
            for op in ("sum", "avg"):
                check.expect(f"fused_matmul_reduce_scatter {kind} {rows} {op}",
                             ops.fused_matmul_reduce_scatter(a, own, op, 0, group),
                             check.scattered(a.float() @ own.float(), 0, op))
            check.expect(f"fused_matmul_all_reduce {kind} {rows}",
                         ops.fused_matmul_all_reduce(x, own, "sum", group),
                         check.summed(x.float() @ own.float()))
        batch = check.random(3, 2 * W, 64, dtype=dtype)
        weight = check.random(48, 64, dtype=dtype).t()
        check.expect(f"fused_matmul_reduce_scatter {kind}, dimension 1",
                     ops.fused_matmul_reduce_scatter(batch, weight, "sum", 1, group),
                     check.scattered(batch.float() @ weight.float(), 1))
        check.expect(f"fused_matmul_reduce_scatter {kind}, last dimension",
                     ops.fused_matmul_reduce_scatter(batch, weight, "sum", 2, group),
                     check.scattered(batch.float() @ weight.float(), 2))
        check.expect(f"all_gather {kind}, dimension 1", ops.all_gather(batch, 1, group),
                     check.gathered(batch, 1))
        check.expect(f"reduce_scatter {kind}", ops.reduce_scatter(batch, "avg", 1, group),
                     check.scattered(batch, 1, "avg"))
        for numbers in (8, 4096, 1 << 20, 1003):
            x = check.random(numbers, dtype=dtype)
            for name in ("one_shot_all_reduce", "two_shot_all_reduce", "all_reduce"):
                check.expect(f"{name} {kind} {numbers}", getattr(ops, name)(x, "sum", group),
                             check.summed(x))
            want = check.summed(x)
            check.expect(f"two_shot_all_reduce_ {kind} {numbers}",
                         ops.two_shot_all_reduce_(x, "sum", group), want)


def check_scaled(check):
    """Products of f8 with scales, against float64."""
    ops, group, W = torch.ops.dtile, check.group, check.ranks
    f8 = torch.float8_e4m3fn

    def gathered(x):
        # NCCL has no f8.
        if x.dtype == f8:
            return check.gathered(x.view(torch.uint8)).view(f8)
        return check.gathered(x)

    def product(a, a_scale, b, b_scale, bias=None):
        out = (a.double() * a_scale.double()) @ (b.double() * b_scale.double())
        return out if bias is None else out + bias.double()

    def scattered(x, op):
        whole = x.clone()
        dist.all_reduce(whole)
        return (whole / W if op == "avg" else whole).chunk(W, 0)[check.rank]

    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        kind = str(dtype).removeprefix("torch.")
        for rows, k, n in ((512, 1024, 768), (128, 4096, 2048), (37, 192, 130), (1, 64, 8)):
            def scales(*shape):
                return check.random(*shape, dtype=torch.float32).abs() / 8 + 0.05

            one = torch.full((1,), 0.25, device="cuda")
            x = check.random(rows, k, dtype=f8)
            parts = check.random(W * rows, k, dtype=f8)
            weights = [check.random(n, k, dtype=f8).t(), check.random(k, n, dtype=f8)]
            bias = check.random(n, dtype=dtype)
            for way, a_scale, b_scale in (("one scale", one, one),
                                          ("rows", scales(rows, 1), scales(1, n)),
                                          ("all ranks' rows", None, scales(1, n)),
                                          ("rows, one for B", scales(rows, 1), one)):
                if a_scale is None:
                    a_scale = gathered(scales(rows, 1))
                every = a_scale if a_scale.numel() in (1, W * rows) else gathered(a_scale)
                if rows == 1 and a_scale.numel() == 1:
                    every = gathered(a_scale.view(1, 1))
                what = f"fused_all_gather_scaled_matmul {kind} {rows}x{k}x{n}, {way}"
                whole, outs = ops.fused_all_gather_scaled_matmul(
                    x, weights, a_scale, [b_scale] * 2, 0, group, [None, bias], [None, None],
                    [dtype, dtype], [False, True])
                all_rows = gathered(x)
                check.report(what + ", A", torch.equal(whole.view(torch.uint8),
                                                       all_rows.view(torch.uint8)), "")
                for b, plus, out in zip(weights, (None, bias), outs):
                    check.report(what + ", type", out.dtype == dtype, str(out.dtype))
                    check.expect(what, out, product(all_rows, every, b, b_scale, plus))
            for op, (way, a_scale, b_scale) in itertools.product(
                    ("sum", "avg"), (("one scale", one, one),
                                     ("rows", scales(W * rows, 1), scales(1, n)))):
                out = ops.fused_scaled_matmul_reduce_scatter(
                    parts, weights[0], a_scale, b_scale, op, 0, 0, group, [W * rows, n], bias,
                    None, dtype, True)
                check.expect(f"fused_scaled_matmul_reduce_scatter {kind} {rows}x{k}x{n} {op}, "
                             f"{way}", out,
                             scattered(product(parts, a_scale, weights[0], b_scale, bias), op))
    check.refused("f8 result", lambda: ops.fused_scaled_matmul_reduce_scatter(
        check.random(W, 64, dtype=f8), check.random(8, 64, dtype=f8).t(), one, one, "sum", 0, 0,
        group, [W, 8]), "out_dtype is None")


def check_refusals(check):
    ops, group = dtile.ops, check.group
    x = check.random(64, 64)
    check.refused("no such group", lambda: ops.all_reduce(x, "sum", "nobody"), "no process group")
    check.refused("reduce_op", lambda: ops.all_reduce(x, "max", group), "sum or avg")
    check.refused("element type", lambda: ops.all_reduce(x.to(torch.int32), "sum", group), "i32")
    if check.ranks > 1:
        check.refused("uneven rows", lambda: ops.reduce_scatter(
            check.random(check.ranks * 3 + 1, 4), "sum", 0, group), "cannot share evenly")
    check.refused("on the host", lambda: ops.all_reduce(x.cpu(), "sum", group), "CPU")
    huge = torch.empty(1 << 34, device="meta", dtype=torch.bfloat16)
    check.report("supports what fits", ops.all_reduce.supports(x, "sum", group), "")
    check.report("does not support 32 GiB", not ops.one_shot_all_reduce.supports(
        huge, "sum", group), ops.one_shot_all_reduce.refusal(huge, "sum", group))


def check_graph(check, replays):
    """A block of three operations, compiled whole, captured, replayed with new inputs."""
    ops, group, W = torch.ops.dtile, check.group, check.ranks
    up, down = check.random(1024, 512).t() / 16, check.random(512, 1024).t() / 16

    def block(x):
        hidden = ops.fused_all_gather_matmul(x, [up], 0, group, return_A=False)[1][0]
        out = ops.fused_matmul_reduce_scatter(torch.relu(hidden), down, "sum", 0, group)
        return ops.one_shot_all_reduce(out[:1] + x[:1], "avg", group), out

    def plain(x):
        hidden = check.gathered(x).float() @ up.float()
        out = check.scattered(torch.relu(hidden.to(x.dtype).float()) @ down.float())
        return check.summed(out[:1].to(x.dtype) + x[:1], "avg"), out

    compiled = torch.compile(block, fullgraph=True)
    x = check.random(256, 512)
    for name, got, want in zip(("mean", "rows"), compiled(x), plain(x)):
        check.expect(f"compiled block, {name}", got, want)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            compiled(x)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outs = compiled(x)
    worst = 0.0
    for _ in range(replays):
        x.copy_(check.random(*x.shape))
        graph.replay()
        for got, want in zip(outs, plain(x)):
            worst = max(worst, float((got.float() - want.float()).abs().max() / want.abs().max()))
    check.report(f"{replays} replays with new inputs", worst < 2e-2, f"error {worst:.1e}")
    # In the graph the host does one call, whatever is in it.
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(20):
        graph.replay()
    check.say(f"host: a replay of the block takes {(time.perf_counter() - begin) / 20 * 1e6:.1f} "
              "µs")
    torch.cuda.synchronize()


def check_registered(check):
    """PyTorch's symmetric memory as arguments of a kernel."""
    try:
        import torch.distributed._symmetric_memory as symm_mem
        tensors = [symm_mem.empty(1 << 20, dtype=torch.float32, device="cuda") for _ in range(2)]
        handles = [symm_mem.rendezvous(tensor, check.group) for tensor in tensors]
    except (ImportError, AttributeError, RuntimeError) as missing:
        return check.say(f"no symmetric memory of PyTorch here: {missing}")
    team = dtile.ops._groups.team_of(check.group)
    for handle in handles:
        team.register(handle)
    kernel = _programs.kernel("all_reduce_symmetric", "f32", team)
    x, y = tensors
    for turn in range(3):
        x.copy_(check.random(x.numel(), dtype=torch.float32))
        want = check.summed(x)
        kernel(x, y, team=team)
        check.expect(f"all-reduce in registered memory, {turn}", y, want)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(x, y, team=team)
    x.copy_(check.random(x.numel(), dtype=torch.float32))
    want = check.summed(x)
    graph.replay()
    check.expect("the same from a graph", y, want)
    torch.cuda.synchronize()
    check.refused("unregister what a graph uses", lambda: team.unregister(handles[0]), "captured")
    del graph
    team.trim(captured=True)
    for handle in handles:
        team.unregister(handle)
    check.refused("after unregister", lambda: kernel(x, y, team=team), "register it")


def best_of(*calls, batches=100, turns=20):
    """Microseconds of the host, of each; in turn, as its speed changes. Few at once, so that the
    GPU's queue does not fill up."""
    best = [float("inf")] * len(calls)
    for _ in range(batches):
        for i, call in enumerate(calls):
            torch.cuda.synchronize()
            dist.barrier()
            torch.cuda.synchronize()
            call()
            begin = time.perf_counter()
            for _ in range(turns):
                call()
            best[i] = min(best[i], (time.perf_counter() - begin) / turns * 1e6)
    torch.cuda.synchronize()
    return best


def measure(check, limit):
    team = dtile.ops._groups.team_of(check.group)
    x = check.random(4096, dtype=torch.float32)
    out = torch.empty_like(x)
    kernel = _programs.kernel("one_shot", "f32", team)
    kernel(x, out, team=team)
    args = kernel._call_for((x, out))
    stream = torch.cuda.current_stream().cuda_stream
    launch = runtime().dtile_launch_on
    ops, group = torch.ops.dtile, check.group
    by_abi, by_call, by_ops, making = best_of(
        lambda: launch(team._handle, 0, kernel._address, args, 2, stream),
        lambda: kernel(x, out, team=team),
        lambda: ops.one_shot_all_reduce_out(x, "sum", group, out),
        lambda: ops.one_shot_all_reduce(x, "sum", group))
    check.say(f"host: C ABI {by_abi:.2f} µs; kernel {by_call:.2f} µs; torch.ops {by_ops:.2f} µs "
              f"({by_ops - by_abi:.2f} beyond the C ABI, at most {limit} wanted); "
              f"with a new output {making:.2f} µs")
    check.report("the host's time", by_ops - by_abi <= limit, f"{by_ops - by_abi:.2f} µs")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--replays", type=int, default=1000)
    parser.add_argument("--limit", type=float, default=6.0, help="µs beyond the C ABI")
    options = parser.parse_args()
    check = Check()
    begin = time.perf_counter()
    import dtile.ops

    check.say(f"import dtile.ops: {time.perf_counter() - begin:.2f} s; PyTorch {torch.__version__}")
    dtile.ops.enable(symmetric_bytes=512 << 20, wait_timeout_ms=20_000)
    check_signatures(check)
    check_results(check)
    check_scaled(check)
    check_refusals(check)
    check_graph(check, options.replays)
    check_registered(check)
    measure(check, options.limit)
    torch.cuda.synchronize()
    dtile.ops.close()
    check.say(f"{check.failures} wrong" if check.failures else "all right")
    dist.destroy_process_group()
    return 1 if check.failures else 0


sys.exit(main())
