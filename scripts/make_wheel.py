#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes the wheel of what was built: compiler, runtime, Python package, kernels. Nothing but
Python's standard library, and no network.

    make_wheel.py --dtilec FILE --runtime FILE --out FOLDER [--arch ARCH[,ARCH…]] [--only NAME…]
                  [--most-bytes N]

`--arch`: kernels of dtile.ops are built ahead of time for these (sm_80, gfx942, …), with `--only`
those of these programs and types (all_gather-f32). The programs that go into the wheel are checked
by symbol_versions.py first; one that does not run everywhere is refused. The same inputs give the
same bytes."""

import argparse
import base64
import csv
import hashlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
import zipfile
import zlib

import symbol_versions

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
PACKAGE = os.path.join(ROOT, "backend", "runtime", "python", "dtile")
TAG = "py3-none-manylinux_2_36_x86_64"
# Zip knows no earlier time; with one for all, the same inputs give the same bytes.
TIME = (1980, 1, 1, 0, 0, 0)
# Of each kernel and architecture. An AllGather-GEMM for four architectures has 1.3 MB then, and 3.0
# MB with the ten that dtilec makes otherwise.
VARIANTS = 4
# Of programs that have many kernels under one name.
FEWER_VARIANTS = {"gemm_ar/gemm_ar": 3}
# Programs that are built ahead of time for some element types only, to keep the wheel small; those
# for others are built where they are used.
SOME_TYPES = {"row_scaled_overlaps/row_scaled_overlaps": ("bf16",),
              "ag_gemm/any_rows": ("bf16", "f16"),
              "gemm_rs/gemm_rs": ("bf16", "f16"),
              "gemm_ar/gemm_ar": ("bf16", "f16")}
MOST_BYTES = 60_000_000


def read(*path):
    with open(os.path.join(*path), "rb") as file:
        return file.read()


def version():
    text = read(ROOT, "CMakeLists.txt").decode()
    return re.search(r"project\(dtile VERSION ([0-9.]+)", text).group(1)


def check_everywhere(path):
    """A program of the wheel has to run where its tag says."""
    wrong = symbol_versions.problems(path)
    if wrong:
        raise SystemExit("\n".join(f"{path} {line}" for line in wrong) +
                         "\nbuild it with the preset static-stripped, on Debian 12")


def check_abi():
    """The package and the headers are of one version."""
    header = read(ROOT, "backend", "runtime", "kernel_abi.h").decode()
    package = read(PACKAGE, "_abi.py").decode()
    there = re.search(r"define DTILE_ABI_VERSION (\d+)", header).group(1)
    here = re.search(r"^ABI_VERSION = (\d+)", package, re.MULTILINE).group(1)
    if there != here:
        raise SystemExit(f"the package has version {here} of the ABI, but kernel_abi.h {there}")


def run(command):
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if result.returncode != 0:
        raise SystemExit(f"{shlex.join(command)} failed with {result.returncode}:\n"
                         f"{result.stdout.decode(errors='replace')}")


def programs():
    """What the package needs, by path under examples/: programs that are built ahead of time, and
    those that are built where they are used; and the element types of the former."""
    # The table alone: the package itself opens the runtime.
    table = {}
    text = read(PACKAGE, "_programs.py").decode()
    exec(re.search(r"^PROGRAMS = \{.*?^\}", text, re.DOTALL | re.MULTILINE).group(0), table)
    exec(re.search(r"^CONFIGURED = \{.*?^\}", text, re.DOTALL | re.MULTILINE).group(0), table)
    exec(re.search(r"^TYPES = .*$", text, re.MULTILINE).group(0), table)
    of = {name: sorted({program for program, _ in table[name].values()})
          for name in ("PROGRAMS", "CONFIGURED")}
    return of["PROGRAMS"], of["CONFIGURED"], table["TYPES"]


def packed(entries):
    """Bytes that these take in the wheel, nearly."""
    return sum(len(zlib.compress(data, 9)) for _, data, _ in entries)


def check_size(size, most, what):
    if size > most:
        raise SystemExit(f"{what} {size / 1e6:.1f} MB; at most {most / 1e6:.1f} are wanted: build "
                         "kernels for fewer --arch")


def build_kernels(options, folder, room):
    """The shared objects of all programs and types; each has code for all architectures. Ends where
    they do not fit in the room that the wheel has left: building all takes long."""
    architectures = options.arch.split(",")
    compiler = shlex.split(os.environ.get("CC") or "cc")
    targets = [target for target, prefix in (("nvptx", "sm_"), ("amdgpu", "gfx"))
               if any(arch.startswith(prefix) for arch in architectures)]
    made = []
    size = 0
    sources, _, types = programs()
    for program in sources:
        for dtype in SOME_TYPES.get(program, types):
            name = f"lib{os.path.basename(program)}-{dtype}.so"
            if options.only and name[len("lib"):-len(".so")] not in options.only:
                continue
            built = os.path.join(folder, name)
            run([options.dtilec, "build", os.path.join(ROOT, "examples", program + ".dtile"),
                 "--target", ",".join(targets), "--arch", ",".join(architectures),
                 "--const", f"T={dtype}",
                 "--variants", str(FEWER_VARIANTS.get(program, VARIANTS)),
                 # Machine code beside PTX would double the kernels; the driver makes it of PTX at
                 # the first load, and keeps it.
                 "--no-assemble",
                 "--file-prefix-map", f"{os.path.abspath(ROOT)}/=", "-o", built + ".o"])
            run([*compiler, "-shared", "-Wl,-s", "-o", built, built + ".o"])
            check_everywhere(built)
            made.append((f"dtile/kernels/{name}", read(built), 0o755))
            size += packed(made[-1:])
            print(f"{name}: {packed(made[-1:]) / 1e6:.1f} MB, of {len(architectures)} "
                  "architectures", flush=True)
            check_size(size, room, f"with {name}, kernels have")
    return made


METADATA = """\
Metadata-Version: 2.1
Name: dtile
Version: {version}
Summary: A tile language for overlapped multi-device kernels: compiler, runtime, PyTorch operations
License: Apache-2.0 WITH LLVM-exception
License-File: LICENSE
License-File: THIRD-PARTY-NOTICES.txt
Requires-Python: >=3.9
Description-Content-Type: text/markdown

