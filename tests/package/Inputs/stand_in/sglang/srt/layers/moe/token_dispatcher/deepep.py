# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""DeepEP's low-latency format, as SGLang has it."""

from typing import NamedTuple


class DeepEPLLDispatchOutput(NamedTuple):
    hidden_states: object
    hidden_states_scale: object
    topk_ids: object
    topk_weights: object
    masked_m: object
    expected_m: int


class DeepEPLLCombineInput(NamedTuple):
    hidden_states: object
    topk_ids: object
    topk_weights: object
