#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How well `dtile-top --stragglers` names who is slow: runs a job of 8 ranks on this machine's
processors with one fault each, and as often without, asks once, and counts.

    stragglers.py DTILEC [--runs 40] [--seed 1] [--kinds transfers,bodies,way,core] [--oshrun CMD]
                  [--nice N]

Faults, of a random rank: `transfers` sends all that it sends again and again; `bodies` computes
again and again; `way` sends again to one peer only; `core` has a process of its own for each rank
(needs --oshrun, and a processor a rank: with fewer, others have to share that core, too), one of
which shares its core with programs that spin. Clean runs are of the same programs in the same
ways. Prints a line a run, and precision and recall at the end; ends with 1
where one of them is below 0.95. What names the wrong rank counts against both.
"""

import argparse
import json
import os
import random
import shlex
import signal
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
RANKS = 8
SIZE = 64
LAUNCHES = 72
LIMIT = 120
BAR = 0.95


def write_array(path, kind, code, shape, values):
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    head += " " * (117 - len(head)) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
        file.write(struct.pack(f"<{len(values)}{code}", *values))


def fault_of(kind, choice):
    """The slow rank, the peer where it is slow to one only, and `more` of stragglers.dtile."""
    rank = choice.randrange(RANKS)
    peer = (rank + choice.randrange(1, RANKS)) % RANKS if kind == "way" else None
    more = {"transfers": [choice.randrange(100, 400), 0, -1],
            "bodies": [0, choice.randrange(3, 9), -1],
            "way": [choice.randrange(400, 1200), 0, peer],
            "core": [0, 0, -1]}[kind]
    return rank, peer, more


class Job:
    """A job that runs until it is ended."""

    def __init__(self, options, folder, kind, fault):
        for rank in range(RANKS):
            more = fault[2] if fault and rank == fault[0] else [0, 0, -1]
            write_array(f"{folder}/more{rank}.npy", "<i4", "i", (3,), more)
        run = [options.dtilec, "run", f"{HERE}/stragglers.dtile", "--arg", f"x={folder}/x.npy",
               "--arg", f"more={folder}/more@rank.npy", "--repeat", "1000000000"]
        self.others = []
        if kind == "core":
            words = [*shlex.split(options.oshrun), "-n", str(RANKS), *run]
        else:
            words = [*run, "--ranks", str(RANKS)]
        with open(f"{folder}/words", "wb") as file:
            self.process = subprocess.Popen(words, stdout=file, stderr=file,
                                            start_new_session=True)
        self.words = f"{folder}/words"

    def look(self, options, *more):
        """What top says of the job; None before there is anything."""
        text = subprocess.run([options.dtilec, "top", "--json", *more], stdout=subprocess.PIPE,
                              check=True, timeout=LIMIT).stdout
        for job in json.loads(text):
            if len(job["here"]) == RANKS and self.has(job["here"][0]["pid"]):
                return job
        return None

    def has(self, pid):
        try:
            return os.getsid(pid) == self.process.pid or self.is_below(pid)
        except OSError:
            return False

    def is_below(self, pid):
        while pid > 1:
            if pid == self.process.pid:
                return True
            with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                pid = int(file.read().rsplit(") ", 1)[1].split()[1])
        return False

    def share_core(self, rank_pid):
        """Binds the process to a core on which two others spin."""
        core = max(os.sched_getaffinity(0))
        for thread in os.listdir(f"/proc/{rank_pid}/task"):
            os.sched_setaffinity(int(thread), {core})
        for _ in range(2):
            spin = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            os.sched_setaffinity(spin.pid, {core})
            self.others.append(spin)

    def end(self):
        for other in self.others:
            other.kill()
            other.wait()
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def ended(job):
    return min(rank["ended"] for rank in job["here"])


def wait_for(job, options, launches):
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        seen = job.look(options)
        if seen and ended(seen) >= launches:
            return seen
        if job.process.poll() is not None:
            break
        time.sleep(0.1)
    with open(job.words, encoding="utf-8") as file:
        sys.exit("the job has come to nothing:\n" + file.read())


def named(options, folder, kind, fault):
    """The ranks and peers that top calls slow, and how late they are."""
    job = Job(options, folder, kind, fault)
    try:
        seen = wait_for(job, options, 1)
        if kind == "core" and fault:
            job.share_core(seen["here"][fault[0]]["pid"])
        seen = wait_for(job, options, ended(seen) + (1 if kind == "core" else LAUNCHES))
        if kind != "core":
            return seen["skew"]["stragglers"]
        starved = job.look(options, "--stragglers")["skew"].get("starved")
        return [starved] if starved else []
    finally:
        job.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("dtilec")
    parser.add_argument("--runs", type=int, default=40, help="with a fault, and as many without")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", default="transfers,bodies,way")
    parser.add_argument("--oshrun", default="")
    parser.add_argument("--nice", type=int, default=0)
    options = parser.parse_args()
    kinds = options.kinds.split(",")
    if "core" in kinds and not options.oshrun:
        parser.error("core needs --oshrun")
    if "core" in kinds and len(os.sched_getaffinity(0)) < RANKS:
        parser.error(f"core needs {RANKS} processors")
    os.nice(options.nice)
    choice = random.Random(options.seed)
    right = wrong = missed = false = 0
    with tempfile.TemporaryDirectory() as folder:
        values = [choice.random() for _ in range(SIZE * SIZE)]
        write_array(f"{folder}/x.npy", "<f4", "f", (SIZE, SIZE), values)
        for number in range(options.runs):
            kind = kinds[number % len(kinds)]
            fault = fault_of(kind, choice)
            found = named(options, folder, kind, fault)
            hit = (len(found) == 1 and found[0]["rank"] == fault[0] and
                   found[0].get("peer") == fault[1])
            right += hit
            missed += not found
            wrong += bool(found) and not hit
            print(f"{kind} {fault}: {'right' if hit else 'wrong' if found else 'missed'} {found}",
                  flush=True)
            found = named(options, folder, kind, None)
            false += bool(found)
            print(f"{kind}, clean: {'false' if found else 'right'} {found}", flush=True)
    claims = right + wrong + false
    precision = right / claims if claims else 1.0
    recall = right / options.runs
    print(f"{options.runs} faulty and {options.runs} clean runs of {RANKS} ranks: {right} right, "
          f"{wrong} wrong, {missed} missed, {false} false; "
          f"precision {precision:.3f}, recall {recall:.3f}")
    return 0 if min(precision, recall) >= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
