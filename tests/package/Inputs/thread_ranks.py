# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ranks that are threads of one process, for tests of what the Python package does around kernels."""

import threading


class Meeting:
    """Ranks give something, and get what all have given."""

    def __init__(self, ranks):
        self.ranks = ranks
        self._barrier = threading.Barrier(ranks, timeout=60)
        self._given = [None] * ranks

    def gather(self, rank, value):
        self._given[rank] = value
        self._barrier.wait()
        given = list(self._given)
        self._barrier.wait()
        return given

    def abort(self):
        self._barrier.abort()


class Team:
    def __init__(self, rank, meeting):
        self.rank, self.size, self.meeting = rank, meeting.ranks, meeting


def run_on(ranks, work):
    """Calls `work` with each rank's team on a thread of its own. What went wrong, in words."""
    meeting, failures = Meeting(ranks), []

    def run(rank):
        try:
            work(Team(rank, meeting))
        except BaseException as error:
            failures.append(f"rank {rank} of {ranks}: {error!r}")
            meeting.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failures
