// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Measured choices: which row a launch takes, and that it runs the code of that row.
#include "backend/runtime/tuned_rows.h"

#include "backend/runtime/processor.h"
#include "tests/unit/runtime/runtime_kernels.h"

#include <gtest/gtest.h>

#include <cstring>

namespace dtile::runtime {
namespace {

using test::Arguments;
using test::makeTeam;
using test::tensor;

TEST(ChooseTuned, TakesTheNearestOfThoseThatAreNear) {
  const std::vector<TunedPoint> rows = {{0, {1000, 512}}, {1, {1100, 512}}, {2, {8192, 512}}};
  EXPECT_EQ(chooseTuned(rows, {1000, 512}), 0);
  EXPECT_EQ(chooseTuned(rows, {1090, 512}), 1);
  EXPECT_EQ(chooseTuned(rows, {800, 512}), 0);
  EXPECT_EQ(chooseTuned(rows, {799, 512}), -1);
  EXPECT_EQ(chooseTuned(rows, {8192, 700}), -1);
}

TEST(ChooseTuned, SizesBetweenRowsOfOneChoiceTakeIt) {
  const std::vector<TunedPoint> rows = {{3, {1024, 512}}, {3, {4096, 512}}};
  EXPECT_EQ(chooseTuned(rows, {2048, 512}), 0);
  // Another size is near, too.
  EXPECT_EQ(chooseTuned(rows, {2048, 500}), 0);
  EXPECT_EQ(chooseTuned(rows, {2048, 1024}), -1);
  EXPECT_EQ(chooseTuned(rows, {6000, 512}), -1);
}

TEST(ChooseTuned, NothingIsGuessedAcrossAnotherChoiceOrFarApart) {
  EXPECT_EQ(chooseTuned({{3, {1024}}, {5, {2048}}, {3, {4096}}}, {2900}), -1);
  EXPECT_EQ(chooseTuned({{3, {1024}}, {5, {4096}}}, {2048}), -1);
  EXPECT_EQ(chooseTuned({{3, {1024}}, {3, {16384}}}, {4096}), -1);
  EXPECT_EQ(chooseTuned({{3, {1024}}, {3, {8192}}}, {4096}), 0);
}

TEST(ChooseTuned, SizesThatDoNotCountMakeNoDifference) {
  const std::vector<TunedPoint> rows = {{1, {512, 64}}, {2, {512, 4096}}, {3, {8192, 64}}};
  // The larger launch speaks for both.
  EXPECT_EQ(chooseTuned(rows, {512, 64}, {true, false}), 1);
  EXPECT_EQ(chooseTuned(rows, {600, 1}, {true, false}), 1);
  EXPECT_EQ(chooseTuned(rows, {8192, 4096}, {true, false}), 2);
  EXPECT_EQ(chooseTuned(rows, {2048, 64}, {true, false}), -1);
  EXPECT_EQ(chooseTuned(rows, {512, 64}, {true, true}), 0);
  EXPECT_EQ(chooseTuned(rows, {1, 1}, {false, false}), 1);
}

TEST(ChooseTuned, ZeroIsNearItselfOnly) {
  EXPECT_EQ(chooseTuned({{3, {0}}}, {0}), 0);
  EXPECT_EQ(chooseTuned({{3, {0}}}, {1}), -1);
  EXPECT_EQ(chooseTuned({}, {1}), -1);
}

// A kernel whose two codes write different numbers.
struct Frame {
  int64_t *y;
  int64_t n;
};
int32_t prologue(dtile_launch *launch, void *memory) {
  auto &frame = *static_cast<Frame *>(memory);
  frame.n = dtile_rt_arg_dim(launch, 0, 0);
  frame.y = static_cast<int64_t *>(dtile_rt_arg_data(launch, 0));
  return 0;
}
int64_t one(const void *) { return 1; }
void position(const void *, int64_t, int64_t *) {}
template <int64_t Number> void body(dtile_task *, const void *memory, void *, int64_t) {
  const Frame &frame = *static_cast<const Frame *>(memory);
  std::fill(frame.y, frame.y + frame.n, Number);
}
const dtile_param_desc kParams[] = {{"y", DTILE_PARAM_TENSOR, DTILE_MODE_OUT, DTILE_I64, 1, 0, 1}};
const dtile_space_desc kFirst[] = {{"", 0, -1, 0, 0, nullptr, one, position, 0, body<1>}};
const dtile_space_desc kSecond[] = {{"", 0, -1, 0, 0, nullptr, one, position, 0, body<2>}};

class TunedLaunches : public ::testing::Test {
protected:
  TunedLaunches() {
    desc.abi_version = DTILE_ABI_VERSION;
    desc.name = "which";
    desc.file = "which.dtile";
    desc.nparams = 1;
    desc.nspaces = 1;
    desc.params = kParams;
    desc.spaces = kFirst;
    desc.frame_bytes = sizeof(Frame);
    desc.prologue = prologue;
    other = desc;
    other.spaces = kSecond;
    row.machine = processorName().c_str();
    row.arch = "";
    row.ranks = 1;
    row.variant = 1;
    row.sizes = &measured;
    row.code = &other;
    desc.ntuned_sizes = 1;
    desc.tuned_sizes = &place;
    desc.ntuned = 1;
    desc.tuned = &row;
  }
  int64_t launch(int64_t n, int ranks = 1) {
    const test::Team team = makeTeam(ranks);
    std::vector<std::vector<int64_t>> y(static_cast<size_t>(ranks),
                                        std::vector<int64_t>(static_cast<size_t>(n)));
    Arguments arguments(ranks);
    for (int r = 0; r < ranks; ++r)
      arguments.add(r, tensor(y[size_t(r)].data(), {n}));
    EXPECT_EQ(dtile_launch_repeat(team.get(), &desc, arguments.data(), 1, 3), DTILE_OK)
        << dtile_last_error();
    return y.back().back();
  }

