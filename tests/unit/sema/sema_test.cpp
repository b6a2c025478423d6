// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What tools ask of a checked program: instances, inferred parameters, lookups.
#include "sema/sema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtile::sema {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class SemaTest : public testing::Test {
protected:
  Program &check(const std::string &text, Options options = {}) {
    program_ = Program::analyze(sources_.add("test.dtile", text), sources_, diagnostics_, options);
    return *program_;
  }

  const KernelInstance *instance(const char *kernel, GenericArgs args = {}) {
    const ast::KernelDecl *decl = program_->findKernel(kernel);
    EXPECT_NE(decl, nullptr) << kernel;
    return decl ? program_->instantiate(decl, args, decl->name.range, diagnostics_) : nullptr;
  }

  std::string said() const {
    std::string text;
    for (const Diagnostic &d : diagnostics_.all())
      text += std::string(diagInfo(d.id).code) + " " + d.message + "\n";
    return text;
  }

  static GenericValue integer(int64_t value) {
    return {GenericValue::Kind::Int, value, DType::F32};
  }
  static GenericValue dtype(DType value) { return {GenericValue::Kind::DType, 0, value}; }

  SourceManager sources_;
  Diagnostics diagnostics_{sources_};
  std::unique_ptr<Program> program_;
};

constexpr const char *kCopy = "kernel copy<T: dtype = bf16, B = 64>(x: in T[N], y: out T[N])\n"
                              "over (i in N by B) { y[i] = x[i]; }\n";

TEST_F(SemaTest, DefaultInstanceHasTheKernelsNameAndOthersTheirValues) {
  check(kCopy);
  EXPECT_EQ(instance("copy")->name, "copy");
  const KernelInstance *other = instance("copy", {{{"T", dtype(DType::F32)}, {"B", integer(32)}}});
  EXPECT_EQ(other->name, "copy_f32_32");
  EXPECT_EQ(other->params[0].type->dtype, DType::F32);
  EXPECT_EQ(other->spaces[0].dims[0].step, 32);
  EXPECT_FALSE(diagnostics_.hasErrors()) << said();
}

TEST_F(SemaTest, InstancesAreCached) {
  check(kCopy);
  EXPECT_EQ(instance("copy"), instance("copy", {{{"B", integer(64)}}}));
}

TEST_F(SemaTest, ValuesThatAreMissingOrUnknownAreReportedAtTheCall) {
  check("kernel k<const N>(y: out f32[N]) { y[:] = 1.0; }");
  EXPECT_EQ(instance("k"), nullptr);
  EXPECT_THAT(said(), HasSubstr("E0212 `k` needs a value for `N`"));
  EXPECT_EQ(instance("k", {{{"M", integer(1)}}}), nullptr);
  EXPECT_THAT(said(), HasSubstr("E0213 `k` has no compile-time parameter `M`"));
}

TEST_F(SemaTest, AnInstanceWithErrorsIsRefusedAgainAtEachCall) {
  check("kernel k<B = 8>(x: in f32[8], y: out f32[B]) { y[:] = x[:]; }");
  EXPECT_FALSE(diagnostics_.hasErrors()) << said();
  EXPECT_EQ(instance("k", {{{"B", integer(4)}}}), nullptr);
  EXPECT_THAT(said(), HasSubstr("E0304"));
  const ast::KernelDecl *decl = program_->findKernel("k");
  Diagnostics later(sources_);
  EXPECT_EQ(program_->instantiate(decl, {{{"B", integer(4)}}}, decl->name.range, later), nullptr);
  ASSERT_EQ(later.all().size(), 1u);
  EXPECT_EQ(diagInfo(later.all()[0].id).code, "E0214");
}

TEST_F(SemaTest, ErrorsOfABodyAreSaidOnceHoweverOftenItIsInstantiated) {
  check("fn f<N>(x: f32[N]) -> f32 { return x; }\n"
        "kernel k(x: in f32[64], y: out f32[2]) {\n"
        "  y[0] = f(x[0..8]);\n  y[1] = f(x[0..16]);\n}");
  EXPECT_EQ(diagnostics_.errorCount(), 1u) << said();
}

TEST_F(SemaTest, ErrorsOfAnInstanceSayWhoAskedForIt) {
  check("fn f<N>(x: f32[N]) -> f32[N / 2, 2] { return reshape(x)[N / 2, 2]; }\n"
        "kernel k(x: in f32[3], y: out f32[1, 2]) { y[:, :] = f(x[:]); }");
  ASSERT_EQ(diagnostics_.errorCount(), 1u) << said();
  ASSERT_EQ(diagnostics_.all()[0].notes.size(), 1u);
  EXPECT_EQ(diagnostics_.all()[0].notes[0].message, "in `f_3`, which is needed here");
}

TEST_F(SemaTest, ADeclarationIsRightIfItIsForOneOfTheStandIns) {
  const std::string lanes =
      "fn lanes<N>(x: f32[N]) -> f32[N / 32, 32] { return reshape(x)[N / 32, 32]; }\n";
  check(lanes +
        "kernel k<const H>(x: in f32[H], y: out f32[H / 32, 32]) { y[:, :] = lanes(x[:]); }");
  EXPECT_TRUE(diagnostics_.all().empty()) << said();
  // What was wrong for other sizes is told to who asks for them.
  EXPECT_EQ(instance("k", {{{"H", integer(16)}}}), nullptr);
  EXPECT_THAT(said(), HasSubstr("E0310"));
  EXPECT_NE(instance("k", {{{"H", integer(64)}}}), nullptr);
}

