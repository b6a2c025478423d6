#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks that a trace is strictly what the trace-event format says, and what dtile promises of it.

    check_trace.py FILE [NAME=NUMBER…]   checks a trace, and how many of these it has, or `NUMBER+`:
                                         ranks, bodies, waits, notifies, transfers, launches,
                                         arrows, unfinished, bytes, dropped
    check_trace.py --self-test FILE      changes a good trace in many ways; each must be found

Every B has its E, slices nest, arrows have both ends in a notify and a wait, processes and tracks
have names, and time never goes back on a track.
"""

import copy
import json
import sys

PHASES = {"M", "X", "B", "E", "C", "s", "f"}
TRANSFERS = {"put", "get", "reduce_add", "load", "store", "atomic"}


class Wrong(Exception):
    pass


def need(condition, what):
    if not condition:
        raise Wrong(what)


def no_duplicates(pairs):
    keys = [key for key, _ in pairs]
    need(len(keys) == len(set(keys)), f"an object has a key twice: {keys}")
    return dict(pairs)


def no_constant(name):
    raise Wrong(f"{name} is not JSON")


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file, object_pairs_hook=no_duplicates, parse_constant=no_constant)


def ns(value):
    """Microseconds with at most three decimals."""
    need(isinstance(value, (int, float)) and value >= 0, f"{value!r} is no time")
    whole = round(value * 1000)
    need(abs(whole - value * 1000) < 1e-2, f"{value} has more than three decimals")
    return whole


class Track:
    def __init__(self):
        self.last = -1
        self.begun = []  # of B without an E
        self.open = []  # ends of slices that are open
        self.slices = []


def check_names(events):
    processes, tracks = {}, {}
    for event in events:
        if event["ph"] != "M":
            continue
        name = event["args"].get("name")
        if event["name"] == "process_name":
            need(event["pid"] not in processes, f"process {event['pid']} has two names")
            need(isinstance(name, str) and name, "an empty name of a process")
            processes[event["pid"]] = name
        elif event["name"] == "thread_name":
            key = event["pid"], event["tid"]
            need(key not in tracks, f"track {key} has two names")
            need(isinstance(name, str) and name, "an empty name of a track")
            tracks[key] = name
    for event in events:
        need(event["pid"] in processes, f"process {event['pid']} has no name")
        if event["ph"] != "M" or event["name"].startswith("thread"):
            need((event["pid"], event["tid"]) in tracks or event["ph"] == "M",
                 f"track {event['pid']}.{event['tid']} has no name")
    return processes


def check_slice(track, event):
    begin = ns(event["ts"])
    if event["ph"] == "B":
        track.begun.append((event["name"], begin))
        return
    if event["ph"] == "E":
        need(track.begun, "an E without its B")
        track.begun.pop()
        return
    end = begin + ns(event["dur"])
    need(isinstance(event.get("name"), str) and event["name"], "a slice without a name")
    while track.open and track.open[-1] <= begin and track.open[-1] < end:
        track.open.pop()
    need(not track.open or end <= track.open[-1], f"`{event['name']}` at {begin} does not nest")
    track.open.append(end)
    track.slices.append((begin, end, event))


def slice_at(track, time, category):
    for begin, end, event in reversed(track.slices):
        if event["cat"] == category and begin <= time <= end:
            return event
    raise Wrong(f"an arrow at {time} is in no {category}")


def check_arrows(events, tracks):
    ends = {}
    for event in events:
        if event["ph"] in "sf":
            both = ends.setdefault((event["cat"], event["id"]), {})
            need(event["ph"] not in both, f"arrow {event['id']} has an end twice")
            both[event["ph"]] = event
    for (_, number), both in ends.items():
        need(set(both) == {"s", "f"}, f"arrow {number} has one end")
        begin, end = both["s"], both["f"]
        need(end.get("bp") == "e", f"arrow {number} does not end in a slice")
        need(ns(begin["ts"]) <= ns(end["ts"]), f"arrow {number} leads back in time")
        slice_at(tracks[begin["pid"], begin["tid"]], ns(begin["ts"]), "notify")
        wait = slice_at(tracks[end["pid"], end["tid"]], ns(end["ts"]), "wait")
        need("writer" in wait["args"], "a wait with an arrow names no writer")
    return len(ends)


def check_counters(events):
    last = {}
    for event in events:
        if event["ph"] != "C":
            continue
        (value,) = event["args"].values()
        need(isinstance(value, int) and value >= 0, f"a counter is {value!r}")
        key = event["pid"], event["name"]
        if event["name"] == "bodies done":
            need(value == last.get(key, 0) + 1, "bodies done does not count by one")
        last[key] = value
    for (pid, name), value in last.items():
        need(name != "bytes in flight" or value == 0, f"process {pid} ends with bytes in flight")


def check(trace):
    need(isinstance(trace, dict) and isinstance(trace.get("traceEvents"), list), "no traceEvents")
    need(trace["otherData"]["producer"] == "dtile", "another producer")
    events = trace["traceEvents"]
    tracks = {}
    for event in events:
        need(isinstance(event, dict) and event.get("ph") in PHASES, f"an event is {event}")
        for key in ("pid", "tid"):
            need(isinstance(event.get(key), int), f"no {key} in {event}")
        if event["ph"] == "M":
            continue
        track = tracks.setdefault((event["pid"], event["tid"]), Track())
        time = ns(event["ts"])
        need(time >= track.last, f"time goes back on track {event['pid']}.{event['tid']}")
        track.last = time
        if event["ph"] in "XBE":
            check_slice(track, event)
    for key, track in tracks.items():
        need(not track.begun, f"a B on track {key} has no E")
    processes = check_names(events)
    arrows = check_arrows(events, tracks)
    check_counters(events)
    slices = [event for event in events if event["ph"] == "X"]
    of = {}
    for event in slices:
        of.setdefault(event["cat"], []).append(event)
    dropped = trace["otherData"]["dropped"]
    # Of what one process of a job has written, writers are found when its file is joined to others.
    is_part = "clock" in trace["otherData"]
    for wait in of.get("wait", []):
        args = wait["args"]
        says = len(args["cells"]) == len(args["wants"]) > 0 if is_part else "writer" in args
        need(dropped or says or "unfinished" in args, f"a wait names no writer: {wait}")
    for cat in ("wait", "notify", "barrier", "poll", *TRANSFERS):
        for event in of.get(cat, []):
            parts = event["args"]["at"].rsplit(":", 2)
            need(len(parts) == 3 and int(parts[1]) > 0 and int(parts[2]) > 0,
                 f"`{event['args']['at']}` is no place in a source")
    return {
        "ranks": len(processes),
        "bodies": len(of.get("body", [])),
        "waits": len(of.get("wait", [])),
        "notifies": len(of.get("notify", [])),
        "transfers": sum(len(of.get(cat, [])) for cat in TRANSFERS),
        "launches": len(of.get("launch", [])),
        "unfinished": sum("unfinished" in event["args"] for event in slices),
        "bytes": sum(event["args"].get("bytes", 0) for event in slices),
        "arrows": arrows,
        "dropped": dropped,
    }


def mutants(trace):
    """Traces with one mistake each."""
    def first(phase, category=None):
        for i, event in enumerate(trace["traceEvents"]):
            if event["ph"] == phase and category in (None, event.get("cat")):
                return i
        raise SystemExit(f"the trace has no {phase} {category or ''}")

    def changed(index, **members):
        made = copy.deepcopy(trace)
        made["traceEvents"][index].update(members)
        return made

    def without(index):
        made = copy.deepcopy(trace)
        del made["traceEvents"][index]
        return made

    body = first("X", "body")
    event = trace["traceEvents"][body]
    yield "no begin of an arrow", without(first("s"))
    yield "no end of an arrow", without(first("f"))
    yield "an arrow twice", changed(first("s"), id=trace["traceEvents"][first("s")]["id"] + 1)
    yield "no name of a process", without(first("M"))
    names = [i for i, e in enumerate(trace["traceEvents"]) if e["name"] == "thread_name"]
    used = [i for i in names if trace["traceEvents"][i]["tid"] == event["tid"]
            and trace["traceEvents"][i]["pid"] == event["pid"]]
    yield "no name of a track", without(used[0])
    yield "time goes back", changed(body, ts=event["ts"] + 1e7)
    yield "a wait longer than its body", changed(first("X", "wait"), dur=1e9)
    yield "a B without its E", changed(body, ph="B")
    yield "an E without its B", changed(body, ph="E")
    yield "an unknown phase", changed(body, ph="?")
    yield "a negative time", changed(body, dur=-1)
    counts = [i for i, e in enumerate(trace["traceEvents"]) if e["name"] == "bodies done"]
    yield "a body not counted", without(counts[0])
    yield "no place of a wait", changed(first("X", "wait"), args={"at": "nowhere", "writer": ""})


def main(arguments):
    if arguments[0] == "--self-test":
        good = read(arguments[1])
        check(good)
        for what, bad in mutants(good):
            try:
                check(bad)
            except (Wrong, ValueError):
                continue
            sys.exit(f"not found: {what}")
        return
    try:
        found = check(read(arguments[0]))
        for wanted in arguments[1:]:
            name, number = wanted.split("=")
            least = number.endswith("+")
            count = int(number.rstrip("+"))
            need(found[name] >= count if least else found[name] == count,
                 f"{name} is {found[name]}, not {number}")
    except (Wrong, ValueError) as wrong:
        sys.exit(f"{arguments[0]}: {wrong}")


if __name__ == "__main__":
    main(sys.argv[1:])
