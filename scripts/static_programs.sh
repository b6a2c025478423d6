# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Sourced by scripts that pack what runs on other machines, with $root and $build set. Builds preset
# static-stripped in $build, and leaves dtilec and libdtile_rt.so, stripped, in $stage, a new folder
# that is gone when the script ends.
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
