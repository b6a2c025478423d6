// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The call that a position is in, found in the text.
#pragma once

#include "editors/lsp/analysis.h"
#include "editors/lsp/describe.h"

namespace dtile::lsp {

/// `module.name<…>(…` before a position.
struct CallSite {
  llvm::StringRef module;
  llvm::StringRef name;
  /// In the angle brackets rather than the parentheses.
  bool isInGenerics = false;
  /// The number of the argument, from 0, and its label where one is written.
  unsigned argument = 0;
  llvm::StringRef label;
  /// What is called; at most one is set.
  const sema::Definition *definition = nullptr;
  const BuiltinFunction *builtin = nullptr;
};

/// Nothing where the position is in no call whose callee is known.
[[nodiscard]] std::optional<CallSite> callAround(const Analysis &analysis, SourceLoc loc);

/// The definition that a name has at a position: a local, else one of the file; with a module, one
/// of that. Null for none.
[[nodiscard]] const sema::Definition *resolve(const Analysis &analysis, SourceLoc loc,
                                              llvm::StringRef module, llvm::StringRef name);

} // namespace dtile::lsp
