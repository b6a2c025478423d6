// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Places and texts of edits.
#pragma once

#include "frontend/base/diagnostics.h"

#include <string>

namespace dtile::driver {

inline bool contains(SourceRange range, SourceLoc loc) {
  return range.begin <= loc && loc < range.end;
}

inline FixIt insertion(SourceLoc place, std::string text) {
  return {{place, place}, std::move(text)};
}

/// A statement with its semicolon, which its range may leave out.
SourceRange wholeStatement(const SourceManager &sources, SourceRange statement);

/// Removes a statement, and its line where nothing else stands there.
FixIt removal(const SourceManager &sources, SourceRange statement);

/// Inserts a statement in front of another: on a line of its own where that begins its line.
FixIt insertBefore(const SourceManager &sources, SourceLoc statement, llvm::StringRef text);

} // namespace dtile::driver
