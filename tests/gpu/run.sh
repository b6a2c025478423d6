#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Every test on the GPUs of this machine: as they are, from graphs, with a late rank again and
# again, kernels that are broken on purpose, and (where it is found) under compute-sanitizer. One
# line a run; logs in $OUT or a new folder. Exits with 1 when anything failed.
#
# usage: tests/gpu/run.sh [DTILEC [REPEATS]]     default: dtilec from PATH, 100
set -u

root=$(cd "$(dirname "$0")/../.." && pwd)
dtilec=${1:-dtilec}
repeats=${2:-100}
out=${OUT:-$(mktemp -d)}
failed=0

run() {
  name=$1
  shift
  if timeout 590 "$@" >"$out/$name.log" 2>&1; then
    echo "ok      $name: $(tail -n 1 "$out/$name.log")"
  else
    echo "FAILED  $name: $(tail -n 1 "$out/$name.log")"
    failed=1
  fi
}

cd "$root" || exit 1
on="$dtilec test --target nvptx"
run plain $on examples stdlib
run products $on tests/driver/products_of_every_type.dtile
run odd_products $on tests/driver/products_in_odd_loops.dtile
run shared_products $on tests/driver/products_of_one_operand.dtile
run scaled_products $on tests/driver/products_with_scales.dtile
run sent_products $on tests/driver/products_sent_to_all.dtile
run few_rows $on --wait-timeout 3000 tests/driver/few_rows_a_rank.dtile
run picked_rows $on --executor all tests/driver/products_of_picked_rows.dtile
run edges $on --executor all tests/driver/choices_and_scatters_at_edges.dtile
run pages $on --executor all tests/driver/products_in_pages.dtile
run remainders $on tests/driver/remainders_and_turns.dtile
run last_rounds $on tests/driver/last_rounds_divided.dtile
run shifted_copies $on tests/driver/copies_between_bytes.dtile
# Bodies print in any order.
prints() {
  "$dtilec" test "$@" tests/driver/print_shows_values.dtile 2>&1 >/dev/null | sort
}
prints --target nvptx >"$out/prints.txt"
prints --executor interp >"$out/prints_wanted.txt"
run prints cmp "$out/prints.txt" "$out/prints_wanted.txt"
run traces sh tests/gpu/traces.sh "$dtilec" nvptx "$out"
python3 tests/gpu/random_products.py "${SEED:-$$}" 40 >"$out/random.dtile"
run random_products $on --executor all "$out/random.dtile"
run exponentials $on tests/driver/exponentials.dtile
run limits $on tests/driver/products_to_limits.dtile
run sums $on tests/driver/sums_of_rows.dtile tests/driver/sums_of_picked_rows.dtile
run words $on tests/driver/messages_of_words.dtile
run broken $on --wait-timeout 500 tests/gpu
run broken_graphs $on --graph --wait-timeout 500 tests/gpu
run graphs $on --graph examples tests/driver/messages_of_words.dtile
run late_words $on --ranks 2,4 --delay-rank 1 --repeat "$repeats" \
  tests/driver/messages_of_words.dtile
for example in hello all_gather reduce_scatter all_reduce all_reduce_norm all_to_all \
  all_to_all_gemm collectives cross_entropy ulysses two_level ring_all_reduce halving_all_reduce \
  tree_all_reduce barrier pipeline halo tp_mlp scaled_gemm_overlaps row_scaled_overlaps \
  int8_gemm_ar grouped_gemm_ar ulysses_attention causal_ulysses split_k_over_ranks mesh_gemm \
  gathered_attention moe_quantized moe_prefill moe_layer m2n moe_once causal_ring_attention \
  gemm_rs_add moe ag_gemm gemm_rs gemm_ar flash_decode paged_flash_decode ring_attention; do
  run "late_$example" $on --ranks 2,4 --delay-rank 1 --repeat "$repeats" "examples/$example"
done
if python3 -c "import torch" 2>/dev/null; then
  DTILEC=$(command -v "$dtilec")
  PYTHONPATH=${PYTHONPATH:-$root/backend/runtime/python}
  export DTILEC PYTHONPATH
  run turns python3 tests/gpu/turns_check.py 2
  run copy_engine python3 tests/gpu/copy_engine_check.py
  run tune python3 tests/gpu/tune_check.py --shapes 4 --seconds 40
fi
if command -v compute-sanitizer >/dev/null; then
  for tool in memcheck synccheck; do
    run "sanitizer_$tool" compute-sanitizer --tool "$tool" --error-exitcode 1 \
      $on --wait-timeout 60000 --ranks 1 examples/hello examples/gemm examples/ag_gemm \
      examples/grouped_gemm examples/ring_attention tests/driver/products_in_odd_loops.dtile \
      tests/driver/products_with_scales.dtile tests/driver/messages_of_words.dtile \
      tests/driver/copies_between_bytes.dtile
  done
  # Without ag_gemm and ring_attention: README.md says why.
  run sanitizer_racecheck compute-sanitizer --tool racecheck --error-exitcode 1 \
    $on --wait-timeout 60000 --ranks 1 examples/hello examples/gemm examples/gemm_rs \
    examples/flash_decode examples/paged_flash_decode tests/driver/products_in_pages.dtile \
    examples/all_reduce tests/driver/messages_of_words.dtile \
    tests/driver/copies_between_bytes.dtile
fi
echo "logs: $out"
exit $failed
