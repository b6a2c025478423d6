# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs checker_mutation over many programs, one at a time, and sums up what it found.

    run_checker_matrix.py --program build/bin/checker_mutation --results FOLDER [OPTION...] FILE...

Each program has a file of results in FOLDER, a line of JSON a mutant (checker_results.h). What is
there already is not run again, so the same command goes on where the last one was ended. A program
gets --seconds at a time, and all of them together --total. The table of the results is printed at
the end, as Markdown; with --summary only that."""

import argparse
import collections
import json
import pathlib
import subprocess
import time

VERDICTS = ["refused", "undecided", "checked", "proved"]
TRUTHS = {
    "unsafe": "hangs, traps, or depends on the schedule",
    "wrong": "the same in every schedule, and wrong",
    "right": "right in every schedule",
}


def results_of(folder):
    """Mutants and programs as they stand, from all files of results, each once."""
    seen = set()
    for path in sorted(pathlib.Path(folder).glob("*.jsonl")):
        for line in path.read_text().splitlines():
            try:
                result = json.loads(line)
            except json.JSONDecodeError:
                # The run was ended while it wrote.
                continue
            key = (result["file"], result["kernel"], tuple(result["mutations"]))
            if key not in seen:
                seen.add(key)
                yield result


def table(head, rows):
    print("| " + " | ".join(head) + " |")
    print("| --- |" + " ---: |" * (len(head) - 1))
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |")
    print()


def kind_of(result):
    names = [mutation.split("@")[0] for mutation in result["mutations"]]
    return names[0] if len(names) == 1 else "two at once"


def print_matrix(mutants):
    matrix = collections.Counter((m["truth"], m["verdict"]) for m in mutants)
    table(
        ["outcome of the runs"] + VERDICTS,
        [[text] + [matrix[truth, v] for v in VERDICTS] for truth, text in TRUTHS.items()],
    )


def print_kinds(mutants):
    kinds = collections.defaultdict(collections.Counter)
    for mutant in mutants:
        is_refused = mutant["verdict"] == "refused"
        unsafe = mutant["truth"] == "unsafe"
        kinds[kind_of(mutant)][mutant["truth"], mutant["verdict"] if unsafe else is_refused] += 1
    rows = []
    for kind, counts in sorted(kinds.items()):
        others = [counts[t, refused] for t in ["wrong", "right"] for refused in [True, False]]
        rows.append([kind] + [counts["unsafe", v] for v in VERDICTS] + others)
    head = ["mistake"] + [f"unsafe, {verdict}" for verdict in VERDICTS]
    for truth in ["wrong", "right"]:
        head += [f"{truth}, refused", f"{truth}, accepted"]
    table(head, rows)


def summarize(folder):
    results = list(results_of(folder))
    bases = [r for r in results if not r["mutations"]]
    all_mutants = [r for r in results if r["mutations"]]
    mutants = [m for m in all_mutants if not m.get("same") and m["verdict"] != "not built"]
    same = sum(bool(m.get("same")) for m in all_mutants)
    print(
        f"{len(mutants)} mutants of {len(bases)} kernels, {sum(r['runs'] for r in results)} runs;"
        f" left out: {same} the same program as another,"
        f" {len(all_mutants) - len(mutants) - same} no program\n"
    )
    print_matrix(mutants)
    print_kinds(mutants)
    seconds = sorted(m["seconds"] for m in mutants)
    if seconds:
        print(
            f"seconds of a check: median {seconds[len(seconds) // 2]:.3f}, "
            f"99 of 100 below {seconds[len(seconds) * 99 // 100]:.2f}, longest {seconds[-1]:.2f}\n"
        )
    for base in bases:
        if base["verdict"] == "refused" or base["truth"] == "unsafe":
            print("as it stands: " + json.dumps(base))
    for mutant in mutants:
        if mutant["truth"] == "unsafe" and mutant["verdict"] != "refused":
            print(json.dumps(mutant))


def run_file(args, file, seconds):
    name = "_".join(pathlib.Path(file).with_suffix("").parts[-3:]) + ".jsonl"
    command = [args.program, "-I", args.include, "--results", pathlib.Path(args.results) / name]
    for option in ["pairs", "steps", "seed"]:
        command += [f"--{option}", str(getattr(args, option))]
    for constant in args.const:
        command += ["--const", constant]
    # A mutant that is begun is ended; what hangs is a mistake of ours.
    limit = seconds + 120
    try:
        ended = subprocess.run(
            command + ["--seconds", str(seconds), file],
            capture_output=True,
            text=True,
            timeout=limit,
        )
    except subprocess.TimeoutExpired:
        print(f"{file}: not over after {limit} s")
        return
    if ended.returncode not in (0, 1):
        print(f"{file}: ended with {ended.returncode}: {ended.stderr[-500:]}")
    for line in ended.stdout.splitlines():
        if "left out" in line or line.startswith("as it stands"):
            print(line)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--program")
    parser.add_argument("--results", required=True)
    parser.add_argument("--include", default="stdlib")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--total", type=int, default=3600)
    parser.add_argument("--pairs", type=int, default=0)
    parser.add_argument("--steps", type=int, default=1000000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--const", action="append", default=[], metavar="NAME=N")
    parser.add_argument("--summary", action="store_true")
    parser.add_argument("files", nargs="*")
    args = parser.parse_args()
    pathlib.Path(args.results).mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + args.total
    if not args.summary:
        print(f"seed {args.seed}, {args.pairs} pairs a kernel, {args.steps} steps", flush=True)
        for file in args.files:
            seconds = int(min(args.seconds, end - time.monotonic()))
            if seconds > 0:
                run_file(args, file, seconds)
    summarize(args.results)


main()
