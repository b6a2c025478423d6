// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a file consists of, from its tree alone.
#pragma once

#include "editors/lsp/analysis.h"

#include "llvm/Support/JSON.h"

namespace dtile::lsp {

/// Declarations, with the parameters and roles of kernels below them (DocumentSymbol[]).
[[nodiscard]] llvm::json::Value documentSymbols(const Analysis &analysis);
/// Bodies, lists of parameters, comments and imports that take several lines (FoldingRange[]).
[[nodiscard]] llvm::json::Value foldingRanges(const Analysis &analysis);
/// Edits that give the canonical layout (TextEdit[]); null where the text does not parse.
[[nodiscard]] llvm::json::Value formattingEdits(const Analysis &analysis);

} // namespace dtile::lsp
