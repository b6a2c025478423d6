#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Judges simulations by numbers: check_simulations.py DTILEC EXAMPLES

Ranks that stand for others give what all ranks give; no time is below its bound; links carry the
bytes that the kernel sends; slower networks are not faster.
"""

import json
import subprocess
import sys

DTILEC, EXAMPLES = sys.argv[1], sys.argv[2]
GEMM = ["--const", "BM=128", "--const", "BN=256", "--const", "BK=64", "--const", "CHUNK=512"]
RELAY = ["--const", "BM=64", "--const", "BN=64", "--const", "BK=64", "--const", "CHUNK=16",
         "--const", "P=32"]
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
]


def simulate(file, kernel, options, sizes, mesh, machine, *more):
    given = ["--sizes", sizes] if sizes else []
    command = [DTILEC, "explain", f"{EXAMPLES}/{file}.dtile", "--kernel", kernel, *options, *given,
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
    # What comes at the same time is taken in another order.
    expect(abs(few["ns"] - all_ranks["ns"]) <= 0.02 * all_ranks["ns"],
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
expect(abs(simulated - 3246.3e3) < 0.05 * 3246.3e3,
       f"{simulated} ns, and the model of launches says 3246300")

# Two levels send a block to each host once.
two = simulate("two_level/two_level", "all_gather_two_level", ["--const", "B=1024"], "S=65536",
               "2x8", "h200+ib")
expect(two["busiest_link"]["bytes"] <= 65536 * 4 * 15, f"two levels: {two['busiest_link']}")
expect(two["simulated_ranks"] == 8, f"{two['simulated_ranks']} ranks of two levels stand for 16")
