# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""vLLM's interfaces over dtile: for expert parallelism a manager that makes handles, and prepare
and finalize in the batched format, over dtile.moe, where activations go as they are and experts
quantize them; and the custom all-reduce, over dtile.ops."""

import contextlib

from . import _groups
from ._abi import DtileInvalid, DtileUnavailable
from .moe import AllToAll, InFlight

try:
    import torch
    from vllm.distributed.device_communicators.base_device_communicator import All2AllManagerBase
    from vllm.model_executor.layers.fused_moe import modular_kernel
except ImportError as missing:
    raise DtileUnavailable("dtile.vllm needs vLLM with modular kernels for experts, which cannot "
                           f"be imported ({missing}); dtile.moe and dtile.ops do not") from missing

# Its name before routers could be part of the experts' kernels.
_Base = (getattr(modular_kernel, "FusedMoEPrepareAndFinalizeModular", None) or
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
        self._handle.combine(fused_expert_output, *self._in_flight.get(), topk_ids, weights,
                             out=output)
        self._in_flight.end()


class DtileAllReduce:
    """What vLLM's communicator of GPUs asks of a custom all-reduce (`ca_comm`). Made by all ranks
    of the group; tensors of `max_size` bytes and more are left to others."""

    def __init__(self, group, device=None, max_size=8 << 20, symm_mem_enabled=False):
        from . import ops

        self._ops = ops
        self._group = group if isinstance(group, str) else group.group_name
        self._taken = {}
        self.max_size = max_size
        self.disabled = _groups.team_of(self._group).size == 1

    def finalize_p2p(self):
        """The team has been made: nothing is left to do."""

    @contextlib.contextmanager
    def capture(self):
        """Kernels are captured as they are launched."""
        yield

    def should_custom_ar(self, inp):
        if self.disabled or not 0 < inp.numel() * inp.element_size() < self.max_size:
            return False
        # It is summed as a vector, whatever its shape.
        key = inp.numel(), inp.dtype
        if key not in self._taken:
            self._taken[key] = self._ops.all_reduce.supports(inp, "sum", self._group)
        return self._taken[key]

    def custom_all_reduce(self, input):
        """The sum in a new tensor, or None where it is not taken: the caller goes on to others."""
        if not self.should_custom_ar(input):
            return None
        return self._ops.all_reduce(input, "sum", self._group)

    def close(self):
        """The team belongs to the group: dtile.ops.close ends it."""
        self.disabled = True
