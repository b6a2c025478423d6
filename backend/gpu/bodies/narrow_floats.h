// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One-byte floats for matrix instructions that do not take them.
#pragma once

#include "frontend/base/dtype.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/IRBuilder.h"

namespace dtile::backend::gpu {

/// Appends the four one-byte floats of a word (i32) as two words of halves, which hold all their
/// values: the first two, then the others.
void appendHalves(llvm::IRBuilderBase &b, DType dtype, llvm::Value *word,
                  llvm::SmallVectorImpl<llvm::Value *> &words);

} // namespace dtile::backend::gpu
