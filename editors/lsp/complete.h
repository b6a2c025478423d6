// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What can stand at a position, and what a call there takes. Both read the text before the
// position, as what is being typed seldom parses.
#pragma once

#include "editors/lsp/analysis.h"

#include "llvm/Support/JSON.h"

namespace dtile::lsp {

/// Names, words and labels that can stand at a position (CompletionList).
[[nodiscard]] llvm::json::Value
completionsAt(const Analysis &analysis, llvm::lsp::Position position, const sema::Options &imports);
/// The parameters of the call around a position (SignatureHelp), or null.
[[nodiscard]] llvm::json::Value signatureAt(const Analysis &analysis, llvm::lsp::Position position);

} // namespace dtile::lsp
