// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Prints syntax trees as the text that a user would write; what is printed parses to the same tree.
// Lines are not broken to fit: frontend/format does that.
#pragma once

#include "frontend/ast/ast.h"

#include "llvm/Support/raw_ostream.h"

#include <string>

namespace dtile::ast {

void printSource(const Expr *expr, llvm::raw_ostream &os);
void printSource(const Decl *decl, llvm::raw_ostream &os);

/// The same as a string.
[[nodiscard]] std::string textOf(const Expr *expr);

} // namespace dtile::ast
