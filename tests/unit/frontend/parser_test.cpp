// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The parser on text that no author would write: its trees in detail, its limits, its recovery.
#include "frontend/ast/ast_printer.h"
#include "frontend/ast/ast_visitor.h"
#include "frontend/parse/parser.h"
#include "frontend/parse/tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtile {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ParserTest : public ::testing::Test {
protected:
  const ast::Module &parse(std::string text) {
    file = sources.add("t.dtile", std::move(text));
    module = parse::parse(file, sources, arena, diagnostics);
    diagnostics.sortAndUnique();
    return *module;
  }

  // "line:column code" of each message.
  std::vector<std::string> places() {
    std::vector<std::string> result;
    for (const Diagnostic &one : diagnostics.all()) {
      const PresumedLoc at = sources.presumed(one.range.begin);
      result.push_back(std::to_string(at.line) + ":" + std::to_string(at.column) + " " +
                       std::string(diagInfo(one.id).code));
    }
    return result;
  }

  std::vector<std::string> messages() {
    std::vector<std::string> result;
    for (const Diagnostic &one : diagnostics.all())
      result.push_back(one.message);
    return result;
  }

  // The tree of an expression.
  std::string expr(const std::string &text) {
    diagnostics.clear();
    const ast::Module &parsed = parse("const X = " + text + ";");
    EXPECT_THAT(messages(), IsEmpty()) << text;
    std::string printed;
    llvm::raw_string_ostream os(printed);
    ast::printExpr(llvm::cast<ast::ConstDecl>(parsed.decls.front())->value, os);
    return printed;
  }

  std::string dump() {
    std::string printed;
    llvm::raw_string_ostream os(printed);
    ast::printAst(*module, os);
    return printed;
  }

  // Applies all fix-its to the text.
  std::string fixedText() {
    std::vector<FixIt> fixes;
    for (const Diagnostic &one : diagnostics.all())
      fixes.insert(fixes.end(), one.fixes.begin(), one.fixes.end());
    std::sort(fixes.begin(), fixes.end(),
              [](const FixIt &a, const FixIt &b) { return a.range.begin > b.range.begin; });
    std::string text = sources.text(file).str();
    for (const FixIt &fix : fixes)
      text.replace(sources.offsetInFile(fix.range.begin),
                   fix.range.end.offset - fix.range.begin.offset, fix.text);
    return text;
  }

  SourceManager sources;
  Diagnostics diagnostics{sources};
  ast::Arena arena;
  FileId file{};
  ast::Module *module = nullptr;
};

// ---- Expressions ----

TEST_F(ParserTest, PrecedenceFromWeakToTight) {
  EXPECT_EQ(expr("a || b && c == d | e ^ f & g << h + i * j"),
            "(|| a (&& b (== c (| d (^ e (& f (<< g (+ h (* i j)))))))))");
  EXPECT_EQ(expr("a * b + c << d & e ^ f | g == h && i || j"),
            "(|| (&& (== (| (^ (& (<< (+ (* a b) c) d) e) f) g) h) i) j)");
}

TEST_F(ParserTest, OperatorsOfOnePrecedenceGoLeftToRight) {
  EXPECT_EQ(expr("a - b - c + d"), "(+ (- (- a b) c) d)");
  EXPECT_EQ(expr("a / b % c * d"), "(* (% (/ a b) c) d)");
  EXPECT_EQ(expr("a - (b - c)"), "(- a (- b c))");
}

TEST_F(ParserTest, UnaryAndAfterBindTighterThanArithmetic) {
  EXPECT_EQ(expr("-a * !b + ~c"), "(+ (* (- a) (! b)) (~ c))");
  EXPECT_EQ(expr("x@r[i] after wait(s[r]) + y"),
            "(+ (after (index (remote x r) i) (call wait (index s r))) y)");
  EXPECT_EQ(expr("-x after t"), "(- (after x t))");
  EXPECT_EQ(expr("a after t after u"), "(after (after a t) u)");
}

TEST_F(ParserTest, ConditionalsNestToTheRight) {
  EXPECT_EQ(expr("a ? b : c ? d : e"), "(? a b (? c d e))");
  EXPECT_EQ(expr("a < b ? b + 1 : c"), "(? (< a b) (+ b 1) c)");
}

