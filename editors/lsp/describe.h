// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is told of a name: how it is declared, its type, its comment.
#pragma once

#include "editors/lsp/analysis.h"

#include "llvm/Support/JSON.h"

namespace dtile::lsp {

/// A function that the language has.
struct BuiltinFunction {
  llvm::StringLiteral name;
  /// `(x, axis: k) -> v`, without the name.
  llvm::StringLiteral signature;
  llvm::StringLiteral doc;
};
/// What kernels and functions call, and what tests call.
[[nodiscard]] llvm::ArrayRef<BuiltinFunction> builtinFunctions();
[[nodiscard]] llvm::ArrayRef<BuiltinFunction> testFunctions();
/// By name; those of tests where `isInTest`. Null where there is none.
[[nodiscard]] const BuiltinFunction *findBuiltin(llvm::StringRef name, bool isInTest);

/// Whether a place is in a test or bench of the root file.
[[nodiscard]] bool isInTest(const Analysis &analysis, SourceLoc loc);
/// The identifier around a byte of the root file, or that ends there; empty for none.
[[nodiscard]] SourceRange wordAt(const Analysis &analysis, SourceLoc loc);

/// `let acc: tile f32[128, 256]`, `kernel copy<T: dtype>(x: in T[N])`: lines of code.
[[nodiscard]] std::string headOf(const Analysis &analysis, const sema::Definition &definition);
/// The comment before a declaration, or after a parameter on its line.
[[nodiscard]] std::string docOf(const Analysis &analysis, const sema::Definition &definition);
/// The type of a local in its first instance, as messages tell it; null where it has none.
[[nodiscard]] sema::Type typeOf(const Analysis &analysis, const sema::Definition &definition);

/// What a client shows for a position (Hover), or null.
[[nodiscard]] llvm::json::Value hoverAt(const Analysis &analysis, llvm::lsp::Position position);

} // namespace dtile::lsp
