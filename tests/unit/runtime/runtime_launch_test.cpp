// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Launches on threads: what kernels compute on any number of ranks and workers, in any order of
// bodies.
#include "tests/unit/runtime/runtime_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <numeric>
#include <string>
#include <thread>
#include <tuple>

namespace dtile::test {
namespace {

/// Ranks, workers, seed.
class OnAnyTeam : public ::testing::TestWithParam<std::tuple<int, int, int>> {
protected:
  void SetUp() override {
    auto [ranks, workers, seed] = GetParam();
    ranks_ = ranks;
    team_ = makeTeam(ranks, workers, uint64_t(seed));
    ASSERT_TRUE(team_) << dtile_last_error();
  }
  int ranks_ = 0;
  Team team_;
};

INSTANTIATE_TEST_SUITE_P(Runtime, OnAnyTeam,
                         ::testing::Combine(::testing::Values(1, 2, 3, 4, 8),
                                            ::testing::Values(1, 2), ::testing::Values(0, 1, 77)));

/// A vector of n zeros for each rank.
using Rows = std::vector<std::vector<int64_t>>;
Rows rows(int ranks, int64_t n) {
  return Rows(static_cast<size_t>(ranks), std::vector<int64_t>(static_cast<size_t>(n)));
}

/// x[i] of a rank in a launch.
int64_t value(int rank, int64_t i, int launch) { return rank * 1'000'000 + launch * 10'000 + i; }

TEST_P(OnAnyTeam, NeighbourPutArrives) {
  constexpr int64_t kN = 100;
  Rows x = rows(ranks_, kN), y = x;
  Arguments arguments(ranks_);
  for (int r = 0; r < ranks_; ++r) {
    arguments.add(r, tensor(x[r].data(), {kN}));
    arguments.add(r, tensor(y[r].data(), {kN}));
  }
  for (int launch = 0; launch < 5; ++launch) {
    for (int r = 0; r < ranks_; ++r)
      for (int64_t i = 0; i < kN; ++i)
        x[r][i] = value(r, i, launch);
    ASSERT_EQ(dtile_launch_all(team_.get(), &kNeighbourPut, arguments.data(), 2), DTILE_OK)
        << dtile_last_error();
    for (int r = 0; r < ranks_; ++r)
      for (int64_t i = 0; i < kN; ++i)
        ASSERT_EQ(y[r][i], value((r + ranks_ - 1) % ranks_, i, launch));
  }
}

TEST_P(OnAnyTeam, AllGatherOfChangingSizesIsRight) {
  int launch = 0;
  for (int64_t n : {7, 1, 0, 7, 1000, 0, 7, 1}) {
    ++launch;
    Rows x = rows(ranks_, n), y = rows(ranks_, n * ranks_);
    Arguments arguments(ranks_);
    for (int r = 0; r < ranks_; ++r) {
      for (int64_t i = 0; i < n; ++i)
        x[r][i] = value(r, i, launch);
      arguments.add(r, tensor(x[r].data(), {n}));
      arguments.add(r, tensor(y[r].data(), {n * ranks_}));
    }
    ASSERT_EQ(dtile_launch_all(team_.get(), &kAllGather, arguments.data(), 2), DTILE_OK)
        << dtile_last_error();
    for (int r = 0; r < ranks_; ++r)
      for (int s = 0; s < ranks_; ++s)
        for (int64_t i = 0; i < n; ++i)
          ASSERT_EQ(y[r][s * n + i], value(s, i, launch));
  }
}

TEST_P(OnAnyTeam, ThousandsOfLaunchesBackToBackDrift) {
  constexpr int64_t kN = 16;
  Rows x = rows(ranks_, kN), y = rows(ranks_, kN * ranks_);
  Arguments arguments(ranks_);
  for (int r = 0; r < ranks_; ++r) {
    std::iota(x[r].begin(), x[r].end(), r * 100);
    arguments.add(r, tensor(x[r].data(), {kN}));
    arguments.add(r, tensor(y[r].data(), {kN * ranks_}));
  }
  ASSERT_EQ(dtile_launch_repeat(team_.get(), &kAllGather, arguments.data(), 2, 2000), DTILE_OK)
      << dtile_last_error();
  for (int r = 0; r < ranks_; ++r)
    for (int s = 0; s < ranks_; ++s)
      for (int64_t i = 0; i < kN; ++i)
        ASSERT_EQ(y[r][s * kN + i], s * 100 + i);
}

// ---- A ring in which every launch adds to what the launch before left, with random delays ----

struct RingFrame {
  FrameHead head;
  int64_t *sum, *inbox;
  uint64_t *ready;
};

int32_t ringPrologue(dtile_launch *launch, void *memory) {
  auto &frame = *static_cast<RingFrame *>(memory);
  fillHead(launch, frame.head);
  frame.sum = static_cast<int64_t *>(dtile_rt_arg_data(launch, 0));
  int64_t one = 1;
  frame.inbox = static_cast<int64_t *>(dtile_rt_scratch(launch, 1, 1, &one));
  frame.ready = static_cast<uint64_t *>(dtile_rt_signal(launch, 2, 0, nullptr));
  return 0;
}

void ringBody(dtile_task *task, const void *memory, void *, int64_t) {
  const auto &frame = *static_cast<const RingFrame *>(memory);
  static constexpr dtile_site kSite = {"ring.dtile", "ready", 1, 1};
  // Ranks take turns in being late.
  if ((frame.head.epoch * 7 + frame.head.rank * 3) % 11 == 0)
    std::this_thread::yield();
  // Every rank tells every rank; nobody can be two launches ahead.
  for (int32_t r = 0; r < frame.head.ranks; ++r) {
    dtile_region there = region(frame.inbox, DTILE_I64, {}, r);
    dtile_rt_atomic(task, 0, &there, uint64_t(frame.head.epoch + 1), 0);
    dtile_region cell = region(frame.ready, DTILE_U64, {}, r);
    dtile_rt_notify(task, &cell, &kSite);
  }
  dtile_region cell = region(frame.ready, DTILE_U64, {});
  dtile_rt_wait(task, &cell, -1, &kSite);
  // Zeroed for this launch: only this launch's additions are there.
  *frame.sum += *frame.inbox == frame.head.ranks * (frame.head.epoch + 1);
}

int64_t ranksNotify(const void *frame, int64_t) {
  return static_cast<const RingFrame *>(frame)->head.ranks;
}
int64_t one(const void *) { return 1; }
void nowhere(const void *, int64_t, int64_t *) {}

TEST_P(OnAnyTeam, ZeroedScratchHoldsOnlyItsLaunch) {
  const dtile_param_desc params[] = {
      {"sum", DTILE_PARAM_TENSOR, DTILE_MODE_INOUT, DTILE_I64, 1, 0, 1},
      {"inbox", DTILE_PARAM_TENSOR, DTILE_MODE_SCRATCH, DTILE_I64, 1, 1, 1},
      {"ready", DTILE_PARAM_SIGNAL, DTILE_MODE_SYMM, DTILE_U64, 0, 0, 1},
  };
  const dtile_space_desc spaces[] = {{"", 0, -1, 0, 0, nullptr, one, nowhere, 0, ringBody}};
  const dtile_signal_desc signals[] = {{2, ranksNotify}};
  const dtile_kernel_desc kernel = {
      DTILE_ABI_VERSION, 0,           "ring", "ring.dtile", 3, 1, 1, 0, params, spaces, signals,
      sizeof(RingFrame), ringPrologue};
  std::vector<int64_t> sums(size_t(ranks_), 0);
  Arguments arguments(ranks_);
  for (int r = 0; r < ranks_; ++r)
    arguments.add(r, tensor(&sums[size_t(r)], {1}));
  constexpr int kLaunches = 2000;
  ASSERT_EQ(dtile_launch_repeat(team_.get(), &kernel, arguments.data(), 1, kLaunches), DTILE_OK)
      << dtile_last_error();
  for (int64_t sum : sums)
    EXPECT_EQ(sum, kLaunches);
}

// ---- Seeded schedules: what the program does not order happens late ----

/// What comes between a put and its notify.
enum Between : int64_t { kNothing, kAwait, kIssue };

struct LateFrame {
  FrameHead head;
  int64_t between;
  int64_t *box, *seen;
  uint64_t *ready;
};

int32_t latePrologue(dtile_launch *launch, void *memory) {
  auto &frame = *static_cast<LateFrame *>(memory);
  fillHead(launch, frame.head);
  dtile_rt_arg_scalar(launch, 0, &frame.between);
  frame.seen = static_cast<int64_t *>(dtile_rt_arg_data(launch, 1));
  int64_t one = 1;
  frame.box = static_cast<int64_t *>(dtile_rt_scratch(launch, 2, 1, &one));
  frame.ready = static_cast<uint64_t *>(dtile_rt_signal(launch, 3, 0, nullptr));
  return 0;
}

void lateBody(dtile_task *task, const void *memory, void *workspace, int64_t) {
  const auto &frame = *static_cast<const LateFrame *>(memory);
  static constexpr dtile_site kSite = {"late.dtile", "ready", 1, 1};
  auto right = int32_t((frame.head.rank + 1) % frame.head.ranks);
  auto &number = *static_cast<int64_t *>(workspace);
  number = frame.head.epoch + 1;
  dtile_region source = region(&number, DTILE_I64, {});
  dtile_region target = region(frame.box, DTILE_I64, {}, right);
  dtile_rt_put(task, &source, &target);
  if (frame.between == kAwait)
    dtile_rt_await(task);
  if (frame.between == kIssue)
    dtile_rt_issue(task);
  dtile_region there = region(frame.ready, DTILE_U64, {}, right);
  dtile_rt_notify(task, &there, &kSite);
  dtile_region here = region(frame.ready, DTILE_U64, {});
  dtile_rt_wait(task, &here, -1, &kSite);
  *frame.seen += *frame.box == number;
}

int64_t lateNotify(const void *, int64_t) { return 1; }

TEST(Runtime, SeededScheduleShowsAForgottenAwait) {
  const dtile_param_desc params[] = {
      {"between", DTILE_PARAM_SCALAR, DTILE_MODE_VALUE, DTILE_I64, 0, 0, 1},
      {"seen", DTILE_PARAM_TENSOR, DTILE_MODE_INOUT, DTILE_I64, 1, 0, 1},
      {"box", DTILE_PARAM_TENSOR, DTILE_MODE_SCRATCH, DTILE_I64, 1, 0, 2},
      {"ready", DTILE_PARAM_SIGNAL, DTILE_MODE_SYMM, DTILE_U64, 0, 0, 1},
  };
  const dtile_space_desc spaces[] = {{"", 0, -1, 0, 0, nullptr, one, nowhere, 8, lateBody}};
  const dtile_signal_desc signals[] = {{3, lateNotify}};
  const dtile_kernel_desc kernel = {
      DTILE_ABI_VERSION, 0,           "late", "late.dtile", 4, 1, 1, 0, params, spaces, signals,
      sizeof(LateFrame), latePrologue};
  for (int64_t between : {kNothing, kAwait, kIssue}) {
    Team team = makeTeam(2, 1, 3);
    std::vector<int64_t> seen(2, 0);
    Arguments arguments(2);
    for (int r = 0; r < 2; ++r) {
      arguments.addScalar(r, uint64_t(between));
      arguments.add(r, tensor(&seen[size_t(r)], {1}));
    }
    ASSERT_EQ(dtile_launch_repeat(team.get(), &kernel, arguments.data(), 2, 50), DTILE_OK);
    if (between != kNothing)
      EXPECT_EQ(seen, std::vector<int64_t>(2, 50));
    else
      EXPECT_LT(seen[0] + seen[1], 100);
  }
}

TEST(Runtime, ModuleLoadedWhereAnotherWasIsNotTakenForIt) {
  Team team = makeTeam(2, 1);
  dtile_kernel_desc place = kNeighbourPut;
  std::vector<int64_t> x(10, 5), y(20);
  Arguments arguments(2);
  for (int r = 0; r < 2; ++r) {
    arguments.add(r, tensor(x.data(), {10}));
    arguments.add(r, tensor(y.data(), {10}));
  }
  ASSERT_EQ(dtile_launch_all(team.get(), &place, arguments.data(), 2), DTILE_OK);
  place = kAllGather;
  place.name = kNeighbourPut.name;
  Arguments others(2);
  for (int r = 0; r < 2; ++r) {
    others.add(r, tensor(x.data(), {10}));
    others.add(r, tensor(y.data(), {20}));
  }
  ASSERT_EQ(dtile_launch_all(team.get(), &place, others.data(), 2), DTILE_OK) << dtile_last_error();
  EXPECT_EQ(y, std::vector<int64_t>(20, 5));
  place = kNeighbourPut;
  ASSERT_EQ(dtile_launch_all(team.get(), &place, arguments.data(), 2), DTILE_OK);
}

// ---- after_all, ordered, programs: bodies record what they see ----

struct Trace {
  std::atomic<int64_t> ended{0};
  std::atomic<int64_t> running{0};
  std::atomic<int64_t> mostRunning{0};
  std::atomic<int64_t> early{0};
  std::atomic<int64_t> outOfOrder{0};
  std::atomic<int64_t> last{-1};
  std::atomic<int64_t> second{0};
};

struct TraceFrame {
  FrameHead head;
  Trace *trace;
  int64_t bodies;
};

int32_t tracePrologue(dtile_launch *launch, void *memory) {
  auto &frame = *static_cast<TraceFrame *>(memory);
  fillHead(launch, frame.head);
  uint64_t bits;
  dtile_rt_arg_scalar(launch, 0, &bits);
  frame.trace = reinterpret_cast<Trace *>(bits);
  dtile_rt_arg_scalar(launch, 1, &frame.bodies);
  return 0;
}

const TraceFrame &traceFrame(const void *frame) { return *static_cast<const TraceFrame *>(frame); }
int64_t traceBodies(const void *frame) { return traceFrame(frame).bodies; }

void traceFirst(dtile_task *task, const void *memory, void *, int64_t linear) {
  Trace &trace = *traceFrame(memory).trace;
  int64_t now = ++trace.running;
  int64_t most = trace.mostRunning;
  while (most < now && !trace.mostRunning.compare_exchange_weak(most, now)) {
  }
  if (trace.last.exchange(linear) > linear)
    ++trace.outOfOrder;
  dtile_rt_quiet(task);
  std::this_thread::yield();
  --trace.running;
  ++trace.ended;
}

void traceSecond(dtile_task *, const void *memory, void *, int64_t) {
  const TraceFrame &frame = traceFrame(memory);
  if (frame.trace->ended != frame.bodies)
    ++frame.trace->early;
  ++frame.trace->second;
}

const dtile_param_desc kTraceParams[] = {
    {"trace", DTILE_PARAM_SCALAR, DTILE_MODE_VALUE, DTILE_U64, 0, 0, 1},
    {"bodies", DTILE_PARAM_SCALAR, DTILE_MODE_VALUE, DTILE_I64, 0, 0, 1},
};

dtile_kernel_desc traceKernel(const dtile_space_desc *spaces, int32_t count) {
  return {DTILE_ABI_VERSION,
          0,
          "trace",
          "trace.dtile",
          2,
          count,
          0,
          0,
          kTraceParams,
          spaces,
          nullptr,
          sizeof(TraceFrame),
          tracePrologue};
}

void addTraces(Arguments &arguments, std::vector<Trace> &traces, int64_t bodies) {
  for (size_t r = 0; r < traces.size(); ++r) {
    arguments.addScalar(int(r), reinterpret_cast<uint64_t>(&traces[r]));
    arguments.addScalar(int(r), uint64_t(bodies));
  }
}

TEST_P(OnAnyTeam, SpaceAfterAllBeginsWhenTheFirstHasEnded) {
  const dtile_space_desc spaces[] = {
      // Declared before the space that it follows.
      {"then", 0, 1, 0, 0, nullptr, one, nowhere, 0, traceSecond},
      {"first", 0, -1, 0, 0, nullptr, traceBodies, nowhere, 0, traceFirst},
      {"last", 0, 0, 0, 0, nullptr, one, nowhere, 0, traceSecond},
  };
  dtile_kernel_desc kernel = traceKernel(spaces, 3);
  for (int64_t bodies : {0, 1, 500}) {
    std::vector<Trace> traces(static_cast<size_t>(ranks_));
    Arguments arguments(ranks_);
    addTraces(arguments, traces, bodies);
    ASSERT_EQ(dtile_launch_all(team_.get(), &kernel, arguments.data(), 2), DTILE_OK)
        << dtile_last_error();
    for (Trace &trace : traces) {
      EXPECT_EQ(trace.ended, bodies);
      EXPECT_EQ(trace.second, 2);
      EXPECT_EQ(trace.early, 0);
    }
  }
}

TEST_P(OnAnyTeam, OrderedBodiesRunOneAtATimeInOrder) {
  const dtile_space_desc spaces[] = {
      {"", 0, -1, 1, 0, nullptr, traceBodies, nowhere, 0, traceFirst}};
  dtile_kernel_desc kernel = traceKernel(spaces, 1);
  std::vector<Trace> traces(static_cast<size_t>(ranks_));
  Arguments arguments(ranks_);
  addTraces(arguments, traces, 300);
  ASSERT_EQ(dtile_launch_all(team_.get(), &kernel, arguments.data(), 2), DTILE_OK)
      << dtile_last_error();
  for (Trace &trace : traces) {
    EXPECT_EQ(trace.ended, 300);
    EXPECT_EQ(trace.mostRunning, 1);
    EXPECT_EQ(trace.outOfOrder, 0);
  }
}

TEST(Runtime, ProgramsBoundTheBodiesAtOnce) {
  Team team = makeTeam(1, 6);
  const dtile_space_desc spaces[] = {
      {"", 0, -1, 0, 3, nullptr, traceBodies, nowhere, 0, traceFirst}};
  dtile_kernel_desc kernel = traceKernel(spaces, 1);
  std::vector<Trace> traces(1);
  Arguments arguments(1);
  addTraces(arguments, traces, 2000);
  ASSERT_EQ(dtile_launch_all(team.get(), &kernel, arguments.data(), 2), DTILE_OK);
  EXPECT_EQ(traces[0].ended, 2000);
  EXPECT_LE(traces[0].mostRunning, 3);
}

TEST(Runtime, SeededScheduleStartsBodiesInAnotherOrder) {
  const dtile_space_desc spaces[] = {
      {"", 0, -1, 0, 0, nullptr, traceBodies, nowhere, 0, traceFirst}};
  dtile_kernel_desc kernel = traceKernel(spaces, 1);
  for (uint64_t seed : {0, 5}) {
    Team team = makeTeam(1, 1, seed);
    std::vector<Trace> traces(1);
    Arguments arguments(1);
    addTraces(arguments, traces, 64);
    ASSERT_EQ(dtile_launch_all(team.get(), &kernel, arguments.data(), 2), DTILE_OK);
    EXPECT_EQ(traces[0].ended, 64);
    EXPECT_EQ(traces[0].outOfOrder > 0, seed != 0);
  }
}

// ---- barrier ----

struct BarrierFrame {
  FrameHead head;
  std::atomic<int64_t> *arrived;
  int64_t *wrong;
};

int32_t barrierPrologue(dtile_launch *launch, void *memory) {
  auto &frame = *static_cast<BarrierFrame *>(memory);
  fillHead(launch, frame.head);
  uint64_t bits;
  dtile_rt_arg_scalar(launch, 0, &bits);
  frame.arrived = reinterpret_cast<std::atomic<int64_t> *>(bits);
  frame.wrong = static_cast<int64_t *>(dtile_rt_arg_data(launch, 1));
  return 0;
}

void barrierBody(dtile_task *task, const void *memory, void *, int64_t) {
  const auto &frame = *static_cast<const BarrierFrame *>(memory);
  static constexpr dtile_site kFirst = {"barrier.dtile", "barrier", 3, 5};
  static constexpr dtile_site kSecond = {"barrier.dtile", "barrier", 5, 5};
  for (int64_t round = 1; round <= 20; ++round) {
    int64_t before = (frame.head.epoch * 20 + round) * frame.head.ranks;
    ++*frame.arrived;
    dtile_rt_barrier(task, &kFirst);
    if (*frame.arrived < before)
      ++*frame.wrong;
    // Nobody goes on to the next round before all have looked.
    dtile_rt_barrier(task, &kSecond);
    if (*frame.arrived > before + frame.head.ranks)
      ++*frame.wrong;
  }
}

TEST_P(OnAnyTeam, BarrierLetsNobodyThroughBeforeAllHaveCome) {
  const dtile_param_desc params[] = {
      {"arrived", DTILE_PARAM_SCALAR, DTILE_MODE_VALUE, DTILE_U64, 0, 0, 1},
      {"wrong", DTILE_PARAM_TENSOR, DTILE_MODE_OUT, DTILE_I64, 1, 0, 1},
  };
  const dtile_space_desc spaces[] = {{"", 0, -1, 0, 0, nullptr, one, nowhere, 0, barrierBody}};
  const dtile_kernel_desc kernel = {DTILE_ABI_VERSION,
                                    0,
                                    "meet",
                                    "barrier.dtile",
                                    2,
                                    1,
                                    0,
                                    0,
                                    params,
                                    spaces,
                                    nullptr,
                                    sizeof(BarrierFrame),
                                    barrierPrologue};
  std::atomic<int64_t> arrived{0};
  std::vector<int64_t> wrong(size_t(ranks_), 0);
  Arguments arguments(ranks_);
  for (int r = 0; r < ranks_; ++r) {
    arguments.addScalar(r, reinterpret_cast<uint64_t>(&arrived));
    arguments.add(r, tensor(&wrong[size_t(r)], {1}));
  }
  ASSERT_EQ(dtile_launch_repeat(team_.get(), &kernel, arguments.data(), 2, 3), DTILE_OK)
      << dtile_last_error();
  EXPECT_EQ(arrived, 20 * 3 * ranks_);
  for (int64_t w : wrong)
    EXPECT_EQ(w, 0);
}

// ---- Thousands of bodies that all wait for the last one ----

struct CrowdFrame {
  FrameHead head;
  int64_t bodies;
  uint64_t *go;
  int64_t *through;
};

int32_t crowdPrologue(dtile_launch *launch, void *memory) {
  auto &frame = *static_cast<CrowdFrame *>(memory);
  fillHead(launch, frame.head);
  dtile_rt_arg_scalar(launch, 0, &frame.bodies);
  frame.through = static_cast<int64_t *>(dtile_rt_arg_data(launch, 1));
  frame.go = static_cast<uint64_t *>(dtile_rt_signal(launch, 2, 0, nullptr));
  return 0;
}

void crowdBody(dtile_task *task, const void *memory, void *workspace, int64_t linear) {
  const auto &frame = *static_cast<const CrowdFrame *>(memory);
  static constexpr dtile_site kSite = {"crowd.dtile", "go", 1, 1};
  *static_cast<int64_t *>(workspace) = linear;
  if (linear == frame.bodies - 1) {
    dtile_region right =
        region(frame.go, DTILE_U64, {}, int32_t((frame.head.rank + 1) % frame.head.ranks));
    dtile_rt_notify(task, &right, &kSite);
  }
  dtile_region own = region(frame.go, DTILE_U64, {});
  dtile_rt_wait(task, &own, -1, &kSite);
  if (*static_cast<int64_t *>(workspace) == linear)
    std::atomic_ref(*frame.through).fetch_add(1);
}

int64_t crowdBodies(const void *frame) { return static_cast<const CrowdFrame *>(frame)->bodies; }
int64_t oneNotify(const void *, int64_t) { return 1; }

TEST(Runtime, EveryBodyCanBeResident) {
  const dtile_param_desc params[] = {
      {"bodies", DTILE_PARAM_SCALAR, DTILE_MODE_VALUE, DTILE_I64, 0, 0, 1},
      {"through", DTILE_PARAM_TENSOR, DTILE_MODE_OUT, DTILE_I64, 1, 0, 1},
      {"go", DTILE_PARAM_SIGNAL, DTILE_MODE_SYMM, DTILE_U64, 0, 0, 1},
  };
  const dtile_space_desc spaces[] = {
      {"", 0, -1, 0, 0, nullptr, crowdBodies, nowhere, 64, crowdBody}};
  const dtile_signal_desc signals[] = {{2, oneNotify}};
  const dtile_kernel_desc kernel = {DTILE_ABI_VERSION,
                                    0,
                                    "crowd",
                                    "crowd.dtile",
                                    3,
                                    1,
                                    1,
                                    0,
                                    params,
                                    spaces,
                                    signals,
                                    sizeof(CrowdFrame),
                                    crowdPrologue};
  // More than stacks with a guard page.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define DTILE_SLOW 1
#endif
#endif
#if defined(DTILE_SLOW)
  constexpr int64_t kBodies = 300;
#else
  constexpr int64_t kBodies = 5000;
#endif
  Team team = makeTeam(2, 2);
  std::vector<int64_t> through(2, 0);
  Arguments arguments(2);
  for (int r = 0; r < 2; ++r) {
    arguments.addScalar(r, kBodies);
    arguments.add(r, tensor(&through[size_t(r)], {1}));
  }
  ASSERT_EQ(dtile_launch_repeat(team.get(), &kernel, arguments.data(), 2, 2), DTILE_OK)
      << dtile_last_error();
  EXPECT_EQ(through, std::vector<int64_t>(2, 2 * kBodies));
}

// ---- Symmetric memory ----

TEST(Runtime, SymmetricMemoryIsZeroAndTheSameOffsetEverywhere) {
  Team team = makeTeam(3, 1);
  void *a = nullptr, *b = nullptr;
  ASSERT_EQ(dtile_symm_alloc(team.get(), 1000, &a), DTILE_OK);
  ASSERT_EQ(dtile_symm_alloc(team.get(), 3 << 20, &b), DTILE_OK);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a) % 256, 0u);
  for (int r = 0; r < 3; ++r) {
    auto *ra = static_cast<char *>(dtile_symm_address(team.get(), a, r));
    auto *rb = static_cast<char *>(dtile_symm_address(team.get(), b, r));
    EXPECT_EQ(rb - ra, static_cast<char *>(b) - static_cast<char *>(a));
    EXPECT_EQ(std::count(rb, rb + (3 << 20), 0), 3 << 20);
    std::memset(rb, 1, 3 << 20);
  }
  EXPECT_EQ(dtile_symm_address(team.get(), a, 3), nullptr);
  ASSERT_EQ(dtile_symm_free(team.get(), b), DTILE_OK);
  EXPECT_EQ(dtile_symm_free(team.get(), b), DTILE_INVALID);
  void *again = nullptr;
  ASSERT_EQ(dtile_symm_alloc(team.get(), 3 << 20, &again), DTILE_OK);
  EXPECT_EQ(again, b);
  for (int r = 0; r < 3; ++r) {
    auto *memory = static_cast<char *>(dtile_symm_address(team.get(), again, r));
    EXPECT_EQ(std::count(memory, memory + (3 << 20), 0), 3 << 20);
  }
}

// Ranks meet where another kernel has written it; with one worker they would not pass a meeting to
// which not all came.
TEST(Runtime, KernelsTakeMemoryInTurnOneAfterTheOther) {
  Team team = makeTeam(2, 1);
  dtile_param_desc params[] = {kNeighbourPut.params[0], kNeighbourPut.params[1],
                               kNeighbourPut.params[2], kNeighbourPut.params[3]};
  params[2].mode = DTILE_MODE_SYMM;
  params[2].flags = DTILE_PARAM_WRITTEN | DTILE_PARAM_IN_TURN;
  dtile_kernel_desc first = kNeighbourPut, second = kNeighbourPut;
  first.params = second.params = params;
  first.name = "first";
  second.name = "second";
  void *box = nullptr;
  ASSERT_EQ(dtile_symm_alloc(team.get(), 80, &box), DTILE_OK);
  int64_t round = 0;
  for (const dtile_kernel_desc *kernel : {&first, &first, &second, &first, &second, &second}) {
    std::vector<std::vector<int64_t>> x = {std::vector<int64_t>(10, ++round),
                                           std::vector<int64_t>(10, -round)};
    Arguments arguments(2);
    for (int r = 0; r < 2; ++r) {
      arguments.add(r, tensor(x[size_t(r)].data(), {10}));
      void *own = dtile_symm_address(team.get(), box, r);
      arguments.add(r, tensor(static_cast<int64_t *>(own), {10}));
    }
    ASSERT_EQ(dtile_launch_repeat(team.get(), kernel, arguments.data(), 2, 3), DTILE_OK)
        << dtile_last_error();
    for (int r = 0; r < 2; ++r) {
      const auto *own = static_cast<int64_t *>(dtile_symm_address(team.get(), box, r));
      EXPECT_EQ(std::vector<int64_t>(own, own + 10), x[size_t(1 - r)]);
    }
  }
}

TEST(Runtime, ScratchOfOldSizesMakesRoom) {
  // Room for two copies of one size at a time.
  Team team = makeTeam(2, 2, 0, 3 << 20);
  for (int64_t n : {60'000, 61'000, 62'000, 63'000, 60'000}) {
    std::vector<std::vector<int64_t>> x(2, std::vector<int64_t>(size_t(n), n)), y = x;
    Arguments arguments(2);
    for (int r = 0; r < 2; ++r) {
      arguments.add(r, tensor(x[size_t(r)].data(), {n}));
      arguments.add(r, tensor(y[size_t(r)].data(), {n}));
    }
    for (int i = 0; i < 3; ++i)
      ASSERT_EQ(dtile_launch_all(team.get(), &kNeighbourPut, arguments.data(), 2), DTILE_OK)
          << dtile_last_error();
    EXPECT_EQ(y[0], x[1]);
  }
}

} // namespace
} // namespace dtile::test
