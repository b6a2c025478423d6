# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""From a program to loaded kernels, with dtilec and the C compiler's linker."""

import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
import time

from . import _cache
from ._abi import DtileInvalid, DtileUnavailable, installed_prefix, string
from ._nvshmem import nvshmem_home
from .kernels import load


def _is_program(path):
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _find_compiler():
    named = os.environ.get("DTILEC")
    if named:
        if not _is_program(named):
            raise DtileUnavailable(f"DTILEC is {named}, which is no program; set it to the path of "
                                   "dtilec")
        return named
    package = os.path.dirname(os.path.abspath(__file__))
    here = os.path.dirname(package)
    beside = [os.path.join(package, "bin", "dtilec"), os.path.join(here, "dtilec"),
              os.path.join(here, "bin", "dtilec"),
              os.path.join(installed_prefix(), "bin", "dtilec")]
    for path in [*beside, shutil.which("dtilec")]:
        if path and _is_program(path):
            return path
    raise DtileUnavailable("dtilec is not found; put it into PATH or set DTILEC")


def _find_linker():
    """The C compiler as words of a command: CC may be `ccache gcc`."""
    named = os.environ.get("CC", "")
    if named.strip():
        # Also a path with blanks that nobody quoted.
        if _is_program(named):
            return [named]
        try:
            command = shlex.split(named)
        except ValueError as error:
            raise DtileInvalid(f"CC is `{named}`, which is no command: {error}") from None
        if not shutil.which(command[0]):
            raise DtileUnavailable(f"CC is `{named}`, and there is no program `{command[0]}`")
        return command
    for name in ("cc", "gcc", "clang"):
        if shutil.which(name):
            return [name]
    raise DtileUnavailable("no C compiler is found (cc, gcc, clang): install one, or set CC; it "
                           "links what dtilec makes")


def run(command):
    try:
        result = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, check=False)
    except (OSError, ValueError) as error:
        raise DtileUnavailable(f"{command[0]} cannot be run: {error}") from None
    if result.returncode != 0:
        words = result.stdout.decode(errors="replace")
        raise DtileInvalid(f"{_shown(command)} failed with {result.returncode}:\n{words}")


def _shown(command):
    """As a shell takes it; what is no text is shown as such."""
    return shlex.join(command).encode(errors="backslashreplace").decode()


def _shmem_flags(shmem):
    flags = ["--shmem", shmem]
    if shmem == "nvshmem":
        home = nvshmem_home()
        if not home:
            raise DtileUnavailable("NVSHMEM is not found: install its package (pip install "
                                   "nvidia-nvshmem-cu13, or -cu12), or set DTILE_NVSHMEM_HOME")
        flags += ["--nvshmem-home", home]
    return flags


def digest(*identity):
    return hashlib.sha256(repr(identity).encode()).hexdigest()[:16]


def _inputs(listed):
    """The files that were read, and those that would have been, were they there."""
    with open(listed, "rb") as file:
        entries = [os.fsdecode(entry) for entry in file.read().split(b"\0") if entry]
    return ([entry[1:] for entry in entries if entry[0] == "+"],
            [entry[1:] for entry in entries if entry[0] == "-"])


def _library(folder, name, identity, listed):
    """Where the library of a program is, by what all of its files hold; None before it is known
    which these are, when one is gone, or when one has come that is found before another."""
    try:
        read, absent = _inputs(listed)
        if any(map(os.path.isfile, absent)):
            return None
        texts = []
        for path in read:
            with open(path, "rb") as file:
                texts.append(file.read())
    except OSError:
        return None
    return os.path.join(folder, f"lib{name}-{digest(identity, read, absent, texts)}.so")


def _text(value):
    """A value of a generic parameter, as dtilec reads it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def command_for(what, source, target, arch, constants):
    """A command of the compiler for a program."""
    # A path, also where it begins like an option.
    program = os.path.join(".", source) if source.startswith("-") else source
    command = [_find_compiler(), what, program, "--target", target]
    if arch:
        command += ["--arch", arch]
    for name, value in sorted(constants.items()):
        command += ["--const", f"{name}={_text(value)}"]
    return command


def folder_for(folder):
    """Where what is built is kept: a folder that the user named, or this user's own."""
    if not folder:
        return _cache.own_folder()
    folder = os.path.abspath(os.fsdecode(folder))
    os.makedirs(folder, exist_ok=True)
    _cache.check_folder(folder, is_own=False)
    return folder


def stem_of(source):
    """The name of a program for files; names have 255 bytes at most."""
    return os.fsdecode(os.fsencode(os.path.splitext(os.path.basename(source))[0])[:200])


def build(source, target="nvptx", arch=None, folder=None, flags=(), shmem=None, sizes=(),
          **constants):
    """Compiles a program and loads it. `constants` are generic parameters, as BM=64; `shmem` is who
    carries bytes between GPUs (p2p, nvshmem); `sizes` are the launches to choose variants for, as
    "M=1..8192,N=4096,K=4096", or a list of such. What was built from the same source by the same
    compiler is used again."""
    source = os.fsdecode(source)
    linker = _find_linker()
    command = command_for("build", source, target, arch, constants)
    compiler = command[0]
    if shmem:
        command += _shmem_flags(shmem)
    sizes = (sizes,) if isinstance(sizes, str) else tuple(sizes)
    for launch in sizes:
        string(launch, "a launch of `sizes`")
        command += ["--sizes", launch]
    command += list(flags)
    inputs = [compiler]
    if shmem == "nvshmem":
        inputs.append(os.path.join(nvshmem_home(), "lib", "libnvshmem_device.bc"))
    stamps = [(stamp.st_size, stamp.st_mtime_ns) for stamp in map(os.stat, filter(os.path.exists,
                                                                                 inputs))]
    identity = (command, linker, stamps)
    is_own = not folder
    request = {"source": source, "target": target, "arch": arch, "folder": folder,
               "flags": tuple(flags), "shmem": shmem, "sizes": sizes, **constants}
    folder = folder_for(folder)
    name = stem_of(source)
    # What the program imported when it was built last says what belongs to its identity.
    known = os.path.join(folder, f"{name}-{digest(identity, os.getcwd())}.inputs")
    library = _library(folder, name, identity, known)
    seen = None
    while not library or not os.path.exists(library):
        # Other ranks may be building the same.
        with tempfile.TemporaryDirectory(prefix="build-", dir=folder) as own:
            made, listed = os.path.join(own, "made"), os.path.join(own, "made.inputs")
            before = time.time_ns()
            run(command + ["-o", made + ".o", "--inputs", listed])
            times = [os.stat(path).st_mtime_ns for path in _inputs(listed)[0]]
            if times != seen and max(times) > before:
                # Written meanwhile, so this may be neither the old program nor the new one; or its
                # clock is ahead, and the next time it is as it was.
                seen = times
                continue
            library = _library(folder, name, identity, listed)
            if not library:
                raise DtileInvalid(f"a file of {source} has gone or come while it was built")
            run(linker + ["-shared", "-o", made + ".so", made + ".o"])
            for path, place in ((made + ".so", library), (listed, known)):
                os.chmod(path, 0o755 if place is library else 0o644)
                os.replace(path, place)
    if not _cache.is_trusted(library):
        raise DtileInvalid(f"{library} could have been written by others; remove it")
    try:
        # It is in use: what was not used for long is thrown away.
        os.utime(library)
        os.utime(known)
    except OSError:
        pass
    if is_own:
        _cache.clean(folder, library)
    loaded = load(library)
    # dtile.tune builds the same again.
    loaded._request = request
    return loaded
