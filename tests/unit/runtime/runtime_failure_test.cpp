// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Launches that cannot go on, and calls that are wrong: the code, the words, and that the team
// still works.
#include "backend/runtime/processor.h"
#include "tests/unit/runtime/runtime_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace dtile::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

int64_t one(const void *) { return 1; }
int64_t threeBodies(const void *) { return 3; }
int64_t oneNotify(const void *, int64_t) { return 1; }
void position(const void *, int64_t linear, int64_t *position) {
  position[0] = linear;
  position[1] = 10 * linear;
}
const char *const kVars[] = {"m", "n"};

/// Kernels here have one scalar, which chooses what goes wrong, and a signal of 2 x 3 cells.
struct Frame {
  FrameHead head;
  int64_t mode;
  uint64_t *ready;
};

int32_t prologue(dtile_launch *launch, void *memory) {
  auto &frame = *static_cast<Frame *>(memory);
  fillHead(launch, frame.head);
  dtile_rt_arg_scalar(launch, 0, &frame.mode);
  int64_t sizes[] = {2, 3};
  frame.ready = static_cast<uint64_t *>(dtile_rt_signal(launch, 1, 2, sizes));
  return 0;
}

const dtile_param_desc kParams[] = {
    {"mode", DTILE_PARAM_SCALAR, DTILE_MODE_VALUE, DTILE_I64, 0, 0, 1},
    {"ready", DTILE_PARAM_SIGNAL, DTILE_MODE_SYMM, DTILE_U64, 2, 0, 1},
};
const dtile_signal_desc kDerived[] = {{1, oneNotify}};

dtile_kernel_desc kernelOf(const dtile_space_desc *spaces, int32_t count,
                           const dtile_signal_desc *signals = kDerived) {
  return {DTILE_ABI_VERSION, 0,      "k",     "k.dtile",     2,       count, 1, 0,
          kParams,           spaces, signals, sizeof(Frame), prologue};
}

/// Launches with one mode on all ranks.
dtile_status launch(const Team &team, const dtile_kernel_desc &kernel, int64_t mode) {
  int ranks = dtile_team_size(team.get());
  Arguments arguments(ranks);
  for (int r = 0; r < ranks; ++r)
    arguments.addScalar(r, uint64_t(mode));
  return dtile_launch_all(team.get(), &kernel, arguments.data(), 1);
}

const Frame &frameOf(const void *frame) { return *static_cast<const Frame *>(frame); }

// ---- Deadlock ----

/// Mode 0: each rank tells itself. Mode 1: rank 1 forgets cell [1, 2] of rank 1.
void say(dtile_task *task, const void *memory, void *, int64_t) {
  const Frame &frame = frameOf(memory);
  static constexpr dtile_site kSite = {"k.dtile", "ready", 4, 9};
  for (int64_t cell = 0; cell < 6; ++cell) {
    if (frame.mode == 1 && frame.head.rank == 1 && cell == 5)
      continue;
    dtile_region there = region(frame.ready + cell, DTILE_U64, {});
    dtile_rt_notify(task, &there, &kSite);
  }
}

void hear(dtile_task *task, const void *memory, void *, int64_t) {
  static constexpr dtile_site kSite = {"k.dtile", "ready", 12, 20};
  dtile_region all = region(frameOf(memory).ready, DTILE_U64, {2, 3});
  dtile_rt_wait(task, &all, -1, &kSite);
}

const dtile_space_desc kSayHear[] = {
    {"say", 2, -1, 0, 0, kVars, one, position, 0, say},
    {"hear", 2, -1, 0, 0, kVars, threeBodies, position, 0, hear},
    {"after", 2, 1, 0, 0, kVars, one, position, 0, hear},
};

class OnAnyTeam : public ::testing::TestWithParam<std::tuple<int, int>> {};
INSTANTIATE_TEST_SUITE_P(Runtime, OnAnyTeam,
                         ::testing::Combine(::testing::Values(1, 2), ::testing::Values(0, 9)));

