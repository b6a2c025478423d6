#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Looks at running jobs with `dtilec top`, as a user would, and says what was wrong with that.

    watch_jobs.py threads DTILEC PROGRAM FOLDER
    watch_jobs.py processes DTILEC PROGRAM FOLDER OSHRUN...

`threads`: the ranks of one process, in all forms, and while the process is killed. `processes`: a
job of which one process is stopped, goes on, and is killed.
"""

import json
import os
import re
import signal
import struct
import subprocess
import sys
import time

LIMIT = 120
METRIC = re.compile(r'[a-z_]+(\{[a-z]+="(\\.|[^"\\])*"(,[a-z]+="(\\.|[^"\\])*")*\})? \S+$')


def write_array(path, values):
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d,), }" % len(values)
    head += " " * (117 - len(head)) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
        file.write(struct.pack(f"<{len(values)}f", *values))


class Watch:
    def __init__(self, dtilec):
        self.dtilec = dtilec

    def top(self, *words, codes=(0,)):
        done = subprocess.run([self.dtilec, "top", *words], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=LIMIT, check=False)
        if done.returncode not in codes:
            sys.exit(f"top {words} gave {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def until(self, what, *words):
        """The first of our jobs, as soon as `what` holds for it."""
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            text = self.top("--json", *words, codes=(0, 1))
            for job in json.loads(text or "[]"):
                if what(job):
                    return job
            time.sleep(0.05)
        sys.exit(f"nothing came: {text}")


def require(condition, what, seen):
    if not condition:
        sys.exit(f"{what}:\n{seen}")


def run_words(program, folder, *more):
    return ["run", program, "--kernel", "gather", "--arg", f"x={folder}/x.npy",
            "--repeat", "1000000000", *more]


def look_at_threads(dtilec, program, folder):
    watch = Watch(dtilec)
    job = subprocess.Popen([dtilec, *run_words(program, folder, "--ranks", "4")])
    try:
        pid = str(job.pid)
        seen = watch.until(lambda j: min(r["ended"] for r in j["here"]) > 100, pid)
        require(seen["ranks"] == 4 and seen["kind"] == "processors" and
                seen["program"] == "dtilec", "not the job", seen)
        for rank in seen["here"]:
            require(rank["kernel"] == "gather" and rank["pid"] == job.pid, "not the rank", rank)
            require(all(peer["notified"] > 100 for peer in rank["peers"]), "notifies", rank)
        require(len(seen["skew"]["ranks"]) == 4, "no skew", seen["skew"])
        text = watch.top(pid, "--once")
        require(re.search(r"^job [0-9a-f]+: 4 ranks of `dtilec`, 1 process", text, re.M) and
                text.count("gather") >= 4 and "notifies, all landed:" in text, "text", text)
        require(watch.top(seen["job"]).startswith("job " + seen["job"]), "by name", seen["job"])
        require("slowest in" in watch.top(pid, "--stragglers"), "stragglers", "")
        metrics = watch.top(pid, "--prometheus").splitlines()
        for line in metrics:
            require(line.startswith(("# HELP ", "# TYPE ")) or METRIC.match(line), "metric", line)
        require(sum(m.startswith("dtile_notifies_total{") for m in metrics) == 16, "metrics",
                metrics)
        graph = os.path.join(folder, "graph.json")
        # Which wait is seen, if any, is chance; its cell and places are not. Between two launches
        # ranks meet, which has no cell.
        for _ in range(400):
            watch.top(pid, "--wait-graph", graph)
            with open(graph, encoding="utf-8") as file:
                edges = [edge for edge in json.load(file)["edges"] if not edge["is_barrier"]]
            if edges:
                break
        for edge in edges:
            require(re.fullmatch(r"came\[\d\]", edge["cell"]) and len(edge["to"]) == 1 and
                    edge["place"].endswith("ring.dtile:12:20") and
                    edge["notified_at"].endswith("ring.dtile:9:9"), "an edge", edge)
        # It ends while it is looked at.
        looks = [subprocess.Popen([dtilec, "top", pid, "--json"], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL) for _ in range(6)]
        job.kill()
        job.wait()
        codes = [look.wait(LIMIT) for look in looks]
        require(all(code in (0, 1) for code in codes), "ends meanwhile", codes)
        watch.top(pid, codes=(1,))
    finally:
        job.kill()
        job.wait()


def stop_in_kernel(watch, name, pid):
    """Stops the process of rank 1 so that both others wait for it in a kernel, not between two."""
    def is_settled(job):
        waits = [wait for wait in job["waits"] if wait["rank"] != 1]
        return (job["here"][1]["is_stopped"] and {wait["rank"] for wait in waits} == {0, 2} and
                all(wait["is_barrier"] or wait.get("from_rank") == 1 for wait in waits))

    for _ in range(200):
        os.kill(pid, signal.SIGSTOP)
        seen = watch.until(is_settled, name)
        if all(wait["cell"] for wait in seen["waits"] if wait["rank"] != 1):
            return
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.02)
    sys.exit("rank 1 was never stopped in a kernel")


def look_at_processes(dtilec, program, folder, oshrun):
    watch = Watch(dtilec)
    graph = os.path.join(folder, "graph.json")
    program_words = run_words(program, folder, "--wait-graph", graph)
    # The launcher lets the others say who has died.
    environment = dict(os.environ, OMPI_MCA_orte_enable_recovery="1")
    with open(os.path.join(folder, "words"), "wb") as words:
        job = subprocess.Popen([*oshrun, "-n", "3", dtilec, *program_words], stdout=words,
                               stderr=words, start_new_session=True, env=environment)
    try:
        seen = watch.until(
            lambda j: len(j["here"]) == 3 and min(r["ended"] for r in j["here"]) > 100 and
            is_below(j["here"][0]["pid"], job.pid))
        name, pid = seen["job"], seen["here"][1]["pid"]
        stop_in_kernel(watch, name, pid)
        text = watch.top(name)
        require(re.search(r"^root: rank 1(, role `send`)?: process \d+ is stopped$", text, re.M),
                "stopped", text)
        before = watch.until(lambda j: True, name)["here"][0]["ended"]
        os.kill(pid, signal.SIGCONT)
        watch.until(lambda j: j["here"][0]["ended"] > before + 10, name)
        # In a kernel or between two, as it happens.
        os.kill(pid, signal.SIGKILL)
        job.wait(LIMIT)
        with open(graph, encoding="utf-8") as file:
            kept = json.load(file)
        gone = [node for node in kept["nodes"] if node["rank"] == 1]
        require(gone and all(node["state"] == "gone" for node in gone), "gone", kept)
        require(any("rank 1" in words and "has died" in words for words in kept["failures"]),
                "by name", kept)
    finally:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()


def is_below(pid, ancestor):
    while pid > 1:
        if pid == ancestor:
            return True
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            pid = int(file.read().rsplit(") ", 1)[1].split()[1])
    return False


def main():
    what, dtilec, program, folder, *oshrun = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    write_array(os.path.join(folder, "x.npy"), [1.0] * 64)
    if what == "threads":
        look_at_threads(dtilec, program, folder)
    else:
        look_at_processes(dtilec, program, folder, oshrun)
    print("as it should be")


if __name__ == "__main__":
    main()
