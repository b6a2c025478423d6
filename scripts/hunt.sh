#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Runs dtilec for SECONDS (default 60) on programs, IR texts, constants and command lines of the
# tests, changed at random, and says which runs end by a signal, fail an internal check, give no
# message or leave parts of outputs. The seed is printed; the same seed gives the same cases.
#
#   scripts/hunt.sh [SECONDS] [--seed N] [--only CASE] [--jobs N]
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
seconds=60
if [[ ${1:-} =~ ^[0-9]+$ ]]; then
  seconds=$1
  shift
fi
[[ -x $build/bin/dtilec ]] || configure_and_build release dtilec
exec python3 "$root/tests/fuzz/hunt.py" "$build/bin/dtilec" "$seconds" --found "$build/hunt" "$@"
