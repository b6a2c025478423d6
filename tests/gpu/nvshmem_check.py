# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One rank of tests/gpu/nvshmem.sh."""

import os
import sys
import time

import torch
import torch.distributed as dist

import dtile

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples")
LAUNCHES = 10


class Check:
    """The ranks, and a row a kernel."""

    def __init__(self):
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        device = torch.device("cuda", torch.cuda.current_device())
        dist.init_process_group("nccl", device_id=device)
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.generator = torch.Generator(device="cuda")
        self.generator.manual_seed(1000 * self.rank + int(time.time()) % 1000)
        self.rows = []
        self.failures = 0
        self.team = dtile.Team.from_torch(symmetric_bytes=256 << 20, wait_timeout_ms=10_000,
                                          shmem="nvshmem")

    def say(self, *words):
        if self.rank == 0:
            print(*words, flush=True)

    def random(self, *shape, dtype=torch.float32):
        return torch.randn(*shape, device="cuda", generator=self.generator).to(dtype)

    def gathered(self, tensor):
        whole = torch.empty(self.ranks, *tensor.shape, device="cuda", dtype=tensor.dtype)
        dist.all_gather_into_tensor(whole, tensor.contiguous())
        return whole

    def build(self, name, shmem, **constants):
        """Rank 0 compiles first, the others find what it has built; and the seconds it took."""
        library, seconds = None, 0.0
        for turn in (self.rank == 0, self.rank != 0):
            if turn:
                begin = time.perf_counter()
                library = dtile.build(os.path.join(EXAMPLES, name, name + ".dtile"), shmem=shmem,
                                      **constants)
                seconds = time.perf_counter() - begin
            dist.barrier()
        return library, seconds

    def wrong(self, what):
        self.failures += 1
        self.say("WRONG", what)

    def worst(self, number):
        """The largest of all ranks; not a number counts as infinite."""
        value = torch.as_tensor(number, device="cuda", dtype=torch.float64).reshape(1)
        value = torch.nan_to_num(value, nan=float("inf"), posinf=float("inf"))
        dist.all_reduce(value, op=dist.ReduceOp.MAX)
        return value.item()

    def error(self, got, want):
        want = want.double()
        return self.worst((got.double() - want).norm() / want.norm().clamp_min(1e-30))

    def microseconds(self, launch):
        times = []
        for _ in range(2 * LAUNCHES):
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            dist.barrier()
            torch.cuda.synchronize()
            torch.cuda._sleep(200_000)
            start.record()
            launch()
            stop.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(stop) * 1000)
        return self.worst(sorted(times)[len(times) // 2])

    def kernel(self, example, name, make, tolerance, **constants):
        """`make` gives the inputs' filler, the arguments, the output and the reference."""
        row = {"kernel": f"{example}.{name}"}
        for shmem in ("nvshmem", "p2p"):
            library, seconds = self.build(example, shmem, **constants)
            kernel = getattr(library, name)
            fill, arguments, output, reference = make()

            def launch():
                kernel(*arguments, team=self.team)

            worst = 0.0
            # Launches that come one after the other, then some without a pause between them.
            for _ in range(LAUNCHES):
                fill()
                output.fill_(float("nan"))
                torch.cuda.synchronize()
                dist.barrier()
                launch()
                self.team.synchronize()
                worst = max(worst, self.error(output, reference()))
            for _ in range(LAUNCHES):
                launch()
            self.team.synchronize()
            worst = max(worst, self.error(output, reference()))
            if worst > tolerance:
                self.wrong(f"{row['kernel']} with {shmem}: relative error {worst:.2e}, at most "
                           f"{tolerance:.0e}")
            if shmem == "nvshmem":
                row["error"] = f"{worst:.1e}"
                row["build s"] = f"{self.worst(seconds):.2f}"
            row[f"{shmem} us"] = f"{self.microseconds(launch):.1f}"
            if shmem == "nvshmem":
                row["replayed"] = self.replay(launch, fill, output, reference, tolerance)
        self.rows.append(row)
        self.say(row)

    def replay(self, launch, fill, output, reference, tolerance):
        """The kernel from a graph, with other inputs."""
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        dist.barrier()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            launch()
        worst = 0.0
        for _ in range(3):
            fill()
            output.fill_(float("nan"))
            torch.cuda.synchronize()
            dist.barrier()
            graph.replay()
            torch.cuda.synchronize()
            worst = max(worst, self.error(output, reference()))
        if worst > tolerance:
            self.wrong(f"a graph's replay: relative error {worst:.2e}")
        return "yes" if worst <= tolerance else "WRONG"

    def refusal(self):
        """A team without NVSHMEM refuses its kernels, and says what to do."""
        library, _ = self.build("hello", "nvshmem")
        with dtile.Team.from_torch(symmetric_bytes=1 << 20, shmem="p2p") as team:
            x = self.random(8)
            y = torch.empty_like(x)
            try:
                library.shift(x, y, team=team)
                self.wrong("a p2p team ran a kernel that was built with nvshmem")
            except dtile.DtileUnavailable as error:
                if "make the team with shmem" not in str(error):
                    self.wrong(f"the refusal of a p2p team: {error}")
        self.say("a p2p team refuses kernels that were built with nvshmem")

    def finish(self):
        columns = list(self.rows[0]) if self.rows else []
        lines = [columns] + [[str(row[column]) for column in columns] for row in self.rows]
        widths = [max(map(len, column)) for column in zip(*lines)]
        self.say(f"\n{torch.cuda.get_device_name()}, {self.ranks} ranks, a process each; kernels "
                 "compiled with NVSHMEM, on its heap; p2p us: the same compiled with p2p")
        for line in lines:
            self.say("| " + " | ".join(map(str.ljust, line, widths)) + " |")
        self.team.close()
        # A second time, after the first has ended.
        dtile.Team.from_torch(symmetric_bytes=1 << 20, shmem="nvshmem").close()
        self.say(f"{self.failures} wrong")
        dist.destroy_process_group()
        return 1 if self.failures else 0


def shift(check, n=100_003):
    x, y = check.random(n), torch.empty(n, device="cuda")
    return (lambda: x.copy_(check.random(n)), (x, y), y,
            lambda: check.gathered(x)[(check.rank - 1) % check.ranks])


def gather(check, n=300_001):
    x, y = check.random(n), torch.empty(check.ranks, n, device="cuda")
    return lambda: x.copy_(check.random(n)), (x, y), y, lambda: check.gathered(x)


def reduce(check, n=300_001, symmetric=False):
    x, y = (check.team.symm_empty(n, torch.float32) if symmetric else torch.empty(n, device="cuda")
            for _ in range(2))
    return (lambda: x.copy_(check.random(n)), (x, y), y,
            lambda: check.gathered(x).double().sum(0))


def ag_gemm(check, s=1024, n=1536, k=2048):
    shard, b = (check.random(*shape, dtype=torch.bfloat16) for shape in ((s, k), (n, k)))
    c = torch.empty(check.ranks * s, n, device="cuda", dtype=torch.bfloat16)
    return (lambda: shard.copy_(check.random(s, k)), (shard, b, c), c,
            lambda: check.gathered(shard).reshape(-1, k).float() @ b.float().T)


def gemm_rs(check, s=1024, n=1536, k=1024):
    a, b = (check.random(*shape, dtype=torch.bfloat16)
            for shape in ((check.ranks * s, k), (n, k)))
    out = torch.empty(s, n, device="cuda", dtype=torch.bfloat16)

    def reference():
        whole = a.float() @ b.float().T
        dist.all_reduce(whole)
        return whole[check.rank * s:(check.rank + 1) * s]
    return lambda: a.copy_(check.random(*a.shape)), (a, b, out), out, reference


def main():
    check = Check()
    tiles = {"BM": 128, "BN": 128, "BK": 64}
    check.kernel("hello", "shift", lambda: shift(check), 0)
    for name in ("push", "pull", "ring"):
        check.kernel("all_gather", name, lambda: gather(check), 0)
    check.kernel("all_reduce", "one_shot", lambda: reduce(check), 1e-6)
    check.kernel("all_reduce", "two_shot", lambda: reduce(check, symmetric=True), 1e-6)
    check.kernel("ag_gemm", "ag_gemm", lambda: ag_gemm(check), 1e-2, **tiles)
    check.kernel("ag_gemm", "ag_gemm", lambda: ag_gemm(check, 333, 260, 72), 1e-2, **tiles)
    check.kernel("gemm_rs", "gemm_rs", lambda: gemm_rs(check), 1e-2, **tiles)
    check.kernel("gemm_rs_add", "gemm_rs_add", lambda: gemm_rs(check), 1e-2, **tiles)
    check.refusal()
    sys.exit(check.finish())


main()
