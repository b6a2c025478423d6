// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The texts that the client has open, and how it names them. They go before the files on disk, and
// are never written.
#pragma once

#include "llvm/Support/Error.h"
#include "llvm/Support/LSP/Protocol.h"

#include <map>
#include <string>
#include <vector>

namespace dtile::lsp {

struct Document {
  /// As the client writes it.
  std::string uri;
  std::string text;
  int64_t version = 0;
  /// The byte after the last edit.
  size_t lastEdit = 0;
};

/// Applies edits in order, each to the result of those before it. Positions count UTF-16 units.
/// Gives the byte after the last one.
size_t applyChanges(std::string &text,
                    const std::vector<llvm::lsp::TextDocumentContentChangeEvent> &changes);

/// Lets the protocol's reader take `untitled:` URIs, whose texts have no file yet. Once, before any
/// message.
void allowUntitled();

/// LLVM's reader takes paths from the root only: the names of texts without a file, as in
/// `untitled:Untitled-1`, become such paths. Whether the message had one.
bool rewriteUntitled(llvm::json::Object &message);

/// The URI as the client wrote it.
std::string clientUri(const llvm::lsp::URIForFile &uri);

/// The path by which a document is known: absolute, without `.` and `..`. A text without a file is
/// in `folder`, so that its imports are looked for there.
std::string pathOf(const llvm::lsp::URIForFile &uri, llvm::StringRef folder);

/// Open documents by the path of their file.
using Documents = std::map<std::string, Document>;

} // namespace dtile::lsp
