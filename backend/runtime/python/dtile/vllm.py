# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""vLLM's interfaces for expert parallelism over dtile.moe: a manager that makes handles, and
prepare and finalize in the batched format. Activations go as they are: experts quantize them."""

import torch
from vllm.distributed.device_communicators.base_device_communicator import All2AllManagerBase
from vllm.model_executor.layers.fused_moe import modular_kernel

from ._abi import DtileInvalid
from .moe import AllToAll, InFlight

# Its name before routers could be part of the experts' kernels.
_Base = getattr(modular_kernel, "FusedMoEPrepareAndFinalizeModular",
                modular_kernel.FusedMoEPrepareAndFinalize)


class DtileAll2AllManager(All2AllManagerBase):
    """`get_handle` gives an AllToAll for the sizes of a layer; layers with equal ones share it."""

    def __init__(self, cpu_group, tcp_store_group=None):
        if tcp_store_group is None:
            super().__init__(cpu_group)
        else:
            super().__init__(cpu_group, tcp_store_group)
        self._handles = {}

    def get_handle(self, kwargs):
        """`kwargs`: hidden, experts, topk, max_tokens, dtype, and capacity where it is not all."""
        key = tuple(sorted(kwargs.items(), key=lambda item: item[0]))
        if key not in self._handles:
            self._handles[key] = AllToAll(self.cpu_group.group_name, **kwargs)
        return self._handles[key]

    def dispatch(self, *args, **kwargs):
        raise NotImplementedError("DtilePrepareAndFinalize.prepare dispatches")

    def combine(self, *args, **kwargs):
        raise NotImplementedError("DtilePrepareAndFinalize.finalize combines")

    def destroy(self):
        self._handles.clear()


class DtilePrepareAndFinalize(_Base):
    """prepare is dispatch, finalize is combine."""

    def __init__(self, handle, moe_config=None, quant_config=None):
        if moe_config is None:
            super().__init__()
        else:
            super().__init__(moe_config, quant_config)
        self._handle = handle
        self._in_flight = InFlight()

    @property
    def activation_format(self):
        return modular_kernel.FusedMoEActivationFormat.BatchedExperts

    def topk_indices_dtype(self):
        return torch.int32

    def max_num_tokens_per_rank(self):
        return self._handle.max_tokens

    def num_dispatchers(self):
        return self._handle.ranks

    def output_is_reduced(self):
        return True

    def prepare(self, a1, topk_weights, topk_ids, num_experts, expert_map,
                apply_router_weight_on_input, quant_config, defer_input_quant=False):
        if num_experts != self._handle.experts:
            raise DtileInvalid(f"{num_experts} experts, but the handle was made for "
                               f"{self._handle.experts}")
        if getattr(quant_config, "quant_dtype", None) is not None and not defer_input_quant:
            raise DtileInvalid("activations are dispatched as they are: use experts that quantize "
                               "their inputs (defer_input_quant)")
        if apply_router_weight_on_input:
            if topk_ids.shape[1] != 1:
                raise DtileInvalid("weights can be applied to inputs where a token has one expert; "
                                   f"here it has {topk_ids.shape[1]}")
            a1 = a1 * topk_weights.to(a1.dtype)
        self._in_flight.begin()
        rows, origin, count = self._handle.dispatch(a1, topk_ids)
        self._in_flight.put(origin, count)
        tokens = modular_kernel.ExpertTokensMetadata(expert_num_tokens=count,
                                                     expert_num_tokens_cpu=None)
        return rows, None, tokens, None, None

    def finalize(self, output, fused_expert_output, topk_weights, topk_ids,
                 apply_router_weight_on_input, weight_and_reduce_impl):
        if type(weight_and_reduce_impl).__name__ != "TopKWeightAndReduceDelegate":
            raise DtileInvalid("the way back weights and sums: experts must delegate that "
                               "(TopKWeightAndReduceDelegate), not "
                               f"{type(weight_and_reduce_impl).__name__}")
        weights = topk_weights.to(torch.float32)
        if apply_router_weight_on_input:
            weights = torch.ones_like(weights)
        self._handle.combine(fused_expert_output, *self._in_flight.take(), topk_ids, weights,
                             out=output)
