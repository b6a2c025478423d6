// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Integers of one byte as floats of two, two at a time.
#pragma once

#include "backend/gpu/device.h"

#include <utility>

namespace dtile::backend::gpu {

/// Whether a device has instructions for such a conversion of two at a time.
[[nodiscard]] bool widensPairs(const Device &device, DType from, DType to);

/// Two of these (i8) as f32, which hold the same numbers.
[[nodiscard]] std::pair<llvm::Value *, llvm::Value *>
widenPair(llvm::IRBuilderBase &b, DType from, DType to, llvm::Value *first, llvm::Value *second);

} // namespace dtile::backend::gpu
