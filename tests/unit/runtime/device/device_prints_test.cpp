// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What bodies on devices print: from the device library's records to lines on stderr.
#include "device_fixture.h"

#include "backend/device_library/device.h"
#include "backend/runtime/device/print/print_ring.h"

#include <atomic>
#include <cstdlib>
#include <thread>

// The device library, on one thread of each program.
extern "C" {
int32_t dtile_test_thread() { return 0; }
int32_t dtile_test_threads() { return 1; }
int32_t dtile_test_program() { return 0; }
int32_t dtile_test_any(int32_t x, int32_t, int32_t) { return x; }
void dtile_test_meet_warp() {}
void dtile_test_leave() { std::abort(); }
void dtile_test_yield() { std::this_thread::yield(); }
}

namespace dtile::test {
namespace {

const char *const kVars[] = {"m"};

/// Where what follows the header begins.
int64_t *numbersOf(dtile_device_print &print) { return reinterpret_cast<int64_t *>(&print + 1); }

/// What code for a body does: an i32 with the name of site 0, in space 1 at position `m`. Null
/// where there is no room.
dtile_device_print *begin(const dtile_device_launch &words, int64_t m, int32_t value) {
  dtile_device_print *print = dtile_dev_print_begin(&words, sizeof(dtile_device_print) + 16, 0, 1);
  if (!print)
    return nullptr;
  print->positions = 1;
  print->ndim = 0;
  print->dtype = DTILE_I32;
  numbersOf(*print)[0] = m;
  std::memcpy(numbersOf(*print) + 1, &value, sizeof value);
  return print;
}

void print(const dtile_device_launch &words, int64_t m, int32_t value) {
  if (dtile_device_print *print = begin(words, m, value))
    dtile_dev_print_end(&words, print);
}

class DevicePrintsTest : public DeviceTeamTest {
protected:
  void SetUp() override {
    DeviceTeamTest::SetUp();
    unsetenv("DTILE_PRINT_BYTES");
    kernel.desc.flags = DTILE_KERNEL_PRINTS;
    spaces[0] = kSpaces[0];
    spaces[1] = kSpaces[1];
    spaces[1].vars = kVars;
    kernel.desc.spaces = spaces;
    ASSERT_TRUE(make({0, 1}).ok());
    makeArguments(8);
  }
  void TearDown() override { unsetenv("DTILE_PRINT_BYTES"); }

  /// What `act` leaves on stderr.
  template <typename Act> std::string shown(Act act) {
    testing::internal::CaptureStderr();
    act();
    return testing::internal::GetCapturedStderr();
  }

