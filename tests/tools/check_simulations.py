#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Judges simulations by numbers: check_simulations.py DTILEC EXAMPLES INPUTS

Ranks that stand for others give what all ranks give; no time is below its bound; links carry the
bytes that the kernel sends; slower networks are not faster.
"""

import json
import subprocess
import sys

DTILEC, EXAMPLES, INPUTS = sys.argv[1:4]
GEMM = ["--const", "BM=128", "--const", "BN=256", "--const", "BK=64", "--const", "CHUNK=512"]
RELAY = ["--const", "BM=64", "--const", "BN=64", "--const", "BK=64", "--const", "CHUNK=16",
         "--const", "P=32"]
BLOCKS = ["--const", "B=512"]
# File, kernel, options, sizes, mesh, machine.
CASES = [
    ("ag_gemm/ag_gemm", "ag_gemm", GEMM, "S=1024,K=1024,N=2048", "8", "h200"),
    ("ag_gemm/ag_gemm", "ag_gemm", GEMM, "S=512,K=1024,N=2048", "2x8", "h200+ib"),
    ("ag_gemm/ag_gemm", "ag_gemm", GEMM, "S=512,K=1024,N=2048", "3x4", "mi300x+roce"),
    ("gemm_rs/gemm_rs", "gemm_rs_direct", [], "S=256,K=512,N=1024", "2x4", "h200+ib"),
    ("gemm_rs/gemm_rs", "gemm_rs_relay", RELAY, "S=256,K=512,N=1024", "4", "h200"),
    ("ring_all_reduce/ring_all_reduce", "ring_all_reduce", [], "N=65536", "2x8", "h200+ib"),
    ("all_reduce/all_reduce", "one_shot", [], "N=65536", "8", "h200"),
    ("all_reduce/all_reduce", "scatter_gather", [], "N=65536", "2x4", "a100+efa"),
    ("all_reduce/all_reduce", "two_shot", [], "N=65536", "8", "h200"),
    ("barrier/barrier", "barrier_by_dissemination", [], "", "2x8", "h200+ib"),
    # Ranks along an axis of a mesh stand for each other, and these do along one or along both.
    ("two_level/two_level", "all_gather_two_level", BLOCKS, "S=10000", "2x8", "h200+ib"),
    ("two_level/two_level", "all_gather_two_level", BLOCKS, "S=10000", "4x4", "h200+ib"),
    ("two_level/by_plans", "all_gather_by_plans", [], "S=1000", "3x4", "h200+ib"),
    ("two_level/by_plans", "all_reduce_by_plans", [], "S=100,N=64", "4x4", "h200+ib"),
    ("%inputs/axes", "along_three", ["--const", "B=64"], "S=500", "2x2x4", "h200+ib"),
    ("%inputs/axes", "by_experts", ["--const", "B=64"], "S=500", "3x4", "h200+ib"),
]


def simulate(file, kernel, options, sizes, mesh, machine, *more):
    given = ["--sizes", sizes] if sizes else []
    path = file.replace("%inputs", INPUTS) if "%inputs" in file else f"{EXAMPLES}/{file}"
    command = [DTILEC, "explain", f"{path}.dtile", "--kernel", kernel, *options, *given,
               "--simulate", "--mesh", mesh, "--machine", machine, "--json", *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{kernel} on {mesh}: {done.stderr}")
    return json.loads(done.stdout)


def expect(holds, what):
    if not holds:
        sys.exit(f"check_simulations.py: {what}")


for case in CASES:
    few, all_ranks = simulate(*case), simulate(*case, "--all-ranks")
    name = f"{case[1]} on {case[4]} of {case[5]}"
    ranks = few["ranks"]
    expect(few["simulated_ranks"] < ranks == all_ranks["simulated_ranks"],
           f"{name}: {few['simulated_ranks']} ranks stand for {ranks}")
    expect(abs(few["ns"] - all_ranks["ns"]) <= 1e-9 * all_ranks["ns"],
           f"{name}: {few['ns']} ns by some ranks, {all_ranks['ns']} by all")
    expect(few["messages"] * ranks == all_ranks["messages"] * few["simulated_ranks"],
           f"{name}: other numbers of messages")
    for one in (few, all_ranks):
        expect(one["ns"] >= one["bound_ns"] * 0.999, f"{name}: {one['ns']} ns is below the bound")
        expect(0 <= one["exposed_ns"] < one["ns"], f"{name}: exposed {one['exposed_ns']}")
    expect(json.dumps(few) == json.dumps(simulate(*case)), f"{name}: not twice the same")

# Every rank sends its 512 x 1024 elements of two bytes to each rank of the other host.
SENT = CASES[1]
link = simulate(*SENT)["busiest_link"]
expect(link["link"].startswith("NIC") and link["bytes"] == 512 * 1024 * 2 * 8, f"NIC: {link}")

# By which network, all else equal.
times = [simulate(*SENT[:5], "h200+" + network)["ns"]
         for network in ("ib-xdr", "ib", "ib-hdr", "tcp")]
expect(times == sorted(times) and times[0] < times[-1], f"slower networks are faster: {times}")

# In one host, where arithmetic bounds it, as long as `explain` says of one launch.
PINNED = ("ag_gemm/ag_gemm", "ag_gemm", GEMM, "S=4096,K=8192,N=4096", "8", "h200")
simulated = simulate(*PINNED)["ns"]
said = subprocess.run([DTILEC, "explain", f"{EXAMPLES}/{PINNED[0]}.dtile", "--kernel", PINNED[1],
                       *GEMM, "--target", "nvptx", "--machine", PINNED[5], "--json", "--sizes",
                       f"{PINNED[3]},W={PINNED[4]}"], capture_output=True, text=True, check=True)
launch = json.loads(said.stdout)[0]["ns"]
expect(abs(simulated - launch) < 0.05 * launch,
       f"{simulated} ns, and the model of launches says {launch}")

# Two levels send a block to each host once.
TWO = ("two_level/two_level", "all_gather_two_level", ["--const", "B=1024"], "S=65536")
two = simulate(*TWO, "2x8", "h200+ib")
expect(two["busiest_link"]["bytes"] <= 65536 * 4 * 15, f"two levels: {two['busiest_link']}")

# 10,000 ranks, along each axis of which some stand for others.
for case in (TWO, CASES[-3][:4], CASES[-1][:4]):
    many = simulate(*case, "1250x8", "h200+ib")
    expect(many["simulated_ranks"] <= 8, f"{case[1]}: {many['simulated_ranks']} of 10,000 ranks")

# What differs in nothing but whom ranks wait for first is all simulated where there are few ranks.
WAITS = ("mesh_gemm/mesh_gemm", "summa", ["--const", "Q=4"], "M=512,KA=512,KB=512,N=512")
few = simulate(*WAITS, "4x4", "h200+ib")
expect(few["same_waits"] and few["simulated_ranks"] == 16, f"summa: {few['simulated_ranks']} ranks")
