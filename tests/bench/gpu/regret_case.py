# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A kernel of regret.py's joined ones: what is launched and checked, and what a user of torch
writes instead."""

import torch
import torch.distributed as dist

from harness import build

HEAD = 128  # elements of a head


class Case:
    """What is measured: the kernel's launch, how inputs are filled, its outputs, what they should
    be, and what torch's user writes, which gives the same outputs. `prepare` gives peers their
    inputs again that they write over. `ordered` gives outputs that a launch leaves in any order."""

    def __init__(self, launch, fill, outputs, reference, peers, tolerance, prepare=lambda: None,
                 ordered=None):
        self.launch, self.fill, self.outputs = launch, fill, outputs
        self.reference, self.peers, self.tolerance = reference, peers, tolerance
        self.prepare, self.ordered = prepare, ordered or (lambda: self.outputs)


def empty(*shape, dtype=torch.bfloat16):
    return torch.empty(*shape, device="cuda", dtype=dtype)


def kernel_of(bench, options, program, name, **constants):
    library, _ = build(bench, options, program, flags=("--kernel", name), **constants)
    return getattr(library, name)


def refilled(bench, *tensors):
    """Fills tensors with fresh numbers."""
    def fill():
        for tensor in tensors:
            tensor.copy_(bench.random(*tensor.shape))
    return fill


def exchanged(x):
    """This rank's part of each rank's tensor, whose first dimension is ranks."""
    x = x.contiguous()
    out = torch.empty_like(x)
    dist.all_to_all_single(out, x)
    return out


def all_reduces(bench, *shape):
    """torch's all-reduces: the tensor that each adds up, and what does so and returns the sum. Over
    ranks, those of symmetric memory beside NCCL's."""
    z = empty(*shape)

    def nccl():
        dist.all_reduce(z)
        return z

    ways = [(z, nccl)]
    if bench.ranks > 1:
        import torch.distributed._symmetric_memory as symm

        shared, group = symm.empty(*shape, device="cuda", dtype=z.dtype), dist.group.WORLD
        symm.rendezvous(shared, group)
        shots = [torch.ops.symm_mem.one_shot_all_reduce, torch.ops.symm_mem.two_shot_all_reduce_]
        ways += [(shared, lambda shot=shot: shot(shared, "sum", group.group_name))
                 for shot in shots]
    return ways


def where(here, tensor):
    """A result that not all ranks have: all compare as often, one number where it is not."""
    return tensor if here else torch.ones(1, device="cuda")


# ---- Checks, of kernels and of peers ----


def check(bench, key, case):
    """(whether both runs on fresh inputs gave what they should, the largest relative error)."""
    worst = 0.0
    for _ in range(2):
        case.fill()
        for output in case.outputs:
            bench.poison(output)
        case.launch()
        torch.cuda.synchronize()
        for output, want in zip(case.ordered(), case.reference()):
            worst = max(worst, bench.error(output, want))
    if worst > case.tolerance:
        bench.failures += 1
        bench.say(f"WRONG {key}: relative error {worst:.2e}, at most {case.tolerance:.0e}")
    return worst <= case.tolerance, worst


def prepared(bench, case):
    """On all ranks, as peers may read each other's memory."""
    torch.cuda.synchronize()
    dist.barrier()
    case.prepare()
    torch.cuda.synchronize()
    dist.barrier()


def fastest_peer(bench, case):
    """Milliseconds of the fastest peer that is right, or None."""
    want, best = case.reference(), None
    for peer in case.peers:
        prepared(bench, case)
        spent = bench.attempt(peer)
        if spent is None:
            continue
        prepared(bench, case)
        wrong = max(bench.error(got, one) for got, one in zip(peer(), want))
        if wrong > max(case.tolerance, 1e-2):
            bench.say(f"peer: it is wrong: relative error {wrong:.2e}")
        elif best is None or spent < best:
            best = spent
    return best
