# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Sourced by the other scripts: the root of the checkout, the build tree, the number of jobs, what
# Open MPI needs to start as root and on fewer cores than ranks, and how one builds and tests.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${DTILE_BUILD_DIR:-$root/build}
jobs=${DTILE_JOBS:-$(nproc)}

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_osc=^rdma OMPI_MCA_rmaps_base_oversubscribe=1
export SHMEM_SYMMETRIC_SIZE=${SHMEM_SYMMETRIC_SIZE:-64M}

# What the script that sources this adds to a preset, as arguments of cmake.
configuration=()

# Configures $build as preset $1, and builds the targets that follow, or all.
configure_and_build() {
  local preset=$1
  shift
  (cd "$root" &&
    cmake --preset "$preset" -B "$build" "${configuration[@]}" --log-level=WARNING >/dev/null)
  cmake --build "$build" --parallel "$jobs" ${1:+--target "$@"}
}

# Runs every test of $build, or with arguments those that ctest selects by them, and counts them.
run_tests() {
  local status=0 results=("$build/ctest.xml") lit=$build/tests/lit.xml
  rm -f "${results[@]}" "$lit"
  if (($# == 0)); then
    # Its progress shows, which as a test of ctest's it would not for minutes.
    LIT_OPTS="--workers=$jobs ${LIT_OPTS:-}" cmake --build "$build" --target check-lit || status=1
    results+=("$lit")
    set -- --exclude-regex '^lit$'
  fi
  ctest --test-dir "$build" --output-on-failure --parallel "$jobs" \
    --output-junit "$build/ctest.xml" "$@" || status=1
  # It is there, too, where ctest has selected lit.
  ((${#results[@]} > 1)) || [[ ! -e $lit ]] || results+=("$lit")
  /usr/bin/python3 "$root/tests/summarize_results.py" "${results[@]}" || status=1
  return "$status"
}
