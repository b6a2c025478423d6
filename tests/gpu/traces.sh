#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Traces of kernels on a GPU of this machine: ag_gemm with its two ranks on one GPU, and others with
# what it has not. Each file is checked strictly (tests/tools/check_trace.py), `dtilec trace` reads
# it, and results are as without --trace, which `dtilec test` checks.
#
# usage: tests/gpu/traces.sh [DTILEC [TARGET [FOLDER]]]     default: dtilec from PATH, nvptx
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
dtilec=${1:-dtilec}
target=${2:-nvptx}
out=${3:-$(mktemp -d)}
mkdir -p "$out"

# traced NAME FILE CHECKS…: tests of a file on two ranks of GPU 0, and what their trace has.
traced() {
  name=$1
  file=$2
  shift 2
  "$dtilec" test --target "$target" --devices 0 --ranks 2 --trace "$out/$name.json" "$file"
  python3 "$root/tests/tools/check_trace.py" "$out/$name.json" "$@"
  "$dtilec" trace "$out/$name.json" >"$out/$name.txt"
  "$dtilec" trace "$out/$name.json" --html "$out/$name.html"
  sed -n 1,2p "$out/$name.txt"
}

traced ag_gemm "$root/examples/ag_gemm" bodies=1+ waits=1+ arrows=1+ notifies=1+ transfers=1+ \
  launches=2+ dropped=0 unfinished=0
grep -q '"cat":"wait".*"writer_rank"' "$out/ag_gemm.json"
traced all_reduce "$root/examples/all_reduce" bodies=1+ launches=2+ dropped=0
traced barrier "$root/examples/barrier" bodies=1+ launches=2+ dropped=0
traced words "$root/tests/driver/messages_of_words.dtile" bodies=1+ launches=2+

# A region that is too small: what does not fit is counted and said, results are right.
"$dtilec" test --target "$target" --devices 0 --ranks 2 --trace "$out/small.json" \
  --trace-limit 100 "$root/examples/ag_gemm" 2>&1 | tee "$out/small.txt"
grep -q 'the trace leaves out' "$out/small.txt"
python3 "$root/tests/tools/check_trace.py" "$out/small.json" dropped=1+

# From graphs, where one is replayed for each launch.
"$dtilec" test --target "$target" --devices 0 --ranks 2 --graph --trace "$out/graph.json" \
  "$root/examples/ag_gemm"
python3 "$root/tests/tools/check_trace.py" "$out/graph.json" bodies=1+ arrows=1+ launches=2+

if [ "$target" = nvptx ] && python3 -c "import torch" 2>/dev/null; then
  DTILEC=$(command -v "$dtilec")
  PYTHONPATH=${PYTHONPATH:-$root/backend/runtime/python}
  export DTILEC PYTHONPATH
  python3 "$root/tests/gpu/trace_check.py" "$out/python.json"
  python3 "$root/tests/tools/check_trace.py" "$out/python.json" bodies=1+ launches=2+ dropped=0
  # A job of two processes, whose files are joined.
  if python3 -c "import sys, torch; sys.exit(torch.cuda.device_count() < 2)"; then
    torchrun --nproc-per-node 2 "$root/tests/gpu/trace_check.py" "$out/job-@rank.json"
    "$dtilec" trace "$out/job-0.json" "$out/job-1.json" --merge "$out/job.json"
    python3 "$root/tests/tools/check_trace.py" "$out/job.json" bodies=1+ waits=1+ arrows=1+ \
      launches=2+ dropped=0
  fi
fi
echo "traces: $out"
