// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Visits what a typed tree holds.
#pragma once

#include "sema/tree/typed_ast.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace dtile::sema {

/// Calls `statement` for each statement of a kernel's bodies and `expression` for each expression
/// in them, outer ones first, in the order of the text.
void walkBodies(const KernelInstance &kernel, llvm::function_ref<void(const TStmt &)> statement,
                llvm::function_ref<void(const TExpr &)> expression);

/// The same for the statements of a block, and those in them.
void walkBlock(const TBlock &block, llvm::function_ref<void(const TStmt &)> statement,
               llvm::function_ref<void(const TExpr &)> expression);

/// Whether an expression of this kind touches memory itself: it can be `after` something.
[[nodiscard]] bool touchesMemory(TExprKind kind);

/// Calls `visit` for an expression and those in it, outer ones first; nothing for null.
void walkExpression(const TExpr *expression, llvm::function_ref<void(const TExpr &)> visit);

} // namespace dtile::sema
