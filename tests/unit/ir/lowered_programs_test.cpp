// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Programs from source text to the interpreter: what lowering says is what the program means.
#include "tests/unit/interpret/interpreter_support.h"

#include "ir/from_ast/lower.h"
#include "ir/transform/pipelines.h"
#include "sema/sema.h"

#include "gmock/gmock.h"

#include <numeric>

namespace dtile::interpret::testing {
namespace {

using ::testing::HasSubstr;

/// The first kernel of a program, lowered and with derived counts.
class Compiled {
public:
  explicit Compiled(const std::string &text) : module_(types_) {
    Diagnostics diagnostics(sources_);
    const FileId file = sources_.add("test.dtile", text);
    program_ = sema::Program::analyze(file, sources_, diagnostics, {});
    const sema::KernelInstance *kernel =
        diagnostics.errorCount() != 0
            ? nullptr
            : program_->instantiate(program_->kernels().front(), {}, {}, diagnostics);
    if (kernel) {
      name_ = kernel->name;
      module_.setSources(&sources_);
      for (const sema::FnInstance *function : program_->functions(kernel))
        ir::lowerFunction(*function, module_);
      ir::lowerKernel(*kernel, module_);
      for (const std::string &problem : ir::verify(module_))
        ADD_FAILURE() << problem;
      auto pipeline = passes::parsePipeline(passes::pipelineText(passes::OptLevel::O0),
                                            passes::allPasses(), diagnostics);
      passes::PassContext context(diagnostics);
      passes::PassManager({.verifyEach = true}).run(module_, *pipeline, context);
    }
    if (diagnostics.errorCount() == 0)
      return;
    std::string report;
    llvm::raw_string_ostream os(report);
    printDiagnostics(diagnostics, DiagnosticForm::Text, ColorMode::Never, os);
    ADD_FAILURE() << report;
  }

