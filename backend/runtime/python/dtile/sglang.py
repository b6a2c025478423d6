# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""SGLang's token dispatcher over dtile.moe. Its output has the format of DeepEP's low-latency one
(rows of each local expert, and how many they are), so the same runners take it."""

from ._abi import DtileUnavailable
from .moe import AllToAll, InFlight

try:
    import torch
    from sglang.srt.layers.moe.token_dispatcher import deepep
    from sglang.srt.layers.moe.token_dispatcher.base import BaseDispatcher
except ImportError as missing:
    raise DtileUnavailable("dtile.sglang needs SGLang with token dispatchers, which cannot be "
                           f"imported ({missing}); dtile.moe does not") from missing

# Its name before there were several outputs.
_Output = getattr(deepep, "DeepEPLLDispatchOutput", None) or deepep.DeepEPLLOutput


class DtileDispatcher(BaseDispatcher):
    """`sizes`: hidden, experts, topk, max_tokens, dtype, and capacity where it is not all."""

    def __init__(self, group, **sizes):
        super().__init__()
        self._handle = AllToAll(group if isinstance(group, str) else group.group_name, **sizes)
        self._in_flight = InFlight()

    def dispatch(self, hidden_states, topk_output, **kwargs):
        handle = self._handle
        self._in_flight.begin()
        ids = topk_output.topk_ids.to(torch.int32)
        rows, origin, count = handle.dispatch(hidden_states, ids)
        self._in_flight.put(origin, count)
        # Of an expert, on the average.
        tokens = hidden_states.shape[0] * handle.ranks * handle.topk
        return _Output(rows, None, ids, topk_output.topk_weights, count,
                       (tokens + handle.experts) // handle.experts)

    def combine(self, combine_input, **kwargs):
        out = self._handle.combine(combine_input.hidden_states, *self._in_flight.get(),
                                   combine_input.topk_ids,
                                   combine_input.topk_weights.to(torch.float32))
        self._in_flight.end()
        return out
