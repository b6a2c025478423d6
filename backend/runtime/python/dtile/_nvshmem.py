# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where NVSHMEM is installed: its device bitcode and its host library must be of one version."""

import importlib.util
import os


def nvshmem_home():
    """DTILE_NVSHMEM_HOME, or the folder of the package nvidia.nvshmem; None where there is
    neither."""
    named = os.environ.get("DTILE_NVSHMEM_HOME")
    if named:
        return named
    try:
        spec = importlib.util.find_spec("nvidia.nvshmem")
    except ModuleNotFoundError:
        return None
    folders = spec.submodule_search_locations if spec else None
    return list(folders)[0] if folders else None
