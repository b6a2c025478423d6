# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tokens to the ranks of their experts and back, in the batched format: of each local expert its
rows, and how many they are. dtile.vllm and dtile.sglang are on top of this."""

from . import _groups, _programs
from ._abi import DTYPES, DtileInvalid, integer
from .kernels import _dtype_number


class AllToAll:
    """For the sizes of a model, on the ranks of a group. Ranks may have different numbers of
    tokens, `max_tokens` at most; an expert gets `capacity` rows at most, by default as many as all
    ranks' tokens."""

    def __init__(self, group_name, hidden, experts, topk, max_tokens, dtype, capacity=None):
        self.team = _groups.team_of(group_name)
        self.ranks = self.team.size
        most = 2 ** 31 - 1
        if integer(experts, "experts", 1, most) % self.ranks != 0:
            raise DtileInvalid(f"{experts} experts cannot be shared evenly by {self.ranks} ranks")
        for name, value in (("hidden", hidden), ("topk", topk), ("max_tokens", max_tokens),
                            ("capacity", 1 if capacity is None else capacity)):
            integer(value, name, 1, most)
        self.experts, self.topk, self.max_tokens, self.hidden = experts, topk, max_tokens, hidden
        self.local_experts = experts // self.ranks
        self.capacity = max_tokens * self.ranks if capacity is None else capacity
        self._name = DTYPES[_dtype_number(dtype, "dtype")]
        if self._name not in _programs.TYPES:
            raise DtileInvalid(f"dtype is {dtype}; tokens are of {', '.join(_programs.TYPES)}")
        self._dtype = dtype

    def _kernel(self, name):
        return _programs.kernel(name, self._name, self.team, TOPK=self.topk,
                                EPR=self.local_experts, CAP=self.capacity, MAX=self.max_tokens,
                                H=self.hidden)

    def _check(self, x, ids):
        if x.dtype != self._dtype:
            raise DtileInvalid(f"tokens are {x.dtype}, but this was made for {self._dtype}")
        if x.dim() != 2 or x.shape[1] != self.hidden or x.shape[0] > self.max_tokens:
            raise DtileInvalid(f"tokens have the shape {tuple(x.shape)}; at most {self.max_tokens} "
                               f"rows of {self.hidden} are wanted")
        if tuple(ids.shape) != (x.shape[0], self.topk):
            raise DtileInvalid(f"expert numbers have the shape {tuple(ids.shape)}; "
                               f"{(x.shape[0], self.topk)} is wanted")

    def supports(self, tokens):
        """Whether a dispatch of so many tokens, and its way back, would be taken."""
        integer(tokens, "tokens")
        ids = (tokens, self.topk)
        rows = (self.local_experts, self.capacity, self.hidden)
        return tokens <= self.max_tokens and self._kernel("dispatch").supports(
            (tokens, self.hidden), ids, team=self.team) and self._kernel("combine").supports(
                rows, rows[:2], rows[:1], ids, ids, team=self.team)

    def dispatch(self, x, ids):
        """`ids[t, j]` are i32 numbers of experts, of which -1 is none. Gives each local expert's
        rows [experts, capacity, hidden], where they came from, and how many they are."""
        self._check(x, ids)
        return self._kernel("dispatch")(x, ids, team=self.team)

    def combine(self, rows, origin, count, ids, weights, out=None):
        """The sum of what a token's experts made of it, with f32 weights."""
        return self._kernel("combine")(rows, origin, count, ids, weights, out=out, team=self.team)


class InFlight:
    """What a dispatch has left for its way back: one at a time."""

    def __init__(self):
        self._left = None

    def begin(self):
        """Before a dispatch."""
        if self._left is not None:
            raise DtileInvalid("there were two dispatches, and no combine between them")

    def put(self, origin, count):
        self._left = (origin, count)

    def get(self):
        if self._left is None:
            raise DtileInvalid("there was no dispatch before this combine")
        return self._left

    def end(self):
        """After a combine: one that was refused may be tried again."""
        self._left = None