  dtile_kernel_desc desc = {}, other = {};
  dtile_tuned_row row = {};
  dtile_tuned_size place = {0, 0};
  int64_t measured = 100;
};

TEST_F(TunedLaunches, RunTheCodeOfTheirRow) {
  EXPECT_EQ(launch(100), 2);
  EXPECT_EQ(launch(110), 2);
  EXPECT_EQ(launch(1000), 1);
}

TEST_F(TunedLaunches, TakeNoRowOfOtherRanksMachinesOrArchitectures) {
  EXPECT_EQ(launch(100, 2), 1);
  row.ranks = 2;
  EXPECT_EQ(launch(100, 2), 2);
  EXPECT_EQ(launch(100), 1);
  row.ranks = 1;
  row.machine = "another processor";
  EXPECT_EQ(launch(100), 1);
  row.machine = processorName().c_str();
  row.arch = "sm_90a";
  EXPECT_EQ(launch(100), 1);
}

TEST_F(TunedLaunches, TakeTheKernelsOwnCodeWhereTheRowHasNone) {
  row.code = nullptr;
  EXPECT_EQ(launch(100), 1);
}

// A row of a name for several kernels says which of them runs.
TEST_F(TunedLaunches, OfANameForSeveralTakeTheAlternativeOfTheirRow) {
  dtile_kernel_desc first = desc;
  first.ntuned = first.ntuned_sizes = 0;
  const dtile_kernel_desc *alternatives[] = {&first, &other};
  other.name = "another";
  row.code = nullptr;
  desc.nspaces = 0;
  desc.spaces = nullptr;
  desc.prologue = nullptr;
  desc.nalternatives = 2;
  desc.alternatives = alternatives;
  EXPECT_EQ(launch(100), 2);
  EXPECT_EQ(launch(1000), 1);
  row.machine = "another processor";
  EXPECT_EQ(launch(100), 1);
  row.machine = processorName().c_str();
  row.ranks = 2;
  EXPECT_EQ(launch(100), 1);
  // Ranks do not know each other's sizes, so that the only row speaks for all.
  EXPECT_EQ(launch(1000, 2), 2);
}

// Two codes of a kernel that communicates share its epoch, and have cells of their own.
TEST(TunedRanks, AllTakeOneCodeAndLaunchesOfBothFollowEachOther) {
  constexpr int kRanks = 3;
  dtile_param_desc params[4];
  std::copy(test::kNeighbourPut.params, test::kNeighbourPut.params + 4, params);
  params[0].agreed = 1;
  const int64_t measured = 100;
  const dtile_tuned_size place = {0, 0};
  dtile_kernel_desc desc = test::kNeighbourPut, other = test::kNeighbourPut;
  desc.params = other.params = params;
  const dtile_tuned_row row = {processorName().c_str(), "", kRanks, 1, 1, 0, &measured, &other};
  desc.ntuned_sizes = 1;
  desc.tuned_sizes = &place;
  desc.ntuned = 1;
  desc.tuned = &row;
  const test::Team team = makeTeam(kRanks);
  for (const int64_t n : {100, 10, 101, 10, 100}) {
    std::vector<std::vector<int64_t>> x(kRanks, std::vector<int64_t>(size_t(n))), y = x;
    Arguments arguments(kRanks);
    for (int r = 0; r < kRanks; ++r) {
      std::fill(x[size_t(r)].begin(), x[size_t(r)].end(), r + n);
      arguments.add(r, tensor(x[size_t(r)].data(), {n}));
      arguments.add(r, tensor(y[size_t(r)].data(), {n}));
    }
    ASSERT_EQ(dtile_launch_repeat(team.get(), &desc, arguments.data(), 2, 2), DTILE_OK)
        << dtile_last_error();
    for (int r = 0; r < kRanks; ++r)
      EXPECT_EQ(y[size_t(r)].back(), (r + kRanks - 1) % kRanks + n);
  }
}

} // namespace
} // namespace dtile::runtime
