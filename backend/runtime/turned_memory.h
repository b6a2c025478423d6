// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Callers' symmetric objects that kernels write at peers part by part, in turn by the number of
// their launch (`epoch() % 2`).
#pragma once

#include "backend/runtime/errors.h"
#include "backend/runtime/kernel_state.h"

#include <vector>

namespace dtile::runtime {

/// Which kernel takes parts of what memory in turn. A rank writes the part of this launch while its
/// peers may still use that of the launch before. Each kernel counts its own launches, and where
/// the parts lie depends on the object's place and sizes: so memory belongs to the first kernel
/// that takes it in turn, as an object of these sizes, until it is freed or the kernel is gone.
class TurnedMemory {
public:
  /// An error where another kernel has what a launch would take in turn, or this one has it as an
  /// object of other sizes. The arguments have been checked; `heap` is where the rank's begins.
  Status check(const KernelState &kernel, const dtile_arg *arguments, const void *heap,
               int32_t rank) const;
  /// The launch takes place.
  void claim(const KernelState &kernel, const dtile_arg *arguments, const void *heap);
  /// Offsets of the heap; whether there was anything.
  bool release(int64_t begin, int64_t end);
  void forget(const KernelState &kernel);

private:
  struct Claim {
    int64_t begin = 0, end = 0;
    std::vector<int64_t> sizes;
    const KernelState *owner = nullptr;
    [[nodiscard]] bool overlaps(const Claim &other) const {
      return begin < other.end && other.begin < end;
    }
    bool operator==(const Claim &) const = default;
  };
  /// The claim of a parameter, empty where it takes nothing in turn.
  static Claim claimOf(const KernelState &kernel, size_t param, const dtile_arg *arguments,
                       const void *heap);

  std::vector<Claim> claims_;
};

} // namespace dtile::runtime
