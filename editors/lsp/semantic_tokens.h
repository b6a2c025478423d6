// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Colours of names by what they mean. Words and literals are left to the editor's own grammar.
#pragma once

#include "editors/lsp/analysis.h"

#include "llvm/Support/JSON.h"

namespace dtile::lsp {

/// The names of types and modifiers that tokens have (SemanticTokensLegend).
[[nodiscard]] llvm::json::Value semanticLegend();
/// The names of the root file, in order (SemanticTokens).
[[nodiscard]] llvm::json::Value semanticTokens(const Analysis &analysis);

} // namespace dtile::lsp