TEST_P(OnAnyTeam, DeadlockNamesEachWaiterAndTheTeamGoesOn) {
  auto [workers, seed] = GetParam();
  Team team = makeTeam(3, workers, uint64_t(seed));
  dtile_kernel_desc kernel = kernelOf(kSayHear, 3);
  ASSERT_EQ(launch(team, kernel, 0), DTILE_OK) << dtile_last_error();
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(launch(team, kernel, 1), DTILE_DEADLOCK);
    EXPECT_STREQ(
        dtile_last_error(),
        "deadlock: 3 bodies are left, and all of them wait\n"
        "  k.dtile:12:20: rank 1, kernel `k`, role `hear` (m = 0, n = 0) and 2 more bodies "
        "wait for `ready[1, 2]`: wants 1, has seen 0\n"
        "  rank 1, kernel `k`, role `after` has not begun: it comes after all of `hear`");
    ASSERT_EQ(launch(team, kernel, 0), DTILE_OK) << dtile_last_error();
  }
}

TEST(Runtime, LongDeadlockReportsAreCut) {
  Team team = makeTeam(30, 2);
  // Nobody says anything.
  const dtile_space_desc spaces[] = {{"hear", 2, -1, 0, 0, kVars, threeBodies, position, 0, hear}};
  dtile_kernel_desc kernel = kernelOf(spaces, 1);
  ASSERT_EQ(launch(team, kernel, 0), DTILE_DEADLOCK);
  EXPECT_THAT(dtile_last_error(),
              AllOf(StartsWith("deadlock: 90 bodies are left, and all of them wait\n"),
                    HasSubstr("rank 19, "), Not(HasSubstr("rank 20, ")),
                    HasSubstr("\n  and 10 more places")));
}

void meetUnlessRankOne(dtile_task *task, const void *memory, void *, int64_t) {
  static constexpr dtile_site kSite = {"k.dtile", "barrier", 6, 3};
  if (frameOf(memory).head.rank != 1)
    dtile_rt_barrier(task, &kSite);
}

TEST(Runtime, BarrierThatARankNeverReachesIsADeadlock) {
  Team team = makeTeam(3, 2);
  const dtile_space_desc spaces[] = {
      {"", 0, -1, 0, 0, nullptr, one, position, 0, meetUnlessRankOne}};
  dtile_kernel_desc kernel = kernelOf(spaces, 1);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(launch(team, kernel, 0), DTILE_DEADLOCK);
    EXPECT_STREQ(dtile_last_error(),
                 "deadlock: 2 bodies are left, and all of them wait\n"
                 "  k.dtile:6:3: rank 0, kernel `k` waits at the barrier for rank 1\n"
                 "  k.dtile:6:3: rank 2, kernel `k` waits at the barrier for rank 1");
  }
}

// ---- Traps ----

void trapBody(dtile_task *task, const void *memory, void *, int64_t linear) {
  const Frame &frame = frameOf(memory);
  static constexpr dtile_site kSite = {"k.dtile", "recv", 9, 2};
  if (frame.head.rank != 1 || linear != 2) {
    // The others are stopped where they wait.
    static constexpr dtile_site kWait = {"k.dtile", "ready", 8, 2};
    dtile_region all = region(frame.ready, DTILE_U64, {2, 3});
    return dtile_rt_wait(task, &all, -1, &kWait);
  }
  int64_t numbers[] = {7, 4};
  switch (frame.mode) {
  case 0:
    dtile_rt_fail(task, &kSite, "{0} rows for rank {1}, which has room for {0} - {2}", 2, numbers);
  case 1:
    return dtile_rt_check_rank(task, 2, &kSite);
  case 2:
    return dtile_rt_check_rank(task, -1, &kSite);
  case 3:
    return dtile_rt_check_cell(task, 3, 3, &kSite);
  default:
    dtile_region outside = region(&numbers, DTILE_I64, {2}, 0);
    dtile_region inside = region(&numbers, DTILE_I64, {2});
    return dtile_rt_put(task, &inside, &outside);
  }
}

