# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# How lit finds and runs the tests: every .dtile, .dtir and .test file below this directory that has
# a RUN line. Run one with `ninja -C build check-lit` or
# `/usr/lib/llvm-22/bin/lit -v build/tests --filter=NAME`.

import os
import platform
import shutil
import subprocess
import sys

import lit.formats

config.name = "dtile"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".dtile", ".dtir", ".test"]
config.test_source_root = os.path.dirname(__file__)

# Not tests: what tests read, and what other programs run.
config.excludes = ["Inputs", "fuzz", "unit", "bench", "CMakeLists.txt"]

os.makedirs(config.test_exec_root, exist_ok=True)

# Open MPI refuses to start as root unless told twice, wants as many slots as ranks, and its default
# one-sided component crashes in shmem_finalize.
config.environment.update(
    {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_osc": "^rdma",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "SHMEM_SYMMETRIC_SIZE": "64M",
        "LC_ALL": "C.UTF-8",
    }
)
config.environment["PATH"] = os.pathsep.join(
    [config.dtile_bin_dir, config.llvm_tools_dir, os.environ.get("PATH", "/usr/bin:/bin")]
)
for name in ("HOME", "TMPDIR", "ASAN_OPTIONS", "UBSAN_OPTIONS", "CCACHE_DIR"):
    if name in os.environ:
        config.environment[name] = os.environ[name]

if lit_config.update_tests:
    sys.path.append(config.test_source_root)
    import update_messages

    config.environment["FILECHECK_OPTS"] = update_messages.FILECHECK_OPTS
    if update_messages.update not in lit_config.test_updaters:
        lit_config.test_updaters.append(update_messages.update)

config.substitutions.extend(
    [
        ("%dtilec", os.path.join(config.dtile_bin_dir, "dtilec")),
        ("%examples", os.path.join(config.dtile_source_dir, "examples")),
        ("%stdlib", os.path.join(config.dtile_source_dir, "stdlib")),
        ("%source", config.dtile_source_dir),
        ("%build", config.dtile_binary_dir),
        ("%tools", os.path.join(config.test_source_root, "tools")),
        ("%python", config.python),
        ("%cmake", config.cmake),
        ("%cxx", config.cxx),
        ("%cc", config.cc),
        ("%oshrun", config.oshrun),
        ("%ptxas", config.ptxas),
        ("%nvshmem", os.environ.get("DTILE_NVSHMEM_HOME", "")),
    ]
)


def openshmem_works():
    """Whether two ranks can be started and reach each other on this machine."""
    if not config.oshrun or not os.path.exists(config.shmem_probe):
        return False
    try:
        run = subprocess.run(
            [config.oshrun, "-n", "2", config.shmem_probe],
            env=dict(os.environ, **config.environment),
            capture_output=True,
            timeout=60,
        )
        return run.returncode == 0 and run.stdout.count(b"ok") == 2
    except (OSError, subprocess.SubprocessError):
        return False


if openshmem_works():
    config.available_features.add("openshmem")
if config.ptxas:
    config.available_features.add("ptxas")
# Instructions of the host are those of one kind of processor.
if platform.machine() == "x86_64":
    config.available_features.add("x86_64")
# One test edits in it.
if shutil.which("nvim"):
    config.available_features.add("neovim")
# A real one; other tests have theirs made.
if os.path.exists(
    os.path.join(os.environ.get("DTILE_NVSHMEM_HOME", ""), "lib", "libnvshmem_device.bc")
):
    config.available_features.add("nvshmem")
for sanitizer in config.sanitizers.split(","):
    if sanitizer:
        config.available_features.add(sanitizer)
lit_config.note("features: " + " ".join(sorted(config.available_features)))
