# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Process groups of one host, whose ranks the environment names."""

import os
import types


class ProcessGroup:
    def __init__(self, name, rank, size):
        self.group_name, self.rank, self.size = name, rank, size


class group:
    WORLD = ProcessGroup("0", int(os.environ.get("RANK", "0")),
                         int(os.environ.get("WORLD_SIZE", "1")))


_groups = {"0": group.WORLD}


def _resolve(name):
    if name not in _groups:
        raise LookupError(f"no group {name}")
    return _groups[name]


distributed_c10d = types.SimpleNamespace(
    _resolve_process_group=_resolve, _get_group_size_by_name=lambda name: _resolve(name).size)


def is_available():
    return True


def is_initialized():
    return group.WORLD is not None


def get_rank(group=None):
    return (group or globals()["group"].WORLD).rank


def get_world_size(group=None):
    return (group or globals()["group"].WORLD).size


def get_global_rank(group, rank):
    return rank


def all_gather_object(out, value, group=None):
    # Processes of one host say the same.
    out[:] = [value] * len(out)


def broadcast_object_list(values, src=0, group=None):
    values[0] = os.environ["JOB"]
