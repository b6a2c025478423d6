// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Launches whose transfers the copy engine makes, on devices of host memory: what is copied where,
// in which order, and when programs send after all.
#include "tests/unit/runtime/device/device_fixture.h"

#include "backend/runtime/device/engine/engine_work.h"

namespace dtile::test {
namespace {

using runtime::DeviceCopy;
using runtime::EngineWork;
using runtime::RunPlan;

const dtile_site kPutSite = {"kernel.dtile", "buffer", 30, 7};

dtile_region vector(void *data, int32_t rank, int64_t size, int32_t dtype) {
  dtile_region region = {};
  region.data = data;
  region.rank = rank;
  region.ndim = 1;
  region.dtype = dtype;
  region.size[0] = size;
  region.stride[0] = 1;
  return region;
}

/// Body `peer` sends all of x to a peer, and notifies the cell of this rank there.
void listSend(dtile_launch *launch, const void *memory, int64_t body) {
  const auto &frame = *static_cast<const Frame *>(memory);
  const auto peer = int32_t(body);
  const dtile_region source = vector(const_cast<void *>(frame.x), -1, frame.n, DTILE_F32);
  const dtile_region target = vector(frame.scratch.data, peer, frame.n, DTILE_F32);
  dtile_rt_engine_put(launch, &source, &target, &kPutSite);
  const dtile_region cell =
      vector(frame.cells.cells + int64_t(dtile_rt_rank(launch)) * 3, peer, 1, DTILE_U64);
  dtile_rt_engine_notify(launch, &cell);
}

void listWrongly(dtile_launch *launch, const void *memory, int64_t body) {
  listSend(launch, memory, body);
  dtile_rt_engine_leave(launch);
}

void (*const kLists[])(dtile_launch *, const void *, int64_t) = {listSend, nullptr};
void (*const kWrongLists[])(dtile_launch *, const void *, int64_t) = {listWrongly, nullptr};

/// What the kernel does before its copies.
void moveWords(const RecordedLaunch &launch) {
  if ((launch.words.flags & DTILE_DEVICE_BEGINS) != 0)
    ++frameOf(launch).cells.since[DTILE_DEVICE_LAUNCH_WORD];
}

class DeviceEngineTest : public DeviceTeamTest {
protected:
  void SetUp() override {
    DeviceTeamTest::SetUp();
    kernel.image.engine = kLists;
    machine.kernel = moveWords;
  }
  /// Launches of a rank, in order.
  std::vector<RecordedLaunch> launchesOf(int32_t rank) const {
    std::vector<RecordedLaunch> found;
    for (const RecordedLaunch &launch : machine.launches)
      if (launch.words.rank == rank)
        found.push_back(launch);
    return found;
  }
  float *x(int32_t local) { return static_cast<float *>(arguments->data()[local][0].tensor->data); }
};

TEST_F(DeviceEngineTest, CopiesStandBetweenTheMeetingAndTheKernel) {
  ASSERT_TRUE(make({0, 1}).ok());
  makeArguments(64);
  for (int32_t local = 0; local < 2; ++local)
    for (int i = 0; i < 64; ++i)
      x(local)[i] = float(100 * local + i);
  ASSERT_TRUE(launch(2).ok());
  const auto launches = launchesOf(0);
  ASSERT_EQ(launches.size(), 4u);
  for (size_t i = 0; i < launches.size(); i += 2) {
    EXPECT_EQ(launches[i].words.flags, DTILE_DEVICE_BEGINS | DTILE_KERNEL_ENTRY_BARRIER);
    EXPECT_EQ(launches[i].programs, 1);
    EXPECT_FALSE(launches[i].cooperative);
    EXPECT_EQ(launches[i + 1].words.flags, 0u);
    EXPECT_EQ(launches[i + 1].words.engine, 1u);
    EXPECT_EQ(launches[i + 1].frame, launches[i].frame);
    // One program does what stays on the rank.
    EXPECT_EQ(launches[i + 1].words.first_program[1], 1);
  }
  // Data and a cell for the only peer, of each rank and launch.
  ASSERT_EQ(machine.copies.size(), 8u);
  const Frame &own = frameOf(launches[0]);
  const Frame &there = frameOf(launchesOf(1)[0]);
  EXPECT_EQ(machine.copies[0].copy.rowBytes, 256);
  EXPECT_EQ(machine.copies[0].copy.from, reinterpret_cast<DeviceAddress>(own.x));
  EXPECT_EQ(machine.copies[0].copy.to, reinterpret_cast<DeviceAddress>(there.scratch.data));
  EXPECT_EQ(machine.copies[0].launchesBefore, 1u);
  EXPECT_EQ(std::memcmp(there.scratch.data, own.x, 256), 0);
  EXPECT_EQ(std::memcmp(own.scratch.data, there.x, 256), 0);
  // The cell counts launches, as notifies of programs would; nothing else is told.
  EXPECT_EQ(there.cells.cells[0], 2u);
  EXPECT_EQ(own.cells.cells[3], 2u);
  EXPECT_EQ(own.cells.cells[0], 0u);
  // Copies follow the beginning; the caller's stream follows them.
  ASSERT_EQ(machine.follows.size(), 8u);
  EXPECT_EQ(machine.follows[0].first, launches[0].stream);
  EXPECT_EQ(machine.follows[0].second, machine.copies[0].stream);
  EXPECT_EQ(machine.follows[1].first, machine.copies[0].stream);
  EXPECT_EQ(machine.follows[1].second, launches[0].stream);
}

TEST_F(DeviceEngineTest, WhatFollowsHasProgramsOfItsOwn) {
  // Where programs send, they run the second space, too, when they are done.
  dtile_device_space spaces[] = {kDeviceSpaces[0], kDeviceSpaces[1]};
  spaces[1].shares = spaces[1].follows = 1;
  kernel.image.spaces = spaces;
  ASSERT_TRUE(make({0, 1}).ok());
  makeArguments(64);
  const auto programs = [&](int32_t space) {
    const dtile_device_launch &words = launchesOf(0).back().words;
    return words.first_program[space + 1] - words.first_program[space];
  };
  ASSERT_TRUE(launch().ok());
  EXPECT_EQ(programs(0), 1);
  EXPECT_EQ(programs(1), 7);
  machine.hasCopyEngine = false;
  makeArguments(64);
  ASSERT_TRUE(launch().ok());
  EXPECT_EQ(programs(1), 0);
}

TEST_F(DeviceEngineTest, CapturedLaunchesHaveAStreamOfTheirOwn) {
  ASSERT_TRUE(make({0, 1}).ok());
  makeArguments(64);
  int caller = 0;
  ASSERT_TRUE(launchOn(0, &caller).ok());
  machine.capturing = true;
  ASSERT_TRUE(launchOn(0, &caller).ok());
  machine.capturing = false;
  ASSERT_EQ(machine.copies.size(), 4u);
  EXPECT_NE(machine.copies[0].stream, machine.copies[2].stream);
  // To the same place, which a replay repeats.
  EXPECT_EQ(machine.copies[0].copy.to, machine.copies[2].copy.to);
}

TEST_F(DeviceEngineTest, ProgramsSendWhereItCannot) {
  // Ranks share a GPU; the driver has none; a check fails.
  for (const int why : {0, 1, 2}) {
    SCOPED_TRACE(why);
    machine.hasCopyEngine = why != 1;
    kernel.image.engine = why == 2 ? kWrongLists : kLists;
    ASSERT_TRUE(make(why == 0 ? std::vector<int32_t>{0, 0} : std::vector<int32_t>{0, 1}).ok());
    machine.launches.clear();
    makeArguments(64);
    ASSERT_TRUE(launch().ok());
    EXPECT_TRUE(machine.copies.empty());
    const auto launches = launchesOf(1);
    ASSERT_EQ(launches.size(), 2u);
    // Words move on all the same: another rank may use its own.
    EXPECT_EQ(launches[0].words.flags, DTILE_DEVICE_BEGINS | DTILE_KERNEL_ENTRY_BARRIER);
    EXPECT_EQ(launches[1].words.engine, 0u);
    EXPECT_EQ(launches[1].words.flags, 0u);
    EXPECT_EQ(frameOf(launches[1]).cells.since[DTILE_DEVICE_LAUNCH_WORD], 1u);
  }
}

TEST_F(DeviceEngineTest, ReportsNameThePutThatDidNotArrive) {
  ASSERT_TRUE(make({0, 1}).ok());
  makeArguments(64);
  machine.kernel = [](const RecordedLaunch &launch) {
    if (launch.words.rank != 1 || (launch.words.flags & DTILE_DEVICE_BEGINS) != 0)
      return;
    dtile_device_report &report = giveUp(launch.words);
    report.rank = 1;
    report.site = 0;
    report.space = 1;
    report.cell = 0;
    report.wanted = 1;
  };
  const Status status = launch();
  EXPECT_EQ(status.code, DTILE_TIMEOUT);
  EXPECT_NE(status.message.find("`ready[0, 0]`, which the copy engine of rank 0 writes after the "
                                "put at kernel.dtile:30:7: wants 1, has seen 0"),
            std::string::npos)
      << status.message;
}

TEST(EngineWorkTest, RowsAtEqualDistancesAreOneCopy) {
  RunPlan runs = {.runBytes = 512, .ndim = 2, .count = {3, 40}};
  runs.strideA[0] = 100000, runs.strideA[1] = 2048;
  runs.strideB[0] = 50000, runs.strideB[1] = 512;
  EngineWork work;
  work.put(1 << 20, 2 << 20, runs, kPutSite);
  ASSERT_EQ(work.copies().size(), 3u);
  const DeviceCopy &last = work.copies()[2];
  EXPECT_EQ(last.from, DeviceAddress((2 << 20) + 200000));
  EXPECT_EQ(last.to, DeviceAddress((1 << 20) + 100000));
  EXPECT_EQ(last.rows, 40);
  EXPECT_EQ(last.fromPitch, 2048);
  EXPECT_EQ(last.toPitch, 512);
  EXPECT_EQ(work.bytes(), 3 * 40 * 512);
}

TEST(EngineWorkTest, ListsThatAreNotWorthTheirTimeAreRefused) {
  RunPlan narrow = {.runBytes = 4, .ndim = 1, .count = {40}};
  narrow.strideA[0] = narrow.strideB[0] = 8;
  EngineWork work;
  work.put(0, 0, narrow, kPutSite);
  EXPECT_EQ(work.refusal(), "rows of 4 bytes are too narrow");
  EngineWork many;
  RunPlan runs = {.runBytes = 4096, .ndim = 0};
  for (int i = 0; i < 1025; ++i)
    many.put(0, 0, runs, kPutSite);
  EXPECT_EQ(many.refusal(), "it would make more than 1024 copies");
  EXPECT_TRUE(many.copies().empty());
}

} // namespace
} // namespace dtile::test
