#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Builds what is committed here twice, in two folders, without ccache, and compares every library,
# program and image byte by byte. Neither may name the folder that it was built in.
#
#   scripts/test_same_bytes.sh [TARGET…]
#
# Default: the runtime, the device library and the smallest of the compiler's libraries, which takes
# a minute; `dtilec` is everything that is installed, and takes twice a whole build.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
targets=("$@")
(($# > 0)) || targets=(dtile_rt_shared dtile_rt dtile_device_bitcode dtile_base)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CCACHE_DISABLE=1
"$root/scripts/setup.sh" build
folders=("$work/one" "$work/another/one/below")
for folder in "${folders[@]}"; do
  echo "test_same_bytes.sh: building ${targets[*]} in $folder"
  mkdir -p "$folder"
  git -C "$root" archive HEAD | tar -x -C "$folder"
  cmake --preset release -S "$folder" -B "$folder/build" -D DTILE_BUILD_TESTS=OFF \
    --log-level=WARNING >/dev/null
  cmake --build "$folder/build" --parallel "$jobs" --target "${targets[@]}" >"$work/log" || {
    tail -n 40 "$work/log" >&2
    exit 1
  }
done

status=0
compared=0
while IFS= read -r file; do
  compared=$((compared + 1))
  cmp "${folders[0]}/build/$file" "${folders[1]}/build/$file" || status=1
  for folder in "${folders[@]}"; do
    if grep --text --quiet --fixed-strings "$folder" "$folder/build/$file"; then
      echo "$file names the folder that it was built in"
      status=1
    fi
  done
done < <(cd "${folders[0]}/build" && find bin lib backend/device_library -type f \
  \( -perm -u+x -o -name '*.a' -o -name '*.so*' -o -name '*.bc' \) | sort)
((compared > 0)) || { echo "nothing was built" && status=1; }
((status == 0)) && echo "test_same_bytes.sh: $compared files are the same in both folders"
exit "$status"
