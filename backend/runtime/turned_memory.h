// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Callers' symmetric objects that kernels write at peers part by part, in turn by the number of
// their launch (`epoch() % 2`).
#pragma once

#include "backend/runtime/errors.h"
#include "backend/runtime/kernel_state.h"

#include <vector>

namespace dtile::runtime {

/// Which kernel takes parts of what memory in turn. A rank writes the part of this launch while its
/// peers may still use that of the launch before; each kernel counts its own launches, so that a
/// second one would write what the first one's peers still use. Memory belongs to the first kernel
/// that takes it in turn, until it is freed or the kernel is gone.
class TurnedMemory {
public:
  /// The objects among a launch's arguments that the kernel takes in turn; an error where another
  /// kernel has one of them. The arguments have been checked; `heap` is where the rank's begins.
  Status claim(const KernelState &kernel, const dtile_arg *arguments, const void *heap,
               int32_t rank);
  /// Offsets of the heap.
  void release(int64_t begin, int64_t end);
  void forget(const KernelState &kernel);

private:
  struct Claim {
    int64_t begin = 0, end = 0;
    const KernelState *owner = nullptr;
  };
  std::vector<Claim> claims_;
};

} // namespace dtile::runtime
