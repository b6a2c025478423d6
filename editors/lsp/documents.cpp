// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Names and edits of open documents.
#include "editors/lsp/documents.h"

#include "editors/lsp/line_table.h"

#include "llvm/Support/Path.h"

namespace dtile::lsp {

namespace {
constexpr llvm::StringLiteral kUntitled = "untitled:";
// What stands between the scheme and a name that is no path.
constexpr llvm::StringLiteral kNoPath = "/untitled:";
} // namespace

void allowUntitled() { llvm::lsp::URIForFile::registerSupportedScheme(kUntitled.drop_back()); }

bool rewriteUntitled(llvm::json::Object &message) {
  llvm::json::Object *params = message.getObject("params");
  llvm::json::Object *document = params ? params->getObject("textDocument") : nullptr;
  llvm::StringRef name = document ? document->getString("uri").value_or("") : "";
  if (!name.consume_front(kUntitled) || name.starts_with("/"))
    return false;
  (*document)["uri"] = (kUntitled + kNoPath + name).str();
  return true;
}

std::string clientUri(const llvm::lsp::URIForFile &uri) {
  llvm::StringRef name = uri.uri();
  if (name.consume_front(kUntitled) && name.consume_front(kNoPath))
    return (kUntitled + name).str();
  return uri.uri().str();
}

std::string pathOf(const llvm::lsp::URIForFile &uri, llvm::StringRef folder) {
  const bool hasNoFile = uri.uri().starts_with(kUntitled) && uri.file().starts_with(kNoPath);
  llvm::SmallString<128> path(hasNoFile ? folder : llvm::StringRef());
  path += uri.file();
  llvm::sys::path::remove_dots(path, /*remove_dot_dot=*/true);
  return path.str().str();
}

size_t applyChanges(std::string &text,
                    const std::vector<llvm::lsp::TextDocumentContentChangeEvent> &changes) {
  size_t last = 0;
  for (const llvm::lsp::TextDocumentContentChangeEvent &change : changes) {
    if (!change.range) {
      text = change.text;
      last = 0;
      continue;
    }
    const LineTable lines(text);
    const size_t begin = lines.offset(change.range->start);
    const size_t end = std::max(begin, lines.offset(change.range->end));
    text.replace(begin, end - begin, change.text);
    last = begin + change.text.size();
  }
  return last;
}

} // namespace dtile::lsp
