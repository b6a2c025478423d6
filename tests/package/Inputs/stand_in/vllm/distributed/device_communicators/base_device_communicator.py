# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The base class of managers, as vLLM documents it."""


class All2AllManagerBase:
    def __init__(self, cpu_group, tcp_store_group=None):
        self.cpu_group = cpu_group
        self.rank, self.world_size = cpu_group.rank, cpu_group.size

    def get_handle(self, kwargs):
        raise NotImplementedError

    def dispatch(self, hidden_states, topk_weights, topk_ids, is_sequence_parallel=False,
                 extra_tensors=None):
        raise NotImplementedError

    def combine(self, hidden_states, is_sequence_parallel=False):
        raise NotImplementedError

    def destroy(self):
        pass
