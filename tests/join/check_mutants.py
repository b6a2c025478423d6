# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Changes plans of the library in one place each: check_mutants.py DTILEC PLANS [along].

Every change makes a plan wrong: another peer, another chunk, a chunk that is missing or sent twice.
Joined with a kernel, each must be refused, by the join or by the checker; and the plans as they are
must be proved: where movement and computation overlap, and where one follows the other. Then
mistakes of those who join: what nobody reads or publishes, circles, other types and shapes. Each is
refused with its code, and a note at the other place.

With `along`, plans go along an axis of a mesh of two, and are as wrong there. What is wrong for
some sizes of the axis may be the caller's choice of them, and leaves the verdict undecided.
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


# With axes: another one than the text around it says, in place of `overlap joined = …`.
WRONG_AXES = {
    "another axis than the output has": ("E1004", """
overlap joined(L: i64, x: in f32[S, K], b: in f32[N, K], y: out f32[num_ranks(node) * S, N]) {
    mesh (node: W / L, local: L);
    y = mean(gather(x, along: local), b);
}"""),
    "parts of one axis for those of another": ("E1004", """
kernel add<B = 16>(L: i64, a: in f32[num_ranks(node), S, K], y: out f32[S, K])
    over (s in S by B, k in K by B) {
    mesh (node: W / L, local: L);
    var sum = zeros<f32>[B, B];
    for n in 0..num_ranks(node) { sum += a[n, s, k]; }
    y[s, k] = sum;
}
overlap joined(L: i64, x: in f32[S, K], y: out f32[S, K]) {
    mesh (node: W / L, local: L);
    y = add(L, gather(x, along: local));
}"""),
    "an axis that there is not": ("E1010", """
overlap joined = mean with { mesh (node: W / L, local: L), a <- gather(shard, along: rack) };"""),
    "the axis of a coordinate of another": ("E0234", """
plan crossed(L: i64, shard: in T[S, K], x: scratch symm T[L, S, K]) {
    mesh (node: W / L, local: L);
    over (n in 0..num_ranks(node), r in S by 16) {
        put(shard[r, :], x@(local: n)[rank(local), r, :]);
    }
}
overlap joined(L: i64, x: in f32[S, K], b: in f32[N, K], y: out f32[L * S, N]) {
    y = mean(crossed(L, x), b);
}"""),
}
GATHER = """
plan gather(shard: in T[S, K], x: scratch symm T[W, S, K]) {
    over (hop in 0..W, r in S by 16) { put(shard[r, :], x@((rank() + hop) % W)[rank(), r, :]); }
}"""


def joined(name, join, argument, plan, axis):
    mesh = "mesh (node: W / L, local: L), " if axis else ""
    along = f", along: {axis}" if axis else ""
    return f"{plan}\noverlap joined = mean with {{ {mesh}{join} {name}({argument}{along}) }};\n"


def check(dtilec, text, *options):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "plan.dtile")
        with open(path, "w", encoding="utf-8") as file:
            file.write(KERNEL + text)
        done = subprocess.run([dtilec, "check", path, "--kernel", "joined", *options],
                              capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout + done.stderr


def main(dtilec, path, mode=None):
    axes = ["local", "node"] if mode == "along" else [None]
    joins = {what: (code, GATHER + text) for what, (code, text) in WRONG_AXES.items()} \
        if mode == "along" else JOINS
    with open(path, encoding="utf-8") as file:
        library = file.read()
    jobs = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for i, (name, (join, argument, changes)) in enumerate(MUTANTS.items()):
            plan = plan_of(library, name)
            axis = axes[i % len(axes)]
            orders = [()] if axis or name in ONE_ORDER else [(), ("--const", "OVERLAP=0")]
            for order in orders:
                said = " ".join((name, *order))
                jobs.append((f"{said} as it is", 0, name not in CHECKED,
                             pool.submit(check, dtilec, joined(name, join, argument, plan, axis),
                                         *order)))
                for old, new in changes:
                    if old not in plan:
                        sys.exit(f"{name}: there is no `{old}`")
                    changed = joined(name, join, argument, plan.replace(old, new, 1), axis)
                    jobs.append((f"{said}: `{old}` -> `{new}`", 1, False,
                                 pool.submit(check, dtilec, changed, *order)))
        refused = [(what, code, pool.submit(check, dtilec, text))
                   for what, (code, text) in joins.items()]
        findings = 0
        for what, wanted, proved, job in jobs:
            status, output = job.result()
            is_wanted = status == wanted or (mode and wanted and status == 3)
            if not is_wanted or (proved and "proved for all W" not in output):
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
