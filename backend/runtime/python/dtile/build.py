# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""From a program to loaded kernels, with dtilec and the C compiler's linker."""

import hashlib
import os
import re
import shutil
import stat
import subprocess
import tempfile
import time

from ._abi import DtileInvalid, DtileUnavailable
from ._nvshmem import nvshmem_home
from .kernels import load


def _find_compiler():
    named = os.environ.get("DTILEC")
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    beside = [os.path.join(here, "dtilec"), os.path.join(here, "bin", "dtilec")]
    for path in [named, *beside, shutil.which("dtilec")]:
        if path and os.path.exists(path):
            return path
    raise DtileUnavailable("dtilec is not found; put it into PATH or set DTILEC")


def _run(command):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        raise DtileInvalid(f"{' '.join(command)} failed:\n{result.stdout}{result.stderr}")


def _shmem_flags(shmem):
    flags = ["--shmem", shmem]
    if shmem == "nvshmem":
        home = nvshmem_home()
        if not home:
            raise DtileUnavailable("NVSHMEM is not found: install its package (pip install "
                                   "nvidia-nvshmem-cu13, or -cu12), or set DTILE_NVSHMEM_HOME")
        flags += ["--nvshmem-home", home]
    return flags


def _own_folder():
    """A folder for what was built that nobody else can write to."""
    folder = os.path.join(tempfile.gettempdir(), f"dtile-{os.getuid()}")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    state = os.lstat(folder)
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.getuid() or state.st_mode & 0o022:
        raise DtileInvalid(f"{folder} could be written to by others; remove it, or name another "
                           "folder: dtile.build(source, folder=...)")
    return folder


def _digest(*identity):
    return hashlib.sha256(repr(identity).encode()).hexdigest()[:16]


def _dependencies(depfile):
    """The files that a rule of make names behind its colon."""
    with open(depfile, encoding="utf-8") as file:
        rule = file.read().replace("\\\n", " ")
    names = re.findall(r"(?:\\.|\$\$|\S)+", rule)[1:]
    return [re.sub(r"\\(.)", r"\1", name).replace("$$", "$") for name in names]


def _library(folder, name, command, stamps, depfile):
    """Where the library of a program is, by what all of its files hold; None before it is known
    which these are, or when one is gone."""
    try:
        texts = []
        for path in _dependencies(depfile):
            with open(path, "rb") as file:
                texts.append(file.read())
    except OSError:
        return None
    return os.path.join(folder, f"lib{name}-{_digest(command, stamps, texts)}.so")


def build(source, target="nvptx", arch=None, folder=None, flags=(), shmem=None, **constants):
    """Compiles a program and loads it. `constants` are generic parameters, as BM=64; `shmem` is who
    carries bytes between GPUs (p2p, nvshmem). What was built from the same source by the same
    compiler is used again."""
    compiler = _find_compiler()
    command = [compiler, "build", source, "--target", target]
    if arch:
        command += ["--arch", arch]
    for name, value in sorted(constants.items()):
        command += ["--const", f"{name}={value}"]
    if shmem:
        command += _shmem_flags(shmem)
    command += list(flags)
    inputs = [compiler]
    if shmem == "nvshmem":
        inputs.append(os.path.join(nvshmem_home(), "lib", "libnvshmem_device.bc"))
    stamps = [(stamp.st_size, stamp.st_mtime_ns) for stamp in map(os.stat, filter(os.path.exists,
                                                                                 inputs))]
    folder = folder or _own_folder()
    os.makedirs(folder, exist_ok=True)
    name = os.path.splitext(os.path.basename(source))[0]
    # What the program imported when it was built last says what belongs to its identity.
    known = os.path.join(folder, f"{name}-{_digest(command, stamps)}.d")
    library = _library(folder, name, command, stamps, known)
    seen = None
    while not library or not os.path.exists(library):
        # Other ranks may be building the same.
        with tempfile.TemporaryDirectory(prefix=name + "-", dir=folder) as own:
            made, rule = os.path.join(own, "made"), os.path.join(own, "made.d")
            before = time.time_ns()
            _run(command + ["-o", made + ".o", "--depfile", rule])
            times = [os.stat(path).st_mtime_ns for path in _dependencies(rule)]
            if times != seen and max(times) > before:
                # Written meanwhile, so this may be neither the old program nor the new one; or its
                # clock is ahead, and the next time it is as it was.
                seen = times
                continue
            library = _library(folder, name, command, stamps, rule)
            if not library:
                raise DtileInvalid(f"a file of {source} has gone while it was built")
            _run([os.environ.get("CC", "cc"), "-shared", "-o", made + ".so", made + ".o"])
            os.replace(made + ".so", library)
            os.replace(rule, known)
    return load(library)
