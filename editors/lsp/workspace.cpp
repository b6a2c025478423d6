// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Keeps track of which analyses are out of date.
#include "editors/lsp/workspace.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

namespace dtile::lsp {

void Workspace::open(const llvm::lsp::TextDocumentItem &item) {
  const std::string path = pathOf(item.uri);
  documents_[path] = {clientUri(item.uri), item.text, item.version, 0};
  staleNow(path);
}

bool Workspace::change(const llvm::lsp::DidChangeTextDocumentParams &params) {
  const std::string path = pathOf(params.textDocument.uri);
  const auto document = documents_.find(path);
  if (document == documents_.end())
    return false;
  document->second.lastEdit = applyChanges(document->second.text, params.contentChanges);
  document->second.version = params.textDocument.version;
  staleNow(path);
  return true;
}

bool Workspace::close(const std::string &path) {
  if (documents_.erase(path) == 0)
    return false;
  states_.erase(path);
  llvm::erase(unseen_, path);
  staleNow(path);
  return true;
}

void Workspace::filesChanged() {
  for (auto &[path, state] : states_) {
    state.isStale = true;
    if (!llvm::is_contained(unseen_, path))
      unseen_.push_back(path);
  }
}

void Workspace::addImportPaths(llvm::ArrayRef<std::string> paths) {
  llvm::append_range(options_.importPaths, paths);
  filesChanged();
}

// The document itself goes first, then those that import it.
void Workspace::staleNow(const std::string &path) {
  std::vector<std::string> affected;
  if (documents_.count(path))
    affected.push_back(path);
  for (const auto &[other, state] : states_)
    if (other != path && (!state.analysis || state.analysis->dependsOn(path)))
      affected.push_back(other);
  for (const std::string &each : affected) {
    states_[each].isStale = true;
    llvm::erase(unseen_, each);
  }
  unseen_.insert(unseen_.begin(), affected.begin(), affected.end());
}

const std::shared_ptr<const Analysis> &Workspace::refresh(const std::string &path) {
  State &state = states_[path];
  if (state.isStale) {
    // The old one is not needed any more, and memory is for one.
    state.analysis = nullptr;
    state.analysis = Analysis::make(path, documents_.at(path), documents_, options_);
    state.isStale = false;
  }
  return state.analysis;
}

std::shared_ptr<const Analysis> Workspace::analysis(const std::string &path) {
  return documents_.count(path) ? refresh(path) : nullptr;
}

std::string Workspace::checkNext() {
  if (unseen_.empty())
    return "";
  std::string path = unseen_.front();
  unseen_.pop_front();
  refresh(path);
  return path;
}

void Workspace::forEachThatNames(llvm::StringRef name,
                                 llvm::function_ref<void(const Analysis &)> visit) {
  for (const auto &[path, document] : documents_)
    if (llvm::StringRef(document.text).contains(name))
      visit(*refresh(path));
  sema::Options onlyNames = options_;
  onlyNames.onlyNames = true;
  unsigned left = kMaxFiles;
  for (const std::string &folder : folders_) {
    std::error_code error;
    for (llvm::sys::fs::recursive_directory_iterator it(folder, error, /*follow_symlinks=*/false),
         end;
         it != end && !error && left > 0; it.increment(error), --left) {
      const std::string &path = it->path();
      // `.git` and the like.
      if (llvm::sys::path::filename(path).starts_with("."))
        it.no_push();
      // A pipe could have no end, or nobody who writes.
      if (!llvm::StringRef(path).ends_with(".dtile") || documents_.count(path) ||
          !llvm::sys::fs::is_regular_file(path))
        continue;
      auto buffer = llvm::MemoryBuffer::getFile(path);
      if (!buffer || (*buffer)->getBufferSize() > SourceManager::kMaxFileBytes ||
          !(*buffer)->getBuffer().contains(name))
        continue;
      const Document document = {{}, (*buffer)->getBuffer().str(), 0, 0};
      visit(*Analysis::make(path, document, documents_, onlyNames));
    }
  }
}

} // namespace dtile::lsp