  dtile_space_desc spaces[2];
};

TEST_F(DevicePrintsTest, launches_show_what_their_bodies_print) {
  machine.kernel = [](const RecordedLaunch &launch) {
    print(launch.words, 4, 10 * launch.words.rank);
    print(launch.words, 5, -1);
  };
  EXPECT_EQ(shown([&] { EXPECT_TRUE(launch().ok()); }),
            "rank 0, kernel `shift`, role `work` (m = 4): ready = 0\n"
            "rank 0, kernel `shift`, role `work` (m = 5): ready = -1\n"
            "rank 1, kernel `shift`, role `work` (m = 4): ready = 10\n"
            "rank 1, kernel `shift`, role `work` (m = 5): ready = -1\n");
}

TEST_F(DevicePrintsTest, only_kernels_that_print_have_a_ring) {
  kernel.desc.flags = 0;
  ASSERT_TRUE(launch().ok());
  EXPECT_EQ(machine.launches.back().words.team->prints, nullptr);
  // A kernel does not meet for that it prints.
  EXPECT_EQ(machine.launches.back().words.flags & DTILE_KERNEL_PRINTS, 0u);
}

TEST_F(DevicePrintsTest, queued_launches_show_when_the_team_waits_for_them) {
  machine.kernel = [](const RecordedLaunch &launch) { print(launch.words, 0, 7); };
  EXPECT_EQ(shown([&] { EXPECT_TRUE(launchOn(0).ok()); }), "");
  const std::string line = "rank 0, kernel `shift`, role `work` (m = 0): ready = 7\n";
  EXPECT_EQ(shown([&] { EXPECT_TRUE(team->synchronize().ok()); }), line);
  EXPECT_EQ(shown([&] { EXPECT_TRUE(launchOn(0).ok()); }), "");
  // And when it launches more, or ends.
  EXPECT_EQ(shown([&] { EXPECT_TRUE(launchOn(0).ok()); }), line);
  EXPECT_EQ(shown([&] { team.reset(); }), line);
}

TEST_F(DevicePrintsTest, launches_that_fail_show_what_came_before) {
  bool hasFailed = false;
  machine.kernel = [&](const RecordedLaunch &launch) {
    print(launch.words, 1, 11);
    if (launch.words.rank == 1 && !std::exchange(hasFailed, true)) {
      // One that the device was about to write when it failed.
      begin(launch.words, 2, 12);
      print(launch.words, 3, 13);
      giveUp(launch.words);
      // What is computed behind a failure is not shown.
      print(launch.words, 4, 14);
    }
  };
  const std::string rank0 = "rank 0, kernel `shift`, role `work` (m = 1): ready = 11\n";
  const std::string rank1 = "rank 1, kernel `shift`, role `work` (m = 1): ready = 11\n";
  EXPECT_EQ(shown([&] { EXPECT_EQ(launch().code, DTILE_TIMEOUT); }),
            rank0 + rank1 + "rank 1, kernel `shift`, role `work` (m = 3): ready = 13\n" +
                "dtile: rank 1: 1 value that a kernel printed is lost (56 bytes; there are "
                "1048576): print less at once, or raise DTILE_PRINT_BYTES\n");
  // The next ones are as ever.
  EXPECT_EQ(shown([&] { EXPECT_TRUE(launch().ok()); }), rank0 + rank1);
}

TEST_F(DevicePrintsTest, what_does_not_fit_is_counted) {
  setenv("DTILE_PRINT_BYTES", "5000", 1);
  machine.kernel = [](const RecordedLaunch &launch) {
    for (int32_t i = 0; i < 200; ++i)
      print(launch.words, i, i);
  };
  for (int round = 0; round < 3; ++round) {
    const std::string text = shown([&] { EXPECT_TRUE(launchOn(1).ok()); }) +
                             shown([&] { EXPECT_TRUE(team->synchronize().ok()); });
    // A power of two of bytes, 56 each; where the ring begins anew, the rest of it is left out.
    const auto lines = std::count(text.begin(), text.end(), '\n');
    EXPECT_GE(lines, 8192 / 56);
    EXPECT_LE(lines, 8192 / 56 + 1);
    EXPECT_NE(text.find(std::to_string(201 - lines) + " values that kernels printed are lost"),
              std::string::npos)
        << text;
  }
}

TEST_F(DevicePrintsTest, refuses_sizes_that_are_none) {
  for (const char *size : {"1", "many", "-5", "99999999999"}) {
    setenv("DTILE_PRINT_BYTES", size, 1);
    const Status status = launch();
    EXPECT_EQ(status.code, DTILE_INVALID);
    EXPECT_NE(status.message.find("DTILE_PRINT_BYTES is `" + std::string(size) + "`"),
              std::string::npos)
        << status.message;
  }
}

TEST(PrintRing, hands_over_whole_records_while_devices_write) {
  constexpr int64_t kRoom = 4096;
  constexpr int32_t kThreads = 4, kRounds = 50'000;
  std::vector<uint64_t> memory(size_t(runtime::PrintRing::sizeFor(kRoom)) / 8);
  runtime::PrintRing ring(memory.data(), kRoom);
  uint32_t abort = 0;
  dtile_device_team device = {};
  device.prints = reinterpret_cast<dtile_device_prints *>(memory.data());
  device.abort = &abort;
  dtile_device_launch words = {};
  words.team = &device;

  // Each thread counts; all numbers of a record are the same, and records are of many sizes.
  std::atomic<int32_t> running = kThreads;
  std::vector<std::thread> threads;
  for (int32_t thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&, thread] {
      for (int32_t round = 0; round < kRounds; ++round) {
        const int32_t numbers = 1 + round % 6;
        const auto bytes = int32_t(sizeof(dtile_device_print)) + 8 * numbers;
        if (dtile_device_print *print = dtile_dev_print_begin(&words, bytes, round, thread)) {
          print->positions = numbers;
          print->ndim = 0;
          print->dtype = -1;
          for (int32_t i = 0; i < numbers; ++i)
            numbersOf(*print)[i] = round;
          dtile_dev_print_end(&words, print);
        } else {
          std::this_thread::yield();
        }
      }
      --running;
    });
  uint64_t seen = 0;
  int32_t last[kThreads] = {-1, -1, -1, -1};
  const auto check = [&](const dtile_device_print &print) {
    ++seen;
    EXPECT_EQ(runtime::positionOf(print),
              std::vector<int64_t>(size_t(1 + print.site % 6), print.site));
    // A program's records stay in order.
    EXPECT_GT(print.site, last[print.space]);
    last[print.space] = print.site;
  };
  while (running > 0)
    ring.read(/*areOver=*/false, check);
  for (std::thread &thread : threads)
    thread.join();
  ring.read(/*areOver=*/true, check);
  EXPECT_EQ(seen + ring.takeLost().records, uint64_t(kThreads) * kRounds);
  EXPECT_GT(seen, 0u);
}

} // namespace
} // namespace dtile::test
