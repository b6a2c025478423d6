// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A text and edits of it, as an editor sends them, and then every feature at some places: no crash,
// no hang, and no analysis that failed. A text ends at a zero byte; so does each edit, whose first
// three bytes say where it begins and how much it replaces.
#include "editors/lsp/complete.h"
#include "editors/lsp/describe.h"
#include "editors/lsp/fixes.h"
#include "editors/lsp/names.h"
#include "editors/lsp/outline.h"
#include "editors/lsp/publisher.h"
#include "editors/lsp/semantic_tokens.h"
#include "frontend/base/check.h"

#include <cstddef>
#include <cstdint>

using namespace dtile;
using namespace dtile::lsp;

namespace {

llvm::lsp::TextDocumentContentChangeEvent editOf(llvm::StringRef bytes, const std::string &text) {
  const auto byte = [&](size_t i) { return i < bytes.size() ? uint8_t(bytes[i]) : 0; };
  const LineTable lines(text);
  const size_t begin = (size_t(byte(0)) << 8 | byte(1)) % (text.size() + 1);
  llvm::lsp::TextDocumentContentChangeEvent edit;
  edit.range = lines.range(begin, std::min(text.size(), begin + byte(2)));
  edit.text = llvm::json::fixUTF8(bytes.drop_front(std::min<size_t>(bytes.size(), 3)));
  return edit;
}

void askAt(Workspace &workspace, const Analysis &analysis, llvm::lsp::Position position) {
  (void)definitionAt(analysis, position);
  (void)highlightsAt(analysis, position);
  (void)referencesAt(workspace, analysis, position, true);
  (void)hoverAt(analysis, position);
  (void)completionsAt(analysis, position, workspace.imports());
  (void)signatureAt(analysis, position);
  // A refusal is an answer.
  const auto forget = [](llvm::Expected<llvm::json::Value> answer) {
    if (!answer)
      llvm::consumeError(answer.takeError());
  };
  forget(prepareRename(analysis, position));
  forget(renameAt(workspace, analysis, position, "renamed"));
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  llvm::StringRef rest(reinterpret_cast<const char *>(data), size);
  const auto [text, edits] = rest.split('\0');
  Workspace workspace{sema::Options{}};
  llvm::lsp::TextDocumentItem item;
  item.uri = llvm::cantFail(llvm::lsp::URIForFile::fromFile("/fuzz/a.dtile"));
  item.text = llvm::json::fixUTF8(text);
  item.version = 1;
  workspace.open(item);
  const std::string path = workspace.pathOf(item.uri);
  llvm::lsp::DidChangeTextDocumentParams change;
  change.textDocument.uri = item.uri;
  for (rest = edits; !rest.empty();) {
    const auto [bytes, others] = rest.split('\0');
    rest = others;
    change.contentChanges = {editOf(bytes, workspace.documents().at(path).text)};
    change.textDocument.version++;
    DTILE_CHECK(workspace.change(change), "the document is open");
  }
  const std::shared_ptr<const Analysis> analysis = workspace.analysis(path);
  DTILE_CHECK(analysis->program != nullptr, "the compiler failed at this text");
  (void)messagesOf(*analysis, analysis->diagnostics);
  (void)fixesAt(fixesOf(*analysis, analysis->diagnostics), item.uri.uri(), {{0, 0}, {1 << 20, 0}});
  (void)documentSymbols(*analysis);
  (void)foldingRanges(*analysis);
  (void)formattingEdits(*analysis);
  (void)semanticTokens(*analysis);
  const LineTable &lines = analysis->lines(analysis->root);
  const size_t length = analysis->sources.text(analysis->root).size();
  constexpr size_t kPlaces = 8;
  for (size_t i = 0; i <= kPlaces; ++i)
    askAt(workspace, *analysis, lines.position(length * i / kPlaces));
  return 0;
}
