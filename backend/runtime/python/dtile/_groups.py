# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Teams of process groups, by the names that PyTorch's operations take."""

from ._abi import DtileInvalid
from .team import Team, group_of

_teams = {}


def name_of(group):
    """The name of a process group, which PyTorch's operations take."""
    import torch.distributed as dist

    if not dist.is_initialized():
        raise DtileInvalid("torch.distributed has no process groups yet: call "
                           "torch.distributed.init_process_group first")
    group = group_of(group)
    return (group if group is not None else dist.group.WORLD).group_name


def enable(group=None, **options):
    """Makes the team of a process group, a device mesh of one dimension, or all ranks: collective.
    Operations make it at their first call otherwise, with the options of Team.from_torch as they
    are by default."""
    name = name_of(group)
    if name in _teams:
        raise DtileInvalid(f"the group `{name}` has a team already: call dtile.ops.enable before "
                           "the group's first operation, once")
    current = Team._current
    team = _teams[name] = Team.from_torch(group_of(group), **options)
    # Kernels that are called without a team take the first one that was made by hand.
    Team._set_current(current)
    return team


def _name(group):
    """Of what callers pass as `group_name`: groups themselves, too, where PyTorch does not look at
    it first."""
    return group if isinstance(group, str) else name_of(group)


def team_of(group):
    """The team of a group that is named."""
    name = _name(group)
    team = _teams.get(name)
    return enable(name) if team is None else team


def size_of(group):
    """Ranks of a group: known without a team, also while a graph is traced."""
    import torch.distributed as dist

    return dist.distributed_c10d._get_group_size_by_name(_name(group))


def close():
    """Ends all teams of groups: collective. Before destroy_process_group."""
    for name in list(_teams):
        _teams.pop(name).close()