TEST_P(OnAnyTeam, TrapsSayWhereAndWhy) {
  auto [workers, seed] = GetParam();
  Team team = makeTeam(2, workers, uint64_t(seed));
  const dtile_space_desc spaces[] = {
      {"send", 2, -1, 0, 0, kVars, threeBodies, position, 0, trapBody}};
  dtile_kernel_desc kernel = kernelOf(spaces, 1);
  const std::string where = "k.dtile:9:2: rank 1, kernel `k`, role `send` (m = 2, n = 20): ";
  const std::string words[] = {
      where + "7 rows for rank 4, which has room for 7 - {2}",
      where + "rank 2 of `recv` is not one of the 2 ranks",
      where + "rank -1 of `recv` is not one of the 2 ranks",
      where + "position 3 of signal `recv` is outside [0, 3)",
      "k.dtile: rank 1, kernel `k`, role `send` (m = 2, n = 20): a reference to rank 0 of an "
      "object "
      "that is not symmetric",
  };
  for (int mode = 0; mode < 5; ++mode) {
    ASSERT_EQ(launch(team, kernel, mode), DTILE_TRAP);
    EXPECT_EQ(dtile_last_error(), words[mode]);
  }
  dtile_kernel_desc good = kernelOf(kSayHear, 3);
  EXPECT_EQ(launch(team, good, 0), DTILE_OK) << dtile_last_error();
}

void countedWait(dtile_task *task, const void *memory, void *, int64_t) {
  const Frame &frame = frameOf(memory);
  static constexpr dtile_site kSite = {"k.dtile", "ready", 3, 3};
  dtile_region cell = region(frame.ready, DTILE_U64, {});
  for (int i = 0; i < 3; ++i)
    dtile_rt_notify(task, &cell, &kSite);
  dtile_rt_wait(task, &cell, 2, &kSite);
  dtile_rt_wait(task, &cell, frame.mode == 1 ? 4 : 3, &kSite);
  if (frame.mode == 2)
    dtile_rt_wait(task, &cell, -1, &kSite);
}

TEST(Runtime, CountsAskedForTakeThePlaceOfDerivedOnes) {
  Team team = makeTeam(2, 2);
  const dtile_signal_desc signals[] = {{1, nullptr}};
  const dtile_space_desc spaces[] = {{"", 0, -1, 0, 0, nullptr, one, position, 0, countedWait}};
  dtile_kernel_desc kernel = kernelOf(spaces, 1, signals);
  for (int i = 0; i < 3; ++i)
    ASSERT_EQ(launch(team, kernel, 0), DTILE_OK) << dtile_last_error();
  ASSERT_EQ(launch(team, kernel, 1), DTILE_DEADLOCK);
  EXPECT_THAT(dtile_last_error(), HasSubstr("for `ready[0, 0]`: wants 4, has seen 3"));
  ASSERT_EQ(launch(team, kernel, 2), DTILE_TRAP);
  EXPECT_THAT(dtile_last_error(),
              HasSubstr("the count of notifies to `ready` is not known: give it by `count:`"));
  ASSERT_EQ(launch(team, kernel, 0), DTILE_OK) << dtile_last_error();
}

// ---- Memory ----

TEST(Runtime, NoMemoryForAnotherBodyIsAnErrorOnlyWhenNothingElseCanRun) {
  Team team = makeTeam(1, 1);
  // Half of the address space a body: the second is too much.
  const dtile_space_desc alone[] = {
      {"", 2, -1, 0, 0, kVars, threeBodies, position, int64_t(1) << 61, hear}};
  ASSERT_EQ(launch(team, kernelOf(alone, 1), 0), DTILE_OUT_OF_MEMORY);
  EXPECT_THAT(dtile_last_error(),
              AllOf(StartsWith("k.dtile: rank 0, kernel `k`: no memory for the stack ("),
                    HasSubstr("0 bodies wait already")));
  EXPECT_EQ(launch(team, kernelOf(kSayHear, 3), 0), DTILE_OK);
}

