// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// PTX as inline assembly.
#include "backend/nvptx/inline_ptx.h"

#include "llvm/IR/InlineAsm.h"

namespace dtile::backend::nvptx {

using llvm::Value;
using Builder = llvm::IRBuilder<>;

Value *emitPtx(Builder &b, llvm::Type *result, const llvm::Twine &text, llvm::StringRef constraints,
               llvm::ArrayRef<Value *> operands) {
  llvm::SmallVector<llvm::Type *, 8> types;
  for (Value *operand : operands)
    types.push_back(operand->getType());
  auto *type = llvm::FunctionType::get(result, types, false);
  auto *code = llvm::InlineAsm::get(type, text.str(), constraints, /*hasSideEffects=*/true);
  auto *call = b.CreateCall(type, code, operands);
  call->addFnAttr(llvm::Attribute::Convergent);
  call->addFnAttr(llvm::Attribute::NoUnwind);
  return call;
}

void emitPtx(Builder &b, const llvm::Twine &text, llvm::StringRef constraints,
             llvm::ArrayRef<Value *> operands) {
  emitPtx(b, b.getVoidTy(), text, constraints, operands);
}

} // namespace dtile::backend::nvptx