  /// One launch; gives the report of what went wrong, or nothing.
  std::string run(const std::vector<std::vector<Arg>> &args, Schedule schedule = {}) {
    Machine machine(module_, int(args.size()), schedule);
    return text(machine.launch(name_, args));
  }

private:
  SourceManager sources_;
  ir::TypeContext types_;
  ir::Module module_;
  std::unique_ptr<sema::Program> program_;
  std::string name_;
};

std::vector<float> counting(int64_t count, float first = 1) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

TEST(LoweredPrograms, BranchesLoopsAndFunctionsComputeWhatTheySay) {
  Compiled program(R"(
fn collatz(start: i64) -> i64 {
    var n = start;
    var steps = 0;
    while n != 1 {
        if n % 2 == 0 { n = n / 2; } else { n = 3 * n + 1; }
        steps += 1;
    }
    return steps;
}
fn sign(x: i64) -> i64 {
    if x < 0 { return -1; }
    if x > 0 { return 1; }
    return 0;
}
kernel k(y: out i64[N]) over (i in 0..N) {
    var sum = 0;
    for j in 0..i + 1 {
        let s = sign(j - 3);
        sum += s * collatz(j + 1);
    }
    y[i] = sum;
}
)");
  std::vector<int64_t> y(12);
  ASSERT_EQ(program.run({{tensor(y)}}), "");
  std::vector<int64_t> want;
  int64_t sum = 0;
  for (int64_t j = 0; j < 12; ++j) {
    int64_t steps = 0;
    for (int64_t n = j + 1; n != 1; n = n % 2 ? 3 * n + 1 : n / 2)
      ++steps;
    sum += (j < 3 ? -1 : j > 3) * steps;
    want.push_back(sum);
  }
  EXPECT_EQ(y, want);
}

TEST(LoweredPrograms, RangesKnowTheirPlaceTheirEndAndTheirIndex) {
  Compiled program(R"(
kernel k(y: out i64[B, 9], x: in f32[N]) over (m in 3..N by 4) {
    let moved = 10 + m;
    let blocks = m.blocks(3);
    let chunk = m.chunk(1, 3);
    y[m.index, 0] = m.lo;
    y[m.index, 1] = m.hi;
    y[m.index, 2] = m.len;
    y[m.index, 3] = m.count;
    y[m.index, 4] = moved.limit;
    y[m.index, 5] = moved.index;
    y[m.index, 6] = blocks.lo * 100 + blocks.hi;
    y[m.index, 7] = chunk.lo * 100 + chunk.hi;
    y[m.index, 8] = x.rows.count;
}
)");
  std::vector<int64_t> y(3 * 9);
  std::vector<float> x(13);
  ASSERT_EQ(program.run({{tensor(y, {3, 9}), tensor(x)}}), "");
  EXPECT_EQ(y, (std::vector<int64_t>{3,  7,  4, 4, 23, 0, 103, 507,  13, //
                                     7,  11, 4, 4, 23, 1, 204, 911,  13, //
                                     11, 13, 4, 2, 23, 2, 305, 1213, 13}));
}

constexpr const char *kDeliver = R"(
kernel deliver(
    src: in f32[TOKENS, 2], starts: in i32[W + 1], recv: scratch symm f32[W, 3, 2],
    got: out f32[W, 3, 2], arrived: symm signal[W],
) over (peer in 0..W) {
    let rows = starts[peer]..starts[peer + 1];
    let sent = put(src[rows, :], recv@peer[rank(), ..rows.count, :]);
    notify(arrived@peer[rank()], after: sent);
    let here = wait(arrived[peer]);
    got[peer, 0..3, 0..2] = recv[peer, 0..3, 0..2] after here;
}
)";

TEST(LoweredPrograms, RangesFromDataArePutWhole) {
  Compiled program(kDeliver);
  std::vector<float> src0 = counting(8), src1 = counting(8, 101);
  std::vector<int32_t> starts0{0, 1, 4}, starts1{0, 0, 3};
  std::vector<float> got0(12), got1(12);
  ASSERT_EQ(program.run({{tensor(src0, {4, 2}), tensor(starts0), tensor(got0, {2, 3, 2})},
                         {tensor(src1, {4, 2}), tensor(starts1), tensor(got1, {2, 3, 2})}}),
            "");
  EXPECT_EQ((std::vector<float>{got0[0], got0[1]}), (std::vector<float>{1, 2}));
  EXPECT_EQ(got1, (std::vector<float>{3, 4, 5, 6, 7, 8, 101, 102, 103, 104, 105, 106}));
}

TEST(LoweredPrograms, RangesFromDataThatDoNotFitStopTheProgram) {
  Compiled program(kDeliver);
  std::vector<float> src0 = counting(10), src1 = counting(10);
  std::vector<int32_t> starts0{0, 1, 5}, starts1{0, 0, 3};
  std::vector<float> got0(12), got1(12);
  const std::string report =
      program.run({{tensor(src0, {5, 2}), tensor(starts0), tensor(got0, {2, 3, 2})},
                   {tensor(src1, {5, 2}), tensor(starts1), tensor(got1, {2, 3, 2})}});
  EXPECT_THAT(report, HasSubstr("put past the end of `recv`: the range ends at 4, the dimension "
                                "at 3 (rank 0, peer 1)"));
}

TEST(LoweredPrograms, RangesFromDataPastTheSourceStopTheProgram) {
  Compiled program(kDeliver);
  std::vector<float> src0 = counting(4), src1 = counting(4);
  std::vector<int32_t> starts0{0, 1, 2}, starts1{0, 0, 3};
  std::vector<float> got0(12), got1(12);
  const std::string report =
      program.run({{tensor(src0, {2, 2}), tensor(starts0), tensor(got0, {2, 3, 2})},
                   {tensor(src1, {2, 2}), tensor(starts1), tensor(got1, {2, 3, 2})}});
  EXPECT_THAT(report, HasSubstr("put: 2 positions of `src` into 3 of `recv`, dimension 0 (rank "
                                "1, peer 1)"));
}

TEST(LoweredPrograms, BlocksThatReachPastTheEdgeArePutAsFarAsBothGo) {
  // Two ranks, five elements: the second block of three has two; each goes to its owner.
  Compiled program(R"(
kernel k(x: in f32[N], part: scratch symm f32[W, blocks(N, W)], y: out f32[W, blocks(N, W)],
         sent: symm signal[W]) {
    let share = blocks(N, W);
    role scatter over (owner in 0..W, i in share by 4) {
        let gone = put(x[owner * share + i], part@owner[rank(), i]);
        notify(sent@owner[rank()], after: gone);
    }
    role keep over (src in 0..W, i in share by 4) {
        let here = wait(sent[src]);
        y[src, i] = part[src, i] after here;
    }
}
)");
  std::vector<float> x0 = counting(5), x1 = counting(5, 11);
  std::vector<float> y0(6), y1(6);
  ASSERT_EQ(program.run({{tensor(x0), tensor(y0, {2, 3})}, {tensor(x1), tensor(y1, {2, 3})}}), "");
  EXPECT_EQ(y0, (std::vector<float>{1, 2, 3, 11, 12, 13}));
  EXPECT_EQ((std::vector<float>{y1[0], y1[1], y1[3], y1[4]}), (std::vector<float>{4, 5, 14, 15}));
}

TEST(LoweredPrograms, MixedSlicesReadTheWindowOfTheRange) {
  Compiled program(R"(
kernel k(x: in f32[2, R, C], first: in i32[2], y: scratch symm f32[R, 4], z: out f32[R, 4]) {
    let rows = first[0]..first[1];
    await put(x[1, rows, 3..7], y[rows, 0..4]);
    z[0..3, 0..4] = y[0..3, 0..4];
}
)");
  std::vector<float> x = counting(2 * 3 * 5);
  std::vector<int32_t> first{1, 3};
  std::vector<float> z(12, -1);
  ASSERT_EQ(program.run({{tensor(x, {2, 3, 5}), tensor(first), tensor(z, {3, 4})}}), "");
  // Columns 3 and 4 exist; rows 1 and 2 are taken.
  EXPECT_EQ((std::vector<float>{z[4], z[5], z[8], z[9]}), (std::vector<float>{24, 25, 29, 30}));
}

TEST(LoweredPrograms, WhatHasEffectsIsEvaluatedOnce) {
  Compiled program(R"(
kernel k(x: in f32[N], y: out f32[N], taken: scratch symm i32[1] = 0) {
    let a = fetch_add(taken[0], 1) + fetch_add(taken[0], 10);
    var lazy = 0;
    if fetch_add(taken[0], 100) > 50 && x[fetch_add(taken[0], 1000)] > 0.0 { lazy = 1; }
    y[0] = cast<f32>(a);
    y[1] = cast<f32>(fetch_add(taken[0], 0));
    y[2] = cast<f32>(lazy);
}
)");
  std::vector<float> x(4, 1), y(4);
  ASSERT_EQ(program.run({{tensor(x), tensor(y)}}), "");
  // The right side of && is not evaluated: 11 is not above 50.
  EXPECT_EQ((std::vector<float>{y[0], y[1], y[2]}), (std::vector<float>{1, 111, 0}));
}

} // namespace
} // namespace dtile::interpret::testing
