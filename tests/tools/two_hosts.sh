#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Runs a program as if on two machines: two network namespaces with host names, IPC and
# /dev/shm of their own, joined by a virtual cable, so that their ranks reach each other by TCP
# alone.
#
#   two_hosts.sh RANKS_A_HOST PROGRAM [ARGUMENT…]              as processes of oshrun
#   two_hosts.sh --torchrun RANKS_A_HOST PROGRAM [ARGUMENT…]   with the variables that torchrun sets
#
# With --torchrun the output of each rank goes to the file rank$RANK of the current folder. When all
# ranks have written a line `ready`, the last rank is killed where TWO_HOSTS_FAULT=kill, stopped for
# six seconds where it is `stop`, and the cable is cut where it is `cut`.
#
# With TWO_HOSTS_WIRE="MICROSECONDS MEGABITS" what goes from one host to the other takes so long, at
# that many megabits a second (slow_wire.c, compiled with cc).
#
# Exits with the program's code, or with 77 and a message where the machine permits no namespaces.
# Programs and files are named by absolute paths. With TWO_HOSTS_COUNT=1 the last line says how many
# bytes went over the cable; there is no other way between the hosts.
set -euo pipefail

skip() {
  echo "two_hosts.sh: skipped: $*" >&2
  exit 77
}

launcher=oshrun
if [[ ${1:-} == --torchrun ]]; then
  launcher=torchrun
  shift
fi
if (($# < 2)); then
  echo "usage: two_hosts.sh [--torchrun] RANKS_A_HOST PROGRAM [ARGUMENT…]" >&2
  exit 2
fi
ranks=$1
shift

tools=(ip unshare nsenter)
[[ $launcher == torchrun ]] || tools+=(oshrun)
for tool in "${tools[@]}"; do
  command -v "$tool" >/dev/null || skip "$tool is not installed"
done
((EUID == 0)) || skip "only root may make network namespaces"
unshare --net --uts --ipc --mount true 2>/dev/null || skip "namespaces are not permitted"

folder=$(mktemp -d)
holders=()
cleanup() {
  for pid in "${holders[@]}"; do
    kill "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
  rm -rf "$folder"
}
trap cleanup EXIT

cat >"$folder/hosts" <<HOSTS
127.0.0.1 localhost
10.77.0.1 hosta
10.77.0.2 hostb
HOSTS

# A host is a sleeping process that keeps its namespaces alive.
start_host() {
  mkfifo "$folder/$1.ready"
  unshare --net --uts --ipc --mount --propagation private bash -c '
    hostname "$1" && mount --bind "$2/hosts" /etc/hosts && mount -t tmpfs none /dev/shm &&
      mount -t sysfs none /sys &&
      ip link set lo up && result=up || result=failed
    echo "$result" >"$2/$1.ready"
    exec sleep infinity' -- "$1" "$folder" </dev/null &
  holders+=($!)
  read -r state <"$folder/$1.ready"
  [[ $state == up ]] || skip "a namespace cannot be set up"
}
start_host hosta
start_host hostb

enter() { nsenter --target "${holders[$1]}" --net --uts --ipc --mount "${@:2}"; }
if [[ -n ${TWO_HOSTS_WIRE:-} ]]; then
  command -v cc >/dev/null || skip "cc is not installed"
  read -r microseconds megabits <<<"$TWO_HOSTS_WIRE"
  cc -std=gnu17 -O2 -o "$folder/slow_wire" "$(dirname "$0")/slow_wire.c"
  mkfifo "$folder/wire.ready"
  "$folder/slow_wire" "${holders[@]}" "$microseconds" "$megabits" >"$folder/wire.ready" &
  holders+=($!)
  read -r state <"$folder/wire.ready" || skip "virtual network devices are not permitted"
else
  enter 0 ip link add cable type veth peer name cable netns "${holders[1]}" 2>/dev/null ||
    skip "virtual network devices are not permitted"
fi
for host in 0 1; do
  enter "$host" ip address add "10.77.0.$((host + 1))/24" dev cable
  enter "$host" ip link set cable up
done
# The cable carries a while after both ends are up.
for host in 0 1; do
  for ((i = 0; i < 50; ++i)); do
    [[ $(enter "$host" cat /sys/class/net/cable/operstate) == *down ]] || break
    sleep 0.1
  done
done

if [[ $launcher == torchrun ]]; then
  export WORLD_SIZE=$((2 * ranks)) LOCAL_WORLD_SIZE=$ranks
  export MASTER_ADDR=hosta MASTER_PORT=29500 TORCHELASTIC_RUN_ID=$folder
  processes=()
  for ((rank = 0; rank < WORLD_SIZE; ++rank)); do
    # The program itself, not a shell that waits for it.
    (
      export RANK=$rank LOCAL_RANK=$((rank % ranks))
      exec nsenter --target "${holders[rank / ranks]}" --net --uts --ipc --mount "$@"
    ) >"rank$rank" 2>&1 &
    processes+=($!)
  done
  if [[ -n ${TWO_HOSTS_FAULT:-} ]]; then
    for ((i = 0; i < 300; ++i)); do
      (($(grep -lx ready rank* | wc -l) < WORLD_SIZE)) || break
      sleep 0.1
    done
    last=${processes[-1]}
    case $TWO_HOSTS_FAULT in
    kill) kill -KILL "$last" ;;
    stop) kill -STOP "$last" && sleep 6 && kill -CONT "$last" ;;
    cut) enter 0 ip link set cable down ;;
    esac
  fi
  code=0
  for process in "${processes[@]}"; do
    wait "$process" || code=1
  done
  exit "$code"
fi

# What oshrun uses in the place of ssh: the second host's namespaces.
cat >"$folder/agent" <<AGENT
#!/bin/sh
shift
exec nsenter --target ${holders[1]} --net --uts --ipc --mount sh -c "\$*"
AGENT
chmod +x "$folder/agent"

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
options=(--host "hosta:$ranks,hostb:$ranks" -n $((2 * ranks)) --map-by ppr:"$ranks":node
  --oversubscribe --mca plm_rsh_agent "$folder/agent" --mca plm rsh
  --mca oob_tcp_if_include cable --mca btl_tcp_if_include cable -x UCX_TLS=tcp,self,posix
  -x UCX_NET_DEVICES=cable)
for name in $(compgen -e | grep -E "^(DTILE_|SHMEM_|UCX_)" || true); do
  options+=(-x "$name")
done
set +e
# In the background, as a signal is not noticed before what runs in the foreground ends; and not by
# `enter`, so that it is the program itself that is waited for.
nsenter --target "${holders[0]}" --net --uts --ipc --mount oshrun "${options[@]}" "$@" &
holders+=($!)
trap 'exit 143' TERM INT
wait $!
code=$?
if [[ ${TWO_HOSTS_COUNT:-} == 1 ]]; then
  echo "$(enter 0 cat /sys/class/net/cable/statistics/tx_bytes) bytes over the cable"
fi
exit "$code"
