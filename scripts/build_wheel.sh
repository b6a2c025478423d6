#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Builds the wheel of compiler, runtime, Python package and kernels, as dist/dtile-VERSION-….whl:
#
#   pip install dist/dtile-*.whl
#
# usage: scripts/build_wheel.sh [ARCHES [BUILD_DIRECTORY]]
#   ARCHES            kernels are built ahead of time for these; default
#                     sm_80,sm_90a,sm_100a,gfx942; "" for none: they are built where they are used
#   BUILD_DIRECTORY   default build-static, of preset static-stripped
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
arches=${1-sm_80,sm_90a,sm_100a,gfx942}
build=${2:-$root/build-static}
if [ ! -f "$build/build.ninja" ]; then
  cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DDTILE_STATIC=ON -DDTILE_BUILD_TESTS=OFF
fi
cmake --build "$build" --target dtilec dtile_rt_shared
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
cp "$build/bin/dtilec" "$stage/"
cp -L "$build/lib/libdtile_rt.so" "$stage/"
strip --strip-unneeded "$stage/dtilec" "$stage/libdtile_rt.so"
python3 "$root/scripts/make_wheel.py" --dtilec "$stage/dtilec" --runtime "$stage/libdtile_rt.so" \
  --arch "$arches" --out "$root/dist"
