#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Does what the README says, where the README says it: makes a minimal Debian 12 with git and
# nothing else, clones what is committed here into it, and runs both commands of the section
# "Start" there. Says for each whether it passed, how long it took and what it installed, and fails
# where one failed or the compiler warned of something. Wants root, and mmdebstrap.
#
#   scripts/test_in_clean_root.sh [OPTION…]
#
#   --only example|test   one of the commands: scripts/run_example.sh or scripts/test.sh
#   --root FOLDER         where the root is made (default: a new folder in $TMPDIR or /var/tmp); one
#                         that was kept there is used as it is, with a new clone
#   --keep                leave the root and the logs
#   --ccache FOLDER       lend it this cache of ccache's, so that a build takes minutes less
#   --at FOLDER           where the clone lies in there (default: /srv/dtile). Precompiled headers
#                         are named by their whole path, so a lent cache is of use only where this
#                         is the folder that it was filled from.
#   --sources FILE        a sources.list for Debian 12; default: those of this machine
#
# apt in there is set up as apt is here: sources of Debian 12, proxies, what else begins with
# Acquire::http, Acquire::https, Acquire::Check or Acquire::Retries. The variables DTILE_JOBS and
# LIT_FILTER (of lit's tests run those that match it) go into the root as well.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

only=''
root=''
keep=0
ccache=''
at=/srv/dtile
sources=''
fail() {
  echo "test_in_clean_root.sh: $*" >&2
  exit 2
}
usage() { sed -n '3,/^set/{/^set/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; }
while (($# > 0)); do
  case $1 in
    --help | -h) usage && exit ;;
    --keep) keep=1 ;;
    --only | --root | --ccache | --at | --sources)
      (($# > 1)) || fail "$1 wants an argument"
      declare "${1#--}=$2"
      shift
      ;;
    *) fail "there is no option '$1'; --help lists them" ;;
  esac
  shift
done
case $only in
  '') commands=(scripts/run_example.sh scripts/test.sh) ;;
  example) commands=(scripts/run_example.sh) ;;
  test) commands=(scripts/test.sh) ;;
  *) fail "--only takes example or test, not '$only'" ;;
