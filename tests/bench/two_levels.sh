#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Times collectives of two hosts with four ranks each, between which a packet takes 100 µs, and a
# second has room for 1 Gbit: flat ones, and beside the fastest of them the one of two levels.
#
#   tests/bench/two_levels.sh [MICROSECONDS [MEGABITS]]
#
# Hosts are network namespaces; it needs root, oshrun and cc. Takes three minutes. DTILEC is the
# program, else that of build/bin. Exits with 1 where two levels gain less than twice, with 77 where
# namespaces are not permitted.
set -euo pipefail

source=$(cd "$(dirname "$0")/../.." && pwd)
export TWO_HOSTS_WIRE="${1:-100} ${2:-1000}" SHMEM_SYMMETRIC_SIZE=${SHMEM_SYMMETRIC_SIZE:-64M}
output=$("$source/tests/tools/two_hosts.sh" 4 "${DTILEC:-$source/build/bin/dtilec}" test --bench \
  "$source/tests/bench/two_levels.dtile" | tee >(cat >&2))
# A line `PASS FILE: NAME, flat (8 ranks)`, a heading, and the row with the median.
awk '
  /^PASS/ {
    sub(/^[^:]*: /, "")
    sub(/ \(8 ranks\).*/, "")
    split($0, words, ", ")
    next
  }
  match($0, /[0-9.]+ (ms|us) /) {
    split(substr($0, RSTART, RLENGTH), median, " ")
    time = median[2] == "us" ? median[1] / 1000 : median[1]
    if (words[2] == "flat") {
      flat = flat == 0 || time < flat ? time : flat
      next
    }
    printf "%s: flat %.1f ms, two-level %.1f ms, %.1f times\n", words[1], flat, time, flat / time
    missed += flat < 2 * time
    ++pairs
    flat = 0
  }
  END { exit missed != 0 || pairs == 0 }
' <<<"$output"
