// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The texts that the client has open. They go before the files on disk, and are never written.
#pragma once

#include "llvm/Support/Error.h"
#include "llvm/Support/LSP/Protocol.h"

#include <map>
#include <string>
#include <vector>

namespace dtile::lsp {

struct Document {
  llvm::lsp::URIForFile uri;
  std::string text;
  int64_t version = 0;
  /// The byte behind the last edit.
  size_t lastEdit = 0;
};

/// Applies edits in order, each to the result of those before it. Positions count UTF-16 units.
/// Gives the byte behind the last one.
size_t applyChanges(std::string &text,
                    const std::vector<llvm::lsp::TextDocumentContentChangeEvent> &changes);

/// Open documents by the path of their file.
using Documents = std::map<std::string, Document>;

} // namespace dtile::lsp
