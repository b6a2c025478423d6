// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The formatter: what it makes of examples, and what it never does to any text.
#include "frontend/format/format.h"
#include "frontend/parse/tokens.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Unicode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace dtile {
namespace {

std::optional<std::string> tryFormat(const std::string &text) {
  SourceManager sources;
  Diagnostics diagnostics(sources);
  return format::formatFile(sources.add("f.dtile", text), sources, diagnostics);
}

std::string formatted(const std::string &text) {
  std::optional<std::string> result = tryFormat(text);
  EXPECT_TRUE(result.has_value()) << text;
  return result.value_or("");
}

struct Lexed {
  std::string text;
  parse::TokenClass kind;
  friend bool operator==(const Lexed &, const Lexed &) = default;
};

void PrintTo(const Lexed &lexed, std::ostream *os) { *os << lexed.text; }

// All tokens and comments; comments without the spaces at their ends.
std::vector<Lexed> tokensOf(const std::string &text) {
  SourceManager sources;
  Diagnostics diagnostics(sources);
  const FileId file = sources.add("f.dtile", text);
  std::vector<Lexed> result;
  for (const parse::Token &token : parse::tokenize(file, sources, diagnostics))
    result.push_back({sources.text(file).slice(token.begin, token.end).rtrim().str(), token.kind});
  return result;
}

// What holds of every text that parses.
void checkProperties(const std::string &text) {
  const std::string once = formatted(text);
  ASSERT_EQ(tokensOf(once), tokensOf(text)) << text << "\n---\n" << once;
  ASSERT_EQ(formatted(once), once) << text;
  if (once.empty())
    return;
  EXPECT_EQ(once.back(), '\n');
  EXPECT_FALSE(llvm::StringRef(once).contains("\n\n\n")) << once;
  llvm::SmallVector<llvm::StringRef> lines;
  llvm::StringRef(once).split(lines, '\n');
  for (llvm::StringRef line : lines)
    EXPECT_EQ(line, line.rtrim(" ")) << once;
}

TEST(Format, SpacesAndIndentation) {
  EXPECT_EQ(formatted("fn  f<N>( x:f32[N],k :i64 )->f32[N]{let y=-x*  2 ;return y[ : ,k]; }"),
            "fn f<N>(x: f32[N], k: i64) -> f32[N] {\n"
            "    let y = -x * 2;\n"
            "    return y[:, k];\n"
            "}\n");
  EXPECT_EQ(formatted("fn f(){if a{x=1;}else if!b{x=2;}else{for k in K by BK{y+=1;z;}}}"),
            "fn f() {\n"
            "    if a { x = 1; } else if !b { x = 2; } else {\n"
            "        for k in K by BK {\n"
            "            y += 1;\n"
            "            z;\n"
            "        }\n"
            "    }\n"
            "}\n");
}

TEST(Format, CallsSlicesRanksRangesAndGenerics) {
  EXPECT_EQ(formatted("const X=put ( a [ i ,.. n, : ] , b @ p [ 0 .. W ] , after : t )&"
                      "cast < f32 > ( x . T )+y@( r+1 )[j];"),
            "const X = put(a[i, ..n, :], b@p[0 .. W], after: t) & cast<f32>(x.T) + "
            "y@(r + 1)[j];\n");
  EXPECT_EQ(formatted("fn f() {let r=a..b;\nlet s = a .. b;\nlet c = a?b:-c;}"),
            "fn f() {\n    let r = a..b;\n    let s = a .. b;\n    let c = a ? b : -c;\n}\n");
}

TEST(Format, ContextWordsAsNamesAndAsKeywords) {
  EXPECT_EQ(formatted("kernel k(in:in f32[N],out:out f32[N]) over(i in(N+1)by(2))ordered "
                      "programs ( all ( 3 ) ){ranks=in(1);}"),
            "kernel k(in: in f32[N], out: out f32[N]) over (i in (N + 1) by (2)) ordered "
            "programs(all(3)) {\n"
            "    ranks = in(1);\n"
            "}\n");
  EXPECT_EQ(formatted("test \"t\" ranks(1,2){expect a~=b rtol(1)atol 2;}"),
            "test \"t\" ranks (1, 2) { expect a ~= b rtol (1) atol 2; }\n");
}

TEST(Format, ParametersOnLinesOfTheirOwnAreATable) {
  EXPECT_EQ(formatted("kernel k(\nshard : in T[S, K], // S rows a rank\na: scratch symm T[W],\n"
                      "// The result.\nc: out T[S],\nready: symm signal[W], n: i32\n) { }"),
            "kernel k(\n"
            "    shard: in T[S, K],  // S rows a rank\n"
            "    a: scratch symm T[W],\n"
            "    // The result.\n"
            "    c: out T[S],\n"
            "    ready: symm signal[W], n: i32\n"
            ") {}\n")
      << "two on a line: no table";
  EXPECT_EQ(formatted("kernel k(\nshard : in T[S, K], // S rows a rank\na: scratch symm T[W],\n"
                      "c: out T[S],\nready: symm signal[W],\n) { }"),
            "kernel k(\n"
            "    shard: in   T[S, K],  // S rows a rank\n"
            "    a    : scratch symm T[W],\n"
            "    c    : out  T[S],\n"
            "    ready: symm signal[W],\n"
            ") {}\n");
}

TEST(Format, CommentsThatTheAuthorPutIntoOneColumnOfADeclarationStayInOne) {
  EXPECT_EQ(formatted("kernel k(\n"
                      "    shard: in T[S, K],             // S rows\n"
                      "    b: in T[N],\n"
                      ") {\n"
                      "    let peer = rank() + hop;       // hop 0 is the own copy\n"
                      "    g();\n"
                      "\n"
                      "    h();                           // behind a blank line\n"
                      "}\n"
                      "fn f() {\n"
                      "    h();                           // another declaration\n"
                      "}\n"),
            "kernel k(\n"
            "    shard: in T[S, K],        // S rows\n"
            "    b    : in T[N],\n"
            ") {\n"
            "    let peer = rank() + hop;  // hop 0 is the own copy\n"
            "    g();\n"
            "\n"
            "    h();                      // behind a blank line\n"
            "}\n"
            "\n"
            "fn f() {\n"
            "    h();  // another declaration\n"
            "}\n");
  const std::string comment(60, '-');
  EXPECT_EQ(formatted("fn f() {\n"
                      "    a();                                           // x\n"
                      "    b();\n"
                      "    let cccccccccccccc = ddddddddddddddddddddd;    // x\n"
                      "    b();\n"
                      "    a();                                           //" +
                      comment + "\n}\n"),
            "fn f() {\n"
            "    a();  // x\n"
            "    b();\n"
            "    let cccccccccccccc = ddddddddddddddddddddd;  // x\n"
            "    b();\n"
            "    a();  //" +
                comment + "\n}\n")
      << "where one does not fit, each stands by its line";
}

TEST(Format, LongParameterListsBecomeTables) {
  EXPECT_EQ(formatted("kernel gemm<T: dtype = bf16>(aaaaaaaaaaaa: in T[MMMMMM, K], b: in T[N, K], "
                      "c: out T[MMMMMM, N]) over (m in M by 8) { f(); }"),
            "kernel gemm<T: dtype = bf16>(\n"
            "    aaaaaaaaaaaa: in  T[MMMMMM, K],\n"
            "    b           : in  T[N, K],\n"
            "    c           : out T[MMMMMM, N]\n"
            ") over (m in M by 8) {\n"
            "    f();\n"
            "}\n");
}

TEST(Format, LongStatementsBreakAtTheOutermostPlace) {
  const std::string a = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
  EXPECT_EQ(formatted("fn f() {\nlet x = g(" + a + ", " + a + ") + h(" + a + ");\n}"),
            "fn f() {\n"
            "    let x = g(" +
                a + ", " + a +
                ")\n"
                "          + h(" +
                a +
                ");\n"
                "}\n");
  EXPECT_EQ(formatted("fn f() {\nx = g(" + a + ", " + a + ", " + a + ");\n}"), "fn f() {\n"
                                                                               "    x = g(" +
                                                                                   a + ", " + a +
                                                                                   ",\n"
                                                                                   "          " +
                                                                                   a +
                                                                                   ");\n"
                                                                                   "}\n");
}

TEST(Format, BreaksOfTheAuthorStay) {
  EXPECT_EQ(formatted("fn f() {\nlet s = put(a)\n& put(b) &\nput(c);\n"
                      "g(\na,\nb + c\n+ d,\n);\nlet t =\n5;\nx\n=\n6\n;\n}"),
            "fn f() {\n"
            "    let s = put(a)\n"
            "          & put(b)\n"
            "          & put(c);\n"
            "    g(\n"
            "        a,\n"
            "        b + c\n"
            "            + d,\n"
            "    );\n"
            "    let t =\n"
            "        5;\n"
            "    x =\n"
            "        6;\n"
            "}\n");
}

TEST(Format, OneLineBlocksStayWhileTheyFit) {
  EXPECT_EQ(formatted("fn f() {\nfor k in K { x += 1; }\nfor k in K {\nx += 1; }\n"
                      "for k in K { x; y; }\nif a {\n} else { }\n}"),
            "fn f() {\n"
            "    for k in K { x += 1; }\n"
            "    for k in K {\n"
            "        x += 1;\n"
            "    }\n"
            "    for k in K {\n"
            "        x;\n"
            "        y;\n"
            "    }\n"
            "    if a {} else {}\n"
            "}\n");
  const std::string longCall = "f(" + std::string(80, 'x') + ");";
  EXPECT_EQ(formatted("fn f() {\nfor k in K by BK { " + longCall + " }\n}"),
            "fn f() {\n    for k in K by BK {\n        " + longCall + "\n    }\n}\n");
}

TEST(Format, BlankLinesSeparateDeclarations) {
  EXPECT_EQ(formatted("//! m\n\n\nimport a;\nimport b;\n\nimport c;\nconst A = 1;\n"
                      "const B = 2;\nfn f() {\n\n\nx;\n\n\ny;\n\n}\n/// Doc.\n\nfn g() {}\n"
                      "// About h.\nfn h() {}"),
            "//! m\n\n"
            "import a;\nimport b;\n\nimport c;\n\n"
            "const A = 1;\nconst B = 2;\n\n"
            "fn f() {\n    x;\n\n    y;\n}\n\n"
            "/// Doc.\nfn g() {}\n\n"
            "// About h.\nfn h() {}\n");
}

TEST(Format, CommentsKeepTheirPlaces) {
  EXPECT_EQ(formatted("fn f( /* no */ ) { // open\n// own\nx; // a\nyyyy;   // b\n\nz; // c\n"
                      "/* multi\n  line */\nif a { // d\nx; }\n// before else\nelse { y; }\n"
                      "// last\n}\n// end"),
            "fn f(/* no */) {  // open\n"
            "    // own\n"
            "    x;     // a\n"
            "    yyyy;  // b\n"
            "\n"
            "    z;  // c\n"
            "    /* multi\n"
            "  line */\n"
            "    if a {  // d\n"
            "        x;\n"
            "    }\n"
            "    // before else\n"
            "    else { y; }\n"
            "    // last\n"
            "}\n"
            "\n"
            "// end\n");
}

TEST(Format, AlignedLetsStayAligned) {
  EXPECT_EQ(formatted("fn f() {\nlet src  = 1;\nlet longer = 2;\n}"),
            "fn f() {\n    let src = 1;\n    let longer = 2;\n}\n");
  EXPECT_EQ(formatted("fn f() {\n  let src    = 1;\n  let longer = 2; // c\n  let x = 3;\n}"),
            "fn f() {\n    let src    = 1;\n    let longer = 2;  // c\n    let x = 3;\n}\n");
}

TEST(Format, WhatDoesNotParseIsLeftAlone) {
  EXPECT_EQ(tryFormat("fn f( {"), std::nullopt);
  EXPECT_EQ(tryFormat("const A = \"x;\n"), std::nullopt);
}

TEST(Format, EmptyFilesStayEmpty) {
  EXPECT_EQ(formatted(""), "");
  EXPECT_EQ(formatted(" \n\n\t\r\n"), "");
  EXPECT_EQ(formatted("\xEF\xBB\xBF// x"), "// x\n");
}

TEST(Format, CarriageReturnsGo) {
  EXPECT_EQ(formatted("const A = 1; // c\r\n\r\nconst B = 2;\r\n"),
            "const A = 1;  // c\n\nconst B = 2;\n");
}

// Every program of the repository that parses.
std::vector<std::string> programs() {
  std::vector<std::string> texts;
  for (const char *folder : {"tests/grammar", "stdlib", "examples"}) {
    std::error_code error;
    llvm::SmallString<128> root(DTILE_SOURCE_DIR);
    llvm::sys::path::append(root, folder);
    for (llvm::sys::fs::recursive_directory_iterator it(root, error), end; it != end && !error;
         it.increment(error)) {
      if (llvm::sys::path::extension(it->path()) != ".dtile")
        continue;
      SourceManager sources;
      auto file = sources.load(it->path());
      if (!file) {
        llvm::consumeError(file.takeError());
        continue;
      }
      Diagnostics diagnostics(sources);
      if (format::formatFile(*file, sources, diagnostics))
        texts.push_back(sources.text(*file).str());
    }
  }
  return texts;
}

TEST(Format, PropertiesHoldOnAllPrograms) {
  const auto texts = programs();
  EXPECT_GE(texts.size(), 7u);
  for (const std::string &text : texts) {
    checkProperties(text);
    llvm::SmallVector<llvm::StringRef> lines;
    const std::string once = formatted(text);
    llvm::StringRef(once).split(lines, '\n');
    for (llvm::StringRef line : lines)
      if (!line.contains("//"))
        EXPECT_LE(llvm::sys::unicode::columnWidthUTF8(line), 100) << line.str();
  }
}

// The same tokens with other spaces, line breaks and comments between them.
std::string scrambled(const std::string &text, std::mt19937 &random) {
  static constexpr const char *kBetween[] = {" ",    " ",          "  ",        "\n",
                                             "\n\n", "\n\n\n    ", " /* c */ ", " // c\n"};
  const unsigned choices = random() % 3 == 0 ? 8 : 6;
  std::string result;
  for (const Lexed &token : tokensOf(text)) {
    result += token.text;
    const bool endsLine = token.text.starts_with("//");
    result += endsLine ? "\n" : kBetween[random() % choices];
  }
  return result;
}

TEST(Format, PropertiesHoldOnScrambledPrograms) {
  std::mt19937 random(3);
  for (const std::string &text : programs())
    for (int i = 0; i < 12; ++i) {
      checkProperties(scrambled(text, random));
      if (HasFatalFailure())
        return;
    }
}

} // namespace
} // namespace dtile
