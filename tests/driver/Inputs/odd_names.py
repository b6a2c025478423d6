"""Builds under odd names: odd_names.py DTILEC PROGRAM CC INCLUDES FOLDER."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

dtilec, program, compiler, includes, folder = sys.argv[1:]
os.chdir(folder)
text = open(program, "rb").read()
NAMES = [b"a%b", b"%%%%%%", b"it's", b'"q"', b"a b", b"new\nline", b"-dash", b"$HOME", b"#x", b"a:b",
         b"a;b", b"\xff\xfe", b"\xc3\xa9", b"*", b"[x]", b"~", b"a\\b", b"n" * 250]


def run(*arguments, **more):
    return subprocess.run([dtilec, *arguments], capture_output=True, check=False, **more)


def files():
    return {os.path.join(at, name) for at, _, names in os.walk(b".") for name in names}


def all_of(what, good):
    bad = [name for name in NAMES if not good(name)]
    print(what + ":", bad or "all")


def outputs(name):
    os.makedirs(b"out/" + name)
    source = b"./out/" + name + b"/" + name[:240] + b".dtile"
    with open(source, "wb") as file:
        file.write(text)
    made = b"out/" + name + b"/" + name[:240]
    result = run("build", source, b"-o", made + b".o", b"--header", made + b".h", b"--inputs", made + b".in")
    return (result.returncode == 0 and os.path.getsize(made + b".o") > 0 and
            open(made + b".in", "rb").read() == b"+" + source + b"\0" and
            subprocess.run([compiler, "-fsyntax-only", "-x", "c", "-I", os.path.join(folder, "inc"),
                            b"./" + made + b".h"], check=False).returncode == 0)


def temporary(name):
    os.makedirs(b"tmp/" + name)
    env = dict(os.environb)
    env[b"TMPDIR"] = b"tmp/" + name
    return run("build", program, "--target", "amdgpu", "-o", "x.o", env=env).returncode == 0


os.makedirs("inc/dtile")
for header in ("dtile.h", "kernel_abi.h"):
    shutil.copy(os.path.join(includes, header), "inc/dtile")
all_of("outputs", outputs)
all_of("TMPDIR", temporary)
print("nothing left over:", not [f for f in files() if b".tmp" in f or f.startswith(b"./tmp")])


def as_json(name):
    missing = run("check", b"./no/" + name, "--diagnostics=json")
    with open(b"bad.dtile" + name[:200], "wb") as file:
        file.write(b"kernel \xff")
    wrong = run("check", b"bad.dtile" + name[:200], "--diagnostics=json")
    return all(r.returncode == 1 and json.loads(r.stderr.decode()) for r in (missing, wrong))


all_of("messages as JSON", as_json)

for i, name in enumerate((b"k-1.h", b"k_1.h", b"k 1.h", b"k%1.h")):
    run("build", program, "-o", "x.o", b"--header", name)
guards = {[line for line in open(name, "rb") if line.startswith(b"#define")][0]
          for name in (b"k-1.h", b"k_1.h", b"k 1.h", b"k%1.h")}
print("headers of different names together:", len(guards) == 4)

REFUSED = (b'"', b"'", b";", b"*", b"\n")


def depfile(name):
    source = b"./" + name[:200] + b".dtile"
    with open(source, "wb") as file:
        file.write(text)
    result = run("build", source, "-o", "x.o", "--depfile", "x.d")
    if any(part in name for part in REFUSED):
        return result.returncode == 1 and b"a depfile cannot name" in result.stderr
    if result.returncode != 0:
        return False
    with open("Makefile", "wb") as file:
        file.write(b"x.o:\n\t@touch x.o\n-include x.d\n")
    if not shutil.which("make"):
        return True
    os.utime(source, (1000, 1000))
    before = subprocess.run(["make", "-q", "x.o"], stderr=subprocess.DEVNULL, check=False).returncode
    os.utime(source, (4e9, 4e9))
    after = subprocess.run(["make", "-q", "x.o"], stderr=subprocess.DEVNULL, check=False).returncode
    return (before, after) == (0, 1)


bad = [name for name in NAMES if any(part in name for part in REFUSED) and not depfile(name)]
print("depfiles that make and ninja cannot read:", bad or "refused")
NAMES = [name for name in NAMES if not any(part in name for part in REFUSED)]
all_of("others", depfile)

os.makedirs("bin")
with open("bin/ptxas", "w", encoding="utf-8") as file:
    file.write(f"#!/bin/sh\necho $$ > {folder}/pid\nsleep 1000\n")
os.chmod("bin/ptxas", 0o755)
os.makedirs("left")
env = dict(os.environ, PATH=f"{folder}/bin:{os.environ['PATH']}", TMPDIR=f"{folder}/left")
child = subprocess.Popen([dtilec, "build", program, "--target", "nvptx", "-o", "left/x.o"], env=env)
while not os.path.exists("pid") or not open("pid").read().strip():
    time.sleep(0.05)
pid = int(open("pid").read())
child.send_signal(signal.SIGKILL)
child.wait()
for _ in range(100):
    if not os.path.exists(f"/proc/{pid}") or "Z" in open(f"/proc/{pid}/stat").read().split(")")[1][:3]:
        break
    time.sleep(0.05)
else:
    print("ptxas lives on")
print("killed while ptxas hangs: ptxas gone,", os.listdir("left") or "nothing left over")
# What counts is the time of a processor that it takes, as others may be busy with something else.
with open("bin/ptxas", "w", encoding="utf-8") as file:
    file.write("#!/bin/sh\nwhile :; do :; done\n")
env["DTILE_PTXAS_TIMEOUT"] = "1"
result = run("build", program, "--target", "nvptx", "-o", "left/x.o", env=env)
print("a ptxas that hangs:", result.stderr.decode().split("\n")[0], result.returncode)