TEST(Runtime, FullHeapIsAnErrorWithTheShape) {
  Team team = makeTeam(2, 1, 0, 1 << 20);
  int64_t n = 100'000;
  std::vector<int64_t> x(static_cast<size_t>(n)), y = x;
  Arguments arguments(2);
  for (int r = 0; r < 2; ++r) {
    arguments.add(r, tensor(x.data(), {n}));
    arguments.add(r, tensor(y.data(), {n}));
  }
  ASSERT_EQ(dtile_launch_all(team.get(), &kNeighbourPut, arguments.data(), 2), DTILE_OUT_OF_MEMORY);
  EXPECT_STREQ(dtile_last_error(),
               "kernel `neighbour`, rank 0: no room for 2 copies of `a`, i64 [100000], in the "
               "symmetric heap of 1048576 bytes a rank; raise symmetric_bytes of "
               "dtile_team_options");
  void *memory = nullptr;
  EXPECT_EQ(dtile_symm_alloc(team.get(), 2 << 20, &memory), DTILE_OUT_OF_MEMORY);
  EXPECT_EQ(memory, nullptr);
  EXPECT_EQ(dtile_symm_alloc(team.get(), -1, &memory), DTILE_INVALID);
  EXPECT_EQ(dtile_symm_alloc(team.get(), INT64_MAX, &memory), DTILE_OUT_OF_MEMORY);
}

// ---- Arguments ----

TEST(Runtime, WrongOptionsAreRefused) {
  dtile_team *team = nullptr;
  auto create = [&](dtile_team_options options) {
    dtile_status status = dtile_team_create_threads(&options, &team);
    EXPECT_EQ(team, nullptr);
    return status;
  };
  dtile_team_options options = DTILE_TEAM_OPTIONS_INIT;
  EXPECT_EQ(create(options), DTILE_INVALID);
  EXPECT_STREQ(dtile_last_error(), "ranks is 0; it must be 1 to 1024");
  options.ranks = 1025;
  EXPECT_EQ(create(options), DTILE_INVALID);
  options.ranks = 2;
  options.workers = -1;
  EXPECT_EQ(create(options), DTILE_INVALID);
  options.workers = 0;
  options.stack_bytes = 100;
  EXPECT_EQ(create(options), DTILE_INVALID);
  options.stack_bytes = 0;
  options.symmetric_bytes = INT64_MAX;
  EXPECT_EQ(create(options), DTILE_OUT_OF_MEMORY);
  EXPECT_THAT(dtile_last_error(), HasSubstr("ask for a smaller symmetric heap"));
  EXPECT_EQ(dtile_team_create_threads(nullptr, &team), DTILE_INVALID);
  EXPECT_EQ(dtile_launch_all(nullptr, &kNeighbourPut, nullptr, 0), DTILE_INVALID);
}

TEST(Runtime, ProcessOutsideAJobIsTold) {
  dtile_team *team = nullptr;
  EXPECT_EQ(dtile_team_create_env(nullptr, &team), DTILE_UNAVAILABLE);
  EXPECT_THAT(dtile_last_error(), HasSubstr("start it with oshrun"));
}

TEST(Runtime, WrongArgumentsAreRefusedBeforeAnythingRuns) {
  Team team = makeTeam(2, 2);
  std::vector<int64_t> x(10), y(10);
  float f[10];
  auto run = [&](const dtile_tensor &first, const dtile_tensor &second) {
    Arguments arguments(2);
    for (int r = 0; r < 2; ++r) {
      arguments.add(r, r == 1 ? first : tensor(x.data(), {10}));
      arguments.add(r, r == 1 ? second : tensor(y.data(), {10}));
    }
    EXPECT_EQ(dtile_launch_all(team.get(), &kNeighbourPut, arguments.data(), 2), DTILE_INVALID);
    return std::string(dtile_last_error());
  };
  const std::string where = "kernel `neighbour`, argument `x`, rank 1: ";
  dtile_tensor good = tensor(y.data(), {10});
  EXPECT_EQ(run(tensor(f, {10}), good), where + "elements are f32, but the kernel wants i64");
  EXPECT_EQ(run(tensor(x.data(), {5, 2}), good), where + "2 dimensions, but the kernel wants 1");
  EXPECT_NE(run(tensor(y.data(), {10}), good).find("rank 1: it overlaps `x`"), std::string::npos);
  EXPECT_EQ(run(tensor(x.data(), {-1}), good), where + "dimension 0 has the size -1");
  EXPECT_EQ(run(tensor<int64_t>(nullptr, {10}), good), where + "the data is null");
  EXPECT_EQ(run(tensor(x.data(), {9}), good),
            "kernel `neighbour`, argument `y`, rank 1: dimension 0 has the size 10, but the kernel "
            "wants 9");
  EXPECT_EQ(run(tensor(x.data(), {9}), tensor(y.data(), {9})),
            "kernel `neighbour`: `a` has the sizes [9] on rank 1, but [10] on another rank; "
            "symmetric objects need equal sizes on all ranks");
  Arguments few(2);
  few.add(0, good);
  few.add(1, good);
  EXPECT_EQ(dtile_launch_all(team.get(), &kNeighbourPut, few.data(), 1), DTILE_INVALID);
  EXPECT_STREQ(dtile_last_error(), "kernel `neighbour` takes 2 arguments, 1 given");
  EXPECT_EQ(dtile_launch_all(team.get(), nullptr, few.data(), 1), DTILE_INVALID);
  dtile_kernel_desc old = kNeighbourPut;
  old.abi_version = 99;
  EXPECT_EQ(dtile_launch_all(team.get(), &old, few.data(), 1), DTILE_INVALID);
  EXPECT_THAT(dtile_last_error(), HasSubstr("compiled for version 99"));
}

