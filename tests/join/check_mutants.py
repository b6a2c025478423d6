# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Changes plans of the library in one place each: check_mutants.py DTILEC PLANS.

Every change makes a plan wrong: another peer, another chunk, a chunk that is missing or sent twice.
Joined with a kernel, each must be refused, by the join or by the checker; and the plans as they are
must be proved: where movement and computation overlap, and where one follows the other. Then
mistakes of those who join: what nobody reads or publishes, circles, other types and shapes. Each is
refused with its code, and a note at the other place.
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
    "ring_reduce_scatter": ("c ->", "y", [
        ("step in 1..W", "step in 1..W - 1"),
        ("(rank() + W - step) % W", "(rank() + step) % W"),
        ("if step > 1 { sum += part[row, m, n]; }", ""),
        ("part@((rank() + 1) % W)[row, m, n]", "part@((rank() + 2) % W)[row, m, n]"),
        ("part@((rank() + 1) % W)[row, m, n]", "part[row, m, n]"),
        ("if W > 1 { total += part[rank(), m, n]; }", ""),
        ("n in N by COLS) {\n        var total", "n in blocks(N, 2) by COLS) {\n        var total"),
    ]),
    "all_to_all": ("a <-", "parts", [
        ("hop in 0..W", "hop in 1..W"),
        ("hop in 0..W", "hop in 0..W + 1"),
        ("(rank() + hop) % W", "(rank() + 2 * hop) % W"),
        ("x@peer[rank(), r, :]", "x@peer[peer, r, :]"),
        ("x@peer[rank(), r, :]", "x[rank(), r, :]"),
        ("r in S by CHUNK", "r in blocks(S, 2) by CHUNK"),
        ("parts[peer, r, :]", "parts[rank(), r, :]"),
    ]),
    "all_to_all_of": ("c ->", "y", [
        ("box[src, r, :], y", "box@src[src, r, :], y"),
        ("box[src, r, :], y", "box@src[rank(), r, :], y"),
        ("put(x[peer, r, :]", "put(x[rank(), r, :]"),
        ("hop in 0..W", "hop in 0..W - 1"),
        ("box@peer[rank(), r, :]", "box@peer[peer, r, :]"),
        ("y[src, r, :]", "y[0, r, :]"),
    ]),
    "broadcast": ("a <-", "root, rows", [
        ("peer in 0..W", "peer in 1..W"),
        ("x@peer[r, :]", "x[r, :]"),
        ("x@peer[r, :]", "x@W[r, :]"),
        ("peer in 0..W", "peer in 0..W + 1"),
        ("if rank() == root", "if rank() == 0"),
        ("if rank() == root { put(rows[r, :], x@peer[r, :]); }", "put(rows[r, :], x@peer[r, :]);"),
    ]),
    "halo_exchange": ("a <-", "rows", [
        ("x[H + r, :]", "x[r, :]"),
        ("[S + H..S + 2 * H, :]", "[0..H, :]"),
        ("x@((rank() + 1) % W)[0..H, :]", "x@((rank() + W - 1) % W)[0..H, :]"),
        ("x@((rank() + 1) % W)[0..H, :]", "x@((rank() + 2) % W)[0..H, :]"),
        ("rows[S - H..S, :]", "rows[0..H, :]"),
        ("role own over (r in S by CHUNK) { put(rows[r, :], x[H + r, :]); }", ""),
        ("    requires S >= H;\n", ""),
    ]),
    "two_shot_all_reduce": ("c ->", "y", [
        ("full@peer[rank() * rows + m, n]", "full@peer[peer * rows + m, n]"),
        ("y[owner * rows + m, n]", "y[m, n]"),
        ("part@owner[rank(), m, n]", "part@owner[owner, m, n]"),
        ("let rows = blocks(M, W);", "let rows = M / W;"),
    ]),
}

