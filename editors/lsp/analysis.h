// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is known of one version of an open document: its tree, its checked program, its messages.
#pragma once

#include "editors/lsp/documents.h"
#include "editors/lsp/line_table.h"
#include "sema/names/symbol_index.h"

#include <map>
#include <memory>
#include <optional>

namespace dtile::lsp {

class Analysis {
public:
  /// Parses and checks a document, with what it imports: open documents, files, the library. Never
  /// null.
  static std::unique_ptr<Analysis> make(const std::string &path, const Document &document,
                                        const Documents &open, const sema::Options &options);
  Analysis(const Analysis &) = delete;
  Analysis &operator=(const Analysis &) = delete;

  SourceManager sources;
  Diagnostics diagnostics;
  /// Null where the compiler failed at this text; features then have nothing to say.
  std::unique_ptr<sema::Program> program;
  /// What names mean; null where `program` is.
  std::unique_ptr<sema::SymbolIndex> names;
  FileId root{};
  int64_t version = 0;
  /// Where the text was changed last.
  SourceLoc lastEdit;

  /// Whether the file takes part, or would where it came to be.
  [[nodiscard]] bool dependsOn(llvm::StringRef path) const;

  [[nodiscard]] const LineTable &lines(FileId file) const;
  /// A range of one file; its start twice where the range is invalid.
  [[nodiscard]] llvm::lsp::Range range(SourceRange range) const;
  /// The place in the root file; nothing where the position is in no line of it.
  [[nodiscard]] SourceLoc locAt(llvm::lsp::Position position) const;
  [[nodiscard]] bool isInRoot(SourceLoc loc) const {
    return loc.isValid() && sources.fileOf(loc) == root;
  }
  /// Where a client finds a file; nothing for a file of the embedded library.
  [[nodiscard]] std::optional<std::string> uriOf(FileId file) const;

private:
  Analysis() : diagnostics(sources) {}

  std::map<std::string, std::string> openUris_;
  mutable std::map<FileId, LineTable> lines_;
};

} // namespace dtile::lsp
