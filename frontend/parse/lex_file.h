// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to frontend/parse: text to tokens, and what needs more than one token to know.
#pragma once

#include "frontend/base/diagnostics.h"
#include "frontend/parse/antlr_adapters.h"
#include "frontend/parse/parser.h"

#include <vector>

namespace dtile::parse {

/// A token as the lexer found it, comments included.
struct LexedToken {
  uint32_t begin = 0;
  uint32_t end = 0;
  /// A token type of DtileLexer.
  uint16_t type = 0;
};

/// The tokens of a file.
struct LexedFile {
  std::vector<LexedToken> all;
  /// Without comments and invalid characters; ends with EOF.
  std::vector<SourceToken> visible;
};

/// Reads all tokens, reports lexical errors, and settles for each token of `visible` what depends
/// on its neighbours: which `<` and `>` are generic brackets, where declarations start, what is
/// nested too deeply. With `Foreign::Translate`, `visible` has syntax of other languages in dtile's
/// form, reported (foreign_forms.h); tools that work on text keep it as written.
enum class Foreign : uint8_t { Keep, Translate };
[[nodiscard]] LexedFile lexFile(FileId file, const SourceManager &sources, Diagnostics &diagnostics,
                                const Limits &limits, Foreign foreign = Foreign::Keep);

} // namespace dtile::parse
