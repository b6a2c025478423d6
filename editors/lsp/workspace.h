// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Open documents and what is known of each: checked again when a text changes, one at a time, when
// somebody asks or nothing else is to do.
#pragma once

#include "editors/lsp/analysis.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <deque>

namespace dtile::lsp {

class Workspace {
public:
  explicit Workspace(sema::Options options) : options_(std::move(options)) {}

  [[nodiscard]] const Documents &documents() const { return documents_; }
  /// The path by which a document is known.
  [[nodiscard]] std::string pathOf(const llvm::lsp::URIForFile &uri) const {
    return lsp::pathOf(uri, folders_.empty() ? llvm::StringRef() : llvm::StringRef(folders_[0]));
  }

  void open(const llvm::lsp::TextDocumentItem &item);
  /// False where it is not open.
  bool change(const llvm::lsp::DidChangeTextDocumentParams &params);
  /// False where it is not open.
  bool close(const std::string &path);
  /// Files changed on disk: every document may mean something else.
  void filesChanged();
  /// Adds folders in which imports are looked for.
  void addImportPaths(llvm::ArrayRef<std::string> paths);

  [[nodiscard]] const sema::Options &imports() const { return options_; }
  /// Sets the folders whose files may name what open documents declare.
  void setFolders(std::vector<std::string> folders) { folders_ = std::move(folders); }

  /// What is known of an open document as it is now; null where it is not open.
  std::shared_ptr<const Analysis> analysis(const std::string &path);
  /// Checks one document that needs it, and gives its path; empty where none does.
  std::string checkNext();
  /// Visits open documents, and then the files of the folders, whose text has the name. Of files
  /// only names are known, and only their first kMaxFiles are read.
  void forEachThatNames(llvm::StringRef name, llvm::function_ref<void(const Analysis &)> visit);

  static constexpr unsigned kMaxFiles = 20'000;

private:
  struct State {
    std::shared_ptr<const Analysis> analysis;
    bool isStale = true;
  };
  void staleNow(const std::string &path);
  const std::shared_ptr<const Analysis> &refresh(const std::string &path);

  sema::Options options_;
  std::vector<std::string> folders_;
  Documents documents_;
  std::map<std::string, State> states_;
  /// Documents whose messages the client has not seen, in the order of their last change.
  std::deque<std::string> unseen_;
};

} // namespace dtile::lsp
