// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The tokens of a file, comments included, for tools that work on text: the formatter,
// highlighting.
#pragma once

#include "frontend/base/diagnostics.h"

#include <vector>

namespace dtile::parse {

/// What a token is to a reader. Operators and punctuation are told apart by their text.
enum class TokenClass : uint8_t {
  Name,
  /// Reserved everywhere.
  Keyword,
  /// A keyword in some places, a name in the others.
  ContextWord,
  Number,
  String,
  Punctuation,
  Operator,
  /// `<` and `>` around generic parameters and arguments.
  GenericOpen,
  GenericClose,
  LineComment,
  /// `///`
  DocComment,
  /// `//!`
  ModuleComment,
  BlockComment,
  /// What starts no token, or is not closed; already reported.
  Invalid,
};

/// A token, as offsets in its file.
struct Token {
  uint32_t begin = 0;
  uint32_t end = 0;
  TokenClass kind = TokenClass::Invalid;
};

/// Reads the tokens of a loaded file in order; lexical errors (E01xx) are reported.
[[nodiscard]] std::vector<Token> tokenize(FileId file, const SourceManager &sources,
                                          Diagnostics &diagnostics);

} // namespace dtile::parse
