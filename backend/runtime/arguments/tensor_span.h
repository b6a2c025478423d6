// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What memory a tensor argument is: elements, bytes, order. Sums and products that would overflow
// make it none.
#pragma once

#include "backend/runtime/errors.h"
#include "backend/runtime/host/kernel_state.h"

#include <cstdint>

namespace dtile::runtime {

struct TensorSpan {
  int64_t elements = 1;
  /// From the first byte of its first element in memory to after its last. Empty tensors have
  /// none.
  uint64_t begin = 0, end = 0;
  /// Row-major, without gaps.
  bool isContiguous = true;
};

/// Checks a tensor against its parameter, and measures it; an error says what is wrong, without
/// saying of which argument. Of what a kernel writes, two elements must not be one place.
Status measureTensor(const dtile_param_desc &param, const dtile_tensor *tensor, TensorSpan *out);

} // namespace dtile::runtime
