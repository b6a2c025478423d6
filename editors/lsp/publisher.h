// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which messages a client shows for which file.
#pragma once

#include "editors/lsp/analysis.h"

#include "llvm/Support/JSON.h"

#include <functional>
#include <set>

namespace dtile::lsp {

/// Messages of one analysis as the protocol has them, by the path of the file that they are about.
using FileMessages = std::map<std::string, llvm::json::Array>;

/// One message (Diagnostic).
[[nodiscard]] llvm::json::Object messageOf(const Analysis &analysis, const Diagnostic &diagnostic);

/// Messages of a checked document and of what it imports. One about the embedded library, which no
/// client can open, stands at the first of its notes in a file, or at the top of the document.
[[nodiscard]] FileMessages messagesOf(const Analysis &analysis, const Diagnostics &diagnostics);

/// Sends each file's messages when they change: those of its own analysis, where it is open, and of
/// all documents that import it.
class Publisher {
public:
  using Send = std::function<void(llvm::json::Value params)>;
  explicit Publisher(Send send) : send_(std::move(send)) {}

  /// Replaces what `document` (a path) knows; sends at least its own messages.
  void update(const std::string &document, FileMessages messages, const Documents &documents);
  /// Forgets a document that was closed, and that the client called `uri`.
  void forget(const std::string &document, const std::string &uri, const Documents &documents);

private:
  void publish(const std::string &file, const Documents &documents);
  void send(const std::string &file, const std::string &uri, const Document *open);

  Send send_;
  /// By document, then by file.
  std::map<std::string, FileMessages> found_;
};

} // namespace dtile::lsp
