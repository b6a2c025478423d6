# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Sourced by the other scripts: the root of the checkout, the build tree, the number of jobs, and
# what Open MPI needs to start as root and on fewer cores than ranks.
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
