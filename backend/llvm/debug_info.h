// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Line tables: which source line an instruction comes from.
#pragma once

#include "ir/core/ir.h"

#include "llvm/IR/DIBuilder.h"
#include "llvm/IR/IRBuilder.h"

namespace dtile::backend {

/// Describes the functions of one LLVM module. Without sources it does nothing.
class DebugInfo {
public:
  DebugInfo(llvm::Module &module, const SourceManager *sources);

  /// Makes `function` a function of the source at the op's position.
  void describe(llvm::Function &function, const ir::Op &op);
  /// Sets the builder's position to the op's, inside the builder's function.
  void moveTo(llvm::IRBuilder<> &builder, const ir::Op &op);
  /// Call once, after the last function.
  void finish();

private:
  [[nodiscard]] llvm::DIFile *file(llvm::StringRef name);
  llvm::DIBuilder builder_;
  const SourceManager *sources_;
  llvm::DICompileUnit *unit_ = nullptr;
};

} // namespace dtile::backend