TEST_F(ParserTest, RemoteTakesNamesNumbersAndParentheses) {
  EXPECT_EQ(expr("x@p[i]"), "(index (remote x p) i)");
  EXPECT_EQ(expr("x@0[i]"), "(index (remote x 0) i)");
  EXPECT_EQ(expr("part@(r + 1)[i].T"), "(member (index (remote part (+ r 1)) i) .T)");
}

TEST_F(ParserTest, RangesInIndicesAndValues) {
  EXPECT_EQ(expr("x[:, a..b, ..n, i.., j]"),
            "(index x (range _ _) (range a b) (range _ n) (range i _) j)");
  EXPECT_EQ(expr("f(0..W - 1)"), "(call f (range 0 (- W 1)))");
}

TEST_F(ParserTest, GenericArgumentsNeedABracketBehindThem) {
  EXPECT_EQ(expr("cast<f32>(x)"), "(call (generic cast f32) x)");
  EXPECT_EQ(expr("zeros<f32>[BM, BN]"), "(index (generic zeros f32) BM BN)");
  EXPECT_EQ(expr("random<bf16>[M / W, K](seed: rank())"),
            "(call (index (generic random bf16) (/ M W) K) seed:(call rank))");
  EXPECT_EQ(expr("k<f32, BM = 64, (a > b)>(x)"), "(call (generic k f32 BM:64 (> a b)) x)");
  EXPECT_EQ(expr("a < b"), "(< a b)");
  EXPECT_EQ(expr("a < b && c > (d)"), "(&& (< a b) (> c d))");
  EXPECT_EQ(expr("(a < b) == (c > d)"), "(== (< a b) (> c d))");
  EXPECT_EQ(expr("f(a < b, c < d)"), "(call f (< a b) (< c d))");
  EXPECT_EQ(expr("f<g<1>(x)>(y)"), "(call (generic f (call (generic g 1) x)) y)");
  EXPECT_EQ(expr("a < b ? c > (d) : e"), "(? (< a b) (> c d) e)");
  EXPECT_EQ(expr("m.f<1>(x)"), "(call (generic (member m .f) 1) x)");
}

TEST_F(ParserTest, LabelsAndTrailingCommas) {
  EXPECT_EQ(expr("f(a, count: 2, after: t,)"), "(call f a count:2 after:t)");
  EXPECT_EQ(expr("f(c ? a : b)"), "(call f (? c a b))");
  EXPECT_EQ(expr("x[i, j,]"), "(index x i j)");
  EXPECT_EQ(expr("f()"), "(call f)");
}

