#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Kernels compiled with NVSHMEM's device bitcode on the GPUs of this machine, one process each,
# checked against PyTorch on random data, beside the same kernels compiled with p2p. A table at the
# end; exits with 1 when anything was wrong.
#
# NVSHMEM is that of the package nvidia.nvshmem, or of $DTILE_NVSHMEM_HOME; the package `dtile` is
# found through PYTHONPATH, its library through $DTILE_RT or beside it.
#
# usage: tests/gpu/nvshmem.sh [DTILEC [RANKS]]     default: dtilec from PATH, 2
set -u

root=$(cd "$(dirname "$0")/../.." && pwd)
export DTILEC="${1:-${DTILEC:-$(command -v dtilec)}}"
export PYTHONPATH="${PYTHONPATH:-$root/backend/runtime/python}"
# Multicast objects of a program that dies can put GPUs out of service.
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1
exec timeout 590 torchrun --standalone --nproc-per-node "${2:-2}" "$root/tests/gpu/nvshmem_check.py"
