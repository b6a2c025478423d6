#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Shows that a change of the compiler leaves the code that it generates as it was.
#
#   scripts/compare_code.sh BASE [FILE…]
#
# BASE is a commit, or a dtilec that was built before. Compiles each FILE (default: the examples,
# the standard library and the programs of tests/codegen and tests/driver) with both compilers, as
# it stands and with large tiles, for the host, sm_80, sm_90a, sm_100a, gfx90a and gfx942, and
# compares assembly and messages. Comments do not count. Prints each file that differs with the
# first lines of its difference; all of them are under build/compare.
# Exits with 1 if anything differs.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
(($# > 0)) || { sed -n '3,/^set/{/^set/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}" && exit 2; }

base=$1
shift
out=$build/compare
mkdir -p "$out"
if [[ ! -x $base || -d $base ]]; then
  commit=$(git -C "$root" rev-parse --verify "$base^{commit}")
  base=$out/$commit/build/bin/dtilec
  if [[ ! -x $base ]]; then
    echo "compare_code.sh: building dtilec of $commit"
    mkdir -p "$out/$commit"
    git -C "$root" archive "$commit" | tar -x -C "$out/$commit"
    (cd "$out/$commit" &&
      cmake --preset release -B build -D DTILE_BUILD_TESTS=OFF --log-level=WARNING >/dev/null)
    cmake --build "$out/$commit/build" --parallel "$jobs" --target dtilec >"$out/$commit/log"
  fi
fi
base=$(realpath "$base")
new=$build/bin/dtilec
files=("$@")
if (($# == 0)); then
  mapfile -t files < <(cd "$root" &&
    git ls-files 'examples/**.dtile' 'stdlib/*.dtile' 'tests/codegen/**.dtile' \
      'tests/driver/**.dtile')
fi

large='--const BM=128 --const BN=256 --const BK=64'
# name: arguments
ways=(
  'host: --target host --emit asm'
  'sm_80: --target nvptx --arch sm_80 --emit ptx'
  'sm_90a: --target nvptx --arch sm_90a --emit ptx'
  "sm_90a.large: --target nvptx --arch sm_90a --emit ptx $large"
  'sm_100a: --target nvptx --arch sm_100a --emit ptx'
  'gfx90a: --target amdgpu --arch gfx90a --emit asm'
  "gfx942.large: --target amdgpu --arch gfx942 --emit asm $large"
)

# compile DTILEC FILE FOLDER: one file a way of compiling, its messages last.
compile() {
  local way
  mkdir -p "$3"
  for way in "${ways[@]}"; do
    # shellcheck disable=SC2086
    { (cd "$root" && timeout 300 "$1" build "$2" ${way#*: } -o - 2>&1) || echo "status $?"; } |
      sed -E -e 's/[[:space:]]*(;|#|\/\/).*$//' -e '/^[[:space:]]*$/d' >"$3/${way%%: *}"
  done
}

compare() {
  local name=${1//\//.}
  # The base's code of the same programs is made once.
  [[ -f $old/$name/done ]] || { compile "$base" "$1" "$old/$name" && touch "$old/$name/done"; }
  compile "$new" "$1" "$out/new/$name"
  if diff -r -x done "$old/$name" "$out/new/$name" >"$out/$name.diff"; then
    rm "$out/$name.diff"
    return 0
  fi
  echo "differs: $1"
  head -n "${DTILE_COMPARE_LINES:-12}" "$out/$name.diff"
  return 1
}
export -f compile compare
old=$out/$( (cd "$root" && cat "$base" scripts/compare_code.sh && git ls-files -z '*.dtile' |
  xargs -0 cat) | sha256sum | cut -c1-16)
export base new root out old
rm -rf "$out/new"
# Arrays are not exported.
export ways_text
ways_text=$(declare -p ways)
status=0
printf '%s\0' "${files[@]}" |
  xargs -0 -P "$jobs" -I{} bash -c 'eval "$ways_text"; compare "$1"' _ {} || status=1
echo "compare_code.sh: ${#files[@]} files, $(find "$out/new" -type f | wc -l) outputs"
exit "$status"
