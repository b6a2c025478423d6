// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages: their texts, their order, and how they look.
#include "frontend/base/diagnostics.h"

#include "llvm/Support/JSON.h"

#include <gtest/gtest.h>

#include <map>

namespace dtile {
namespace {

class DiagnosticsTest : public ::testing::Test {
protected:
  // A range of a file that is added with the text.
  SourceRange mark(std::string text, uint32_t begin, uint32_t end) {
    const FileId file = sources.add("f.dtile", std::move(text));
    return {sources.locAt(file, begin), sources.locAt(file, end)};
  }
  std::string printed(DiagnosticForm form = DiagnosticForm::Text,
                      ColorMode color = ColorMode::Never) {
    std::string text;
    llvm::raw_string_ostream os(text);
    printDiagnostics(diagnostics, form, color, os);
    return text;
  }

  SourceManager sources;
  Diagnostics diagnostics{sources};
};

TEST_F(DiagnosticsTest, HolesAreFilled) {
  diagnostics.report(SourceRange{}, diag::unexpected_token, "`{1}`", 7);
  EXPECT_EQ(diagnostics.all().front().message, "expected `{1}` but found 7");
}

TEST_F(DiagnosticsTest, RowsFollowTheStyle) {
  std::map<std::string_view, Severity> codes;
  for (unsigned i = 0; i < diag::kCount; ++i) {
    const DiagInfo &info = diagInfo(diag::Id(i));
    if (info.severity == Severity::Note) {
      EXPECT_EQ(info.code, "") << info.name;
      continue;
    }
    // Rows may share a code, which then is one kind of message.
    EXPECT_EQ(codes.emplace(info.code, info.severity).first->second, info.severity) << info.name;
    EXPECT_EQ(info.code.size(), 5u) << info.name;
    EXPECT_NE(info.text.back(), '.') << info.name;
    EXPECT_FALSE(std::isupper(static_cast<unsigned char>(info.text.front())) &&
                 info.text.substr(0, 2) != "IR")
        << info.name;
  }
}

TEST_F(DiagnosticsTest, CaretAndTildesMarkTheRange) {
  diagnostics.report(mark("let x = foo;\n", 8, 11), diag::unterminated_comment);
  EXPECT_EQ(printed(), "f.dtile:1:9: error: block comment is not closed [E0107]\n"
                       "    1 | let x = foo;\n"
                       "      |         ^~~\n"
                       "1 error generated\n");
}

TEST_F(DiagnosticsTest, TabsKeepTheCaretInPlace) {
  diagnostics.report(mark("\ta\tb", 3, 4), diag::unterminated_comment);
  EXPECT_EQ(printed(), "f.dtile:1:4: error: block comment is not closed [E0107]\n"
                       "    1 |         a       b\n"
                       "      |                 ^\n"
                       "1 error generated\n");
}

TEST_F(DiagnosticsTest, WideAndCombiningCharactersKeepTheCaretInPlace) {
  diagnostics.report(mark("漢e\u0301x", 6, 7), diag::unterminated_comment);
  EXPECT_EQ(printed(), "f.dtile:1:4: error: block comment is not closed [E0107]\n"
                       "    1 | 漢e\u0301x\n"
                       "      |    ^\n"
                       "1 error generated\n");
}

TEST_F(DiagnosticsTest, BytesThatAreNoTextAreSpelledOut) {
  diagnostics.report(mark(std::string("a\xFF\x01z", 4), 3, 4), diag::invalid_utf8);
  EXPECT_NE(printed().find("    1 | a<FF><01>z\n"
                           "      |          ^\n"),
            std::string::npos);
}

TEST_F(DiagnosticsTest, LongLinesAreShownAroundTheCaret) {
  const std::string line = std::string(5000, 'a') + "!" + std::string(5000, 'b');
  diagnostics.report(mark(line, 5000, 5001), diag::unterminated_comment);
  const std::string text = printed();
  EXPECT_LT(text.size(), 800u);
  EXPECT_NE(text.find("...aaa"), std::string::npos);
  EXPECT_NE(text.find("bbb..."), std::string::npos);
  // The caret is under the mark.
  const size_t source = text.find("    1 | ");
  const size_t caretLine = text.find('\n', source) + 1;
  EXPECT_EQ(text.find('!', source) - source, text.find('^') - caretLine);
}

TEST_F(DiagnosticsTest, FixItsStandWhereTheyGo) {
  const SourceRange range = mark("if a = b {", 5, 6);
  diagnostics.report(range, diag::unterminated_comment).fix(range, "==");
  EXPECT_NE(printed().find("    1 | if a = b {\n"
                           "      |      ^\n"
                           "      |      ==\n"),
            std::string::npos);
}

TEST_F(DiagnosticsTest, FixItsOnOtherLinesShowThoseLines) {
  const SourceRange range = mark("f(\n  a\n  b)", 9, 10);
  const SourceLoc after{range.begin.offset - 3};
  diagnostics.report(range, diag::unterminated_comment).fix({after, after}, ",");
  EXPECT_NE(printed().find("    3 |   b)\n"
                           "      |   ^\n"
                           "    2 |   a\n"
                           "      |    ,\n"),
            std::string::npos);
}

TEST_F(DiagnosticsTest, NotesFollowWithTheirPlaces) {
  const SourceRange range = mark("f(\n;", 3, 4);
  const SourceLoc open{range.begin.offset - 2};
  diagnostics.report(range, diag::unterminated_comment)
      .note({open, {open.offset + 1}}, diag::note_opened_here);
  EXPECT_NE(printed().find("f.dtile:1:2: note: opened here\n"
                           "    1 | f(\n"
                           "      |  ^\n"),
            std::string::npos);
}

TEST_F(DiagnosticsTest, RangesOfSeveralLinesEndAtTheLine) {
  diagnostics.report(mark("abc {\n  d\n}", 4, 11), diag::unterminated_comment);
  EXPECT_NE(printed().find("    1 | abc {\n"
                           "      |     ^\n"),
            std::string::npos);
}

TEST_F(DiagnosticsTest, ColoursOnlyOnRequest) {
  diagnostics.report(mark("x", 0, 1), diag::unterminated_comment);
  EXPECT_EQ(printed().find('\x1b'), std::string::npos);
  EXPECT_NE(printed(DiagnosticForm::Text, ColorMode::Always).find("\x1b[1;31merror: \x1b[0m"),
            std::string::npos);
}

TEST_F(DiagnosticsTest, MessagesWithoutPlaceHaveNoSnippet) {
  diagnostics.report(SourceRange{}, diag::unterminated_comment);
  EXPECT_EQ(printed(), "error: block comment is not closed [E0107]\n1 error generated\n");
}

TEST_F(DiagnosticsTest, JsonCarriesEverything) {
  const SourceRange range = mark("é = \xFF;\nb", 3, 4);
  diagnostics.report(range, diag::unexpected_token, "a", "\xFF")
      .note(range, diag::note_opened_here)
      .fix({range.begin, {range.begin.offset + 5}}, "==");
  auto json = llvm::json::parse(printed(DiagnosticForm::Json));
  ASSERT_TRUE(bool(json)) << llvm::toString(json.takeError());
  const llvm::json::Object &message = *(*json->getAsArray())[0].getAsObject();
  EXPECT_EQ(message.getString("code"), "E0102");
  EXPECT_EQ(message.getString("severity"), "error");
  EXPECT_EQ(message.getString("file"), "f.dtile");
  EXPECT_EQ(message.getInteger("line"), 1);
  EXPECT_EQ(message.getInteger("column"), 3);
  EXPECT_EQ(message.getInteger("endColumn"), 4);
  EXPECT_EQ(message.getArray("notes")->size(), 1u);
  const llvm::json::Object &fix = *(*message.getArray("fixes"))[0].getAsObject();
  EXPECT_EQ(fix.getString("text"), "==");
  EXPECT_EQ(fix.getInteger("endLine"), 2);
}

TEST_F(DiagnosticsTest, JsonOfNothingIsAnEmptyArray) {
  EXPECT_EQ(printed(DiagnosticForm::Json), "[]\n");
}

TEST_F(DiagnosticsTest, SortingKeepsTheOrderAtOnePlaceAndDropsRepeats) {
  const SourceRange early = mark("ab", 0, 1);
  const SourceRange late{{early.begin.offset + 1}, {early.begin.offset + 2}};
  diagnostics.report(late, diag::unterminated_comment);
  diagnostics.report(early, diag::unterminated_string);
  diagnostics.report(early, diag::unterminated_comment);
  diagnostics.report(early, diag::unterminated_string);
  diagnostics.sortAndUnique();
  ASSERT_EQ(diagnostics.all().size(), 3u);
  EXPECT_EQ(diagnostics.all()[0].id, diag::unterminated_string);
  EXPECT_EQ(diagnostics.all()[1].id, diag::unterminated_comment);
  EXPECT_EQ(diagnostics.all()[2].range, late);
  EXPECT_EQ(diagnostics.errorCount(), 3u);
}

TEST_F(DiagnosticsTest, ErrorsPastTheLimitAreCountedButNotKept) {
  diagnostics.setErrorLimit(1);
  const SourceRange range = mark("ab", 0, 1);
  diagnostics.report(range, diag::unterminated_string);
  diagnostics.report(range, diag::unterminated_comment)
      .note(range, diag::note_opened_here)
      .fix(range, "x");
  EXPECT_EQ(diagnostics.all().size(), 1u);
  EXPECT_TRUE(diagnostics.all().front().notes.empty());
  EXPECT_EQ(diagnostics.errorCount(), 2u);
}

} // namespace
} // namespace dtile
