#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Runs the tests of examples and of the library as OpenSHMEM processes of two hosts, which are
# network namespaces of this machine: ranks of different hosts reach each other by TCP alone.
#
#   scripts/test_two_hosts.sh [RANKS_A_HOST [FILE…]]     default: 2, and all of them
#
# One line a file, with what passed and the bytes that went from one host to the other. Exits with 1
# where a test fails, and with 77 where namespaces are not permitted. A file without a test of as
# many ranks is left out. DTILEC is the program, else that of build/bin.
set -euo pipefail

source=$(cd "$(dirname "$0")/.." && pwd)
dtilec=${DTILEC:-$source/build/bin/dtilec}
ranks=${1:-2}
if (($# > 1)); then
  files=("${@:2}")
else
  files=("$source"/examples/*/*.dtile "$source"/stdlib/*.dtile)
fi
# All ranks share this machine's memory.
export SHMEM_SYMMETRIC_SIZE=${SHMEM_SYMMETRIC_SIZE:-64M} TWO_HOSTS_COUNT=1

failures=0
for file in "${files[@]}"; do
  file=$(realpath "$file")
  code=0
  output=$("$source/tests/tools/two_hosts.sh" "$ranks" "$dtilec" test "$file" 2>&1) || code=$?
  if ((code == 77)); then
    echo "$output" >&2
    exit 77
  fi
  name=${file#"$source/"}
  if ((code == 0)); then
    echo "$name: $(grep -E '^[0-9]+ passed' <<<"$output"), $(tail -n 1 <<<"$output")"
  elif grep -qE 'E0714|E0715' <<<"$output"; then
    echo "$name: no test of $((2 * ranks)) ranks"
  else
    echo "$name: FAILED"
    echo "$output"
    failures=1
  fi
done
exit "$failures"