# What is joined, in place of `overlap joined = …`, and the code that refuses it.
JOINS = {
    "nobody reads what a plan publishes": ("E1006", """
plan wasteful(shard: in T[S, K], more: scratch symm T[S, K], x: scratch symm T[W, S, K]) {
    over (hop in 0..W, r in S by 16) { put(shard[r, :], x@((rank() + hop) % W)[rank(), r, :]); }
    over (r in S by 16) { put(shard[r, :], more@((rank() + 1) % W)[r, :]); }
}
overlap joined = mean with { a <- wasteful(shard) };"""),
    "nobody reads what a step makes": ("E1006", """
overlap joined(x: in f32[M, K], b: in f32[N, K], y: out f32[M, N]) {
    let lost = mean(x, b);
    y = mean(x, b);
}"""),
    "nobody publishes": ("E1006", """
plan nothing(shard: in T[S, K], x: scratch symm T[W, S, K]) {
    over (r in S by 16) { let tile = shard[r, :]; }
}
overlap joined = mean with { a <- nothing(shard) };"""),
    "a plan that waits for itself": ("E1008", """
plan circle(shard: in T[S, K], x: scratch symm T[W, S, K]) {
    over (hop in 1..W, r in S by 16) {
        let src = (rank() - hop + 1 + W) % W;
        put(x[src, r, :], x@((rank() + 1) % W)[src, r, :]);
    }
}
overlap joined = mean with { a <- circle(shard) };"""),
    "an overlap of itself": ("E1001", """
overlap joined(x: in f32[M, K], y: out f32[M, K]) { y = joined(x); }"""),
    "another type": ("E1004", """
plan ints(shard: in i32[S, K], x: scratch symm i32[W, S, K]) {
    over (hop in 0..W, r in S by 16) { put(shard[r, :], x@((rank() + hop) % W)[rank(), r, :]); }
}
overlap joined(x: in i32[S, K], b: in f32[N, K], y: out f32[W * S, N]) {
    y = mean(ints(x), b);
}"""),
    "other sizes": ("E1004", """
overlap joined(x: in f32[M, K], b: in f32[N, K], y: out f32[N + 1, N]) {
    y = mean(mean(x, b), mean(x, b));
}"""),
    "another number of dimensions": ("E1004", """
overlap joined(x: in f32[M, 2, K], b: in f32[N, K], y: out f32[M, N]) { y = mean(x, b); }"""),
    "an output as a plan's parameter": ("E1003", """
plan takes(c: out T[W, S, N], y: out T[S, N]) {
    over (r in S by 16) { put(c[0, r, :], y[r, :]); }
}
overlap joined = mean with { c -> takes(y) };"""),
    "two plans for one parameter": ("E1003", """
plan gather(shard: in T[S, K], x: scratch symm T[W, S, K]) {
    over (hop in 0..W, r in S by 16) { put(shard[r, :], x@((rank() + hop) % W)[rank(), r, :]); }
}
overlap joined = mean with { a <- gather(shard), a <- gather(other) };"""),
}

# What plans do is proved, but for regions between what two transfers write.
CHECKED = {"halo_exchange"}


# Joined with the product, these have no other order: it sends its tiles itself.
ONE_ORDER = {"tile_reduce_scatter", "one_shot_all_reduce", "added_reduce_scatter"}


def plan_of(library, name):
    return re.search(rf"^plan {name}<.*?^}}$", library, re.M | re.S)[0]


def joined(name, join, argument, plan):
    return f"{plan}\noverlap joined = mean with {{ {join} {name}({argument}) }};\n"


def check(dtilec, text, *options):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "plan.dtile")
        with open(path, "w", encoding="utf-8") as file:
            file.write(KERNEL + text)
        done = subprocess.run([dtilec, "check", path, "--kernel", "joined", *options],
                              capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout + done.stderr


def main(dtilec, path):
    with open(path, encoding="utf-8") as file:
        library = file.read()
    jobs = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, (join, argument, changes) in MUTANTS.items():
            plan = plan_of(library, name)
            orders = [()] if name in ONE_ORDER else [(), ("--const", "OVERLAP=0")]
            for order in orders:
                said = " ".join((name, *order))
                jobs.append((f"{said} as it is", 0, name not in CHECKED,
                             pool.submit(check, dtilec, joined(name, join, argument, plan),
                                         *order)))
                for old, new in changes:
                    if old not in plan:
                        sys.exit(f"{name}: there is no `{old}`")
                    jobs.append((f"{said}: `{old}` -> `{new}`", 1, False,
                                 pool.submit(check, dtilec, joined(name, join, argument,
                                                                   plan.replace(old, new, 1)),
                                             *order)))
        refused = [(what, code, pool.submit(check, dtilec, text))
                   for what, (code, text) in JOINS.items()]
        findings = 0
        for what, wanted, proved, job in jobs:
            status, output = job.result()
            if status != wanted or (proved and "proved for all W" not in output):
                print(f"{what}: ends with {status}\n{output}")
                findings += 1
        for what, code, job in refused:
            status, output = job.result()
            if status != 1 or f"[{code}]" not in output or "note: " not in output:
                print(f"{what}: ends with {status}, and {code} and a note were wanted\n{output}")
                findings += 1
    print(f"{len(jobs)} plans, {len(refused)} joins, {findings} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
