#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# From a fresh clone to a first run: installs what is needed, builds dtilec, and runs an AllGather
# followed by a GEMM, overlapped, on four ranks, comparing the result with its reference.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

"$root/scripts/setup.sh" build
# Tests want more than was installed. Who has built them already keeps them.
[[ -f $build/CMakeCache.txt ]] || configuration=(-D DTILE_BUILD_TESTS=OFF)
configure_and_build release dtilec

cd "$root"
exec "$build/bin/dtilec" test examples/ag_gemm/ag_gemm.dtile --ranks 4
