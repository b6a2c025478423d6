// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Edits that messages propose.
#pragma once

#include "editors/lsp/analysis.h"

#include "llvm/Support/JSON.h"

namespace dtile::lsp {

/// The fix-its of messages about the root file, as quick fixes (CodeAction[]).
[[nodiscard]] llvm::json::Array fixesOf(const Analysis &analysis, const Diagnostics &diagnostics);
/// Those of which the message or an edit is in a line of the range: the cursor seldom is at the
/// very words.
[[nodiscard]] llvm::json::Array fixesAt(const llvm::json::Array &fixes, llvm::StringRef uri,
                                        llvm::lsp::Range range);

} // namespace dtile::lsp
