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
. "$root/scripts/static_programs.sh"
python3 "$root/scripts/make_wheel.py" --dtilec "$stage/dtilec" --runtime "$stage/libdtile_rt.so" \
  --arch "$arches" --out "$root/dist"
