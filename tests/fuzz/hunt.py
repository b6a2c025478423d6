#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Changes programs, IR text, constants and command lines at random, runs dtilec on them, and says
which runs break what every run keeps: see `broken`.

    hunt.py DTILEC SECONDS [--seed N] [--only CASE] [--found FOLDER] [--jobs N]

Case N of a seed is always the same; `--only N` runs that one and prints its command and its output.
What a case that broke something was run with is kept in FOLDER/N.
"""

import argparse
import concurrent.futures
import os
import random
import re
import resource
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import zlib

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CPU_SECONDS = 60
MEMORY_BYTES = 6 << 30
MOST_BYTES = 20_000

NUMBERS = [
    "0", "1", "-1", "2", "3", "7", "8", "9", "63", "64", "65", "255", "65535", "65536", "65537",
    "2147483647", "2147483648", "-2147483648", "4294967296", "9223372036854775807",
    "-9223372036854775808", "9223372036854775808", "18446744073709551615", "1000000007", "1e9",
    "1e38", "1e-45", "0.0", "inf", "nan", "0x7fffffff",
]
SMALL = [
    "0", "1", "2", "3", "4", "5", "7", "8", "16", "31", "64", "96", "100", "127", "128", "1000",
]
DTYPES = [
    "bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f8e4m3", "f8e5m2", "f16",
    "bf16", "f32", "f64",
]
OPERATORS = [
    "+", "-", "*", "/", "%", "<", "<=", "==", "!=", ">", ">=", "&&", "||", "&", "|", "^", "<<",
    ">>", "=", "+=", "..", "@", ":", ",", ";", ".", "->", "?", "!", "~", "<-", "after",
]
ALIKE = (("+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>"), ("<", "<=", "==", "!=", ">", ">="),
         ("=", "+=", "-=", "*=", "&="), ("&&", "||"))
KEYWORDS = set(
    "after await bench case const else ensures epoch expect false fn for if import in inout "
    "kernel let notify num_ranks ordered out over programs put get rank ranks requires return "
    "role scratch signal symm test true var wait when while yield zeros".split())
# Token classes that are exchanged for others of their own kind.
TOKEN = re.compile(r"//[^\n]*|\"[^\"\n]*\"|[A-Za-z_]\w*|\d[\w.]*|%\w+|\s+|[-+*/<>=!&|.^]+|.", re.S)
MOSTLY_WRONG = re.compile(r"/tests/(?:sema|grammar|fuzz|protocol/wrong)/|/fail_[^/]*$")
LIMITED = {"check", "build", "run", "test", "fmt", "ir", "explain"}
BUG = re.compile(r"internal error|a bug in (?:dtile|the compiler|it)|LLVM ERROR|Sanitizer|"
                 r"runtime error|Assertion `")
TEMPORARY = re.compile(r"\.tmp|dtile-[0-9a-f]{4,}")


def corpus():
    """Texts of programs and of IR, each with its path. What is wrong before it is changed shows
    less: of that there is a part."""
    programs, texts = [], []
    for folder in ("examples", "stdlib", "tests"):
        for at, folders, names in os.walk(os.path.join(ROOT, folder)):
            folders.sort()
            for name in sorted(names):
                path = os.path.join(at, name)
                if name.endswith((".dtile", ".dtir")) and os.path.getsize(path) <= MOST_BYTES:
                    if MOSTLY_WRONG.search(path) and zlib.crc32(os.fsencode(name)) % 8:
                        continue
                    with open(path, encoding="utf-8", errors="surrogateescape") as file:
                        (programs if name.endswith(".dtile") else texts).append((path, file.read()))
    return programs, texts


# ---- Texts ----

def is_name(token):
    return ((token[0].isalpha() or token[0] in "_%") and token not in KEYWORDS and
            token not in DTYPES)


# Tokens that a program may have others of and still be one.
EXCHANGED = (lambda token: token[0].isdigit(), lambda token: token in DTYPES,
             lambda token: any(token in kind for kind in ALIKE), is_name)


def exchange(pick, token, others):
    """Another token of the same kind, or of any kind now and then."""
    if pick.random() < 0.05:
        return pick.choice(others)
    if token[0].isdigit():
        return pick.choice(pick.choice((NUMBERS, SMALL, SMALL)) +
                           [t for t in others if t[0].isdigit()] * 2)
    if token in DTYPES:
        return pick.choice(DTYPES)
    if is_name(token):
        return pick.choice([t for t in others if is_name(t)] or others)
    alike = next((kind for kind in ALIKE if token in kind), None)
    return pick.choice(alike or OPERATORS)


def mutate_once(pick, text, other):
    tokens = TOKEN.findall(text)
    real = [i for i, t in enumerate(tokens) if not t.isspace() and not t.startswith("//")]
    if not real:
        return other
    at = pick.choice(real)
    others = [tokens[i] for i in real]
    kind = pick.randrange(34) - 23
    if kind <= 3:
        is_exchanged = pick.choices(EXCHANGED, (6, 2, 2, 2))[0]
        at = pick.choice([i for i in real if is_exchanged(tokens[i])] or real)
        tokens[at] = exchange(pick, tokens[at], others)
    elif kind == 4:
        del tokens[at]
    elif kind == 5:
        tokens.insert(at, pick.choice(others) + " ")
    elif kind == 6:
        second = pick.choice(real)
        tokens[at], tokens[second] = tokens[second], tokens[at]
    elif kind == 7:
        lines = text.splitlines(keepends=True)
        line = pick.randrange(len(lines))
        lines[line:line + pick.choice((1, 1, 3))] = pick.choice(
            ([], [lines[line]] * 2, [pick.choice(lines)]))
        return "".join(lines)
    elif kind == 8:
        # A piece of another file.
        lines, more = text.splitlines(keepends=True), other.splitlines(keepends=True)
        begin = pick.randrange(len(more) or 1)
        lines[pick.randrange(len(lines)):0] = more[begin:begin + pick.randrange(1, 12)]
        return "".join(lines)
    elif kind == 9:
        depth = pick.choice((3, 50, 3000))
        tokens[at] = pick.choice(("(", "-", "[", "{", "!")) * depth + tokens[at]
    else:
        place = pick.randrange(len(text))
        junk = pick.choice(("\0", "\x7f", "\udcff", "é", "\u202e", "\r", "`", "\"", "/*", "'" * 9))
        return text[:place] + junk + text[place + pick.randrange(3):]
    return "".join(tokens)


def mutate(pick, texts):
    path, text = pick.choice(texts)
    for _ in range(pick.choice((1, 1, 1, 1, 2, 2, 4))):
        text = mutate_once(pick, text, pick.choice(texts)[1]) or " "
    return path, text


def array(pick, path):
    """A .npy file, or what is nearly one."""
    shape = [pick.choice((0, 1, 2, 3, 4, 64, 65, 128)) for _ in range(pick.randrange(4))]
    kind = pick.choice(("<f4", "<f4", "<f8", "<i4", "<i8", "|u1", "|b1", "<f2", ">f4", "<c8"))
    count = 1
    for size in shape:
        count *= size
    header = f"{{'descr': '{kind}', 'fortran_order': {pick.choice((False, False, True))}, " \
             f"'shape': ({''.join(f'{s}, ' for s in shape)}), }}"
    if pick.random() < 0.1:
        header = header.replace(pick.choice("'(,:"), pick.choice(NUMBERS), 1)
    header = header.encode() + b" " * (-(len(header) + 11) % 64) + b"\n"
    data = pick.randbytes(count * int(kind[2])) if count < 1 << 16 else bytes(count * int(kind[2]))
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header +
                   data[:pick.choice((len(data), len(data), len(data) // 2))])
    return path


# ---- Command lines ----

def constants(pick, text):
    names = re.findall(r"\b(?:kernel|plan)\s+\w+<([^>]*)>", text)
    words = re.findall(r"\b([A-Z][A-Z0-9_]*)\s*[:=]", " ".join(names))
    made = []
    for _ in range(pick.choice((0, 0, 0, 0, 1, 2))):
        if not words and pick.random() < 0.9:
            continue
        name = pick.choice(words or ["X"])
        value = pick.choice(NUMBERS + DTYPES + ["", "a=b", "'"])
        made += ["--const", f"{name}={value}"]
    return made


def options(pick, command, text, file):
    """Options that a user may give, some of them wrong, and where outputs go."""
    number = lambda *usual: pick.choice(usual) if pick.random() < 0.9 else pick.choice(NUMBERS)
    kernels = re.findall(r"\bkernel\s+(\w+)", text) or ["k"]
    kernel = ["--kernel", pick.choice(kernels)]
    tables = {
        "check": [["--ranks", number("1", "2", "1,2,4", "8")], ["-W", "error"],
                  ["--machine", pick.choice(("host", "h200", "b200", "mi300x", "z80"))], kernel],
        "fmt": [["--check"]],
        "test": [["--executor", pick.choice(("host", "interp", "all"))], ["--sanitize"],
                 ["--ranks", number("1", "2", "4", "3,5")], ["--explore", number("2", "3")],
                 ["--schedule-seed", number("7")], ["--repeat", number("2")], ["-O", "0"]],
        "run": [["--ranks", number("1", "2", "4")], ["--executor", pick.choice(("host", "interp"))],
                ["--repeat", number("3")], ["--time"], ["--sanitize"]],
        "ir": [["--verify-each"], ["--remarks"], ["--bisect", number("3", "9")], kernel,
               ["--machine", pick.choice(("host", "h200", "a100", "mi355x"))],
               ["--pass", pick.choice(("inline", "cse", "canonicalize", "specialize(W=2)", "",
                                       "specialize(W=4),cse,canonicalize", "nothing", "fold(",
                                       "specialize(W=0)"))],
               ["--print-after", pick.choice(("all", "cse", "x"))]],
        "explain": [["--target", pick.choice(("host", "nvptx", "amdgpu", "host,nvptx"))],
                    ["--arch", pick.choice(("sm_80", "sm_90a", "gfx942", "z"))], kernel],
        "build": [["--target", pick.choice(("host", "nvptx", "amdgpu", "nvptx,amdgpu,host"))],
                  ["--arch", pick.choice(("sm_80", "sm_90a", "sm_100a", "gfx90a", "gfx942", "z"))],
                  ["--cpu", pick.choice(("native", "x86-64", "bdver2", "pdp11"))],
                  ["--header", "out.h"], ["--depfile", "out.d"], ["--inputs", "out.in"],
                  ["--check-requires"], ["--no-assemble"], ["-O", pick.choice("012")], kernel],
    }
    if command == "check" and pick.random() < 0.02:
        tables["check"] = [["--dump", "ast"]] * 9
    chosen = [word for option in tables[command] if pick.random() < 0.15 for word in option]
    if pick.random() < 0.1:
        chosen += ["--diagnostics=json"]
    if command == "test":
        chosen += ["--timeout", "20"]
    if command == "build":
        kinds = ("obj", "asm", "llvm", "ir", "header", "ptx", "hsaco", "depfile")
        chosen += ["-o", "out.o", "--no-assemble"]
        chosen += ["--emit", pick.choice(kinds)] if pick.random() < 0.4 else []
    if command == "run":
        for name in re.findall(r"(\w+)\s*:\s*(?:in|out|inout|symm|i32|i64|f32)\b", text)[:6]:
            if pick.random() < 0.5:
                chosen += ["--arg", f"{name}={array(pick, f'{name}.npy')}"]
            elif pick.random() < 0.5:
                chosen += ["--arg", f"{name}={pick.choice(NUMBERS)}"]
            else:
                chosen += ["--out", f"{name}=out-{name}@rank.npy"]
    chosen += constants(pick, text) if command != "fmt" else []
    words = [command, *chosen]
    words.insert(pick.choice((len(words), 1)), file)
    if pick.random() < 0.03:
        words.insert(pick.randrange(len(words) + 1),
                     pick.choice(NUMBERS + ["--", "-", "", "--x=\udcff", "@f"]))
    return words


# ---- Runs ----

def limit():
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 5))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))


def broken(words, status, out, err, before, folder):
    """What a run has broken of what every run keeps, or nothing."""
    said = (out + err).decode(errors="replace")
    if status is None:
        return "does not end"
    if status < 0:
        name = signal.Signals(-status).name
        return f"signal {name}"
    if BUG.search(err.decode(errors="replace")):
        return "failed internal check"
    if status > 3 or (status == 3 and words[0] != "check"):
        return f"exit status {status}"
    if status in (1, 2) and not said.strip():
        return "no message"
    if status == 1 and words[0] in LIMITED and "--diagnostics=json" not in words and \
            not re.search(r"\[[EW]\d{4}\]|FAIL|failed|differs|would be|is not formatted", said):
        return "a message without a code"
    made = set(os.listdir(folder)) - before
    if status != 0 and any(name.startswith("out") for name in made) and words[0] == "build":
        return "partial output"
    if any(TEMPORARY.search(name) for name in made):
        return "a temporary file stays"
    # Of several architectures each has its own: out.sm_90a.o.
    if status == 0 and words[0] == "build" and "-o" in words and \
            not any(name.startswith("out") for name in made) and \
            "--version" not in words and "--help" not in words:
        return "no output"
    return None


def case(dtilec, seed, number, corpora, folder):
    """Runs a case in a new folder; its command, its status, what it broke, and what it said."""
    pick = random.Random(f"{seed}/{number}")
    programs, texts = corpora
    command = pick.choice(("check",) * 3 + ("build", "test", "run", "ir") * 2 + ("fmt", "explain"))
    is_ir = texts and pick.random() < {"ir": 0.7, "build": 0.1}.get(command, 0)
    path, text = mutate(pick, texts if is_ir else programs)
    file = "in.dtir" if is_ir else "in.dtile"
    os.makedirs(folder)
    os.chdir(folder)
    with open(file, "w", encoding="utf-8", errors="surrogateescape", newline="") as out:
        out.write(text)
    words = options(pick, command, text, file)
    words = [word.replace("\0", "") for word in words]
    if command != "fmt":
        words += ["-I", os.path.dirname(path)]
    before = set(os.listdir("."))
    status, out, err = None, b"", b""
    started = time.monotonic()
    with subprocess.Popen([os.fsencode(word) for word in [dtilec, *words]],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          preexec_fn=limit, start_new_session=True) as process:
        try:
            out, err = process.communicate(timeout=10 * CPU_SECONDS)
            status = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
    what = broken(words, status, out, err, before, ".")
    return words, path, status, what, out, err, time.monotonic() - started


def one(job):
    dtilec, seed, number, corpora, found, is_shown = job
    folder = os.path.join(found, str(number))
    shutil.rmtree(folder, ignore_errors=True)
    words, path, status, what, out, err, took = case(dtilec, seed, number, corpora, folder)
    command = shlex.join([dtilec, *words]).encode(errors="surrogateescape").decode(errors="replace")
    if is_shown:
        print(f"of {path}\n{command}\n{out.decode(errors='replace')}{err.decode(errors='replace')}")
    if what:
        with open(os.path.join(folder, "said"), "wb") as file:
            file.write(f"{what}\n{command}\nof {path}\n".encode() + out + err)
    elif not is_shown:
        shutil.rmtree(folder)
    os.chdir(found)
    return number, command, status, what, took


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("dtilec")
    parser.add_argument("seconds", type=float)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--only", type=int)
    parser.add_argument("--found", default=os.path.join(tempfile.gettempdir(), "hunt"))
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    found = os.path.abspath(given.found)
    os.makedirs(found, exist_ok=True)
    dtilec = os.path.abspath(given.dtilec)
    os.environ["TMPDIR"] = os.environ.get("TMPDIR", tempfile.gettempdir())
    corpora = corpus()
    if given.only is not None:
        what = one((dtilec, given.seed, given.only, corpora, found, True))[3]
        print(what or "nothing is broken")
        return 1 if what else 0
    print(f"seed {given.seed}, {len(corpora[0])} programs, {len(corpora[1])} IR texts", flush=True)
    end = time.monotonic() + given.seconds
    counts, statuses, number, slowest = {}, {}, 0, 0.0
    with concurrent.futures.ProcessPoolExecutor(given.jobs) as pool:
        while time.monotonic() < end:
            jobs = [(dtilec, given.seed, number + i, corpora, found, False)
                    for i in range(8 * given.jobs)]
            number += len(jobs)
            for which, command, status, what, took in pool.map(one, jobs):
                statuses[str(status)] = statuses.get(str(status), 0) + 1
                slowest = max(slowest, took)
                if what:
                    counts[what] = counts.get(what, 0) + 1
                    print(f"case {which}: {what}: {command}", flush=True)
    print(f"{number} cases, by exit status: {statuses}; the slowest took {slowest:.0f} s; broken: "
          f"{', '.join(f'{what} {n}' for what, n in sorted(counts.items())) or 'nothing'}")
    return 1 if counts else 0


if __name__ == "__main__":
    sys.exit(main())
