// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks a document in an arena of its own, so that a newer version replaces all of it.
#include "editors/lsp/analysis.h"

#include "editors/lsp/guard.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::lsp {

namespace {
// More messages than this help nobody.
constexpr unsigned kErrorLimit = 500;
} // namespace

std::unique_ptr<Analysis> Analysis::make(const std::string &path, const Document &document,
                                         const Documents &open, const sema::Options &options) {
  sema::Options withDocuments = options;
  std::map<std::string, std::string> uris;
  for (const auto &[openPath, other] : open) {
    withDocuments.openFiles.emplace_back(openPath, other.text);
    uris.emplace(openPath, other.uri);
  }
  auto begin = [&] {
    std::unique_ptr<Analysis> result(new Analysis);
    result->openUris_ = uris;
    result->version = document.version;
    result->root = result->sources.add(path, document.text);
    result->lastEdit = result->sources.locAt(
        result->root, uint32_t(std::min(document.lastEdit, document.text.size())));
    result->diagnostics.setErrorLimit(kErrorLimit);
    return result;
  };
  std::unique_ptr<Analysis> result = begin();
  const bool isWhole = runGuarded([&] {
    result->program =
        sema::Program::analyze(result->root, result->sources, result->diagnostics, withDocuments);
    result->names = std::make_unique<sema::SymbolIndex>(*result->program);
  });
  if (isWhole) {
    result->diagnostics.sortAndUnique();
    return result;
  }
  // Destroying what was left in the middle could fail again.
  [[maybe_unused]] const auto *const left = result.release();
  result = begin();
  return result;
}

bool Analysis::dependsOn(llvm::StringRef path) const {
  if (!program)
    return true;
  return llvm::is_contained(program->files(), path) ||
         llvm::is_contained(program->absentFiles(), path);
}

const LineTable &Analysis::lines(FileId file) const {
  return lines_.try_emplace(file, sources.text(file)).first->second;
}

llvm::lsp::Range Analysis::range(SourceRange range) const {
  if (!range.isValid())
    return {};
  const FileId file = sources.fileOf(range.begin);
  const uint32_t begin = sources.offsetInFile(range.begin);
  const bool isWhole =
      range.end.isValid() && range.end >= range.begin && sources.fileOf(range.end) == file;
  return lines(file).range(begin, isWhole ? sources.offsetInFile(range.end) : begin);
}

SourceLoc Analysis::locAt(llvm::lsp::Position position) const {
  return sources.locAt(root, uint32_t(lines(root).offset(position)));
}

std::optional<std::string> Analysis::uriOf(FileId file) const {
  const llvm::StringRef path = sources.name(file);
  if (const auto open = openUris_.find(path.str()); open != openUris_.end())
    return open->second;
  if (path.starts_with("<"))
    return std::nullopt;
  llvm::Expected<llvm::lsp::URIForFile> uri = llvm::lsp::URIForFile::fromFile(path);
  if (uri)
    return uri->uri().str();
  llvm::consumeError(uri.takeError());
  return std::nullopt;
}

} // namespace dtile::lsp
