// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `x[None, n]`, as NumPy writes a new dimension of size 1.
#pragma once

#include "frontend/ast/ast.h"

namespace dtile::ast {

/// Whether an index asks for a new dimension, where nothing in scope is called `None`.
[[nodiscard]] inline bool isNewAxis(const Expr *index) {
  const auto *name = llvm::dyn_cast<NameExpr>(index);
  return name && name->name == "None";
}

} // namespace dtile::ast
