#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How fast are kernels whose user chooses nothing? Shapes are drawn at random, and kernels are
built with nothing pinned. Measures the default beside cuBLAS or NCCL, and for some shapes beside
the best of all configurations; prints geometric means, 10th percentiles, the worst, and the
model's ranks.

    regret.py [--seconds N] [--seed N] [--exhaustive N] [--types bf16 …] [--forms nt …]
    regret.py --layers | --collectives | --joined [--ops barrier …] [--ranks N]
    regret.py --resume FILE …        goes on where FILE ends: same seed, same settings
    regret.py --report FILE          only prints the figures of what lies there
    regret.py --draw N               only prints the first N shapes

Products (one GPU): M of 1 to 16384, log-uniform, half of them odd. N and K of 256 to 32768,
log-uniform, multiples of 8 (of 16 for f8), but in a share of `--unaligned` neither is. Layers: the
same, M of all ranks and N and K of one rank's product. Collectives: 4 KiB to 256 MiB, log-uniform.
Joined: kernels that join communication with a product, a norm, a loss, attention, a layer, or the
tokens of experts, and collectives that the others do not have, beside torch; norms, softmax and a
gated activation along rows, beside torch.compile.

Needs what bench_gpu.py needs. What is measured goes to $OUT/regret.jsonl, else to FILE, a line at
a time; with both, $OUT/regret.jsonl begins with what FILE holds. A measurement that hangs or breaks
its process is named and left out. The exit code is 1 when a result was wrong or failed.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time

import regret_figures
import regret_log
import regret_shapes
from goals import compiler

os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
os.environ.setdefault("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")
os.environ.setdefault("NVSHMEM_DISABLE_NVLS", "1")

HERE = os.path.dirname(os.path.abspath(__file__))
# Seconds that a process takes to start, so that none is started for less.
STARTING = 30


def named(text):
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text} is not of the form NAME=VALUE")
    return name, value


def parser():
    its = argparse.ArgumentParser(description=__doc__,
                                  formatter_class=argparse.RawDescriptionHelpFormatter)
    mode = its.add_mutually_exclusive_group()
    mode.add_argument("--layers", action="store_true", help="ag_gemm, gemm_rs, gemm_ar")
    mode.add_argument("--collectives", action="store_true",
                      help="all_reduce, all_gather, reduce_scatter, all_to_all")
    mode.add_argument("--joined", action="store_true", help="all_reduce_norm, ulysses and others")
    its.add_argument("--seconds", type=float, default=540, help="of the whole run; default 540")
    its.add_argument("--seed", type=int, help="default: from the clock")
    its.add_argument("--shapes", type=int, default=1 << 20, help="so many at most")
    its.add_argument("--exhaustive", type=int, default=0, metavar="N",
                     help="try all configurations on the first N shapes (products)")
    its.add_argument("--types", nargs="+", choices=regret_shapes.TYPES)
    its.add_argument("--forms", nargs="+", choices=regret_shapes.FORMS)
    its.add_argument("--ops", nargs="+", choices=list(regret_shapes.JOINED_SIZES),
                     metavar="NAME", help="of --joined, by name; default all")
    its.add_argument("--unaligned", type=float, help="share of shapes; default 0.2")
    its.add_argument("--operations", type=float, help="most of a shape, 2 M N K; default 2e14")
    its.add_argument("--memory", type=int, help="most of a shape, GiB; default 48")
    its.add_argument("--ranks", type=int, help="default: one for products, else all GPUs")
    its.add_argument("--resume", metavar="FILE")
    its.add_argument("--report", metavar="FILE")
    its.add_argument("--draw", type=int, metavar="N")
    its.add_argument("--arch", default="sm_90a")
    its.add_argument("--heap", type=int, help="symmetric heap a rank, MiB")
    its.add_argument("--runs", type=int, default=20, help="of a measurement, at most")
    its.add_argument("--guard", type=float, default=90, help="seconds of a measurement, at most")
    its.add_argument("--source", type=named, nargs="*", default=[], help="gemm=other.dtile …")
    its.add_argument("--no-fused", dest="fused", action="store_false",
                     help="leave torch's all-reduces out")
    for name, kind in (("--measurements", str), ("--until", float)):
        its.add_argument(name, type=kind, help=argparse.SUPPRESS)
    return its


def mode_of(options):
    return next((mode for mode in ("layers", "collectives", "joined") if getattr(options, mode)),
                "products")


def takes_ranks(options):
    """Whether a process runs on each GPU."""
    return mode_of(options) != "products"


def settings_of(options, earlier):
    """What shapes are drawn from: that of an earlier run, which options may repeat but not change;
    else that of the options. None where they differ."""
    asked = {"mode": mode_of(options), "seed": options.seed, "unaligned": options.unaligned,
             "operations": options.operations,
             "memory": options.memory and options.memory << 30}
    if not takes_ranks(options):
        asked.update(types=options.types, forms=options.forms)
    if mode_of(options) == "joined":
        asked["ops"] = options.ops
    if earlier:
        same = all(value is None or earlier.get(name) == value for name, value in asked.items())
        return earlier if same else None
    usual = {"seed": int(time.time()), "unaligned": 0.2, "operations": 2e14, "memory": 48 << 30,
             "types": list(regret_shapes.TYPES), "forms": list(regret_shapes.FORMS),
             "ops": list(regret_shapes.JOINED_SIZES)}
    settings = {name: usual[name] if value is None else value for name, value in asked.items()}
    settings["peer"] = {"products": "cuBLAS", "layers": "cuBLAS and NCCL",
                        "collectives": "NCCL and torch",
                        "joined": "torch"}[settings["mode"]]
    return settings


