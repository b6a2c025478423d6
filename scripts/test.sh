#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# From a fresh clone to a verdict: installs what is needed, builds everything, runs every test. The
# last line counts what passed and what failed; the exit status is zero only if nothing failed.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

"$root/scripts/setup.sh" test
configuration=(-D DTILE_BUILD_TESTS=ON)
configure_and_build release

run_tests "$@"
