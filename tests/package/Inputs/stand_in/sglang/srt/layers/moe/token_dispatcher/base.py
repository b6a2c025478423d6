# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The base class of dispatchers, as SGLang has it."""

from abc import ABC, abstractmethod


class BaseDispatcher(ABC):
    @abstractmethod
    def dispatch(self, hidden_states, topk_output, **kwargs):
        pass

    @abstractmethod
    def combine(self, combine_input, **kwargs):
        pass
