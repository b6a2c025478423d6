#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Assembles examples: builds each program to PTX, one variant a kernel, and calls ptxas.

    assemble_examples.py DTILEC PTXAS EXAMPLES SCRATCH --arch=ARCH --part=I/N
    assemble_examples.py DTILEC PTXAS EXAMPLES SCRATCH --arch=ARCH NAME...

--part takes every N-th program of all, from the I-th. Prints a line for each program; exits with 1
where one cannot be built or assembled.
"""

import argparse
import pathlib
import subprocess
import sys


def run(command):
    """Returns what the command has printed where it fails, else None."""
    done = subprocess.run(command, capture_output=True, text=True)
    return None if done.returncode == 0 else done.stdout + done.stderr


def assemble(arguments, program):
    ptx = arguments.scratch / (program.stem + ".ptx")
    return run(
        [
            arguments.dtilec,
            "build",
            program,
            "--target=nvptx",
            "--arch=" + arguments.arch,
            "--variants=1",
            "--emit=ptx",
            "-o",
            ptx,
        ]
    ) or run([arguments.ptxas, "-arch=" + arguments.arch, ptx, "-o", ptx.with_suffix(".cubin")])


def chosen(arguments):
    programs = sorted(arguments.examples.glob("*/*.dtile"))
    if arguments.part is None:
        return [p for p in programs if p.stem in arguments.names]
    part, parts = map(int, arguments.part.split("/"))
    return programs[part - 1 :: parts]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dtilec")
    parser.add_argument("ptxas")
    parser.add_argument("examples", type=pathlib.Path)
    parser.add_argument("scratch", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--arch", required=True)
    parser.add_argument("--part")
    arguments = parser.parse_intermixed_args()
    arguments.scratch.mkdir(parents=True, exist_ok=True)
    programs = chosen(arguments)
    failed = len(programs) < max(len(arguments.names), 1)
    for program in programs:
        why = assemble(arguments, program)
        print(program.stem + ": " + ("assembled" if why is None else "FAILED\n" + why), flush=True)
        failed |= why is not None
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
