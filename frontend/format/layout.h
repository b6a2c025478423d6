// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to frontend/format: one statement (or header, or comment) to lines.
#pragma once

#include "frontend/format/items.h"

#include "llvm/ADT/ArrayRef.h"

#include <string>
#include <vector>

namespace dtile::format {

constexpr unsigned kMaxColumns = 100;
constexpr unsigned kIndent = 4;

/// A line of output.
struct Line {
  unsigned indent = 0;
  std::string text;
  /// The comment at its end, and its column in the source.
  llvm::StringRef comment;
  unsigned commentColumn = 0;
  bool blankBefore = false;
  /// Which of the file's declarations it belongs to.
  unsigned declaration = 0;
  /// The items on it, without the comment.
  size_t firstItem = 0;
  size_t lastItem = 0;

  [[nodiscard]] unsigned width() const;
};

/// Whether lines that are too long may be broken.
enum class Breaking : uint8_t { AsWritten, WhereNeeded };

/// Lays out the items [begin, end), which start a line at `indent`. Breaks are added to the items
/// where they are needed and asked for. The result depends on the items and their breaks only.
[[nodiscard]] std::vector<Line> layOut(std::vector<Item> &items, size_t begin, size_t end,
                                       unsigned indent, Breaking breaking);

/// Whether a line is longer than it should be, comment aside.
[[nodiscard]] bool isTooLong(const std::vector<Line> &lines);

} // namespace dtile::format
