// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Launches back to back without a meeting of ranks: what keeps them apart is the kernel's own waits
// and two copies of its scratch memory.
#include "host_support.h"

#include "ir/transform/pipelines.h"

namespace dtile::backend::host::testing {
namespace {

using interpret::Machine;
using interpret::Schedule;

/// Every rank sends the number of the launch to every rank, which stops the launch when it reads
/// another one.
std::string gather(const std::string &kernel, const std::string &box) {
  return "kernel @k " + kernel + R"({
  %c0 = const {value = 0} : index
  %c1 = const {value = 1} : index
  %n = const {value = 8} : index
  %W = num_ranks : index
  %box = param @box %W, %n {mode = "scratch", param = 0)" +
         box + R"(} : view<i64, 2>
  %sent = signal_param @sent %W {param = 1} : signal<1> (%cell: index) {
    %one = const {value = 1} : index
    yield %one
  }
  space @push %c0, %W, %c1 {vars = ["peer"]} (%peer: index) {
    %me = rank : index
    %launch = epoch : index
    %value = cast %launch : i64
    %tile = tile.splat %value : tile<8xi64>
    %there = view.at %box, %peer : view<i64, 2, remote>
    %row = view.slice %there, %me {dims = "ia"} : view<i64, 1, remote>
    %gone = put %tile, %row : token
    %cells = sig.at %sent, %peer : signal<1, remote>
    %cell_1 = sig.slice %cells, %me {dims = "i"} : signal<0, remote>
    notify %cell_1, %gone
    yield
  }
  space @keep %c0, %W, %c1 {vars = ["src"]} (%src: index) {
    %cell_2 = sig.slice %sent, %src {dims = "i"} : signal<0>
    %here = wait %cell_2 : acquire
    %row_1 = view.slice %box, %src {dims = "ia"} : view<i64, 1>
    %got = load %row_1, %here : tile<8xi64>
    %launch_1 = epoch : index
    %number = cast %launch_1 : i64
    %want = tile.splat %number : tile<8xi64>
    %same = cmp %got, %want {pred = "eq"} : tile<8xbool>
    %all = tile.reduce %same {axis = 0, kind = "all"} : bool
    assert %all {message = "read what another launch has sent"}
    yield
  }
  return
}
)";
}

std::string runs(ir::Module &module, int ranks, uint64_t seed) {
  Schedule schedule;
  schedule.seed = seed;
  schedule.landing = seed % 2 ? Schedule::Landing::Random : Schedule::Landing::AsLateAsAllowed;
  Machine machine(module, ranks, schedule);
  const auto error = machine.launchRepeat("k", std::vector<std::vector<interpret::Arg>>(ranks), 8);
  return error ? error->message : "";
}

/// The pass does not know that the assertion holds, and nothing that it shows rests on that.
TEST(Drift, AKernelThatWaitsForAllRanksKeepsItsLaunchesApart) {
  Program program(gather("", ""));
  ASSERT_TRUE(program.module);
  Diagnostics diagnostics(program.sources);
  auto pipeline = passes::parsePipeline("bound-drift", passes::allPasses(), diagnostics);
  passes::PassContext context(diagnostics);
  ASSERT_TRUE(passes::PassManager({.verifyEach = true}).run(*program.module, *pipeline, context));
  EXPECT_FALSE(program.module->lookup("k")->get(ir::attr::entry_barrier));
  for (ir::Op &op : program.module->lookup("k")->body().ops())
    if (op.is(ir::OpKind::Param))
      EXPECT_EQ(op.getOr(ir::attr::copies, 1), 2);
  for (uint64_t seed = 1; seed <= 60; ++seed)
    EXPECT_EQ(runs(*program.module, 3, seed), "") << "seed " << seed;
  std::vector<Tensor> none;
  EXPECT_EQ(runCompiled(*program.module, 4, none, {}, 200), "");
}

TEST(Drift, OneCopyIsNotEnough) {
  Program program(gather("", ", copies = 1"));
  ASSERT_TRUE(program.module);
  bool drifted = false;
  for (uint64_t seed = 1; seed <= 60; ++seed)
    drifted |= !runs(*program.module, 3, seed).empty();
  EXPECT_TRUE(drifted);
}

} // namespace
} // namespace dtile::backend::host::testing
