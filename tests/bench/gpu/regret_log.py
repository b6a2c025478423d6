# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What regret.py has measured, one JSON object a line, so that a later run goes on where one ended.

Each line has `kind`, and all but `run` have `on` (machine and compiler: lines of others do not
count):

run             settings that shapes are drawn from
try             key: something that may fail begins
shape           key, and what was measured of the default and the peer
predictions     shape, rows: what the compiler predicts, the fastest first
configuration   key, shape, constants, ms
searched        shape, default, best (both measured again), winner, tried, measured
failed          key, why: named and left out
"""

import json
import os


def read(path):
    """All lines of a file; what a run that was stopped has left of a line is no line."""
    lines = []
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            for text in file:
                try:
                    lines.append(json.loads(text))
                except ValueError:
                    continue
    return [line for line in lines if isinstance(line, dict) and "kind" in line]


def settings_in(lines):
    """The settings of the first run, or None."""
    return next((line["settings"] for line in lines if line["kind"] == "run"), None)


def machines(lines):
    """Machine and compiler of what was measured, the latest last."""
    found = [line["on"] for line in lines if line.get("on")]
    return sorted(set(found), key=lambda on: len(found) - found[::-1].index(on))


def unfinished(lines):
    """Keys that were begun and neither measured nor named as failed, in order."""
    begun = {}
    for line in lines:
        if line["kind"] == "try":
            begun[line["key"]] = line
        else:
            begun.pop(line.get("key"), None)
    return list(begun.values())


class Log:
    """Appends lines, and knows those that were there. Only rank 0 writes; all ranks know alike,
    where all read the file before anything is written."""

    def __init__(self, path, on, writes=True):
        self.on, self.lines, self._path = on, [], path if writes else None
        self.known = {}
        before = read(path)
        self.settings = settings_in(before)
        self.others = sum(1 for line in before if line.get("on", on) != on)
        for line in before:
            if line.get("on") == on:
                self._know(line)
        if writes:
            self._end_line()

    def _end_line(self):
        """A line that a stopped run has left open is closed, so that the next one stands alone."""
        with open(self._path, "ab+") as file:
            file.seek(0)
            text = file.read()
            if text and not text.endswith(b"\n"):
                file.write(b"\n")

    def _know(self, line):
        self.lines.append(line)
        if line["kind"] in ("shape", "configuration", "failed"):
            self.known[line["key"]] = line
        elif line["kind"] in ("searched", "predictions"):
            self.known[f"{line['kind']} {line['shape']}"] = line

    def write(self, kind, **values):
        line = {"kind": kind, **({"on": self.on} if kind != "run" else {}), **values}
        self._know(line)
        if self._path:
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        return line

    def configurations(self, shape):
        """What was measured of a shape: lines of configurations."""
        return [line for line in self.lines
                if line["kind"] == "configuration" and line["shape"] == shape]