TEST_F(SemaTest, OfWrongStandInsThoseWithTheFewestErrorsAreTold) {
  check("fn f<N>(x: f32[N]) -> f32[N / 32] { return reshape(x)[N / 32, 32]; }");
  ASSERT_EQ(diagnostics_.errorCount(), 1u) << said();
  EXPECT_THAT(said(), HasSubstr("expected `tile f32[4]` but found `tile f32[4, 32]`"));
}

TEST_F(SemaTest, WarningsOfABodyComeOnceAndNotFromAttempts) {
  check("fn f<N>(x: f32[N]) -> f32[N / 32, 32] {\n"
        "  let unused = 1;\n  return reshape(x)[N / 32, 32];\n}\n"
        "kernel k(x: in f32[64], y: out f32[2, 32]) { y[:, :] = f(x[:]); }");
  EXPECT_EQ(diagnostics_.warningCount(), 1u) << said();
  EXPECT_EQ(diagnostics_.errorCount(), 0u) << said();
}

TEST_F(SemaTest, WhatDoesNotParseHasNoInstance) {
  check("kernel k(x: in f32[N], y: out f32[N]) over (i in N by ) { y[i] = x[i]; }");
  EXPECT_TRUE(diagnostics_.hasErrors());
  EXPECT_EQ(instance("k"), nullptr);
}

TEST_F(SemaTest, GenericsAreInferredFromDtypesAndSizes) {
  check("kernel k<T: dtype, const H, const E, B = 8>(\n"
        "  x: in T[TOKENS, H], starts: in i32[W * E + 1], alpha: f32, s: scratch symm i32[E],\n"
        "  b: in T[B], ready: symm signal[W], y: out T[H])\n"
        "{ y[:] = x[0, :]; }");
  const GenericArgs args = program_->inferGenerics(
      program_->findKernel("k"),
      {{DType::F16, {100, 48}}, {DType::I32, {13}}, {DType::F32, {}}, {std::nullopt, {4}}}, 4, {});
  EXPECT_THAT(args.named,
              ElementsAre(std::pair("T", dtype(DType::F16)), std::pair("H", integer(48)),
                          std::pair("E", integer(3)), std::pair("B", integer(4))));
}

TEST_F(SemaTest, WhatIsGivenIsNotInferred) {
  check(kCopy);
  const GenericArgs args = program_->inferGenerics(
      program_->findKernel("copy"), {{DType::F16, {100}}}, 1, {{{"T", dtype(DType::F64)}}});
  EXPECT_THAT(args.named, ElementsAre(std::pair("T", dtype(DType::F64))));
}

TEST_F(SemaTest, SizesAreSolvedInAnOrderInWhichEachNeedsOnlyEarlierOnes) {
  check("kernel k(a: in f32[P + Q], b: in f32[W * Q], c: in f32[R / 4], y: out f32[P]) {\n"
        "  y[0] = a[0] + b[0] + c[0];\n}");
  const KernelInstance *k = instance("k");
  ASSERT_NE(k, nullptr) << said();
  std::vector<std::string> names;
  for (const SizeSymbol &symbol : k->symbols)
    names.push_back(symbol.name);
  EXPECT_THAT(names, ElementsAre("Q", "P", "R"));
  // P is the size of a less Q.
  const TExpr *p = k->symbols[1].solution;
  ASSERT_EQ(p->kind, TExprKind::Elementwise);
  EXPECT_EQ(p->op, ElementwiseOp::Sub);
  EXPECT_EQ(p->operands[0]->kind, TExprKind::LaunchDim);
  EXPECT_EQ(p->operands[0]->param, 0u);
  EXPECT_EQ(p->operands[1]->symbol, 0u);
  EXPECT_EQ(k->params[3].sizes[0]->symbol, 1u);
}

TEST_F(SemaTest, FunctionsComeCalleesFirstAndOnlyWhereKernelsNeedThem) {
  check("fn a(x: f32) -> f32 { return b(x) + c(x); }\n"
        "fn b(x: f32) -> f32 { return c(x); }\n"
        "fn c(x: f32) -> f32 { return x; }\n"
        "fn unneeded<N>(x: f32[N]) -> f32 { return c(sum(x)); }\n"
        "kernel k(x: in f32[N], y: out f32[N]) over (i in 0..N) { y[i] = a(x[i]); }\n");
  const KernelInstance *kernel = instance("k");
  ASSERT_NE(kernel, nullptr) << said();
  std::vector<std::string> names;
  for (const FnInstance *fn : program_->functions(kernel))
    names.push_back(fn->name);
  EXPECT_THAT(names, ElementsAre("c", "b", "a"));
}

TEST_F(SemaTest, ImportsFindEmbeddedFilesLast) {
  Options options;
  options.embeddedFiles = {{"lib/shapes.dtile", "const SIDE = 3;\n" + std::string(kCopy)}};
  check("import lib.shapes;\nimport lib.shapes as again;\n"
        "const AREA = shapes.SIDE * again.SIDE;\n",
        options);
  EXPECT_FALSE(diagnostics_.hasErrors()) << said();
  EXPECT_EQ(program_->findConst("AREA"), 9);
  EXPECT_EQ(program_->findConst("shapes.SIDE"), 3);
  EXPECT_NE(program_->findKernel("shapes.copy"), nullptr);
  EXPECT_EQ(program_->findKernel("shapes.SIDE"), nullptr);
  EXPECT_THAT(program_->files(), ElementsAre("test.dtile", "<stdlib>/lib/shapes.dtile"));
}

TEST_F(SemaTest, RepeatedNamesOfInstancesAreMadeUnique) {
  Options options;
  options.embeddedFiles = {{"other.dtile", kCopy}};
  check(std::string("import other;\n") + kCopy, options);
  EXPECT_NE(instance("copy")->name, instance("other.copy")->name);
}

} // namespace
} // namespace dtile::sema
