#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Installs what dtile needs on Debian 12. Safe to run again: when every package is there already, it
# returns at once and does not touch apt.
#
#   scripts/setup.sh [SET…]
#
#   build      to build dtilec and the runtime; always included
#   test       to build and run the tests (the default)
#   sanitize   for the presets asan and fuzz
#   gcc        for scripts/test_gcc.sh
#   tidy       for scripts/tidy.sh
#
# A set names what is used; each line says for what, and what else comes with it where that is much.
# docs/decisions/dependencies.md has the sizes, and why it is these.
set -euo pipefail

build=(
  # The compiler, and the linker of every program.
  clang-22 lld-22
  # LLVM's libraries, static. Its package wants libclang, ICU, libxml2 and z3 beside it.
  llvm-22-dev
  # The linker as a library: it makes AMD's code objects.
  liblld-22-dev
  # Debian's archive of LLVM's passes wants Polly's beside it.
  libpolly-22-dev
  # Build system. Without ccache a second build takes as long as the first.
  cmake ninja-build ccache
  # The parser is made from grammar/*.g4. The tool is a Java program: openjdk-17-jre-headless.
  antlr4 libantlr4-runtime-dev
  # Context switches in assembler, and their header; all of Boost's headers come with it.
  libboost-context-dev
  # Command lines; JSON and XML of other systems' algorithms.
  libcli11-dev nlohmann-json3-dev libexpat1-dev
)
test=(
  libgtest-dev libgmock-dev
  # lit (of llvm-22-tools, which llvm-22-dev brings) wants psutil for its time limits; arrays are
  # compared by numpy.
  python3 python3-numpy python3-psutil
  # Ranks as processes: oshrun, and shmem.h to build the provider; the header's package wants
  # gfortran.
  openmpi-bin libopenmpi-dev
  # The installed package builds kernels under make as under ninja.
  make
  # The package of Debian is made, and its dependencies found; CPack asks file what to look at.
  dpkg-dev file
  # Sources stay as .clang-format says.
  clang-format-22
)
sanitize=(libclang-rt-22-dev)
gcc=(gcc-12 g++-12)
# scripts/tidy.sh
tidy=(clang-tidy-22)

packages=("${build[@]}")
(($# > 0)) || set -- test
for set in "$@"; do
  case $set in
    build) ;;
    test) packages+=("${test[@]}") ;;
    sanitize) packages+=("${sanitize[@]}") ;;
    gcc) packages+=("${gcc[@]}") ;;
    tidy) packages+=("${tidy[@]}") ;;
    *)
      echo "setup.sh: there is no set '$set'; there are build, test, sanitize, gcc and tidy" >&2
      exit 2
      ;;
  esac
done

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ $state == installed ]] || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  exit 0
fi

as_root=()
if ((EUID != 0)); then
  command -v sudo >/dev/null || {
    echo "setup.sh: these packages are missing; install them as root: ${missing[*]}" >&2
    exit 1
  }
  as_root=(sudo)
fi

say() { echo "setup.sh: $*"; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Its reports want a descriptor of their own, which sudo would close.
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive LC_ALL=C
     sh -c 'exec apt-get -q -o Acquire::Retries=3 -o Dpkg::Use-Pty=0 "$@" 3>&1' apt-get)
install=(install --no-install-recommends "${missing[@]}")

# Of what apt reports as it goes, at most a line in five seconds; everything else to the log.
show_progress() {
  local line what last=-5
  while IFS= read -r line; do
    case $line in
      dlstatus:*) what=downloading ;;
      pmstatus:*) what=installing ;;
      *)
        printf '%s\n' "$line" >>"$log"
        continue
        ;;
    esac
    # kind:package[:architecture]:percentage:what is done
    if ((SECONDS - last >= 5)) && [[ $line =~ :([0-9]+)\.[0-9]+:(.*)$ ]]; then
      last=$SECONDS
      say "$what, ${BASH_REMATCH[1]}%: ${BASH_REMATCH[2]}"
    fi
  done
}

# Runs apt-get with the arguments; what it said is shown where it fails.
run_apt() {
  : >"$log"
  "${apt[@]}" -o APT::Status-Fd=3 "$@" 2>&1 | show_progress && return
  tail -n 40 "$log" >&2
  say "apt-get $1 failed" >&2
  exit 1
}

say "missing: ${missing[*]}"
say "fetching apt's lists of packages"
run_apt update
# How many, and how large.
"${apt[@]}" --assume-no "${install[@]}" 2>/dev/null |
  sed -n -e 's/^0 upgraded, \([0-9]* newly installed\).*/setup.sh: with what they need: \1/p' \
         -e 's/^\(Need to get\|After this operation\)/setup.sh: \1/p' || true
began=$SECONDS
run_apt "${install[@]}" --yes
say "installed in $((SECONDS - began)) s"
