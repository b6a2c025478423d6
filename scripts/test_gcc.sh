#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The second configuration that changes are held to: GCC 12 in place of clang, in a build tree of
# its own. Builds everything and runs every test; fails where one fails or the compiler warns.
#
#   scripts/test_gcc.sh [--build-only TARGET…]
#
# --build-only builds the targets (all where none is named) and runs nothing. The build tree is
# build-gcc, or $DTILE_GCC_BUILD_DIR. lit's tests are filtered by LIT_FILTER.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
build=${DTILE_GCC_BUILD_DIR:-$root/build-gcc}

run=1
if [[ ${1:-} == --build-only ]]; then
  run=0
  shift
elif (($# > 0)); then
  echo "test_gcc.sh: usage: scripts/test_gcc.sh [--build-only TARGET…]" >&2
  exit 2
fi

"$root/scripts/setup.sh" test gcc
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export CC=gcc-12 CXX=g++-12
# Without precompiled headers, so that sources include what they use.
configuration=(-D DTILE_BUILD_TESTS=ON -D DTILE_PRECOMPILED_HEADERS=OFF)
configure_and_build release "$@" 2>&1 | tee "$log"

status=0
warnings=$(grep -cE '(^|[^[:alnum:]])warning: ' "$log" || true)
if ((warnings > 0)); then
  echo "test_gcc.sh: GCC warned $warnings times" >&2
  status=1
fi
if ((run)); then
  run_tests || status=1
fi
exit "$status"