{readme}"""

WHEEL = """\
Wheel-Version: 1.0
Generator: make_wheel.py
Root-Is-Purelib: false
Tag: {tag}
"""

ENTRY_POINTS = """\
[console_scripts]
dtilec = dtile._compiler:main
"""


def contents(options):
    """What is in the wheel but its record: name, bytes, mode."""
    info = f"dtile-{version()}.dist-info"
    # Links of the page lead into the repository.
    readme = re.sub(r"\[([^\]]*)\]\((?!http)[^)]*\)", r"\1",
                    read(PACKAGE, "..", "README.md").decode())
    entries = [(f"dtile/{name}", read(PACKAGE, name), 0o644)
               for name in sorted(os.listdir(PACKAGE)) if name.endswith(".py")]
    entries += [("dtile/bin/dtilec", read(options.dtilec), 0o755),
                ("dtile/libdtile_rt.so", read(options.runtime), 0o755)]
    entries += [(f"dtile/include/dtile/{name}", read(ROOT, "backend", "runtime", name), 0o644)
                for name in ("dtile.h", "kernel_abi.h")]
    entries += [(f"dtile/programs/{program}.dtile", read(ROOT, "examples", program + ".dtile"),
                 0o644) for program in programs()[0] + programs()[1]]
    if options.arch:
        with tempfile.TemporaryDirectory() as folder:
            entries += build_kernels(options, folder, options.most_bytes - packed(entries))
    entries += [(f"{info}/licenses/{name}", read(ROOT, name), 0o644)
                for name in ("LICENSE", "THIRD-PARTY-NOTICES.txt")]
    entries += [
        (f"{info}/METADATA", METADATA.format(version=version(), readme=readme).encode(), 0o644),
        (f"{info}/WHEEL", WHEEL.format(tag=TAG).encode(), 0o644),
        (f"{info}/entry_points.txt", ENTRY_POINTS.encode(), 0o644)]
    return entries, f"{info}/RECORD"


def record(entries, name):
    """A line a file: name, hash, bytes; without them for itself."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    for path, data, _ in entries:
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.writerow((path, f"sha256={digest}", len(data)))
    lines.writerow((name, "", ""))
    return text.getvalue().encode()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dtilec", required=True)
    parser.add_argument("--runtime", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--arch", default="")
    parser.add_argument("--only", action="append")
    parser.add_argument("--most-bytes", type=int, default=MOST_BYTES)
    options = parser.parse_args()
    for path in (options.dtilec, options.runtime):
        if not os.path.isfile(path):
            raise SystemExit(f"there is no file {path}")
        check_everywhere(path)
    sources, _, types = programs()
    known = [f"{os.path.basename(program)}-{dtype}" for program in sources
             for dtype in SOME_TYPES.get(program, types)]
    for name in options.only or ():
        if name not in known:
            raise SystemExit(f"--only {name}: there are {', '.join(known)}")
    check_abi()
    entries, name = contents(options)
    entries.append((name, record(entries, name), 0o644))
    os.makedirs(options.out, exist_ok=True)
    path = os.path.join(options.out, f"dtile-{version()}-{TAG}.whl")
    with zipfile.ZipFile(path + ".new", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for entry, data, mode in entries:
            one = zipfile.ZipInfo(entry, TIME)
            one.compress_type = zipfile.ZIP_DEFLATED
            # A regular file of Unix.
            one.create_system = 3
            one.external_attr = (0o100000 | mode) << 16
            wheel.writestr(one, data)
    try:
        check_size(os.path.getsize(path + ".new"), options.most_bytes, "the wheel would have")
    except SystemExit:
        os.unlink(path + ".new")
        raise
    os.replace(path + ".new", path)
    print(f"{path}: {os.path.getsize(path) / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
