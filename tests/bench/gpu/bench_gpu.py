# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""dtile's kernels beside cuBLAS, NCCL, Triton, and the fused operations of torch and (where it is
on PYTHONPATH) kraken, in one process group.

    bench_gpu.py [--ranks N] [SUITE…]      gemm ag_gemm gemm_rs all_reduce all_to_all attention
                                           causal_attention flash_decode paged_flash_decode
                                           dispatch combine gemm_scaled swiglu grouped_gemm
                                           grouped_swiglu gemm_ar ag_grouped_gemm
                                           grouped_gemm_rs launch

goals.py runs this for every goal of goals.md; the lists of shapes are there, too.

Nothing is pinned: the compiler chooses all constants but those that callers see in the shapes of
arguments. `--pin BM=128` pins one, to try what it gives.

One command on a machine with NVIDIA GPUs, PyTorch, dtilec and the Python package `dtile` (found
through PYTHONPATH; $DTILEC names the compiler): it starts a process a GPU. Results are checked
before anything is timed; a kernel that is wrong has no time, and the exit code says so.

NVLink multicast stays off in all peers: a program that dies while it uses it can put GPUs out of
service, and nobody here uses it.
"""

import argparse
import os
import subprocess
import sys
import time

from goals import shapes_of

os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
os.environ.setdefault("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")
os.environ.setdefault("NVSHMEM_DISABLE_NVLS", "1")

# M, N, K
GEMMS = shapes_of("products", "thin_products")
# M, hidden, ffn of the whole model, as tensor parallelism divides them by the ranks.
LAYERS = shapes_of("layers", "small_layers")
HUGE = shapes_of("largest_layers")
REDUCED = tuple(size for size, in shapes_of("reductions"))
# Of link to link, one direction, for the limit max(cuBLAS, wire).
WIRE_GBPS = 450


def suites():
    """Imported late: the process that starts the others needs none of it."""
    import torch
    import torch.distributed as dist

    import attention
    import dtile
    import experts
    import grouped
    import moe
    import products
    import reduced
    from collectives import Exchange, all_reduce_peers, refill
    from harness import build, kernel_of, measured, ratio, team_for
    from layers import Layer

    def gemm(bench, options):
        for m, n, k in options.shapes or GEMMS:
            a, b = bench.random(m, k), bench.random(n, k)
            c, d = (torch.empty(m, n, device="cuda", dtype=torch.bfloat16) for _ in range(2))
            with team_for(bench, options) as team:
                def fill():
                    a.copy_(bench.random(m, k))
                    b.copy_(bench.random(n, k))

                kernel = kernel_of(bench, options, "gemm", "gemm")
                own, error = measured(
                    bench, "gemm", lambda: kernel(a, b, c, team=team),
                    lambda name, launch: bench.check(name, launch, fill, c,
                                                     lambda: a.double() @ b.double().T, 5e-3))
                cublas = bench.milliseconds(lambda: torch.matmul(a, b.T, out=d))
                triton = fastest_triton(bench, a, b, d) if options.triton else None
                bench.row(op="gemm", M=m, N=n, K=k, dtile=own, error=error,
                          cublas=cublas, ratio=ratio(cublas, own),
                          tflops=own and round(2e-9 * m * n * k / own), triton=triton,
                          ratio_triton=ratio(triton, own))

    def fastest_triton(bench, a, b, c):
        try:
            from triton_gemm import launches
        except ImportError:
            return None
        bench.poison(c)
        times = [bench.attempt(launch) for launch in launches(a, b, c)]
        error = bench.error(c, a.double() @ b.double().T)
        if error > 5e-3:
            bench.say(f"peer: Triton's product is wrong: relative error {error:.2e}")
            return None
        return min((spent for spent in times if spent is not None), default=None)

    def layer(bench, options, op, shape):
        m, hidden, ffn = shape
        w = bench.ranks
        if m % w or ffn % w:
            return
        group = dist.group.WORLD.group_name
        its = Layer(bench, op, m, hidden, ffn)
        a, b, out = its.a, its.b, its.out
        n, k = b.shape
        program = "ag_gemm/any_rows" if op == "ag_gemm" else op
        with team_for(bench, options) as team:
            kernel = kernel_of(bench, options, program, options.kernel.get(op, op))
            own, error = measured(
                bench, op, lambda: kernel(a, b, out, team=team),
                lambda name, launch: bench.check(name, launch, its.fill, out, its.reference, 1e-2))
        cublas, nccl = bench.milliseconds(its.multiply), bench.milliseconds(its.move)
        both = bench.milliseconds(its.sequential)
        fused = None
        if options.fused:
            import torch.distributed._symmetric_memory as symm

            if op == "ag_gemm":
                shared = symm.empty(tuple(a.shape), device="cuda", dtype=a.dtype)
                shared.copy_(a)
                symm.rendezvous(shared, dist.group.WORLD)
                fused = bench.attempt(lambda: torch.ops.symm_mem.fused_all_gather_matmul(
                    shared, [b.T], gather_dim=0, group_name=group))
            else:
                fused = bench.attempt(lambda: torch.ops.symm_mem.fused_matmul_reduce_scatter(
                    a, b.T, "sum", scatter_dim=0, group_name=group))
        kraken = None
        if options.fused and w > 1:
            try:
                if op == "ag_gemm":
                    from kraken.fused.all_gather_matmul import all_gather_matmul

                    # More than one split a rank has given wrong results.
                    kraken = bench.attempt(
                        lambda: all_gather_matmul(shared, b.T, splits_per_rank=1))
                else:
                    from kraken.fused.gemm_reduce_scatter_ce_persistent import (
                        gemm_reduce_scatter_ce_persistent)

                    kraken = bench.attempt(lambda: gemm_reduce_scatter_ce_persistent(a, b.T))
            except ImportError:
                pass
        limit = max(cublas, its.moved / WIRE_GBPS / 1e6)
        bench.row(op=op, M=m, N=n, K=k, dtile=own, error=error, cublas=cublas, nccl=nccl,
                  sequential=both, ratio=ratio(both, own), torch_fused=fused, kraken=kraken,
                  ratio_fused=ratio(min((t for t in (fused, kraken) if t), default=None), own),
                  limit=limit, of_limit=own and ratio(limit, own))

    def layers(op):
        def run(bench, options):
            for shape in options.shapes or (LAYERS + (HUGE if options.huge else ())):
                layer(bench, options, op, shape)
        return run

    def all_reduce(bench, options):
        for size in options.sizes or REDUCED:
            count = size // 2
            with team_for(bench, options) as team:
                x, y = (team.symm_empty((count,), torch.bfloat16) for _ in range(2))
                kernel = kernel_of(bench, options, "all_reduce", "allreduce_symmetric", T="bf16")

                def reference():
                    want = x.double()
                    dist.all_reduce(want)
                    return want

                own, error = measured(
                    bench, f"all_reduce {size}", lambda: kernel(x, y, team=team),
                    lambda name, launch: bench.check(name, launch, lambda: refill(bench, x), y,
                                                     reference, 5e-3))
            nccl, best = all_reduce_peers(bench, count, options.fused)
            bench.row(op="all_reduce", bytes=size, dtile=own, error=error, nccl=nccl,
                      best_peer=best, ratio=ratio(best, own))

    def all_to_all(bench, options):
        w = bench.ranks
        for tokens, topk, hidden, width in ((128, 8, 7168, 1), (128, 8, 7168, 2)):
            rows = tokens * topk // w
            dtype, name = (torch.uint8, "u8") if width == 1 else (torch.bfloat16, "bf16")
            its = Exchange(bench, rows, hidden, dtype)
            with team_for(bench, options) as team:
                # Launches fill the halves in turn: no other kernel writes between them.
                recv, splits = its.buffers(team)
                kernel = kernel_of(bench, options, "all_to_all", "all_to_all_split", T=name,
                                   HIDDEN=hidden, MAX=rows, EPR=2)

                def check(name, launch):
                    off = its.error(launch, recv, splits)
                    if off != 0:
                        bench.failures += 1
                        bench.say(f"WRONG {name}: relative error {off:.2e}")
                    return off == 0, off

                own, error = measured(
                    bench, "all_to_all",
                    lambda: kernel(its.src, its.starts, recv, splits, team=team), check)
            nccl = bench.milliseconds(its.nccl)
            bench.row(op="all_to_all", M=tokens, N=topk, K=hidden, type=name, dtile=own,
                      error=error, nccl=nccl, ratio=ratio(nccl, own))

    def empty_kernel(stream):
        """A launch by the driver alone of a kernel that does nothing, with as many bytes of
        parameters as a kernel of dtile's has."""
        import ctypes

        cuda = ctypes.CDLL("libcuda.so.1")
        text = (".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry nothing("
                ".param .align 8 .b8 launch[168], .param .align 64 .b8 frame[768]) { ret; }\n")
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        for status in (cuda.cuModuleLoadData(ctypes.byref(module), text.encode()),
                       cuda.cuModuleGetFunction(ctypes.byref(function), module, b"nothing")):
            if status != 0:
                return None
        values = ctypes.create_string_buffer(168), ctypes.create_string_buffer(768)
        pointers = (ctypes.c_void_p * 2)(*(ctypes.addressof(value) for value in values))
        call, queue = cuda.cuLaunchKernel, ctypes.c_void_p(stream)
        # `values` lives as long as the function.
        return lambda keep=values: call(function, 1, 1, 1, 128, 1, 1, 0, queue, pointers, None)

    def launch(bench, options):
        """What the host spends on one launch, without and with Python, beside a busy GPU; and what
        the driver takes of that."""
        from dtile import _abi

        library, seconds = build(bench, options, "gemm", flags=("--kernel", "gemm"))
        a, b = bench.random(64, 64), bench.random(64, 64)
        c = torch.empty(64, 64, device="cuda", dtype=torch.bfloat16)
        with team_for(bench, options) as team:
            kernel = library.gemm
            kernel(a, b, c, team=team)
            torch.cuda.synchronize()
            prepared, _ = kernel._prepare([a, b, c])
            stream = torch.cuda.current_stream().cuda_stream
            c_abi = _abi.runtime().dtile_launch_on

            def spend(f, count=200):
                """Microseconds a call, the median of five bursts that the queue holds."""
                times = []
                for _ in range(5):
                    begin = time.perf_counter()
                    for _ in range(count):
                        f()
                    times.append((time.perf_counter() - begin) / count * 1e6)
                    torch.cuda.synchronize()
                return sorted(times)[2]

            address, handle = kernel._address, team._handle
            bare = spend(lambda: _abi.runtime().dtile_abi_version())
            through_abi = spend(lambda: c_abi(handle, 0, address, prepared, 3, stream))
            nothing = empty_kernel(stream)
            driver = nothing and round(spend(nothing) - bare, 2)
            through_python = spend(lambda: kernel(a, b, c, team=team))
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                for _ in range(10):
                    kernel(a, b, c, team=team)
            a.copy_(bench.random(64, 64))
            bench.poison(c)
            graph.replay()
            torch.cuda.synchronize()
            error = bench.error(c, a.double() @ b.double().T)
            if error > 5e-3:
                bench.failures += 1
                bench.say(f"WRONG replayed graph: relative error {error:.2e}")
            bench.row(op="launch", us_c_abi=round(through_abi - bare, 2), us_driver=driver,
                      us_ctypes=round(bare, 2), us_python=round(through_python, 2), error=error,
                      build_seconds=seconds)

    return {"gemm": gemm, "ag_gemm": layers("ag_gemm"), "gemm_rs": layers("gemm_rs"),
            "all_reduce": all_reduce, "all_to_all": all_to_all, "launch": launch,
            **{suite.__name__: suite
               for suite in (attention.attention, attention.causal_attention,
                             attention.decodes(attention.Contiguous),
                             attention.decodes(attention.Paged), moe.dispatch, moe.combine,
                             products.gemm_scaled, products.swiglu,
                             grouped.products_of(grouped.Plain),
                             grouped.products_of(grouped.Gated), reduced.gemm_ar,
                             experts.ag_grouped_gemm, experts.grouped_gemm_rs)}}


