// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to backend/nvptx: PTX as inline assembly, for what LLVM has no intrinsics for.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/IR/IRBuilder.h"

namespace dtile::backend::nvptx {

/// Emits PTX with side effects; `constraints` as LLVM's.
llvm::Value *emitPtx(llvm::IRBuilder<> &b, llvm::Type *result, const llvm::Twine &text,
                     llvm::StringRef constraints, llvm::ArrayRef<llvm::Value *> operands);
void emitPtx(llvm::IRBuilder<> &b, const llvm::Twine &text, llvm::StringRef constraints,
             llvm::ArrayRef<llvm::Value *> operands);

} // namespace dtile::backend::nvptx
