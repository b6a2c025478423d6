# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A rank of a job of two hosts, on a driver and an NVSHMEM that stand for the real ones: makes a
team, then meets the others again and again until one of them is lost, or `times` times."""

import sys
import time

import dtile


def main():
    times = int(sys.argv[1])
    begin = time.monotonic()
    try:
        team = dtile.Team.from_env(symmetric_bytes=1 << 20)
        print(f"rank {team.rank} of {team.size}", flush=True)
        team.barrier()
        print("ready", flush=True)
        for _ in range(times):
            begin = time.monotonic()
            team.barrier()
            time.sleep(0.02)
        team.close()
        print("left in order", flush=True)
    except dtile.DtileError as error:
        seconds = time.monotonic() - begin
        # TCP gives a host up after ten.
        print(f"{'soon' if seconds < 3 else 'late' if seconds < 20 else 'too late'}: {error}",
              flush=True)


main()
