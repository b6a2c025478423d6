#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Builds the package of Debian, as dist/dtile_VERSION_amd64.deb: compiler, runtime, headers, CMake
# package, the Python package where Debian's Python finds it, pages. Where OpenSHMEM is, its
# provider is in dist/dtile-openshmem_VERSION_amd64.deb. Wants dpkg-dev and file.
#
# usage: scripts/build_deb.sh [BUILD_DIRECTORY]     default build-deb
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-$root/build-deb}
for needed in dpkg-shlibdeps:dpkg-dev file:file; do
  command -v "${needed%:*}" >/dev/null || {
    echo "${needed%:*} is missing: apt-get install ${needed#*:}" >&2
    exit 1
  }
done
cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=/usr \
  -DDTILE_BUILD_TESTS=OFF -DDTILE_PYTHON_DIRECTORY=lib/python3/dist-packages
cmake --build "$build"
cmake -E make_directory "$root/dist"
(cd "$build" && cpack -B "$root/dist")
rm -rf "$root/dist/_CPack_Packages"
