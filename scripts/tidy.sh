#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Holds C++ sources to .clang-tidy: installs clang-tidy 22, builds (sources include what the build
# generates), and looks at each source.
#
#   scripts/tidy.sh [--since COMMIT | --all | FILE…]
#
# Default: what is not committed, and what the newest 12 commits changed. A source takes about 5 s
# of one core, all of them three quarters of an hour of one.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
cd "$root"

# Reads the names of changed files; headers stand for the source of their name.
sources_of() {
  sed -nE 's/\.h$/.cpp/; /\.cpp$/p' | sort -u
}
# What only got another name stays as it is.
changed_since() {
  git diff --find-renames --name-status "$1" -- '*.cpp' '*.h' |
    awk '$1 != "D" && $1 != "R100" { print $NF }' | sources_of
}
oldest() {
  git rev-list --first-parent --max-count=13 HEAD | tail -n 1
}

case ${1:-} in
  --help | -h) sed -n '3,/^set/{/^set/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}" && exit ;;
  --since)
    (($# == 2)) || { echo "tidy.sh: --since wants a commit" >&2 && exit 2; }
    files=$(changed_since "$2")
    ;;
  --all) files=$(git ls-files '*.cpp') ;;
  --*) echo "tidy.sh: there is no option '$1'; --help lists them" >&2 && exit 2 ;;
  '') files=$(changed_since "$(oldest)") ;;
  *) files=$(printf '%s\n' "$@" | sources_of) ;;
esac

"$root/scripts/setup.sh" test tidy
configuration=(-D DTILE_BUILD_TESTS=ON)
configure_and_build release
commands=$build/compile_commands.json
# Only what this build compiles: a build without some part has no command for it.
compiled=$(while IFS= read -r file; do
  ! grep --quiet --fixed-strings "\"file\": \"$root/$file\"" "$commands" || echo "$file"
done <<<"$files")
[[ -n $compiled ]] || { echo "tidy.sh: no source to look at" && exit; }
count=$(wc -l <<<"$compiled")
# clang-tidy counts remarks in headers of others on stderr, for each file.
if xargs --max-procs="$jobs" --max-args=1 clang-tidy-22 -p "$build" --quiet \
    2> >(grep -vE '^[0-9]+ (warning|error)s? generated' >&2 || true) <<<"$compiled"; then
  echo "tidy.sh: $count sources are as .clang-tidy wants them"
else
  echo "tidy.sh: of $count sources some are not as .clang-tidy wants them" >&2
  exit 1
fi
