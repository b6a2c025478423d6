// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where names are defined and used, in all files of a workspace.
#pragma once

#include "editors/lsp/workspace.h"

#include "llvm/Support/JSON.h"

namespace dtile::lsp {

/// Where the name at a position is defined (Location), or null. An import leads to its file.
[[nodiscard]] llvm::json::Value definitionAt(const Analysis &analysis,
                                             llvm::lsp::Position position);
/// The occurrences of the name at a position in its document (DocumentHighlight[]).
[[nodiscard]] llvm::json::Value highlightsAt(const Analysis &analysis,
                                             llvm::lsp::Position position);
/// The occurrences of the name at a position in all files (Location[]).
[[nodiscard]] llvm::json::Value referencesAt(Workspace &workspace, const Analysis &analysis,
                                             llvm::lsp::Position position, bool includeDeclaration);
/// The range of the name at a position where it can be renamed, or why not.
[[nodiscard]] llvm::Expected<llvm::json::Value> prepareRename(const Analysis &analysis,
                                                              llvm::lsp::Position position);
/// Edits of all files that give the name at a position another (WorkspaceEdit), or why that would
/// change what the program means.
[[nodiscard]] llvm::Expected<llvm::json::Value> renameAt(Workspace &workspace,
                                                         const Analysis &analysis,
                                                         llvm::lsp::Position position,
                                                         llvm::StringRef newName);

} // namespace dtile::lsp
