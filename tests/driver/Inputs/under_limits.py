"""Runs dtilec with less and less room for its memory: under_limits.py DTILEC PROGRAM FOLDER."""

import json
import os
import resource
import subprocess
import sys

dtilec, program, folder = sys.argv[1:]
big = os.path.join(folder, "big.dtile")
with open(big, "w", encoding="utf-8") as file:
    for i in range(12):
        file.write(f"kernel k{i}(x: in f32[N], y: out f32[N]) over (i in N by 64) "
                   "{ y[i] = x[i] * 2.0 + exp(x[i]); }\n")


def run(room, *arguments):
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (room, room))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    return subprocess.run([dtilec, *arguments], preexec_fn=limit, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, check=False)


def starts(room):
    return run(room, "--version").returncode == 0


least = next(room for room in range(64 << 20, 4 << 30, 2 << 20) if starts(room))
odd, told, as_json = 0, False, None
for more in range(0, 96 << 20, 8 << 20):
    for arguments in (["check", program], ["build", big, "-o", os.path.join(folder, "x.o")]):
        ended = run(least + more, *arguments)
        odd += ended.returncode not in (0, 1)
        told |= b"out of memory" in ended.stderr and b"[E0731]" in ended.stderr
        if ended.returncode == 1 and b"out of memory" in ended.stderr and as_json is None:
            text = run(least + more, *arguments, "--diagnostics=json").stderr
            # Near the limit another run of the same may have room: addresses differ.
            for first in json.loads(text)[:1]:
                as_json = first["code"] + " " + first["message"][:13]
print("ends that were no ends:", odd)
print("messages with their code:", told)
print("as JSON:", as_json)
