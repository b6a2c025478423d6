# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Launch kernels that dtilec compiled, on PyTorch tensors. README.md beside it shows how."""

from ._abi import (DtileDeadlock, DtileError, DtileInvalid, DtileOutOfMemory, DtileTimeout,
                   DtileTrap, DtileUnavailable)
from .build import build
from .kernels import Kernel, Library, load
from .team import Team
from .tune import tune

__all__ = [
    "DtileDeadlock", "DtileError", "DtileInvalid", "DtileOutOfMemory", "DtileTimeout", "DtileTrap",
    "DtileUnavailable", "Kernel", "Library", "Team", "build", "load", "tune",
]
