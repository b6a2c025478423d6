#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Builds the fuzzers and runs each for SECONDS (default 30) from its saved corpus. What a fuzzer
# finds lies in build-fuzz/found/<fuzzer>/; inputs worth keeping go to tests/fuzz/corpus/<fuzzer>/.
#
#   scripts/fuzz.sh [SECONDS] [FUZZER…]
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
build=${DTILE_FUZZ_BUILD_DIR:-$root/build-fuzz}
seconds=${1:-30}
shift || true

"$root/scripts/setup.sh" test sanitize
configure_and_build fuzz fuzzers

fuzzers=("$@")
if ((${#fuzzers[@]} == 0)); then
  for program in "$build"/fuzzers/*; do
    [[ -x $program && -f $program ]] && fuzzers+=("$(basename "$program")")
  done
fi

failed=()
for fuzzer in "${fuzzers[@]}"; do
  saved=$root/tests/fuzz/corpus/$fuzzer
  new=$build/corpus/$fuzzer
  found=$build/found/$fuzzer
  mkdir -p "$new" "$found"
  corpora=("$new")
  [[ -d $saved ]] && corpora+=("$saved")
  options=(-max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1
           -artifact_prefix="$found/")
  dictionary=$root/tests/fuzz/$fuzzer.dict
  [[ -f $dictionary ]] && options+=(-dict="$dictionary")
  echo "fuzz.sh: $fuzzer for $seconds s"
  if ! "$build/fuzzers/$fuzzer" "${options[@]}" "${corpora[@]}" >"$build/$fuzzer.log" 2>&1; then
    tail -n 60 "$build/$fuzzer.log"
    failed+=("$fuzzer")
  else
    grep -aE 'stat::(number_of_executed|new_units_added|peak_rss)' "$build/$fuzzer.log" || true
  fi
done

echo "fuzz.sh: $((${#fuzzers[@]} - ${#failed[@]})) of ${#fuzzers[@]} fuzzers found nothing"
((${#failed[@]} == 0))