def measurable(settings):
    """Whether a product can be drawn from these types and forms."""
    return settings["mode"] != "products" or any(
        form in settings["forms"] for name in settings["types"]
        for form in regret_shapes.TYPES[name].forms)


def place_of_log(options):
    """Where lines go; what an earlier run has measured is there afterwards."""
    folder = os.environ.get("OUT")
    if not folder:
        return options.resume or os.path.join(tempfile.mkdtemp(prefix="dtile-regret-"),
                                              "regret.jsonl")
    path = os.path.join(folder, "regret.jsonl")
    if options.resume and os.path.exists(options.resume):
        if not os.path.exists(path) or not os.path.samefile(options.resume, path):
            shutil.copyfile(options.resume, path)
    return path


# ---- A process a GPU ----


def machine():
    """Of this GPU and this compiler: measurements of others are not compared."""
    import torch

    with open(compiler(), "rb") as program:
        digest = hashlib.sha256(program.read()).hexdigest()[:8]
    return (f"{torch.cuda.get_device_name()}, torch {torch.__version__}, dtilec {digest}")


def measure(options):
    """What each rank does."""
    import torch.distributed as dist

    from harness import Bench

    options.pin = {}
    own = {name: os.path.join(HERE, f"{name}.dtile") for name in ("products", "rows")}
    options.source = own | dict(options.source)
    options.heap = options.heap or (16384 if takes_ranks(options) else 256)
    bench = Bench(options.runs)
    log = regret_log.Log(options.measurements, f"{bench.ranks} × {machine()}",
                         writes=bench.rank == 0)
    if log.others:
        bench.say(f"{log.others} lines of other machines or compilers do not count")
    # All ranks have read before anything is written.
    dist.barrier()
    if options.joined:
        import regret_joined

        regret_joined.run(bench, options, log, options.until, regret_shapes.joined)
    elif takes_ranks(options):
        import regret_ranks

        regret_ranks.run(bench, options, log, options.until)
    else:
        from regret_products import Products

        Products(bench, options, log, options.until).run()
    dist.barrier()
    dist.destroy_process_group()
    return 0


# ---- The process that starts them ----


def write(path, line):
    """Rank 0 does not run: this process may write."""
    log = regret_log.Log(path, line.pop("on", None))
    log.write(**line)


def start(options, path, until):
    """Runs the ranks until time is over, again where a measurement ended them. True when they ended
    by themselves."""
    import torch

    ranks = options.ranks or (torch.cuda.device_count() if takes_ranks(options) else 1)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone",
               f"--nproc_per_node={ranks}", os.path.abspath(__file__), *sys.argv[1:],
               "--measurements", path, "--until", str(until)]
    while True:
        before = len(regret_log.read(path))
        code = subprocess.call(command)
        if code == 0:
            return True
        lines = regret_log.read(path)
        for line in regret_log.unfinished(lines[before:]):
            print(f"left out: {line['key']}", flush=True)
            write(path, {"kind": "failed", "key": line["key"], "on": line["on"],
                         "why": "its process ended or hung"})
        if len(lines) == before:
            print(f"the ranks ended with {code} before they measured anything", flush=True)
            return False
        if time.time() + STARTING > until:
            return True


def show(path):
    told, failures = regret_figures.report(regret_log.read(path))
    print("\n".join(told), flush=True)
    return failures


def main():
    its = parser()
    options = its.parse_args()
    if options.report:
        return 1 if show(options.report) else 0
    if "RANK" in os.environ:
        return measure(options)
    if options.resume and not os.path.exists(options.resume) and os.environ.get("OUT"):
        its.error(f"{options.resume}: no such file")
    if options.ops and not options.joined:
        its.error("--ops names kernels of --joined")
    began = time.time()
    earlier = regret_log.settings_in(regret_log.read(options.resume)) if options.resume else None
    settings = settings_of(options, earlier)
    if settings is None:
        its.error(f"{options.resume} was measured with other settings: {earlier}")
    print(f"seed {settings['seed']}", flush=True)
    if not measurable(settings):
        its.error("no peer multiplies these types in these forms: f8 is measured as nt alone")
    if options.draw is not None:
        ranks = options.ranks or 2
        if settings["mode"] == "joined" and not regret_shapes.joined_on(settings, ranks):
            its.error(f"none of these runs on {ranks} ranks")
        drawn = getattr(regret_shapes, settings["mode"])
        shapes = drawn(settings) if settings["mode"] == "products" else drawn(settings, ranks)
        for _ in range(options.draw):
            print(next(shapes).key)
        return 0
    path = place_of_log(options)
    print(f"measurements go to {path}", flush=True)
    if not regret_log.settings_in(regret_log.read(path)):
        write(path, {"kind": "run", "settings": settings})
    good = start(options, path, began + options.seconds)
    failures = show(path)
    return 1 if failures or not good else 0


if __name__ == "__main__":
    sys.exit(main())