TEST_F(ParserTest, NumbersAndStrings) {
  EXPECT_EQ(expr("1_000 + 0xff + 0b101"), "(+ (+ 1000 255) 5)");
  EXPECT_EQ(expr("18446744073709551615"), "18446744073709551615");
  EXPECT_EQ(expr("2e-2 + 1_0.5"), "(+ 0.02f 10.5f)");
  EXPECT_EQ(expr(R"("a\n\"\\b")"), R"("a\n\"\\b")");
}

TEST_F(ParserTest, ContextWordsAreNames) {
  EXPECT_EQ(expr("in + out * by(all, rtol: ranks)"), "(+ in (* out (call by all rtol:ranks)))");
  parse("kernel k(from: in f32[N], sum: out f32[N], ready: symm signal[W], all: i32, in: i32)\n"
        "    over (by in N by by) ordered programs(programs) {\n"
        "  let test = in; let bench = test; let scratch = as;\n"
        "  for in in in by by { ranks = atol; }\n"
        "}");
  EXPECT_THAT(messages(), IsEmpty());
}

TEST_F(ParserTest, RangesOfNodesAreExact) {
  const ast::Module &parsed = parse("const X = a + f(b)[1] * 2;");
  const auto *sum =
      llvm::cast<ast::BinaryExpr>(llvm::cast<ast::ConstDecl>(parsed.decls.front())->value);
  EXPECT_EQ(sources.text(sum->range), "a + f(b)[1] * 2");
  EXPECT_EQ(sources.text(sum->opRange), "+");
  const auto *product = llvm::cast<ast::BinaryExpr>(sum->rhs);
  EXPECT_EQ(sources.text(product->range), "f(b)[1] * 2");
  EXPECT_EQ(sources.text(llvm::cast<ast::IndexExpr>(product->lhs)->base->range), "f(b)");
}

// ---- Declarations and statements ----

TEST_F(ParserTest, DocCommentsBelongToTheNextDeclaration) {
  const ast::Module &parsed = parse("//! About the file.\n//! More.\n\n"
                                    "/// Of x.\n///   Indented.\n// Not of x.\nconst x = 1;\n"
                                    "/// Lost.\n");
  EXPECT_EQ(parsed.doc, "About the file.\nMore.");
  EXPECT_EQ(llvm::cast<ast::ConstDecl>(parsed.decls.front())->doc, "Of x.\n  Indented.");
}

TEST_F(ParserTest, ImportsNameTheirModules) {
  parse("import a.b.c;\nimport \"dir/file.dtile\";\nimport x as y;\nimport \"z\" as w;");
  EXPECT_EQ(dump(), "module\n  import a/b/c as c\n  import \"dir/file.dtile\" as file\n"
                    "  import x as y\n  import \"z\" as w\n");
}

TEST_F(ParserTest, SeveralResultsAndTheirReturn) {
  parse("fn f<N>(x: f32[N]) -> (f32[N], f32) { let (a, b) = g(x); return (a, b); }");
  EXPECT_THAT(messages(), IsEmpty());
  EXPECT_THAT(dump(), HasSubstr("result f32[N]\n    result f32\n    body\n"
                                "      let a b = (call g x)\n      return a b\n"));
}

TEST_F(ParserTest, ElseIfNests) {
  parse("fn f() { if a { x = 1; } else if b { x = 2; } else { x = 3; } }");
  EXPECT_THAT(messages(), IsEmpty());
  EXPECT_THAT(dump(), HasSubstr("if a\n        x = 1\n      else\n        if b\n          x = 2\n"
                                "        else\n          x = 3\n"));
}

TEST_F(ParserTest, AKernelWithoutRolesHasOneUnnamedRole) {
  const ast::Module &parsed = parse("kernel k(x: in f32[N]) { let a = 1; }");
  const auto *kernel = llvm::cast<ast::KernelDecl>(parsed.decls.front());
  ASSERT_EQ(kernel->roles.size(), 1u);
  EXPECT_EQ(kernel->roles.front()->name.name, "");
  EXPECT_EQ(kernel->roles.front()->over, nullptr);
  EXPECT_EQ(kernel->roles.front()->body->statements.size(), 1u);
  EXPECT_TRUE(kernel->prologue.empty());
}

TEST_F(ParserTest, StatementsOfAKernelWithRolesStandBeforeThem) {
  parse("kernel k() over (i in N) {\n  f();\n  let a = 1;\n  role r { }\n  let b = 2;\n}");
  EXPECT_THAT(places(), ElementsAre("1:12 E0117", "2:3 E0116", "5:3 E0116"));
}

TEST_F(ParserTest, RepeatedClauses) {
  parse("kernel k() over (i in N) ordered ordered programs(1) programs(2) { }\n"
        "test \"t\" { expect a ~= b rtol 1 rtol 2; }");
  EXPECT_THAT(places(), ElementsAre("1:34 E0113", "1:54 E0113", "2:33 E0113"));
}

TEST_F(ParserTest, WalkerVisitsInSourceOrder) {
  struct Names : ast::Walker<Names> {
    using Walker::visit;
    bool visit(const ast::NameExpr &name) {
      seen += name.name.str() + " ";
      return true;
    }
    bool visit(const ast::WhileStmt &) { return false; }
    std::string seen;
  };
  const ast::Module &parsed =
      parse("kernel k<T = a>(x: in f32[b] = c) { let s = d; role r over (i in e by f) programs(g) {"
            " while h { i; } x[j] += m(l: n) after o; } when all (p) { } ensures q ~= r rtol s; }");
  ASSERT_THAT(messages(), IsEmpty());
  Names names;
  names.walk(parsed);
  EXPECT_EQ(names.seen, "a b c d e f g x j m n o q r s ");
}

// ---- Errors ----

TEST_F(ParserTest, TenMistakesGiveTenMessages) {
  parse("kernel k(\n"
        "    a: in f32[N]\n"       // a comma
        "    b: outt f32[N],\n"    // out
        ") over (i of N) {\n"      // in
        "    let x = 1\n"          // a semicolon
        "    let y = f(a[i, 2);\n" // a bracket
        "    retrun x;\n"          // return
        "    let = 4;\n"           // a name
        "    if x = 3 { }\n"       // ==, a habit
        "    x = 5 + ;\n"          // an operand
        "    y = 08x;\n"           // a number
        "}\n");
  EXPECT_THAT(places(),
              ElementsAre("2:17 E0102", "3:8 E0102", "4:11 E0102", "5:14 E0102", "6:21 E0102",
                          "7:5 E0102", "8:9 E0102", "9:10 E0119", "10:13 E0102", "11:9 E0109"));
}

TEST_F(ParserTest, FixItsMakeTheTextParse) {
  parse("kernal k(\n    a: in f32[N]\n    b: outt f32[N],\n) ovr (i of N) {\n"
        "    let x = 1\n    let y = f(a[i, 2;\n    lte z = g(x y);\n    if x = 3 { };\n"
        "    f(x,, y);\n    let s = \"abc\n}\n"
        "test \"t\" rank (1) { expect a ~= b rtoll 1; }\n");
  EXPECT_GE(diagnostics.errorCount(), 12u);
  // One repair may uncover the next mistake on its line.
  for (int round = 0; round < 4 && diagnostics.hasErrors(); ++round) {
    const std::string fixed = fixedText();
    diagnostics.clear();
    parse(fixed);
  }
  EXPECT_THAT(messages(), IsEmpty()) << sources.text(file).str();
}

TEST_F(ParserTest, MissingClosersPointAtTheirOpeners) {
  parse("fn f() {\n  g(a;\n  h(b;\n}\nfn g() {\n");
  ASSERT_THAT(places(), ElementsAre("2:6 E0102", "3:6 E0102", "6:1 E0102"));
  for (const Diagnostic &one : diagnostics.all())
    ASSERT_EQ(one.notes.size(), 1u);
  EXPECT_EQ(sources.presumed(diagnostics.all()[1].notes[0].range.begin).column, 4u);
  EXPECT_EQ(sources.presumed(diagnostics.all()[2].notes[0].range.begin).line, 5u);
}

TEST_F(ParserTest, ABrokenDeclarationLeavesTheOthers) {
  const ast::Module &parsed = parse("fn broken( { x\nconst A = 1;\nfn good() { }\n");
  EXPECT_TRUE(diagnostics.hasErrors());
  ASSERT_FALSE(parsed.decls.empty());
  EXPECT_TRUE(llvm::isa<ast::FnDecl>(parsed.decls.back()));
  EXPECT_EQ(llvm::cast<ast::FnDecl>(parsed.decls.back())->name.name, "good");
}

TEST_F(ParserTest, OverlapsHaveStepsOfTheirOwn) {
  const ast::Module &parsed =
      parse("overlap f<T: dtype = f32>(x: in T[S], y: out T[S], z: out T[S]) {\n"
            "  requires S > 1;\n  let h = g<B = 4>(p(x), 2);\n  (y, z) = lib.q(h);\n"
            "  ensures y ~= x;\n}");
  EXPECT_FALSE(diagnostics.hasErrors());
  ASSERT_EQ(parsed.decls.size(), 1u);
  const auto *overlap = llvm::cast<ast::OverlapDecl>(parsed.decls[0]);
  EXPECT_EQ(overlap->kernel, nullptr);
  EXPECT_EQ(overlap->generics.size(), 1u);
  EXPECT_EQ(overlap->params.size(), 3u);
  EXPECT_EQ(overlap->clauses.size(), 1u);
  EXPECT_EQ(overlap->ensures.size(), 1u);
  ASSERT_EQ(overlap->steps.size(), 2u);
  EXPECT_TRUE(overlap->steps[0].isLet);
  EXPECT_FALSE(overlap->steps[1].isLet);
  EXPECT_EQ(overlap->steps[1].names.size(), 2u);
}

TEST_F(ParserTest, PlansHaveSpacesOrAlternatives) {
  const ast::Module &parsed = parse("plan p<C = 4>(s: in T[M], x: scratch symm T[W, M]) {\n"
                                    "  requires M > 0;\n  let half = M / 2;\n"
                                    "  over (i in 0..W) { put(s[:], x@i[rank(), :]); }\n"
                                    "  role sum over (m in M by C) { x[rank(), m] = s[m]; }\n"
                                    "  ensures x ~= all_gather(s);\n}\n"
                                    "plan q(s: in T[M], x: scratch symm T[W, M]) = p | lib.p;");
  EXPECT_FALSE(diagnostics.hasErrors());
  ASSERT_EQ(parsed.decls.size(), 2u);
  const auto *plan = llvm::cast<ast::PlanDecl>(parsed.decls[0]);
  EXPECT_EQ(plan->clauses.size(), 1u);
  EXPECT_EQ(plan->prologue.size(), 1u);
  ASSERT_EQ(plan->roles.size(), 2u);
  EXPECT_EQ(plan->roles[0]->name.name, "");
  EXPECT_EQ(plan->roles[1]->name.name, "sum");
  EXPECT_EQ(plan->ensures.size(), 1u);
  EXPECT_EQ(llvm::cast<ast::PlanDecl>(parsed.decls[1])->alternatives.size(), 2u);
}

TEST_F(ParserTest, OverlapsJoinBothWays) {
  const ast::Module &parsed =
      parse("overlap o = gemm<BM = 64> with { a <- p<C = 8>(shard), c -> lib.q(out, axis: 1), };");
  EXPECT_FALSE(diagnostics.hasErrors());
  ASSERT_EQ(parsed.decls.size(), 1u);
  const auto *overlap = llvm::cast<ast::OverlapDecl>(parsed.decls[0]);
  EXPECT_TRUE(llvm::isa<ast::GenericExpr>(overlap->kernel));
  ASSERT_EQ(overlap->joins.size(), 2u);
  EXPECT_EQ(overlap->joins[0].tensor.name, "a");
  EXPECT_FALSE(overlap->joins[0].isProducer);
  EXPECT_TRUE(overlap->joins[1].isProducer);
  EXPECT_TRUE(llvm::isa<ast::CallExpr>(overlap->joins[1].plan));
}

TEST_F(ParserTest, JoinArrowsAreTwoTokensThatCompareElsewhere) {
  parse("overlap o = gemm with { a < - p(shard), b <- p(s) };\nconst A = 1 <-1 ? 2 : 3;");
  EXPECT_FALSE(diagnostics.hasErrors());
}

TEST_F(ParserTest, WordsOfJoinsAreNamesElsewhere) {
  parse("kernel k(with: in f32[unordered], y: out f32[unordered])\n"
        "    over (m in unordered by 4) { y[m] = with[m]; }\n"
        "fn f(x: f32[4]) -> f32[4] {\n  var with = x;\n  for i in 0..4 unordered { with += x; }\n"
        "  return with;\n}");
  EXPECT_FALSE(diagnostics.hasErrors());
}

TEST_F(ParserTest, ReservedWordsAsNamesSaySo) {
  parse("fn kernel() { }\nfn f(after: i32) { }");
  EXPECT_THAT(messages(), ElementsAre("expected a function name but found keyword `kernel`",
                                      "expected a parameter or `)` but found keyword `after`"));
  EXPECT_EQ(diagnostics.all()[0].notes.front().message, "`kernel` is a reserved word");
}

TEST_F(ParserTest, AssignmentNeedsAPlace) {
  parse("fn f() { a + b = 1; f(x) = 2; x[i] = 3; y = 4; }");
  EXPECT_THAT(places(), ElementsAre("1:10 E0112", "1:21 E0112"));
}

TEST_F(ParserTest, RanksThatAreCallsNeedParentheses) {
  parse("const A = x@rank()[i];");
  EXPECT_THAT(messages(), ElementsAre("expected a rank in parentheses or a slice but found `(`"));
  EXPECT_EQ(fixedText(), "const A = x@(rank())[i];");
}

TEST_F(ParserTest, ListsInParenthesesOnlyAfterReturnAndYield) {
  parse("fn f() { let x = (a, b); return (a, b); }");
  EXPECT_THAT(places(), ElementsAre("1:18 E0115"));
}

TEST_F(ParserTest, LiteralsOutOfRange) {
  parse("const A = 18446744073709551616;\nconst B = 1e999;\nconst C = 1e-999;\n"
        "const D = \"\\q\";\nconst E = 1.5.2;\n");
  EXPECT_THAT(places(), ElementsAre("1:11 E0106", "2:11 E0106", "4:12 E0114", "5:15 E0102"));
}

// ---- Hostile text ----

TEST_F(ParserTest, EmptyFilesAreModules) {
  for (const char *text : {"", " \n\t\r\n", "// only a comment", "\xEF\xBB\xBF"}) {
    EXPECT_TRUE(parse(text).decls.empty());
    EXPECT_THAT(messages(), IsEmpty()) << text;
  }
}

TEST_F(ParserTest, ByteOrderMarksAndCarriageReturnsAreSpace) {
  parse("\xEF\xBB\xBF// c\r\nconst A = 1;\r\nconst B = ;\r\n");
  EXPECT_THAT(places(), ElementsAre("3:11 E0102"));
}

TEST_F(ParserTest, InvalidUtf8IsReportedAndTheRestIsParsed) {
  parse("// caf\xE9\nconst A = ;\n");
  EXPECT_THAT(places(), ElementsAre("1:7 E0101", "2:11 E0102"));
}

TEST_F(ParserTest, BinaryFilesGiveOneMessage) {
  std::string junk("\x7F"
                   "ELF\x02\x01\x01\0\0\xFF\xFE",
                   11);
  parse(junk + junk + junk);
  EXPECT_THAT(places(), ElementsAre("1:10 E0101"));
}

TEST_F(ParserTest, ZeroBytesAreUnexpectedCharacters) {
  parse(std::string("const A = 1;\0", 13));
  EXPECT_THAT(messages(), ElementsAre("character U+0000 does not start any token"));
}

TEST_F(ParserTest, WordProcessorCharactersGetFixIts) {
  parse("const A = 3 × 4;\nconst B = “x”;\n");
  ASSERT_GE(diagnostics.all().size(), 2u);
  EXPECT_EQ(diagnostics.all()[0].message, "character `×` does not start any token");
  EXPECT_EQ(diagnostics.all()[0].fixes.front().text, "*");
}

TEST_F(ParserTest, UnclosedCommentsAndStringsPointAtTheirStart) {
  parse("const A = \"x;\n/* open\n");
  EXPECT_THAT(places(), ElementsAre("1:11 E0104", "2:1 E0107"));
}

std::string repeated(const std::string &text, size_t count) {
  std::string result;
  for (size_t i = 0; i < count; ++i)
    result += text;
  return result;
}

// Each nests or chains without end, in one way that recursion could follow.
class DepthTest : public ParserTest, public ::testing::WithParamInterface<const char *> {};

TEST_P(DepthTest, IsReportedOnceAndTheRestIsParsed) {
  // What is repeated, what stands in the middle, what is repeated behind it.
  const auto [open, rest] = llvm::StringRef(GetParam()).split('~');
  const auto [middle, close] = rest.split('~');
  const ast::Module &parsed = parse("fn f() { x = a " + repeated(open.str(), 10000) + middle.str() +
                                    repeated(close.str(), 10000) + "; }\nconst LAST = 1;\n");
  ASSERT_EQ(diagnostics.all().size(), 1u) << messages().front();
  EXPECT_EQ(diagInfo(diagnostics.all().front().id).code, "E0105");
  ASSERT_FALSE(parsed.decls.empty());
  EXPECT_TRUE(llvm::isa<ast::ConstDecl>(parsed.decls.back()));
}

INSTANTIATE_TEST_SUITE_P(Parser, DepthTest,
                         ::testing::Values("+ (~b~)", "+ x[~b~]", "+ f(~b~)", "? c : ~b", "? ~b",
                                           "+ c * d", "< c", ".b", "@b", "()", "after c ", "- ~b",
                                           "* f<c ~~>(1)", "; { a~; b;~}", "; while c { a~~;}",
                                           "; if b { } else if c { } else { a~~; }"));

TEST_F(ParserTest, LongChainsOfElseAreCut) {
  parse("fn f() { if a { }" + repeated(" else if b { }", 10000) + " }\nconst LAST = 1;");
  ASSERT_EQ(diagnostics.all().size(), 1u);
  EXPECT_EQ(diagInfo(diagnostics.all().front().id).code, "E0105");
}

TEST_F(ParserTest, MistakesPastTheLimitEndTheFile) {
  parse("fn f() { " + repeated("x = ;\n", 1000) + " }\nconst LAST = 1;");
  EXPECT_EQ(diagnostics.all().size(), parse::Limits().maxErrors + 1);
  EXPECT_EQ(diagInfo(diagnostics.all().back().id).code, "E0111");
}

TEST_F(ParserTest, JunkTerminates) {
  for (const char *piece : {"(",
                            ")",
                            "[",
                            "]",
                            "{",
                            "}",
                            ",",
                            ";",
                            ":",
                            "@",
                            "..",
                            "<",
                            ">",
                            "after ",
                            "kernel ",
                            "role ",
                            "when all ",
                            "over (",
                            "let ",
                            "let (",
                            "for ",
                            "if ",
                            "else ",
                            "=",
                            "\"",
                            "'",
                            "fn f(",
                            "test \"\" ",
                            "import ",
                            "const ",
                            "?",
                            "- ",
                            "yield ",
                            "a b ",
                            "a:b ",
                            "0x",
                            "\xE2\x80\x9C",
                            "/*",
                            "//",
                            "x[1 2 ",
                            "f(a b "}) {
    for (const char *prefix :
         {"", "fn f() { ", "kernel k(", "kernel k() { role r { x[", "const X = f("})
      parse(prefix + repeated(piece, 3000));
    diagnostics.clear();
  }
}

TEST_F(ParserTest, EveryPrefixOfAProgramIsHandled) {
  const std::string program =
      "//! m\nimport a.b as c;\n/// d\nkernel k<T: dtype = bf16, const N>(x: scratch symm T[N] = 0,"
      " y: out f32[2, N],) {\n let a = 0x1f;\n role r over (i in 0..N by 4) ordered programs(2) {"
      " var s: f32[N] = done; for j in 3 { s &= put(x@(j + 1)[i, :], y[..2] after t); }"
      " if a < b && !c { yield s; } else if d { await s; } else { while e { f<g>(1).T[2] = 3; } }"
      " } when all (s) { notify(x, after: s); }\n"
      " ensures y ~= x ? 1.5e3 : \"q\" rtol 1 atol 2;\n}\n"
      "test \"t\" ranks (1, 2,) { let (p, q) = h(); expect p == q; return (p, q); }\n";
  parse(program);
  EXPECT_THAT(messages(), IsEmpty());
  for (size_t i = 0; i < program.size(); ++i)
    parse(program.substr(0, i));
  // And with one character less.
  for (size_t i = 0; i < program.size(); ++i)
    parse(program.substr(0, i) + program.substr(i + 1));
}

// ---- Tokens ----

TEST_F(ParserTest, TokensCoverTheTextAndKnowGenericBrackets) {
  const FileId id = sources.add("t", "a<b>(c) < d /* x */ in fn 1.5 \"s\" // y\n");
  const auto tokens = parse::tokenize(id, sources, diagnostics);
  std::string classes;
  for (const parse::Token &token : tokens)
    classes += "NKCnsPO<>ldmbI"[size_t(token.kind)];
  EXPECT_EQ(classes, "N<N>PNPONbCKnsl");
  EXPECT_EQ(tokens.back().end, 38u);
}

} // namespace
} // namespace dtile