esac
((EUID == 0)) || fail "it wants root, to make and enter a root of its own"
command -v mmdebstrap >/dev/null || fail "mmdebstrap is missing: apt-get install mmdebstrap"
[[ -z $ccache || -d $ccache ]] || fail "there is no folder $ccache"
[[ $at =~ ^(/[[:alnum:]_.-]+){2,}$ && /$at/ != */../* ]] ||
  fail "--at takes the path of a folder in a folder, not '$at'"
git -C "$here" diff --quiet HEAD || echo "test_in_clean_root.sh: what is not committed is left out"

[[ -n $root ]] || root=$(mktemp -d "${TMPDIR:-/var/tmp}/dtile-clean-root.XXXXXX")
mkdir -p "$root"
root=$(cd "$root" && pwd)
[[ $root != / ]] || fail "--root / would be this machine's own"
work=$(mktemp -d)
# Mounts are made in a namespace of the commands' own, and are gone with it.
clean_up() {
  rm -rf "$work"
  ((keep)) || rm -rf --one-file-system "$root" "$root".*.log
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# The root
if [[ ! -e $root/usr/bin/git ]]; then
  settings=()
  while IFS= read -r line; do
    [[ $line == *'"";' ]] || settings+=(--aptopt="$line")
  done < <(apt-config dump | grep -E '^Acquire::(https?|Check|Retries)' || true)
  if [[ -n $sources ]]; then
    cp "$sources" "$work/sources.list"
  else
    apt-get indextargets --format 'deb $(REPO_URI) $(CODENAME) $(COMPONENT)' \
      'Created-By: Packages' 'Origin: Debian' | grep -E ' bookworm(-updates|-security)? main$' |
      sort -u >"$work/sources.list" ||
      fail "apt here knows no Debian 12 (or has no lists: apt-get update); use --sources"
  fi
  echo "test_in_clean_root.sh: making a minimal Debian 12 in $root"
  # What it says of each step is for those whose step failed.
  mmdebstrap --quiet --variant=minbase --include=git,ca-certificates --skip=check/qemu \
    "${settings[@]}" bookworm "$root" "$work/sources.list" 2>"$work/mmdebstrap.log" || {
    cat "$work/mmdebstrap.log" >&2
    exit 1
  }
fi
cp --dereference --remove-destination /etc/resolv.conf "$root/etc/resolv.conf"
cp --remove-destination /etc/hosts "$root/etc/hosts"

# Enters the root as a process of its own: what the commands start ends with them. Devices are those
# that every Linux has; a GPU of this machine is none of a clean root's business.
enter() {
  local environment=(PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root)
  local name
  # ccache tells languages of messages apart.
  for name in LANG http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY \
      DTILE_JOBS LIT_FILTER; do
    [[ -z ${!name:-} ]] || environment+=("$name=${!name}")
  done
  [[ -z $ccache ]] ||
    environment+=(CCACHE_DIR=/ccache CCACHE_BASEDIR="${at%/*}" CCACHE_NOHASHDIR=1)
  unshare --mount --pid --ipc --fork --kill-child --propagation private -- bash -euc '
    root=$1 ccache=$2
    shift 2
    mount -t proc proc "$root/proc"
    mount -t tmpfs -o mode=755 devices "$root/dev"
    for device in null zero full random urandom tty; do
      : >"$root/dev/$device"
      mount --bind "/dev/$device" "$root/dev/$device"
    done
    mkdir "$root/dev/shm" "$root/dev/pts"
    mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
    mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
    ln -s pts/ptmx "$root/dev/ptmx"
    ln -s /proc/self/fd "$root/dev/fd"
    if [[ -n $ccache ]]; then
      mkdir -p "$root/ccache"
      mount --bind "$ccache" "$root/ccache"
    fi
    exec env -i "$@"
  ' bash "$root" "$ccache" "${environment[@]}" chroot "$root" "$@"
}

echo "test_in_clean_root.sh: cloning $(git -C "$here" log -1 --format='%h %s')"
git -C "$here" bundle create --quiet "$root/srv/dtile.bundle" HEAD
rm -rf "$root$at"
enter git clone --quiet /srv/dtile.bundle "$at" 2>"$work/clone.log" || {
  cat "$work/clone.log" >&2
  exit 1
}

packages() { grep -c '^Status: install ok installed' "$root/var/lib/dpkg/status"; }
megabytes() { du --summarize --one-file-system --block-size=MB "$root/usr" | grep -o '^[0-9]*'; }

verdicts=()
status=0
for command in "${commands[@]}"; do
  log=$root.$(basename "$command" .sh).log
  before=$(packages)
  size=$(megabytes)
  began=$SECONDS
  verdict=passed
  enter bash -c "cd $at && exec $command" </dev/null 2>&1 | tee "$log" ||
    verdict='FAILED'
  # The compiler's, the linker's and CMake's.
  warnings=$(grep -cE '(^|[^[:alnum:]])warning: |^CMake [[:alpha:] ]*Warning' "$log" || true)
  ((warnings == 0)) || verdict="FAILED, with $warnings warnings in the log"
  [[ $verdict == passed ]] || status=1
  took="$((SECONDS - began)) s"
  installed="$(($(packages) - before)) packages, $(($(megabytes) - size)) MB"
  verdicts+=("$command $verdict; it took $took and installed $installed")
done

echo
printf 'test_in_clean_root.sh: %s\n' "${verdicts[@]}"
if ((keep)); then
  echo "test_in_clean_root.sh: the root is $root (chroot '$root'), the logs are $root.*.log"
fi
exit "$status"
