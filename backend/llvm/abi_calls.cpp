// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads signatures of tables.
#include "backend/llvm/abi_calls.h"

#include "frontend/base/check.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/DerivedTypes.h"

namespace dtile::backend {

static llvm::Type *abiType(llvm::LLVMContext &context, char code) {
  switch (code) {
  case 'v':
    return llvm::Type::getVoidTy(context);
  case 'p':
    return llvm::PointerType::getUnqual(context);
  case 'i':
    return llvm::Type::getInt32Ty(context);
  case 'l':
    return llvm::Type::getInt64Ty(context);
  default:
    DTILE_UNREACHABLE("a code that signatures do not have");
  }
}

llvm::Function *declareAbiCall(llvm::Module &module, llvm::StringRef name,
                               llvm::StringRef signature) {
  llvm::LLVMContext &context = module.getContext();
  llvm::SmallVector<llvm::Type *> parameters;
  for (char code : signature.drop_front(2))
    parameters.push_back(abiType(context, code));
  llvm::FunctionCallee callee = module.getOrInsertFunction(
      name, llvm::FunctionType::get(abiType(context, signature[0]), parameters, false));
  auto *function = llvm::cast<llvm::Function>(callee.getCallee());
  function->setDoesNotThrow();
  return function;
}

} // namespace dtile::backend
