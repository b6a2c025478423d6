// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass manager: options, culprits, dumps, times, bisection.
#include "ir/core/text_format.h"
#include "ir/transform/pass_manager.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dtile::passes {
namespace {

using namespace dtile::ir;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr llvm::StringLiteral kText = "func @f (%x: index) {\n"
                                      "  %y = add %x, %x : index\n"
                                      "  return %y\n"
                                      "}\n";

// Passes that do one thing each.

bool rename(Module &module, PassContext &context) {
  module.body().ops().front().set(attr::name, "renamed");
  return true;
}
bool breakIt(Module &module, PassContext &context) {
  module.body().ops().front().body().terminator()->erase();
  return true;
}
bool refuse(Module &module, PassContext &context) {
  context.report(module.body().ops().front(), diag::ir_bad_pass_option, "it");
  return false;
}
bool noteOption(Module &module, PassContext &context) {
  const int64_t *value = context.option("W");
  context.remark(module.body().ops().front(), value ? "W is " + std::to_string(*value) : "no W");
  return false;
}

constexpr PassInfo kPasses[] = {
    {"rename", rename, PassKind::Simplify, ""},
    {"break", breakIt, PassKind::Simplify, ""},
    {"refuse", refuse, PassKind::Check, ""},
    {"note", noteOption, PassKind::Schedule, ""},
};

struct PassManagerTest : testing::Test {
  SourceManager sources;
  Diagnostics diagnostics{sources};
  TypeContext types;
  std::unique_ptr<Module> module =
      parseModule(sources.add("a.dtir", kText.str()), sources, types, diagnostics);
  PassContext context{diagnostics};
  std::string said;
  llvm::raw_string_ostream out{said};

  bool run(llvm::StringRef pipeline, PassManagerOptions options = {}) {
    options.out = &out;
    const auto parsed = parsePipeline(pipeline, kPasses, diagnostics);
    return parsed && PassManager(options).run(*module, *parsed, context);
  }
  std::vector<diag::Id> reported() {
    std::vector<diag::Id> ids;
    for (const Diagnostic &diagnostic : diagnostics.all())
      ids.push_back(diagnostic.id);
    return ids;
  }
};

TEST_F(PassManagerTest, NamesTheCulpritAndShowsWhatItGot) {
  EXPECT_FALSE(run("rename,break,note", {.verifyEach = true}));
  EXPECT_THAT(reported(), ElementsAre(diag::ir_pass_broke));
  EXPECT_THAT(diagnostics.all().front().message, HasSubstr("`break`"));
  EXPECT_THAT(said, HasSubstr("not well-formed after pass `break`"));
  EXPECT_THAT(said, HasSubstr("`func` has region 0 that does not end with `return`"));
  EXPECT_THAT(said,
              HasSubstr("// ---- before break ----\nversion 1\nfunc @renamed (%x: index) {\n"));
  // Passes behind it do not run.
  EXPECT_TRUE(context.remarks.empty());
}

TEST_F(PassManagerTest, VerifiesAtTheEndInAnyCase) {
  EXPECT_FALSE(run("break,note"));
  EXPECT_THAT(reported(), ElementsAre(diag::ir_pass_broke));
}

TEST_F(PassManagerTest, AReportedErrorEndsThePipeline) {
  EXPECT_FALSE(run("refuse,note"));
  EXPECT_TRUE(context.remarks.empty());
}

TEST_F(PassManagerTest, OptionsHoldForTheirPassAlone) {
  context.options["W"] = 2;
  EXPECT_TRUE(run("note, note(W=4 X=1) ,note"));
  ASSERT_EQ(context.remarks.size(), 3u);
  EXPECT_EQ(context.remarks[0].text, "W is 2");
  EXPECT_EQ(context.remarks[1].text, "W is 4");
  EXPECT_EQ(context.remarks[1].pass, "note");
  EXPECT_EQ(context.remarks[2].text, "W is 2");
}

TEST_F(PassManagerTest, UnknownPassesAndBadOptionsAreReported) {
  EXPECT_FALSE(run("rename,nonsense"));
  EXPECT_FALSE(run("note(W)"));
  EXPECT_FALSE(run("note(W=four)"));
  EXPECT_FALSE(run("note(W=4"));
  EXPECT_THAT(reported(), ElementsAre(diag::ir_unknown_pass, diag::ir_bad_pass_option,
                                      diag::ir_bad_pass_option, diag::ir_unknown_pass));
}

TEST_F(PassManagerTest, PrintsBeforeAndAfterWhereAsked) {
  EXPECT_TRUE(run("rename,note", {.printBefore = {"rename"}, .printAfter = {"all"}}));
  EXPECT_THAT(said, HasSubstr("// ---- before rename ----\nversion 1\nfunc @f "));
  EXPECT_THAT(said, HasSubstr("// ---- after rename ----\nversion 1\nfunc @renamed "));
  EXPECT_THAT(said, HasSubstr("// ---- after note ----\nversion 1\nfunc @renamed "));
  EXPECT_THAT(said, Not(HasSubstr("before note")));
}

TEST_F(PassManagerTest, RefusesToPrintAroundWhatDoesNotRun) {
  EXPECT_FALSE(run("rename", {.printAfter = {"note"}}));
  EXPECT_THAT(reported(), ElementsAre(diag::ir_pass_not_run));
  EXPECT_EQ(module->body().ops().front().get(attr::name), "f");
}

TEST_F(PassManagerTest, TimesEveryRun) {
  EXPECT_TRUE(run("note,rename,note", {.timePasses = true}));
  EXPECT_THAT(said, testing::ContainsRegex("seconds  pass\n.*note\n.*rename\n.*note\n.*total\n"));
}

TEST_F(PassManagerTest, BisectionLeavesOutOptionalPassesOnly) {
  EXPECT_FALSE(run("note,rename,note,refuse", {.bisect = 1}));
  EXPECT_EQ(context.remarks.size(), 1u);
  EXPECT_EQ(module->body().ops().front().get(attr::name), "f");
  EXPECT_THAT(said, HasSubstr("bisect: running pass 1, `note`\n"
                              "bisect: not running pass 2, `rename`\n"
                              "bisect: not running pass 3, `note`\n"));
  // A check is never left out.
  EXPECT_THAT(reported(), ElementsAre(diag::ir_bad_pass_option));
}

TEST_F(PassManagerTest, AnEmptyPipelineDoesNothing) {
  EXPECT_TRUE(run(""));
  EXPECT_TRUE(run(" "));
}

} // namespace
} // namespace dtile::passes
