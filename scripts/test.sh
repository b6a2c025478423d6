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

status=0
rm -f "$build/tests/lit.xml" "$build/ctest.xml"
ctest --test-dir "$build" --output-on-failure --parallel "$jobs" \
  --output-junit "$build/ctest.xml" "$@" || status=$?
/usr/bin/python3 "$root/tests/summarize_results.py" "$build/ctest.xml" "$build/tests/lit.xml" \
  || status=1
exit "$status"
