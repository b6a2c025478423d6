#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Runs a command as a process of a job; the second process is killed once there is a file:
# second_dies.sh FILE COMMAND...
file=$1
shift
if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then
  "$@" &
  child=$!
  while [ ! -e "$file" ] && kill -0 "$child" 2>/dev/null; do sleep 0.1; done
  kill -KILL "$child"
  wait "$child"
  exit
fi
exec "$@"
