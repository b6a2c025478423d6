// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to frontend/format: tokens with what their neighbours make of them.
#pragma once

#include "frontend/parse/tokens.h"

#include "llvm/ADT/StringRef.h"

#include <vector>

namespace dtile::format {

/// What a token is to the layout.
enum class Kind : uint8_t {
  /// A name, a literal, a context word used as a name.
  Word,
  /// A keyword, or a context word used as one.
  Keyword,
  /// A unary operator.
  Prefix,
  /// A binary operator, `?` and its `:`, `->`, a spaced `..`.
  Infix,
  /// `=` and its compounds.
  Assign,
  /// `.`, `@`, and `..` without spaces.
  Tight,
  /// `(` and `[`.
  Open,
  /// `)` and `]`.
  Close,
  GenericOpen,
  GenericClose,
  OpenBrace,
  CloseBrace,
  Comma,
  Semicolon,
  /// The `:` of parameters, annotations and labels.
  Colon,
  /// The `:` that is an index.
  WholeColon,
  /// A comment that ends its line.
  LineComment,
  BlockComment,
};

/// A token or comment, and how it is to be set.
struct Item {
  Kind kind = Kind::Word;
  llvm::StringRef text;
  /// The partner of a bracket; its own index for all else.
  uint32_t partner = 0;
  /// Newlines between the item before and this one in the source.
  uint32_t newlines = 0;
  /// In the source: bytes on its line before it (columns, for comments), and spaces directly before
  /// it.
  uint32_t sourceColumn = 0;
  uint32_t sourceGap = 0;
  /// A line begins here.
  bool breakBefore = false;
  /// A space stands before it, where no line begins.
  bool spaceBefore = false;
  /// Braces only: the block stays on one line.
  bool isInline = false;
  /// The second token of two that are one to the reader: `<-`.
  bool sticksToBefore = false;
  /// `///` or `//!`
  bool isDoc = false;
  /// Spaces before it that align it with its neighbours above and below.
  uint32_t padding = 0;
};

inline bool isComment(const Item &item) {
  return item.kind == Kind::LineComment || item.kind == Kind::BlockComment;
}
/// Whether a line begins after an opening bracket, comments on its own line aside.
[[nodiscard]] bool isBrokenBehind(const std::vector<Item> &items, size_t open);

inline bool opens(Kind kind) { return kind == Kind::Open || kind == Kind::GenericOpen; }
inline bool closes(Kind kind) { return kind == Kind::Close || kind == Kind::GenericClose; }

/// Columns that a text takes on a terminal.
[[nodiscard]] unsigned columnsOf(llvm::StringRef text);

/// Classifies the tokens of a text that parses, and decides their spaces and which of the author's
/// line breaks stay.
[[nodiscard]] std::vector<Item> makeItems(llvm::StringRef text,
                                          const std::vector<parse::Token> &tokens);

} // namespace dtile::format