TEST(Runtime, KernelsForOtherProcessorsAreRefused) {
  dtile_kernel_desc kernel = kNeighbourPut;
  EXPECT_TRUE(runtime::checkProcessor(kernel, 0).ok());
  kernel.processor_features = 0b1011;
  EXPECT_TRUE(runtime::checkProcessor(kernel, 0b1111).ok());
  const runtime::Status status = runtime::checkProcessor(kernel, 0b0001);
  EXPECT_EQ(status.code, DTILE_UNAVAILABLE);
  EXPECT_THAT(status.message, AllOf(StartsWith("kernel `neighbour` was compiled for a processor "
                                               "with ssse3, sse4.2, which"),
                                    HasSubstr("--cpu")));
  // A bit that is no row yet.
  Team team = makeTeam(1, 1);
  kernel.processor_features = uint64_t(1) << 63;
  EXPECT_EQ(dtile_launch_all(team.get(), &kernel, nullptr, 0), DTILE_UNAVAILABLE);
  EXPECT_THAT(dtile_last_error(), HasSubstr("a processor with later instructions"));
}

int32_t nothing(dtile_launch *, void *) { return 0; }

TEST(Runtime, SymmetricArgumentsMustBeSymmetric) {
  Team team = makeTeam(2, 1);
  const dtile_param_desc params[] = {
      {"x", DTILE_PARAM_TENSOR, DTILE_MODE_SYMM, DTILE_I64, 1, 0, 1}};
  const dtile_kernel_desc kernel = {DTILE_ABI_VERSION, 0,       "s", "s.dtile", 1, 0, 0, 0, params,
                                    nullptr,           nullptr, 0,   nothing};
  void *memory = nullptr;
  ASSERT_EQ(dtile_symm_alloc(team.get(), 4096, &memory), DTILE_OK);
  auto at = [&](int rank, int64_t element) {
    return static_cast<int64_t *>(dtile_symm_address(team.get(), memory, rank)) + element;
  };
  auto run = [&](dtile_tensor first, dtile_tensor second) {
    Arguments arguments(2);
    arguments.add(0, first);
    arguments.add(1, second);
    return dtile_launch_all(team.get(), &kernel, arguments.data(), 1);
  };
  EXPECT_EQ(run(tensor(at(0, 0), {8}), tensor(at(1, 0), {8})), DTILE_OK) << dtile_last_error();
  EXPECT_EQ(run(tensor(at(0, 0), {8}), tensor(at(1, 1), {8})), DTILE_INVALID);
  EXPECT_THAT(dtile_last_error(), HasSubstr("at another offset"));
  EXPECT_EQ(run(tensor(at(0, 0), {8}), tensor(at(0, 0), {8})), DTILE_INVALID);
  EXPECT_THAT(dtile_last_error(), HasSubstr("not in this rank's symmetric heap"));
  int64_t own[8];
  EXPECT_EQ(run(tensor(own, {8}), tensor(own, {8})), DTILE_INVALID);
  dtile_tensor strided = tensor(at(0, 0), {8});
  strided.stride[0] = 2;
  EXPECT_EQ(run(strided, tensor(at(1, 0), {8})), DTILE_INVALID);
  EXPECT_THAT(dtile_last_error(), HasSubstr("row-major and contiguous"));
}

} // namespace
} // namespace dtile::test
