#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Changes and looks at what the processes of a job have traced.

    parts_of_traces.py move FILE SECONDS CLOCK   as a host would have it whose clock is ahead
    parts_of_traces.py spans FILE OTHER          whether both last as long, but for 2 s
    parts_of_traces.py arrows FILE               waits that another rank let go on, by rank
"""

import json
import sys


def seconds(timed):
    """From the first event to the last."""
    times = [event["ts"] for event in timed]
    return (max(times) - min(times)) / 1e6


def main():
    what, path = sys.argv[1:3]
    with open(path, encoding="utf-8") as file:
        trace = json.load(file)
    events = trace["traceEvents"]
    timed = [event for event in events if "ts" in event]
    if what == "move":
        for event in timed:
            event["ts"] = round(event["ts"] + 1e6 * float(sys.argv[3]), 3)
        trace["otherData"]["clock"] = sys.argv[4]
        with open(path, "w", encoding="utf-8") as file:
            json.dump(trace, file)
    elif what == "spans":
        with open(sys.argv[3], encoding="utf-8") as file:
            other = [event for event in json.load(file)["traceEvents"] if "ts" in event]
        spans = [seconds(timed), seconds(other)]
        print("alike" if abs(spans[0] - spans[1]) < 2 else f"{spans[0]:.3f} and {spans[1]:.3f} s")
    else:
        waits = [event for event in timed if event.get("cat") == "wait"]
        found = {}
        for wait in waits:
            own = wait["pid"] - 1
            found.setdefault(own, set()).add(wait["args"].get("writer_rank"))
        for rank in sorted(found):
            print(f"rank {rank}: {sorted(found[rank], key=str)}")


if __name__ == "__main__":
    main()