def triple(text):
    """`128x256x64`."""
    values = tuple(int(part) for part in text.split("x"))
    if len(values) != 3:
        raise argparse.ArgumentTypeError(f"{text} is not of the form 128x256x64")
    return values


def named(text):
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text} is not of the form NAME=VALUE")
    return name, value


def main():
    names = ("gemm", "ag_gemm", "gemm_rs", "all_reduce", "all_to_all", "attention",
             "causal_attention", "flash_decode", "paged_flash_decode", "dispatch", "combine",
             "gemm_scaled", "swiglu", "grouped_gemm", "grouped_swiglu", "gemm_ar",
             "ag_grouped_gemm", "grouped_gemm_rs", "launch")
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", nargs="*", default=[], metavar="SUITE", help=", ".join(names))
    parser.add_argument("--ranks", type=int, help="processes, one a GPU; default: all GPUs")
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--heap", type=int, default=4096, help="symmetric heap a rank, MiB")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--shapes", type=triple, nargs="*",
                        help="MxNxK (gemm, gemm_scaled, swiglu), Mxhiddenxffn (layers)")
    parser.add_argument("--pin", type=named, nargs="*", default=[], help="BM=128 BN=256 …")
    parser.add_argument("--sizes", type=int, nargs="*", help="bytes (all_reduce)")
    parser.add_argument("--source", type=named, nargs="*", default=[], help="gemm=other.dtile …")
    parser.add_argument("--kernel", type=named, nargs="*", default=[],
                        help="gemm_rs=gemm_rs_rows …")
    parser.add_argument("--huge", action="store_true", help="also hidden 16384, ffn 53248")
    parser.add_argument("--no-triton", dest="triton", action="store_false",
                        help="leave Triton's matrix product out")
    parser.add_argument("--no-fused", dest="fused", action="store_false",
                        help="leave torch's fused operations and kraken's out")
    options = parser.parse_args()
    unknown = [name for name in options.suite if name not in names]
    if unknown:
        parser.error(f"no such suite: {', '.join(unknown)}")
    if "RANK" not in os.environ:
        import torch

        ranks = options.ranks or torch.cuda.device_count()
        return subprocess.call([sys.executable, "-m", "torch.distributed.run", "--standalone",
                                f"--nproc_per_node={ranks}", *sys.argv])
    options.source, options.kernel = dict(options.source), dict(options.kernel)
    options.pin = dict(options.pin)
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from harness import Bench

    bench = Bench(options.runs)
    table = suites()
    alone = ("gemm", "gemm_scaled", "swiglu", "grouped_gemm", "grouped_swiglu", "attention",
             "causal_attention", "flash_decode", "paged_flash_decode", "launch")
    chosen = options.suite or (names if bench.ranks > 1 else alone)
    for name in chosen:
        table[name](bench, options)
    return 1 if bench.finish() else 0


if __name__ == "__main__":
    sys.exit(main())
