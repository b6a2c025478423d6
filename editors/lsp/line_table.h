// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Positions as the protocol counts them: lines, and UTF-16 code units in a line.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/LSP/Protocol.h"

#include <vector>

namespace dtile::lsp {

/// Where the lines of a text begin. The text must outlive it. Text that is no valid UTF-8 has
/// positions, too: a byte that continues nothing is no unit.
class LineTable {
public:
  explicit LineTable(llvm::StringRef text);

  /// The position of a byte.
  [[nodiscard]] llvm::lsp::Position position(size_t offset) const;
  [[nodiscard]] llvm::lsp::Range range(size_t begin, size_t end) const {
    return {position(begin), position(end)};
  }
  /// The byte at a position. One past the end of its line is that end, as the protocol wants; one
  /// past the last line is the end of the text; one in the middle of a character is its start.
  [[nodiscard]] size_t offset(llvm::lsp::Position position) const;
  [[nodiscard]] size_t lineCount() const { return starts_.size(); }
  /// A line without its line break; empty past the last.
  [[nodiscard]] llvm::StringRef line(size_t index) const;
  /// Where a line begins.
  [[nodiscard]] size_t lineStart(size_t index) const { return starts_[index]; }

private:
  llvm::StringRef text_;
  std::vector<size_t> starts_;
};

} // namespace dtile::lsp
