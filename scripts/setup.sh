#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Installs what building and testing dtile needs on Debian 12. Safe to run again: when every
# package is there already, it returns at once and does not touch apt.
set -euo pipefail

packages=(
  # Compiler, linker and the LLVM that dtilec is built on.
  clang-22 lld-22 llvm-22-dev llvm-22-tools liblld-22-dev libclang-rt-22-dev libpolly-22-dev
  libc6-dev libstdc++-12-dev binutils
  # Build system.
  cmake ninja-build ccache
  # Parser generator and its C++ runtime.
  antlr4 default-jre-headless libantlr4-runtime-dev
  # Libraries.
  libboost-context-dev libfmt-dev libcli11-dev nlohmann-json3-dev
  zlib1g-dev libzstd-dev libxml2-dev libedit-dev libffi-dev libncurses-dev libz3-dev
  # Tests and benchmarks.
  python3 python3-numpy python3-psutil libgtest-dev libgmock-dev libbenchmark-dev libopenblas-dev
  # OpenSHMEM (oshcc, oshrun): ranks as processes.
  openmpi-bin libopenmpi-dev
)

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

echo "setup.sh: installing ${#missing[@]} packages: ${missing[*]}"
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Acquire::Retries=3)
"${apt[@]}" update
"${apt[@]}" install --yes --no-install-recommends "${missing[@]}" >/dev/null
