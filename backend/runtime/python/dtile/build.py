# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""From a program to loaded kernels, with dtilec and the C compiler's linker."""

import hashlib
import os
import shutil
import subprocess
import tempfile

from ._abi import DtileInvalid, DtileUnavailable
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


def build(source, target="nvptx", arch=None, folder=None, flags=(), **constants):
    """Compiles a program and loads it. `constants` are generic parameters, as BM=64. What was built
    from the same source by the same compiler is used again."""
    compiler = _find_compiler()
    command = [compiler, "build", source, "--target", target]
    if arch:
        command += ["--arch", arch]
    for name, value in sorted(constants.items()):
        command += ["--const", f"{name}={value}"]
    command += list(flags)
    with open(source, "rb") as file:
        text = file.read()
    stamp = os.stat(compiler)
    identity = repr((command, text, stamp.st_size, stamp.st_mtime_ns))
    key = hashlib.sha256(identity.encode()).hexdigest()[:16]
    folder = folder or os.path.join(tempfile.gettempdir(), f"dtile-{os.getuid()}")
    os.makedirs(folder, exist_ok=True)
    name = os.path.splitext(os.path.basename(source))[0]
    library = os.path.join(folder, f"lib{name}-{key}.so")
    if not os.path.exists(library):
        # Other ranks may be building the same.
        own = os.path.join(folder, f"{name}-{key}-{os.getpid()}")
        try:
            _run(command + ["-o", own + ".o"])
            _run([os.environ.get("CC", "cc"), "-shared", "-o", own + ".so", own + ".o"])
            os.replace(own + ".so", library)
        finally:
            for rest in (own + ".o", own + ".so"):
                if os.path.exists(rest):
                    os.unlink(rest)
    return load(library)
