#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures what goals.md asks for on the GPUs of this machine, and prints one table: each goal, and
what was found.

    goals.py [--gpus 1 2 …] [--suites gemm …] [--out FOLDER] [option of bench_gpu.py …]
    goals.py --measured FOLDER      only prints the table of what lies there

Without --gpus, all of 1, 2, 4 and 8 that the machine has. What is measured is kept in FOLDER, one
folder a number of GPUs, so that several runs can fill one table; the latest of a shape counts.
Needs what bench_gpu.py needs. The exit code is 1 when a result was wrong or a measurement failed;
a goal that is missed is in the table, and no failure.
"""

import argparse
import collections
import datetime
import glob
import itertools
import json
import os
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(HERE, "..", "..", "..", "examples")
Goal = collections.namedtuple("Goal", "work suite gpus against what bound shapes")


def tables():
    """The goals, and the lists of shapes by name."""
    goals, shapes = [], {}
    with open(os.path.join(HERE, "goals.md"), encoding="utf-8") as file:
        for line in file:
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if not line.startswith("|") or cells[0] in ("---", "work", "shapes"):
                continue
            if len(cells) == 2:
                shapes[cells[0]] = cells[1].split()
            else:
                goals.append(Goal(*cells)._replace(gpus=[int(n) for n in cells[2].split()]))
    return goals, shapes


def shapes_of(*names):
    """Lists of goals.md as tuples of numbers, one after the other."""
    lists = tables()[1]
    return tuple(tuple(int(part) for part in shape.split("x"))
                 for name in names for shape in lists[name])


# ---- Measuring ----


def runs(goals, shapes, gpus, extra):
    """The arguments of bench_gpu.py that measure these goals on so many GPUs; nothing twice."""
    wanted = {}
    for goal in goals:
        if gpus in goal.gpus:
            found = wanted.setdefault(goal.suite, [])
            found += [s for s in shapes.get(goal.shapes, []) if s not in found]
    for suite, list_ in wanted.items():
        command = [suite, "--ranks", str(gpus), *extra]
        if suite == "all_reduce":
            command += ["--sizes", *list_]
        elif suite in ("gemm", "gemm_scaled", "swiglu", "ag_gemm", "gemm_rs", "gemm_ar"):
            command += ["--shapes", *list_]
        yield command


def compiler():
    package = [os.path.join(folder, "dtilec") for folder in sys.path]
    for path in [os.environ.get("DTILEC"), *package, shutil.which("dtilec")]:
        if path and os.path.isfile(path):
            return path
    sys.exit("dtilec is not found; put it into PATH or set DTILEC")


def measure_compiling(folder):
    """Seconds from each kernel of the examples to what GPUs load, the median of five whole
    commands; of an example, the kernel that takes longest."""
    dtilec = compiler()
    assemblers = os.environ.get("PATH", "") + ":/usr/local/cuda/bin"
    with open(os.path.join(folder, "bench.jsonl"), "a", encoding="utf-8") as rows, \
            tempfile.TemporaryDirectory() as scratch:
        for path in sorted(glob.glob(os.path.join(EXAMPLES, "*", "*.dtile"))):
            row = {"op": "compile", "example": os.path.splitext(os.path.basename(path))[0]}
            with open(path, encoding="utf-8") as program:
                kernels = re.findall(r"^kernel +(\w+)", program.read(), re.MULTILINE)
            for kind, kernel in itertools.product(("ptx", "cubin"), kernels):
                if kind == "cubin" and not shutil.which("ptxas", path=assemblers):
                    continue
                command = [dtilec, "build", path, "--kernel", kernel, "--target", "nvptx",
                           "--arch", "sm_90a", "--emit", kind, "-o", os.path.join(scratch, "out")]
                times = []
                for _ in range(5):
                    begin = time.perf_counter()
                    subprocess.run(command, check=True)
                    times.append(time.perf_counter() - begin)
                row[kind] = max(row.get(kind, 0), round(statistics.median(times), 4))
            print(json.dumps(row), flush=True)
            rows.write(json.dumps(row) + "\n")


def machine():
    """When this is and what GPUs these are, in words; and how many."""
    kinds = collections.Counter()
    if shutil.which("nvidia-smi"):
        asked = subprocess.check_output(
            ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], text=True)
        kinds.update(asked.strip().splitlines())
    found = ", ".join(f"{count} × {kind.replace(', ', ' with driver ')}"
                      for kind, count in kinds.items())
    return f"{datetime.date.today()}, {found or 'a machine without GPUs'}", sum(kinds.values())


def measure(options, extra, goals, shapes):
    """True when everything was right."""
    if not options.dry_run:
        said, present = machine()
        options.gpus = options.gpus or [n for n in (1, 2, 4, 8) if n <= present]
        os.makedirs(options.out, exist_ok=True)
        with open(os.path.join(options.out, "machine.txt"), "w", encoding="utf-8") as file:
            file.write(said + "\n")
    good = True
    for gpus in [0, *(options.gpus or [1, 2, 4, 8])]:
        folder = os.path.join(options.out, f"{gpus}-gpus")
        for arguments in runs(goals, shapes, gpus, extra):
            command = [sys.executable, os.path.join(HERE, "bench_gpu.py"), *arguments]
            if options.dry_run:
                print("compile" if gpus == 0 else shlex.join(command))
                continue
            os.makedirs(folder, exist_ok=True)
            if gpus == 0:
                measure_compiling(folder)
            else:
                code = subprocess.call(command, env={**os.environ, "OUT": folder})
                good &= code == 0
                if code != 0:
                    print(f"FAILED ({code}): {shlex.join(command)}", flush=True)
    return good


# ---- The table ----


def measured_rows(folder):
    """What was measured, as (GPUs, row), the latest last."""
    for path in sorted(glob.glob(os.path.join(folder, "*-gpus", "bench.jsonl"))):
        gpus = int(os.path.basename(os.path.dirname(path)).split("-")[0])
        with open(path, encoding="utf-8") as file:
            for line in file:
                yield gpus, json.loads(line)


def shape_in(row, gpus):
    """The shape of a row, as goals.md writes it; None for what goals.md does not ask about."""
    op = row["op"]
    if op == "compile":
        return row["example"]
    if op == "launch":
        return ""
    if op == "all_reduce":
        return str(row["bytes"])
    if op in ("all_to_all", "dispatch") and row["type"] != "u8":
        return None
    if "experts" in row:
        sizes = ("M", "hidden", "ffn") if "hidden" in row else ("M", "N", "K")
        return "x".join(str(row[size]) for size in (*sizes, "experts", "topk"))
    m, n, k = row["M"], row["N"], row["K"]
    if op == "ag_gemm":
        n, k = k, n * gpus
    elif op in ("gemm_rs", "gemm_ar"):
        k *= gpus
    return f"{m}x{n}x{k}"


def verdict(goal, shapes, rows):
    """What the last column says of a goal."""
    relation, limit, *share = goal.bound.split()
    limit = float(limit)
    several = len(goal.gpus) > 1
    found, absent, without = [], [], []
    for gpus in goal.gpus:
        here = rows.get((goal.suite, gpus), {})
        asked = shapes.get(goal.shapes) or list(here)
        if several and not any(shape in here for shape in asked):
            absent.append(f"anything on {gpus} GPUs")
            continue
        for shape in asked:
            name = shape.replace("x", "×") if goal.shapes in shapes else shape
            name += f" on {gpus} GPUs" if several else ""
            if shape not in here:
                absent.append(name)
            elif here[shape].get(goal.what) is None:
                without.append(name)
            else:
                found.append((here[shape][goal.what], name))
    if not found and not without:
        return "not measured"
    met = [value >= limit if relation == ">=" else value <= limit for value, _ in found]
    good = not without and (2 * sum(met) >= len(met) if share else all(met))
    text = []
    if found:
        least, most = min(found), max(found)
        where = (least if relation == ">=" else most)[1]
        text.append(f"{least[0]:.3g}" if len(found) == 1 else f"{least[0]:.3g} to {most[0]:.3g}")
        text[0] += f" (worst: {where})" if where else ""
    if share or not all(met):
        text.append(f"{sum(met)} of {len(met)} meet it")
    if without:
        text.append("no result: " + ", ".join(without))
    if absent:
        text.append("not measured: " + ", ".join(absent))
    return ("" if good else "**missed**: ") + "; ".join(text)


def print_table(folder, goals, shapes):
    rows = {}
    for gpus, row in measured_rows(folder):
        shape = shape_in(row, gpus)
        if shape is not None:
            rows.setdefault((row["op"], gpus), {})[shape] = row
    said = os.path.join(folder, "machine.txt")
    if os.path.exists(said):
        with open(said, encoding="utf-8") as file:
            print(f"\nMeasured on {file.read().strip()}:")
    print("\n| work | GPUs | against | goal | measured |\n| --- | --- | --- | --- | --- |")
    for goal in goals:
        gpus = ", ".join(str(n) for n in goal.gpus) if goal.gpus != [0] else ""
        against = "" if goal.against == "-" else goal.against
        bound = goal.bound.replace(">=", "≥").replace("<=", "≤")
        print(f"| {goal.work} | {gpus} | {against} | {bound} | {verdict(goal, shapes, rows)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, nargs="+", help="numbers of GPUs to measure on")
    parser.add_argument("--suites", nargs="+", help="only these; also `compile`")
    parser.add_argument("--out", default=os.environ.get("OUT"), help="where rows are kept")
    parser.add_argument("--measured", metavar="FOLDER", help="measure nothing")
    parser.add_argument("--dry-run", action="store_true", help="only print what would be run")
    options, extra = parser.parse_known_args()
    goals, shapes = tables()
    unknown = set(options.suites or []) - {goal.suite for goal in goals}
    if unknown:
        parser.error(f"no such suite: {', '.join(sorted(unknown))}")
    chosen = [goal for goal in goals if not options.suites or goal.suite in options.suites]
    options.out = options.out or tempfile.mkdtemp(prefix="dtile-goals-")
    good = options.measured or measure(options, extra, chosen, shapes)
    if not options.dry_run:
        print_table(options.measured or options.out, goals, shapes)
        if not options.measured:
            print(f"\n{'All results were right' if good else 'NOT ALL RESULTS WERE RIGHT'}; "
                  f"measurements are in {options.out}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
