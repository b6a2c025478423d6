#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Starts runtime_job with oshrun: ranks as processes, by shared memory, by messages and by TCP.

    runtime_job_test.py OSHRUN PROGRAM PROVIDER TWO_HOSTS_SCRIPT
"""

import os
import re
import signal
import subprocess
import sys
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

OSHRUN, PROGRAM, PROVIDER, TWO_HOSTS = map(os.path.abspath, sys.argv[1:5])

ENVIRONMENT = dict(
    os.environ,
    DTILE_SHMEM_PROVIDER=PROVIDER,
    OMPI_ALLOW_RUN_AS_ROOT="1",
    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
    OMPI_MCA_rmaps_base_oversubscribe="1",
)


def run(ranks, mode=None, command=None, **environment):
    """The exit code and the output of a job."""
    command = command or [OSHRUN, "-n", str(ranks)]
    done = subprocess.run(
        [*command, PROGRAM, *([mode] if mode else [])],
        env=dict(ENVIRONMENT, **environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=200,
    )
    return done.returncode, done.stdout


def run_and_stop(ranks, mode, number, command=None, rank=-1, **environment):
    """A job of which one process, that of the last rank or another, gets a signal once all have
    said that they are there. The exit code, the output and the seconds until it had ended."""
    job = subprocess.Popen(
        [*(command or [OSHRUN, "-n", str(ranks)]), PROGRAM, mode],
        env=dict(ENVIRONMENT, **environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    output, processes = "", {}
    while len(processes) < ranks:
        line = job.stdout.readline()
        output += line
        if not line:
            break
        for each, process in re.findall(r"rank (\d+) is process (\d+)", line):
            processes[int(each)] = int(process)
    begin = time.monotonic()
    if rank % ranks in processes:
        os.kill(processes[rank % ranks], number)
    try:
        output += job.communicate(timeout=100)[0]
    except subprocess.TimeoutExpired:
        for process in processes.values():
            os.kill(process, signal.SIGKILL)
        output += job.communicate()[0] + "\nthe job did not end"
    return job.returncode, output, time.monotonic() - begin


def side_by_side(work, cases):
    """What `work` gives for each case. These jobs mostly wait, for a budget or for a launcher."""
    with ThreadPoolExecutor(len(cases)) as threads:
        return list(zip(cases, threads.map(work, cases)))


class Job(unittest.TestCase):
    def assert_all_ok(self, ranks, result):
        code, output = result
        self.assertEqual(code, 0, output)
        for rank in range(ranks):
            self.assertIn(f"rank {rank} ok", output)

    def test_ranks_share_memory(self):
        for ranks in (1, 2, 3, 4, 8):
            self.assert_all_ok(ranks, run(ranks))

    def test_ranks_send_messages_where_memory_is_out_of_reach(self):
        for ranks in (1, 2, 4):
            self.assert_all_ok(ranks, run(ranks, DTILE_SHMEM_INDIRECT="1"))

    def test_bodies_run_on_several_workers(self):
        self.assert_all_ok(2, run(2, "workers"))
        self.assert_all_ok(2, run(2, "workers", DTILE_SHMEM_INDIRECT="1"))

    def test_stuck_wait_is_reported_and_ends_every_rank(self):
        code, output = run(3, "deadlock")
        self.assertNotEqual(code, 0)
        for rank in range(3):
            self.assertIn(
                f"  job.dtile:4:4: rank {rank}, kernel `stuck` waits for `ready`: wants 3, "
                "has seen 0",
                output,
            )
            self.assertIn(f"rank {rank}: then 5", output)

    def test_trap_of_one_rank_stops_the_others(self):
        def trap(indirect):
            return run(3, "trap", DTILE_SHMEM_INDIRECT=indirect)

        for _, (code, output) in side_by_side(trap, "01"):
            self.assertNotEqual(code, 0)
            words = "job.dtile:5:5: rank 2, kernel `stuck`: no room"
            self.assertIn(f"rank 2: 4: {words}", output)
            for rank in (0, 1):
                self.assertIn(f"rank {rank}: 4: another rank stopped the job: {words}", output)

    def test_job_recovers_from_failures(self):
        for ranks in (1, 2, 4):
            self.assert_all_ok(ranks, run(ranks, "recover"))
        self.assert_all_ok(3, run(3, "recover", DTILE_SHMEM_INDIRECT="1"))

    def test_job_ends_when_a_rank_was_stopped(self):
        def stop(case):
            indirect, mode = case
            return run_and_stop(3, mode, signal.SIGSTOP, DTILE_SHMEM_INDIRECT=indirect)

        modes = ("0", "lasting"), ("0", "unclosed"), ("0", "closing"), ("1", "lasting")
        for (indirect, mode), (code, output, seconds) in side_by_side(stop, modes):
            with self.subTest(mode=mode, indirect=indirect):
                self.assertNotEqual(code, 0, output)
                self.assertNotIn("did not end", output)
                # The budget is a second; launchers take a few to end what is left.
                self.assertLess(seconds, 40, output)
                if mode != "closing":
                    self.assertRegex(output, r"(?m)^(dtile: )?rank [01](: | waited)")

    def test_others_say_who_is_stopped(self):
        # Its budget is longer than a process may take to answer.
        def stop(rank):
            return run_and_stop(3, "patient", signal.SIGSTOP, rank=rank)

        for rank, (code, output, _) in side_by_side(stop, (2, 0)):
            self.assertNotEqual(code, 0, output)
            self.assertNotIn("did not end", output)
            silent = rf"; rank {rank} \(process \d+ on `.*`\) did not answer lately"
            self.assertRegex(output, r"rank \d: [^`]*`(?s:.)*" + silent)
            # Once in a message, and nobody else.
            self.assertNotRegex(output, r"(?m)did not answer lately.*did not answer lately")
            self.assertNotRegex(output, r"rank \d \(process \d+ on `.*`\), rank")

    def test_who_is_stopped_on_another_host_is_named_by_who_waits_in_openshmem(self):
        code, output, seconds = run_and_stop(2, "asleep", signal.SIGSTOP, command=[TWO_HOSTS, "1"])
        if code == 77:
            self.skipTest(output.strip())
        self.assertNotEqual(code, 0, output)
        self.assertLess(seconds, 40, output)
        self.assertRegex(
            output,
            r"(?m)^dtile: rank 0: waited \d+ ms in shmem_\w+; rank 1 \(process \d+ on `hostb`\) "
            "did not answer lately",
        )

    def test_job_ends_when_a_rank_has_died(self):
        def kill(indirect):
            return run_and_stop(3, "lasting", signal.SIGKILL, DTILE_SHMEM_INDIRECT=indirect)

        for _, (code, output, seconds) in side_by_side(kill, "01"):
            self.assertNotEqual(code, 0, output)
            self.assertNotIn("did not end", output)
            self.assertLess(seconds, 40, output)

    def test_others_say_who_has_died(self):
        # A launcher that lets the others live.
        def kill(indirect):
            return run_and_stop(
                3, "lasting", signal.SIGKILL, DTILE_SHMEM_INDIRECT=indirect,
                OMPI_MCA_orte_enable_recovery="1",
            )

        for _, (_, output, seconds) in side_by_side(kill, "01"):
            self.assertLess(seconds, 40, output)
            for rank in range(2):
                self.assertRegex(
                    output, rf"(?m)^rank {rank}: .*rank 2 \(process \d+ on `.*`\) has died"
                )
                self.assertNotRegex(output, "could not go on")

    def test_unequal_symmetric_sizes_are_refused(self):
        code, output = run(2, "sizes")
        self.assertNotEqual(code, 0)
        for rank in range(2):
            words = f"rank {rank}: 1: ranks {rank} and {1 - rank} differ in the sizes"
            self.assertIn(words, output)

    def test_heaps_of_absurd_sizes_are_refused(self):
        expected = {"small": "are too small for a job of 2 ranks", "huge": "no machine has"}

        def absurd(mode):
            return run(2, mode)

        for mode, (code, output) in side_by_side(absurd, list(expected)):
            self.assertNotEqual(code, 0)
            self.assertIn(expected[mode], output)

    def test_two_hosts_talk_by_tcp(self):
        code, output = run(4, "few", command=[TWO_HOSTS, "2"])
        if code == 77:
            self.skipTest(output.strip())
        self.assert_all_ok(4, (code, output))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
