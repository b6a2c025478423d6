// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The text form of syntax trees that `--dump=ast` shows.
#pragma once

#include "frontend/ast/ast.h"

#include "llvm/Support/raw_ostream.h"

namespace dtile::ast {

/// Prints declarations and statements as an indented tree, expressions as `(+ a (* b c))`. The text
/// depends on nothing but the tree.
void printAst(const Module &module, llvm::raw_ostream &os);

/// Prints one expression, as in printAst.
void printExpr(const Expr *expr, llvm::raw_ostream &os);

} // namespace dtile::ast
