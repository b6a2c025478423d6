# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The classes of modular kernels that a prepare and finalize meets, as vLLM documents them."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum


class FusedMoEActivationFormat(Enum):
    Standard = "standard"
    BatchedExperts = "batched_experts"


@dataclass
class ExpertTokensMetadata:
    expert_num_tokens: object
    expert_num_tokens_cpu: object


class TopKWeightAndReduceDelegate:
    pass


class TopKWeightAndReduceContiguous:
    pass


class FusedMoEPrepareAndFinalize(ABC):
    def __init__(self, moe_config, quant_config):
        self.moe_config, self.quant_config = moe_config, quant_config

    @property
    @abstractmethod
    def activation_format(self):
        raise NotImplementedError

    @abstractmethod
    def topk_indices_dtype(self):
        raise NotImplementedError

    @abstractmethod
    def max_num_tokens_per_rank(self):
        raise NotImplementedError

    @abstractmethod
    def num_dispatchers(self):
        raise NotImplementedError

    @abstractmethod
    def output_is_reduced(self):
        raise NotImplementedError


class FusedMoEPrepareAndFinalizeModular(FusedMoEPrepareAndFinalize):
    @abstractmethod
    def prepare(self, a1, topk_weights, topk_ids, num_experts, expert_map,
                apply_router_weight_on_input, quant_config, defer_input_quant):
        raise NotImplementedError

    @abstractmethod
    def finalize(self, output, fused_expert_output, topk_weights, topk_ids,
                 apply_router_weight_on_input, weight_and_reduce_impl):
        raise NotImplementedError
