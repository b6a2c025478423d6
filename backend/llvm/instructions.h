// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Instructions that a program has given itself (`asm`), as inline assembly.
#pragma once

#include "backend/llvm/arith.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"

#include <string>

namespace dtile::backend {

/// Computes an `asm` from elements, all scalars or all vectors of one length. `place` is where the
/// program says it.
llvm::Value *emitInstructions(llvm::IRBuilder<> &b, Arith &arith, const ir::Op &op,
                              llvm::ArrayRef<llvm::Value *> elements, llvm::StringRef place);

/// What emitInstructions has noted of the instructions that a message is about.
struct InstructionsOf {
  std::string name;
  std::string assembly;
  std::string place;
};
[[nodiscard]] InstructionsOf instructionsAt(const llvm::Module &module, uint64_t cookie);

} // namespace dtile::backend
