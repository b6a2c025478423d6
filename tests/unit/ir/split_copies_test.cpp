// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Bodies whose copies are split send what they sent before, in every order of programs and landing.
#include "tests/unit/interpret/interpreter_support.h"

#include "ir/transform/pipelines.h"

#include "llvm/Support/FormatVariadic.h"

namespace dtile::passes {
namespace {

using interpret::Schedule;
using interpret::testing::Program;
using interpret::testing::tensor;

/// Rows for each peer, from where `starts` says, and how many; peers wait for all of them.
std::string exchange(const std::string &inTheBody = "") {
  return R"(
kernel @exchange {
  %W = num_ranks : index
  %me = rank : index
  %c0 = const {value = 0} : index
  %c1 = const {value = 1} : index
  %n = launch.dim {param = 0, dim = 0} : index
  %k = launch.dim {param = 0, dim = 1} : index
  %m = launch.dim {param = 2, dim = 1} : index
  %w1 = add %W, %c1 : index
  %x = param @x %n, %k {param = 0, mode = "in"} : view<i64, 2>
  %starts = param @starts %w1 {param = 1, mode = "in"} : view<i64, 1>
  %y = param @y %W, %m, %k {param = 2, mode = "symm"} : view<i64, 3>
  %counts = param @counts %W {param = 3, mode = "symm"} : view<i64, 1>
  %lengths = param @lengths %W {param = 4, mode = "in"} : view<i64, 1>
  %ready = signal_param @ready %W {param = 5} : signal<1> (%cell: index) {
    %one = const {value = 1} : index
    yield %one
  }
  space @main %c0, %W, %c1 {vars = ["peer"]} (%peer: index) {
    %next = add %peer, %c1 : index
    %a = view.slice %starts, %peer {dims = "i"} : view<i64, 0>
    %b = view.slice %starts, %next {dims = "i"} : view<i64, 0>
    %fi = load %a : i64
    %ei = load %b : i64
    %first = cast %fi : index
    %end = cast %ei : index
    %size = sub %end, %first : index
    %rows = view.slice %x, %first, %end {dims = "ra"} : view<i64, 2>
    %there = view.at %y, %peer : view<i64, 3, remote>
    %to = view.slice %there, %me, %c0, %size {dims = "ira"} : view<i64, 2, remote>
    %s = put %rows, %to : token
    %sizes = view.slice %lengths, %peer, %next {dims = "r"} : view<i64, 1>
    %far = view.at %counts, %peer : view<i64, 1, remote>
    %mine1 = add %me, %c1 : index
    %place1 = view.slice %far, %me, %mine1 {dims = "r"} : view<i64, 1, remote>
    %t = put %sizes, %place1 : token
    %place = view.slice %far, %me {dims = "i"} : view<i64, 0, remote>
    %count = cast %size : i64
)" + inTheBody +
         R"(
    %cells = sig.at %ready, %peer : signal<1, remote>
    %cell = sig.slice %cells, %me {dims = "i"} : signal<0, remote>
    notify %cell, %s, %t
    yield
  }
  space @end %c0, %W, %c1 {vars = ["peer"]} (%peer: index) {
    %mine = sig.slice %ready, %peer {dims = "i"} : signal<0>
    %here = wait %mine : acquire
    await %here
    yield
  }
  return
}
)";
}

/// Applies the pass; whether it changed anything.
bool split(Program &program) {
  Diagnostics diagnostics(program.sources);
  PassContext context(diagnostics);
  const auto pipeline = parsePipeline("split-copies", allPasses(), diagnostics);
  EXPECT_TRUE(pipeline);
  EXPECT_TRUE(PassManager({.verifyEach = true}).run(*program.module, *pipeline, context));
  return !context.remarks.empty();
}

/// What all ranks have received, launch by launch.
std::vector<std::vector<int64_t>> received(ir::Module &module, int ranks, Schedule schedule) {
  constexpr int kMost = 19, kCols = 3;
  interpret::Machine machine(module, ranks, schedule);
  interpret::testing::Symmetric<int64_t> y(machine, ranks, ranks * kMost * kCols, int64_t(-1));
  interpret::testing::Symmetric<int64_t> counts(machine, ranks, ranks, int64_t(-1));
  struct Rank {
    std::vector<int64_t> x, starts, lengths;
  };
  std::vector<Rank> all(static_cast<size_t>(ranks));
  std::vector<std::vector<int64_t>> results;
  for (int launch = 0; launch < 2; ++launch) {
    std::vector<std::vector<interpret::Arg>> args;
    for (int rank = 0; rank < ranks; ++rank) {
      Rank &r = all[size_t(rank)];
      // From none to all that a peer has room for.
      r.starts = {0};
      r.lengths.clear();
      for (int peer = 0; peer < ranks; ++peer) {
        r.lengths.push_back((rank * 7 + peer * 19 + launch * 5) % (kMost + 1));
        r.starts.push_back(r.starts.back() + r.lengths.back());
      }
      const int64_t rows = r.starts.back();
      r.x.resize(size_t(rows * kCols));
      for (size_t i = 0; i < r.x.size(); ++i)
        r.x[i] = int64_t(i) + 10000 * rank + 100000 * launch;
      args.push_back({tensor(r.x, {rows, kCols}), tensor(r.starts),
                      tensor(y.on(rank), DType::I64, {ranks, kMost, kCols}), counts.arg(rank),
                      tensor(r.lengths)});
    }
    EXPECT_EQ(interpret::testing::text(machine.launch("exchange", args)), "");
    for (int rank = 0; rank < ranks; ++rank) {
      results.push_back(y.values(rank));
      results.push_back(counts.values(rank));
    }
  }
  return results;
}

TEST(SplitCopies, RowsArriveAsBefore) {
  for (int ranks : {1, 2, 3, 8}) {
    Program whole(exchange()), parts(exchange());
    ASSERT_TRUE(whole.module && parts.module);
    ASSERT_TRUE(split(parts));
    for (const auto landing : {Schedule::Landing::AtIssue, Schedule::Landing::AsLateAsAllowed,
                               Schedule::Landing::Random})
      for (uint64_t seed = 0; seed < 4; ++seed) {
        const Schedule schedule{.seed = seed, .landing = landing};
        EXPECT_EQ(received(*whole.module, ranks, schedule),
                  received(*parts.module, ranks, schedule))
            << ranks << " ranks, seed " << seed;
      }
  }
}

TEST(SplitCopies, BodiesThatMayNotBeDoneTwiceStayWhole) {
  // An update, a store, a meeting of ranks, a wait that a store follows, a read of what is copied.
  const char *const kOnce[] = {
      "    %o = atomic %place, %count {kind = \"add\", ntok = 0} : i64\n",
      "    %own = view.slice %counts, %me {dims = \"i\"} : view<i64, 0>\n"
      "    store %count, %own\n",
      "    barrier\n",
      "    %own = sig.slice %ready, %peer {dims = \"i\"} : signal<0>\n"
      "    %h = wait %own : acquire\n    await %h\n"
      "    %mine = view.slice %counts, %me {dims = \"i\"} : view<i64, 0>\n"
      "    store %count, %mine\n",
      "    %own = view.slice %counts, %me {dims = \"i\"} : view<i64, 0>\n"
      "    %seen = load %own : i64\n",
  };
  for (const char *text : kOnce) {
    Program program(exchange(text));
    ASSERT_TRUE(program.module) << text;
    EXPECT_FALSE(split(program)) << text;
  }
}

} // namespace
} // namespace dtile::passes
