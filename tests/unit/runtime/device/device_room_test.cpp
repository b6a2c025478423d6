// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The symmetric heap of teams of devices: who gets room in it, what goes for that, and that
// arguments stay in what they were given.
#include "tests/unit/runtime/device/device_fixture.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

namespace dtile::test {
namespace {

using namespace runtime;
using testing::HasSubstr;

/// Launches with so many elements each; their scratch takes 8 bytes an element, in two copies.
class DeviceRoomTest : public DeviceTeamTest {
protected:
  Status launchOf(int64_t elements, int32_t count = 1) {
    makeArguments(elements);
    Status status = launch(count);
    for (int32_t local = 0; local < team->localCount(); ++local)
      for (int i = 0; i < 2; ++i)
        team->local(local).device->release(DeviceAddress(arguments->data()[local][i].tensor->data));
    return status;
  }
  /// Where rank 0's last launch has its scratch.
  const char *scratch() const {
    for (auto launch = machine.launches.rbegin(); launch != machine.launches.rend(); ++launch)
      if (launch->words.rank == 0)
        return static_cast<const char *>(frameOf(*launch).scratch.data);
    return nullptr;
  }
  /// Kernels find what they have not used before as zeros, and leave something else.
  void watchZeros() {
    machine.kernel = [this](const RecordedLaunch &launch) {
      const Frame &frame = frameOf(launch);
      auto *data = static_cast<char *>(frame.scratch.data);
      const int64_t bytes = 2 * frame.scratch.copy_bytes;
      if (*frame.scratch.turn == 0) {
        for (int64_t i = 0; i < bytes; ++i)
          dirty += data[i] != 0;
      }
      // One object for all sizes, until it goes.
      for (int64_t cell = 0; frame.cells.since[0] == 0 && cell < 3 * frame.ranks; ++cell)
        dirty += frame.cells.cells[cell] != 0 || frame.cells.asked[cell] != 0 ||
                 frame.cells.bases[2 * cell] != 0 || frame.cells.bases[2 * cell + 1] != 0;
      ++*frame.scratch.turn;
      std::memset(data, 0x5a, size_t(bytes));
      for (int64_t cell = 0; cell < 3 * frame.ranks; ++cell) {
        frame.cells.cells[cell] = frame.cells.asked[cell] = 7;
        frame.cells.bases[2 * cell] = frame.cells.bases[2 * cell + 1] = 9;
      }
      frame.cells.since[0] = frame.cells.since[1] = 11;
    };
  }
  int64_t dirty = 0;
};

TEST_F(DeviceRoomTest, any_number_of_sizes_finds_room) {
  ASSERT_TRUE(make({0, 1}).ok());
  watchZeros();
  for (int64_t elements = 1024; elements <= 60 * 1024; elements += 1024)
    ASSERT_EQ(launchOf(elements, 2).message, "") << elements;
  // And back, smaller ones in what larger ones had.
  for (int64_t elements = 60 * 1024; elements > 0; elements -= 1024)
    ASSERT_EQ(launchOf(elements).message, "") << elements;
  EXPECT_EQ(dirty, 0);
}

TEST_F(DeviceRoomTest, counters_of_what_went_are_used_again) {
  ASSERT_TRUE(make({0}, 64 << 10).ok());
  machine.isFilled = false;
  ASSERT_EQ(launchOf(1024).message, "");
  const int64_t before = machine.memory;
  for (int64_t i = 0; i < 10'000; ++i)
    ASSERT_EQ(launchOf(1024 + 4 * (i % 500)).message, "") << i;
  EXPECT_EQ(machine.memory, before);
}

TEST_F(DeviceRoomTest, what_was_not_used_for_long_goes_first) {
  ASSERT_TRUE(make({0, 1}).ok());
  // 320, 304 and 288 KiB of the heap's 1 MiB: no fourth one fits.
  ASSERT_EQ(launchOf(40 << 10).message, "");
  const char *first = scratch();
  ASSERT_EQ(launchOf(38 << 10).message, "");
  const char *second = scratch();
  ASSERT_EQ(launchOf(36 << 10).message, "");
  ASSERT_EQ(launchOf(40 << 10).message, "");
  EXPECT_EQ(scratch(), first);
  // The second goes, not the first.
  ASSERT_EQ(launchOf(34 << 10).message, "");
  EXPECT_EQ(scratch(), second);
  const int32_t prologues = machine.prologues;
  ASSERT_EQ(launchOf(40 << 10).message, "");
  EXPECT_EQ(scratch(), first);
  EXPECT_EQ(machine.prologues, prologues + 2) << "other tensors, but the same objects";
}

TEST_F(DeviceRoomTest, launches_that_were_prepared_go_with_their_objects) {
  ASSERT_TRUE(make({0, 1}).ok());
  watchZeros();
  makeArguments(32 << 10);
  std::unique_ptr<Arguments> kept = std::move(arguments);
  const auto again = [&] {
    return team->launch(&kernel.desc, kept->data(), kept->count(), 1).message;
  };
  ASSERT_EQ(again(), "");
  ASSERT_EQ(again(), "");
  EXPECT_EQ(machine.prologues, 2);
  for (int64_t elements : {31, 30, 29, 28})
    ASSERT_EQ(launchOf(elements << 10).message, "");
  machine.prologues = 0;
  ASSERT_EQ(again(), "");
  EXPECT_EQ(machine.prologues, 2);
  EXPECT_EQ(dirty, 0);
}

TEST_F(DeviceRoomTest, what_a_captured_graph_uses_stays) {
  ASSERT_TRUE(make({0, 1}).ok());
  ASSERT_EQ(launchOf(32 << 10, 0).message, "");
  makeArguments(32 << 10);
  std::unique_ptr<Arguments> captured = std::move(arguments);
  machine.capturing = true;
  for (int32_t local = 0; local < 2; ++local)
    ASSERT_EQ(team->launchOn(local, &kernel.desc, captured->data()[local], 2, &machine).message,
              "");
  machine.capturing = false;
  const char *held = scratch();
  std::memset(const_cast<char *>(held), 0x11, 256 << 10);
  for (int64_t elements = 20 << 10; elements < 40 << 10; elements += 1024) {
    // Others than that which is held.
    ASSERT_EQ(launchOf(elements + 4).message, "") << elements;
    const char *own = scratch();
    EXPECT_TRUE(own >= held + (256 << 10) || own + 8 * (elements + 4) <= held);
  }
  EXPECT_EQ(held[0], 0x11);
  EXPECT_EQ(held[(256 << 10) - 1], 0x11);
  EXPECT_THAT(launchOf(110 << 10).message,
              testing::AllOf(HasSubstr("no room for 2 copies of `buffer`"),
                             HasSubstr("by captured graphs (see dtile_team_trim)")));
  // It goes when the caller says that no graph is replayed.
  ASSERT_EQ(team->trim(0).message, "");
  EXPECT_EQ(held[0], 0x11);
  EXPECT_THAT(launchOf(110 << 10).message, HasSubstr("no room"));
  ASSERT_EQ(team->trim(DTILE_TRIM_CAPTURED).message, "");
  EXPECT_EQ(held[0], 0);
  EXPECT_EQ(launchOf(110 << 10).message, "");
}

TEST_F(DeviceRoomTest, nothing_goes_for_what_would_not_fit) {
  ASSERT_TRUE(make({0, 1}).ok());
  ASSERT_EQ(launchOf(32 << 10).message, "");
  const char *first = scratch();
  EXPECT_THAT(launchOf(1 << 20).message, HasSubstr("no room for 2 copies of `buffer`"));
  ASSERT_EQ(launchOf(32 << 10).message, "");
  EXPECT_EQ(scratch(), first);
}

TEST_F(DeviceRoomTest, heaps_without_room_for_the_team_are_refused) {
  for (int64_t bytes : {1, 8, 200})
    EXPECT_THAT(make({0, 1}, bytes).message, HasSubstr("is too small for a team of 2 ranks"));
  EXPECT_EQ(make({0, 1}, 4096).message, "");
}

TEST_F(DeviceRoomTest, symmetric_memory_takes_the_room_of_idle_objects) {
  ASSERT_TRUE(make({0, 1}).ok());
  watchZeros();
  for (int64_t elements : {32, 31, 30})
    ASSERT_EQ(launchOf(elements << 10).message, "");
  void *box = nullptr;
  ASSERT_EQ(team->symmAlloc(900 << 10, &box).message, "");
  for (int32_t local = 0; local < 2; ++local) {
    const auto *bytes = static_cast<const char *>(team->symmAddress(box, local));
    EXPECT_EQ(std::count(bytes, bytes + (900 << 10), 0), 900 << 10);
  }
  EXPECT_THAT(launchOf(32 << 10).message, HasSubstr("no room"));
  ASSERT_EQ(team->symmFree(box).message, "");
  EXPECT_EQ(launchOf(32 << 10).message, "");
  EXPECT_EQ(dirty, 0);
}

TEST_F(DeviceRoomTest, objects_of_unloaded_kernels_make_room) {
  ASSERT_TRUE(make({0}).ok());
  watchZeros();
  // The memory of one descriptor holds one kernel after the other.
  for (int i = 0; i < 20; ++i) {
    const std::string data = "image " + std::to_string(i);
    kernel.image.data = data.c_str();
    kernel.image.bytes = int64_t(data.size()) + 1;
    ASSERT_EQ(launchOf(32 << 10).message, "") << i;
  }
  EXPECT_EQ(dirty, 0);
}

// ---- Arguments ----

class DeviceObjectTest : public DeviceTeamTest {
protected:
  /// `x` is symmetric.
  void SetUp() override {
    DeviceTeamTest::SetUp();
    params[0].mode = DTILE_MODE_SYMM;
    kernel.desc.params = params;
    ASSERT_TRUE(make({0}).ok());
    ASSERT_TRUE(team->symmAlloc(1024, &object).ok());
    ASSERT_TRUE(team->symmAlloc(1024, &neighbour).ok());
  }
  std::string of(const void *data, int64_t elements) {
    const dtile_tensor x = tensor(static_cast<float *>(const_cast<void *>(data)), {elements});
    const dtile_tensor y = tensor(allocate(0, 1024), {elements});
    return launchWith(x, y).message;
  }
  dtile_param_desc params[4] = {kParams[0], kParams[1], kParams[2], kParams[3]};
  void *object = nullptr, *neighbour = nullptr;
};

TEST_F(DeviceObjectTest, symmetric_arguments_stay_in_their_objects) {
  EXPECT_EQ(of(object, 256), "");
  EXPECT_EQ(of(static_cast<float *>(object) + 200, 56), "");
  EXPECT_THAT(of(object, 257), HasSubstr("kernel `shift`, argument `x`, rank 0: the data is 1028 "
                                         "bytes, 0 behind the begin of a symmetric object of 1024 "
                                         "bytes: it goes past its end"));
  EXPECT_THAT(of(static_cast<float *>(object) + 200, 57), HasSubstr("goes past its end"));
  EXPECT_THAT(of(object, int64_t(1) << 62), HasSubstr("overflow"));
  EXPECT_THAT(of(object, INT64_MAX), HasSubstr("overflow"));
  // What the team keeps there itself is nobody's argument.
  EXPECT_THAT(of(frameOf(machine.launches.back()).scratch.data, 4),
              HasSubstr("in no object that dtile_symm_alloc has given"));
}

TEST_F(DeviceObjectTest, freed_memory_is_refused_though_it_was_launched_with_before) {
  const dtile_tensor x = tensor(static_cast<float *>(object), {256});
  const dtile_tensor y = tensor(allocate(0, 256), {256});
  ASSERT_EQ(launchWith(x, y).message, "");
  ASSERT_EQ(launchWith(x, y).message, "");
  ASSERT_TRUE(team->symmFree(object).ok());
  EXPECT_THAT(launchWith(x, y).message, HasSubstr("or in one that was freed"));
}

TEST_F(DeviceObjectTest, other_arguments_in_the_heap_are_checked_too) {
  params[0].mode = DTILE_MODE_IN;
  EXPECT_EQ(of(object, 256), "");
  EXPECT_THAT(of(object, 300), HasSubstr("goes past its end"));
  dtile_tensor strided = tensor(static_cast<float *>(object), {64});
  strided.stride[0] = 4;
  const dtile_tensor y = tensor(allocate(0, 64), {64});
  EXPECT_EQ(launchWith(strided, y).message, "");
  strided.stride[0] = 5;
  EXPECT_THAT(launchWith(strided, y).message, HasSubstr("goes past its end"));
  strided.stride[0] = INT64_MAX / 2;
  EXPECT_THAT(launchWith(strided, y).message, HasSubstr("overflow"));
}

// ---- Jobs ----

struct RoomProcess {
  explicit RoomProcess(int32_t rank, const std::string &name) {
    theMachine = &machine;
    DeviceTeamConfig config;
    config.ordinals = {rank};
    config.symmetricBytes = 1 << 20;
    if (Rendezvous::join({rank, 2, rank, name}, 5000, &config.job).ok())
      (void)DeviceTeam::create(makeFakeDriver(machine), std::move(config), &team);
  }
  std::string launch(int64_t elements) {
    Device &device = *team->local(0).device;
    DeviceAddress x = 0, y = 0;
    if (!device.allocate(elements * 4, &x).ok() || !device.allocate(elements * 4, &y).ok())
      return "no memory";
    const dtile_tensor tensors[] = {tensor(reinterpret_cast<float *>(x), {elements}),
                                    tensor(reinterpret_cast<float *>(y), {elements})};
    dtile_arg args[2];
    args[0].tensor = &tensors[0];
    args[1].tensor = &tensors[1];
    return team->launchOn(0, &kernel.desc, args, 2, &machine).message;
  }
  /// In the heap.
  int64_t place() {
    const void *scratch = frameOf(machine.launches.back()).scratch.data;
    return int64_t(DeviceAddress(scratch) - team->local(0).heap);
  }
  FakeMachine machine;
  TestKernel kernel;
  std::unique_ptr<DeviceTeam> team;
};

bool inBoth(const char *test, const std::function<bool(RoomProcess &, int32_t)> &run) {
  const std::string name = std::string(test) + "-" + std::to_string(getpid());
  pid_t children[2];
  for (int32_t rank = 0; rank < 2; ++rank) {
    children[rank] = fork();
    if (children[rank] != 0)
      continue;
    bool isFine = false;
    {
      RoomProcess process(rank, name);
      isFine = process.team && run(process, rank);
    }
    _exit(isFine ? 0 : 1);
  }
  bool isFine = true;
  for (const pid_t child : children) {
    int state = 0;
    waitpid(child, &state, 0);
    isFine &= WIFEXITED(state) && WEXITSTATUS(state) == 0;
  }
  return isFine;
}

TEST(DeviceRoomJob, all_processes_give_back_the_same) {
  EXPECT_TRUE(inBoth("same", [](RoomProcess &process, int32_t rank) {
    for (int64_t i = 0; i < 30; ++i) {
      // Refused launches of one process alone change nothing.
      if (rank == 1)
        (void)process.team->launchOn(0, &process.kernel.desc, nullptr, 2, nullptr);
      if (!process.launch((20 + (i * 7) % 13) << 10).empty())
        return false;
      int64_t own = process.place(), all[2] = {};
      const void *in[] = {&own};
      if (!process.team->allGather(in, 8, all).ok() || all[0] != all[1])
        return false;
    }
    return process.team->trim(0).ok();
  }));
}

TEST(DeviceRoomJob, processes_that_capture_differently_are_told) {
  EXPECT_TRUE(inBoth("captures", [](RoomProcess &process, int32_t rank) {
    if (!process.launch(40 << 10).empty())
      return false;
    process.machine.capturing = rank == 1;
    // With the tensors of before, as nothing can be allocated.
    const RecordedLaunch last = process.machine.launches.back();
    const Frame &frame = frameOf(last);
    const dtile_tensor tensors[] = {
        tensor(static_cast<float *>(const_cast<void *>(frame.x)), {40 << 10}),
        tensor(static_cast<float *>(frame.y), {40 << 10})};
    dtile_arg args[2];
    args[0].tensor = &tensors[0];
    args[1].tensor = &tensors[1];
    if (!process.team->launchOn(0, &process.kernel.desc, args, 2, &process.machine).ok())
      return false;
    process.machine.capturing = false;
    if (!process.launch(38 << 10).empty() || !process.launch(36 << 10).empty())
      return false;
    return process.launch(34 << 10).find("differ in which scratch objects") != std::string::npos;
  }));
}

} // namespace
} // namespace dtile::test
