// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// AMD's GPUs, by architecture.
#pragma once

#include "backend/gpu/device.h"

#include "llvm/ADT/ArrayRef.h"

namespace dtile::backend::amdgpu {

/// What code can be made for, the default first.
[[nodiscard]] llvm::ArrayRef<const gpu::Device *> devices();

} // namespace dtile::backend::amdgpu
