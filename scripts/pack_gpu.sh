#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Packs what runs kernels on another x86-64 machine with GPUs, where nothing is installed: dtilec,
# libdtile_rt.so and the Python package, as .gpu/dtile.tar.xz (which git ignores). There:
#
#   mkdir -p /tmp/dtile && tar xf .gpu/dtile.tar.xz -C /tmp/dtile
#   /tmp/dtile/dtilec test --target nvptx examples/hello
#   PYTHONPATH=/tmp/dtile python3 tests/bench/gpu/goals.py
#   PYTHONPATH=/tmp/dtile python3 tests/bench/gpu/regret.py
#   PYTHONPATH=/tmp/dtile torchrun --nproc-per-node 2 tests/gpu/torch_ops.py
#
# usage: scripts/pack_gpu.sh [BUILD_DIRECTORY]     default build-static, of preset static-stripped
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-$root/build-static}
. "$root/scripts/static_programs.sh"
ln -s libdtile_rt.so "$stage/libdtile_rt.so.0"
mkdir "$stage/include"
cp "$root"/backend/runtime/dtile.h "$root"/backend/runtime/kernel_abi.h "$stage/include/"
mkdir "$stage/dtile"
cp "$root"/backend/runtime/python/dtile/*.py "$stage/dtile/"
# What dtile.ops builds its kernels from.
(cd "$root/examples" && for program in */*.dtile; do
  mkdir -p "$stage/dtile/programs/$(dirname "$program")"
  cp "$program" "$stage/dtile/programs/$program"
done)
mkdir -p "$root/.gpu"
tar -C "$stage" -c . | xz -T0 -3 >"$root/.gpu/dtile.tar.xz.new"
mv "$root/.gpu/dtile.tar.xz.new" "$root/.gpu/dtile.tar.xz"
ls -l "$root/.gpu/dtile.tar.xz"
