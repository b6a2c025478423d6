// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The canonical layout of source text, behind `dtilec fmt`.
#pragma once

#include "frontend/base/diagnostics.h"

#include <optional>
#include <string>

namespace dtile::format {

/// The text of a loaded file in canonical layout: the same tokens and comments, indented, spaced
/// and broken into lines of at most 100 columns where that is possible. Formatting the result again
/// gives the same text. Line breaks that the author chose inside lists and between operators stay,
/// and comments that the author put into one column of a declaration stand in one.
/// Nothing when the file has syntax errors, which are reported: what does not parse is left alone.
[[nodiscard]] std::optional<std::string> formatFile(FileId file, const SourceManager &sources,
                                                    Diagnostics &diagnostics);

} // namespace dtile::format
