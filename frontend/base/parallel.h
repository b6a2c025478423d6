// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Work that threads share. Not llvm::parallelFor: how many threads that has is a global of LLVM's,
// which lld sets for itself.
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"

#include <cstddef>

namespace dtile {

/// Calls `work` with each number below `count`, on all processors and in any order, and returns
/// when all have ended.
void inParallel(size_t count, llvm::function_ref<void(size_t)> work);

} // namespace dtile
