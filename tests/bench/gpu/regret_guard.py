# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What regret.py does about kernels that fail or hang: each measurement is announced in the log,
has a limit, and ends this process where the GPU is of no use any more. The process that started
this one names the measurement, leaves it out and goes on."""

import contextlib
import os
import threading
import time

import dtile
import torch

# Exit code of a process whose GPU, or whose peers, are in no known state.
BROKEN = 75


def words(error):
    """The first line of an error, shortened."""
    return (str(error).strip().split("\n") or [""])[0][:200]


def leave(bench, key, why):
    print(f"rank {bench.rank}: {key}: {why}: this process ends", flush=True)
    os._exit(BROKEN)


@contextlib.contextmanager
def guarded(bench, log, key, seconds):
    """Runs its body, for so many seconds at most. An error of the kernel, of memory or of CUDA is
    written down as `failed`; then `bench.failures` grows."""
    log.write("try", key=key)
    timer = threading.Timer(seconds, leave, (bench, key, f"more than {seconds} s"))
    timer.daemon = True
    timer.start()
    try:
        yield
    except (dtile.DtileError, RuntimeError) as error:
        failed(bench, log, key, error)
    finally:
        timer.cancel()


def failed(bench, log, key, error):
    why = f"{type(error).__name__}: {words(error)}"
    out_of_memory = isinstance(error, torch.cuda.OutOfMemoryError)
    bench.failures += 0 if out_of_memory else 1
    log.write("failed", key=key, why=why)
    print(f"rank {bench.rank}: FAILED {key}: {why}", flush=True)
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        leave(bench, key, "the GPU has failed")
    if bench.ranks > 1:
        # The others may be waiting for this rank.
        leave(bench, key, "the ranks may differ")
    torch.cuda.empty_cache()


def is_over(bench, until):
    """Whether it is later than `until` on any rank."""
    return bench.worst(float(time.time() > until)) > 0


def plan(bench, options, launch, warm=1):
    """Milliseconds of one launch; `bench.runs` becomes what fits into a third of a second."""
    bench.runs = 1
    once = bench.milliseconds(launch, warm)
    least = 1 if once > 500 else 3
    bench.runs = max(least, min(options.runs, int(300 / max(once, 1e-3))))
    return once


def default_beside_peer(bench, options, launch, peer_of):
    """The times of a shape's line, milliseconds: the default's, the peer's by `peer_of`, and the
    default's again, from which the noise is seen."""
    warm = 1 if plan(bench, options, launch) > 50 else 3
    default = bench.milliseconds(launch, warm)
    peer = peer_of()
    return {"default": default, "peer": peer, "again": bench.milliseconds(launch, warm),
            "runs": bench.runs}


def told(key, times):
    peer = times["peer"]
    return f"{key}: {times['default']:.4g} ms" + (
        f", peer {peer:.4g} ms, {peer / times['default']:.3f}" if peer else ", no peer")
