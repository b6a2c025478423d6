"""Builds programs whose file has an odd name, by the installed package:
kernels_with_odd_names.py CMAKE CXX PREFIX IMPORTS FOLDER. IMPORTS has a program and what it
imports.
"""

import os
import shutil
import subprocess
import sys

cmake, compiler, prefix, imports, folder = (os.fsencode(word) for word in sys.argv[1:])
WORK = [b"a b", b"50%", b"%%", b"-dash", b"[x](y){z}", b"@x@", b"~a,b+c!.d", b"\xc3\xa9",
        b"\xff\xfe"]
REFUSED = [b"a;b", b"it's", b"#x", b"$x", b"a[b", b"new\nline"]
HEAD = b"""cmake_minimum_required(VERSION 3.25)
project(odd LANGUAGES C CXX)
find_package(dtile REQUIRED)
"""


def put(path, content):
    with open(path, "wb") as file:
        file.write(content)


def output(*command, **more):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                          **more).stdout


def configure(source, generator, **more):
    return output(cmake, b"-S", source, b"-B", source + b"/build", b"-G", generator,
                  b"-DCMAKE_PREFIX_PATH=" + prefix, b"-DCMAKE_CXX_COMPILER=" + compiler, **more)


def programs(source):
    """A project with a program for each name."""
    os.mkdir(source)
    shutil.copy(imports + b"/factor.dtile", source)
    with open(imports + b"/main.c", "rb") as file:
        main = file.read()
    lists = HEAD
    for number, name in enumerate(WORK):
        shutil.copy(imports + b"/scale.dtile", source + b"/" + name + b".dtile")
        put(source + b"/main%d.c" % number, main.replace(b"scale.h", name + b".h"))
        lists += (b"add_executable(program%d main%d.c)\n"
                  b"dtile_add_kernels(program%d [==[%s.dtile]==])\n"
                  % (number, number, number, name))
    put(source + b"/CMakeLists.txt", lists)


def builds(generator):
    """All run, nothing is compiled twice, and all are compiled again with another constant in what
    they import."""
    source = folder + b"/" + generator.split()[0]
    programs(source)
    print(configure(source, generator).decode(errors="replace"), file=sys.stderr)
    for wanted, factor in (b"2 4 6\n", None), (b"3 6 9\n", b"const FACTOR = 3.0;\n"):
        if factor:
            put(source + b"/factor.dtile", factor)
        log = output(cmake, b"--build", source + b"/build", b"-j2")
        again = output(cmake, b"--build", source + b"/build")
        bad = [name for number, name in enumerate(WORK)
               if output(source + b"/build/program%d" % number) != wanted]
        if bad or log.count(b"Compiling") != len(WORK) or b"Compiling" in again:
            print(log.decode(errors="replace"), file=sys.stderr)
            return bad or "what is compiled is wrong"
    return "all"


for builder in (b"Ninja", b"Unix Makefiles"):
    print(builder.decode() + ": works:", builds(builder))

refusing = folder + b"/refused"
os.mkdir(refusing)
put(refusing + b"/CMakeLists.txt",
    HEAD + b"add_executable(program main.c)\ndtile_add_kernels(program \"$ENV{ODD_NAME}.dtile\")\n")
not_refused = []
for odd in REFUSED:
    said = configure(refusing, b"Ninja", env=dict(os.environb, ODD_NAME=odd))
    if b"do not agree on how to write" not in b" ".join(said.split()):
        not_refused.append(odd)
print("refused:", not_refused or "all")
