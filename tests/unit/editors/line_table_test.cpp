// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lines and UTF-16 columns, and edits that are given in them.
#include "editors/lsp/documents.h"
#include "editors/lsp/line_table.h"

#include <gtest/gtest.h>

namespace dtile::lsp {
namespace {

using Position = llvm::lsp::Position;

// A character of each length in UTF-8; the last is two units of UTF-16.
constexpr llvm::StringLiteral kWide = "aé∀𝔘z";

TEST(LineTable, ColumnsAreUtf16Units) {
  const LineTable lines(kWide);
  const std::vector<std::pair<size_t, int>> columns = {{0, 0}, {1, 1}, {3, 2}, {6, 3}, {10, 5}};
  for (auto [offset, column] : columns) {
    EXPECT_EQ(lines.position(offset), Position(0, column)) << offset;
    EXPECT_EQ(lines.offset(Position(0, column)), offset) << column;
  }
  EXPECT_EQ(lines.offset(Position(0, 4)), 6u) << "the middle of a pair is its start";
}

TEST(LineTable, LinesEndAsTheProtocolSays) {
  const LineTable lines("one\r\ntwo\rthree\n\nfive");
  ASSERT_EQ(lines.lineCount(), 5u);
  EXPECT_EQ(lines.line(0), "one");
  EXPECT_EQ(lines.line(1), "two");
  EXPECT_EQ(lines.line(2), "three");
  EXPECT_EQ(lines.line(3), "");
  EXPECT_EQ(lines.line(4), "five");
  EXPECT_EQ(lines.line(5), "");
  EXPECT_EQ(lines.position(5), Position(1, 0));
  EXPECT_EQ(lines.offset(Position(1, 99)), 8u) << "the end of the line, before its break";
}

TEST(LineTable, PlacesThatAreNowhereAreTheNearest) {
  const LineTable lines("ab\ncd");
  EXPECT_EQ(lines.offset(Position(9, 0)), 5u);
  EXPECT_EQ(lines.offset(Position(-1, 3)), 0u);
  EXPECT_EQ(lines.offset(Position(1, -4)), 3u);
  EXPECT_EQ(lines.position(99), Position(1, 2));
  EXPECT_EQ(LineTable("").offset(Position(3, 3)), 0u);
}

TEST(LineTable, BytesThatAreNoCharacterHavePlaces) {
  const LineTable lines("\x80\xff"
                        "a\xf0");
  for (size_t offset = 0; offset <= 4; ++offset)
    EXPECT_LE(lines.offset(lines.position(offset)), 4u);
}

llvm::lsp::TextDocumentContentChangeEvent edit(Position start, Position end, const char *text) {
  llvm::lsp::TextDocumentContentChangeEvent event;
  event.range = llvm::lsp::Range(start, end);
  event.text = text;
  return event;
}

TEST(ApplyChanges, EachSeesTheResultOfThoseBefore) {
  std::string text = "a𝔘b\nc";
  applyChanges(text,
               {edit({0, 1}, {0, 3}, "\n"), edit({1, 0}, {1, 1}, "B"), edit({9, 9}, {9, 9}, "!")});
  EXPECT_EQ(text, "a\nB\nc!");
  EXPECT_EQ(applyChanges(text, {edit({1, 1}, {0, 0}, "?")}), 4u) << "behind what was put in";
  EXPECT_EQ(text, "a\nB?\nc!") << "an end before the start is the start";
  llvm::lsp::TextDocumentContentChangeEvent whole;
  whole.text = "new";
  applyChanges(text, {whole, edit({0, 3}, {0, 3}, "er")});
  EXPECT_EQ(text, "newer");
}

} // namespace
} // namespace dtile::lsp
