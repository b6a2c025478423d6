# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Changes plans of the library in one place each: check_mutants.py DTILEC PLANS.

Every change makes a plan wrong: another peer, another chunk, a chunk that is missing or sent twice.
Joined with a kernel, each must be refused, by the join or by the checker; and the plans as they are
must be proved.
"""

import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile

KERNEL = """
kernel mean<T: dtype = f32, B = 16>(a: in T[M, K], b: in T[N, K], c: out T[M, N])
    over (m in M by B, n in N by B) {
    var acc = zeros<f32>[B, B];
    for k in K by B { acc += dot(a[m, k], b[n, k].T); }
    c[m, n] = cast<T>(acc);
    ensures c ~= a * b.T;
}
"""

# Plan, what is joined, and its changes: text that stands in it once, and what it becomes.
MUTANTS = {
    "push_all_gather": ("a <-", "shard", [
        ("hop in 0..W", "hop in 1..W"),
        ("hop in 0..W", "hop in 0..W + 1"),
        ("hop in 0..W", "hop in 0..W - 1"),
        ("(rank() + hop) % W", "(rank() + 2 * hop) % W"),
        ("(rank() + hop) % W", "rank()"),
        ("x@peer[rank(), r, :]", "x@peer[peer, r, :]"),
        ("x@peer[rank(), r, :]", "x@peer[0, r, :]"),
        ("x@peer[rank(), r, :]", "x@peer[(rank() + 1) % W, r, :]"),
        ("x@peer[rank(), r, :]", "x[rank(), r, :]"),
        ("put(shard[r, :], x@peer[rank(), r, :]);",
         "put(shard[r, :], x@peer[rank(), r, :]); put(shard[r, :], x@peer[rank(), r, :]);"),
        ("put(shard[r, :], x@peer[rank(), r, :]);",
         "put(shard[r, :], x@peer[rank(), r, :]); put(shard[r, :], x@peer[peer, r, :]);"),
        ("put(shard[r, :], x@peer[rank(), r, :]);",
         "if r.index > 0 { put(shard[r, :], x@peer[rank(), r, :]); }"),
        ("x@peer[rank(), r, :]", "x@peer[rank(), CHUNK + r, :]"),
        ("r in S by CHUNK", "r in blocks(S, 2) by CHUNK"),
    ]),
    "pull_all_gather": ("a <-", "shard", [
        ("x[peer, r, :]", "x[rank(), r, :]"),
        ("mine@peer[r, :]", "mine@((rank() + 1) % W)[r, :]"),
        ("hop in 0..W", "hop in 1..W"),
        ("put(shard[r, :], mine[r, :]);", ""),
        ("role offer over (r in S by CHUNK)", "role offer over (twice in 0..2, r in S by CHUNK)"),
    ]),
    "ring_all_gather": ("a <-", "shard", [
        ("x[rank(), r, :]", "x[0, r, :]"),
        ("hop in 1..W", "hop in 1..W - 1"),
        ("hop in 1..W", "hop in 0..W"),
        ("(rank() - hop + 1 + W) % W", "(rank() - hop + W) % W"),
        ("x@((rank() + 1) % W)", "x@((rank() + 2) % W)"),
        ("x@((rank() + 1) % W)", "x@((rank() + W - 1) % W)"),
        ("role own over (r in S by CHUNK) { put(shard[r, :], x[rank(), r, :]); }", ""),
    ]),
    "direct_reduce_scatter": ("c ->", "y", [
        ("hop in 0..W, r", "hop in 1..W, r"),
        ("x[owner, r, :]", "x[rank(), r, :]"),
        ("part@owner[rank(), r, :]", "part@owner[owner, r, :]"),
        ("for hop in 0..W", "for hop in 1..W"),
        ("part[src, m, n]", "part[rank(), m, n]"),
    ]),
    "tile_reduce_scatter": ("c ->", "y", [
        ("hop in 0..W, m", "hop in 1..W, m"),
        ("hop in 0..W, m", "hop in 0..W + 1, m"),
        ("(rank() + hop) % W", "(rank() + 2 * hop) % W"),
        ("x[owner, m, n]", "x[rank(), m, n]"),
        ("part@owner[rank(), m, n]", "part@owner[owner, m, n]"),
        ("part@owner[rank(), m, n]", "part[rank(), m, n]"),
        ("part@owner[rank(), m, n]", "part@owner[rank(), n, m]"),
        ("n in N by COLS", "n in blocks(N, 2) by COLS"),
    ]),
    "one_shot_all_reduce": ("c ->", "y", [
        ("part@peer[rank(), m, n]", "part@peer[peer, m, n]"),
        ("hop in 0..W", "hop in 1..W"),
        ("for src in 0..W", "for src in 1..W"),
    ]),
    "added_reduce_scatter": ("c ->", "y", [
        ("hop in 0..W", "hop in 1..W"),
        ("sums@owner[m, n]", "sums[m, n]"),
        ("x[owner, m, n]", "x[rank(), m, n]"),
        (" = 0", ""),
    ]),
    "two_shot_all_reduce": ("c ->", "y", [
        ("full@peer[rank() * rows + m, n]", "full@peer[peer * rows + m, n]"),
        ("y[owner * rows + m, n]", "y[m, n]"),
        ("part@owner[rank(), m, n]", "part@owner[owner, m, n]"),
        ("let rows = blocks(M, W);", "let rows = M / W;"),
    ]),
}


def plan_of(library, name):
    return re.search(rf"^plan {name}<.*?^}}$", library, re.M | re.S)[0]


def check(dtilec, name, join, argument, plan):
    text = f"{KERNEL}\n{plan}\noverlap joined = mean with {{ {join} {name}({argument}) }};\n"
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "plan.dtile")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        done = subprocess.run([dtilec, "check", path, "--kernel", "joined"], capture_output=True,
                              text=True, timeout=300)
    return done.returncode, done.stdout + done.stderr


def main(dtilec, path):
    with open(path, encoding="utf-8") as file:
        library = file.read()
    jobs = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, (join, argument, changes) in MUTANTS.items():
            plan = plan_of(library, name)
            jobs.append((f"{name} as it is", 0,
                         pool.submit(check, dtilec, name, join, argument, plan)))
            for old, new in changes:
                if old not in plan:
                    sys.exit(f"{name}: there is no `{old}`")
                jobs.append((f"{name}: `{old}` -> `{new}`", 1,
                             pool.submit(check, dtilec, name, join, argument,
                                         plan.replace(old, new, 1))))
        findings = 0
        for what, wanted, job in jobs:
            status, output = job.result()
            if status != wanted or (wanted == 0 and "proved for all W" not in output):
                print(f"{what}: ends with {status}\n{output}")
                findings += 1
    print(f"{len(jobs)} plans, {findings} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
