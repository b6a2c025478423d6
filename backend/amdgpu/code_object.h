// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Code objects: AMD's shared objects for GPUs, which HIP's module API loads.
#pragma once

#include "backend/gpu/gpu_target.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace dtile::backend::amdgpu {

/// The code object of a relocatable one, linked by lld in this process.
llvm::Expected<std::string> linkCodeObject(llvm::StringRef object);

/// What the notes of an object or code object say of its kernels.
llvm::Expected<std::vector<gpu::KernelStats>> readStats(llvm::StringRef object);

} // namespace dtile::backend::amdgpu
