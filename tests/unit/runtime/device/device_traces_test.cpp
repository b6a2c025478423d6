// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Traces of teams of devices: from what the device library records to a file, which
// tests/tools/check_trace.py checks as it does those of processors.
#include "device_fixture.h"

#include "backend/device_library/device.h"
#include "backend/runtime/trace/trace_abi.h"

#include <gmock/gmock.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <unistd.h>

namespace {
int32_t program = 0;
} // namespace

// The device library, on one thread of each program.
extern "C" {
int32_t dtile_test_thread() { return 0; }
int32_t dtile_test_threads() { return 1; }
int32_t dtile_test_program() { return program; }
int32_t dtile_test_any(int32_t x, int32_t, int32_t) { return x; }
void dtile_test_meet_warp() {}
void dtile_test_leave() { std::abort(); }
void dtile_test_yield() {}
}

namespace dtile::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const char *const kVars[] = {"m"};
constexpr int32_t kReady = 0, kBuffer = 2, kWork = 1;

/// What code that is compiled to be traced does in one program; its clock is `late` nanoseconds
/// behind the host's.
struct Recorder {
  const RecordedLaunch &launch;
  int64_t number;
  int64_t late = 0;
  int32_t recorder = DTILE_RECORD_BODIES;

  [[nodiscard]] int64_t now() const { return dtile_dev_trace_now(); }
  int64_t *record(int32_t op, int32_t site, int64_t begin, int32_t peer) const {
    dtile_device_region *region = dtile_dev_trace_region(&launch.words, recorder);
    int64_t *words = dtile_dev_trace_event(&launch.words, region, op, kWork, site, number, begin,
                                           dtile_dev_trace_now(), peer);
    if (words) {
      auto *event = reinterpret_cast<dtile_device_event *>(reinterpret_cast<char *>(words) -
                                                           offsetof(dtile_device_event, words));
      event->begin -= uint64_t(late);
      event->end -= uint64_t(late);
    }
    return words;
  }
  void body(int64_t begin, int64_t m) const {
    if (int64_t *words = record(DTILE_TRACE_BODY, -1, begin, 0))
      words[0] = m;
  }
  void cell(int32_t op, int64_t begin, int32_t peer, int64_t cell, int64_t wanted = 0) const {
    if (int64_t *words = record(op, kReady, begin, peer)) {
      words[0] = int64_t(reinterpret_cast<uint64_t>(frameOf(launch).cells.cells + cell));
      words[1] = wanted;
    }
  }
  void put(int64_t begin, int32_t peer, int64_t bytes) const {
    if (int64_t *words = record(DTILE_TRACE_PUT, kBuffer, begin, peer))
      words[0] = bytes;
  }
};

class DeviceTracesTest : public DeviceTeamTest {
protected:
  void SetUp() override {
    DeviceTeamTest::SetUp();
    kernel.desc.flags = DTILE_KERNEL_TRACED;
    kernel.image.constants = "BM=128";
    spaces[0] = kSpaces[0];
    spaces[1] = kSpaces[1];
    spaces[1].vars = kVars;
    kernel.desc.spaces = spaces;
  }
  void TearDown() override { std::remove(path.c_str()); }

  void makeTeam(std::vector<int32_t> ordinals) {
    ASSERT_TRUE(make(std::move(ordinals)).ok());
    makeArguments(8);
  }

  /// Each program puts to the next rank and notifies it; the last rank waits for that.
  void runChain(const RecordedLaunch &launch, int64_t number, int64_t late = 0) {
    const int32_t rank = launch.words.rank, ranks = launch.words.num_ranks;
    for (program = 0; program < launch.programs; ++program) {
      const Recorder own{launch, number, late};
      const int64_t begin = own.now();
      if (rank + 1 < ranks) {
        own.put(own.now(), rank + 1, 64);
        // Position [1, 2] of `ready`, once a program.
        own.cell(DTILE_TRACE_NOTIFY, own.now(), rank + 1, 5);
      } else if (ranks > 1 && program == 0) {
        own.cell(DTILE_TRACE_WAIT, own.now(), rank, 5, launch.programs);
      }
      own.body(begin, 4 * program);
    }
    program = 0;
  }

  /// Ends the trace; the file's text.
  std::string end(int64_t *dropped = nullptr) {
    EXPECT_EQ(dtile_trace_end(team.get(), path.c_str(), dropped), DTILE_OK) << dtile_last_error();
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  /// Whether the file is as it should be, and has so many of these.
  [[nodiscard]] bool isGood(const std::string &numbers) const {
    const std::string check = std::string(DTILE_CHECK_TRACE) + " " + path + " " + numbers;
    // The words of the command are this test's own. NOLINTNEXTLINE(bugprone-command-processor)
    return std::system(check.c_str()) == 0;
  }

  dtile_space_desc spaces[2];
  std::string path = ::testing::TempDir() + "device_trace_" + std::to_string(getpid()) + ".json";
};

TEST_F(DeviceTracesTest, say_what_programs_did_and_who_waited_for_whom) {
  makeTeam({0, 0});
  int64_t launches = 0;
  machine.kernel = [&](const RecordedLaunch &launch) { runChain(launch, launches++ / 2); };
  ASSERT_EQ(dtile_trace_begin(team.get(), 0), DTILE_OK);
  ASSERT_TRUE(launch(2).ok());
  ASSERT_TRUE(launch().ok());
  const int32_t programs = machine.launches.front().programs;
  ASSERT_GT(programs, 1);
  int64_t dropped = -1;
  const std::string text = end(&dropped);
  EXPECT_EQ(dropped, 0);
  const std::string each = std::to_string(3 * programs);
  EXPECT_TRUE(isGood("ranks=2 launches=6 waits=3 arrows=3 unfinished=0 dropped=0 bodies=" +
                     std::to_string(6 * programs) + " notifies=" + each + " transfers=" + each +
                     " bytes=" + std::to_string(3 * 64 * programs)));
  EXPECT_THAT(text, HasSubstr("\"work (m=4)\""));
  EXPECT_THAT(text, HasSubstr("\"wait ready[1, 2]\""));
  EXPECT_THAT(text, HasSubstr("\"put buffer\""));
  EXPECT_THAT(text, HasSubstr("\"writer_rank\":0,"));
  EXPECT_THAT(text, HasSubstr("\"writer\":\"kernel.dtile:12:5\",\"writer_role\":\"shift.work\""));
  EXPECT_THAT(text, HasSubstr("\"wanted\":" + std::to_string(programs) + ",\"blocked\":false"));
  EXPECT_THAT(text, HasSubstr("\"variant\":\"BM=128\""));
}

TEST_F(DeviceTracesTest, cost_nothing_where_none_was_begun) {
  makeTeam({0, 1});
  machine.kernel = [&](const RecordedLaunch &launch) {
    EXPECT_EQ(launch.words.team->trace, nullptr);
    runChain(launch, 0);
  };
  ASSERT_TRUE(launch().ok());
  EXPECT_EQ(dtile_trace_end(team.get(), path.c_str(), nullptr), DTILE_INVALID);
}

TEST_F(DeviceTracesTest, have_nothing_of_kernels_that_were_not_compiled_for_them) {
  makeTeam({0, 1});
  kernel.desc.flags = 0;
  machine.kernel = [&](const RecordedLaunch &launch) {
    EXPECT_EQ(launch.words.team->trace, nullptr);
  };
  ASSERT_EQ(dtile_trace_begin(team.get(), 0), DTILE_OK);
  ASSERT_TRUE(launch().ok());
  (void)end();
  EXPECT_TRUE(isGood("bodies=0 launches=0 dropped=0"));
}

TEST_F(DeviceTracesTest, are_over_when_they_were_ended) {
  makeTeam({0});
  machine.kernel = [&](const RecordedLaunch &launch) { runChain(launch, 0); };
  ASSERT_TRUE(launch().ok());
  const size_t before = machine.allocations.size();
  ASSERT_EQ(dtile_trace_begin(team.get(), 0), DTILE_OK);
  // Also where a graph replays what was launched before.
  EXPECT_NE(machine.launches.back().words.team->trace, nullptr);
  ASSERT_TRUE(launch().ok());
  EXPECT_EQ(machine.allocations.size(), before + 1);
  (void)end();
  EXPECT_EQ(machine.allocations.size(), before);
  ASSERT_TRUE(launch().ok());
  EXPECT_EQ(machine.launches.back().words.team->trace, nullptr);
  // And begin anew.
  ASSERT_EQ(dtile_trace_begin(team.get(), 0), DTILE_OK);
  ASSERT_TRUE(launch().ok());
  (void)end();
  EXPECT_TRUE(isGood("ranks=1 launches=1"));
}

TEST_F(DeviceTracesTest, count_what_did_not_fit) {
  makeTeam({0, 0});
  machine.kernel = [&](const RecordedLaunch &launch) {
    for (int i = 0; i < 20; ++i)
      runChain(launch, i);
  };
  // Two slices for each program.
  ASSERT_TRUE(launch().ok());
  const int32_t programs = machine.launches.front().programs;
  ASSERT_EQ(dtile_trace_begin(team.get(), 4 * programs), DTILE_OK);
  ASSERT_TRUE(launch().ok());
  int64_t dropped = 0;
  (void)end(&dropped);
  // Of 20 times a put, a notify and a body of each program of rank 0, and on rank 1 a body of each
  // and a wait.
  EXPECT_EQ(dropped, 20 * (3 * programs + programs + 1) - 4 * programs);
  EXPECT_TRUE(isGood("dropped=" + std::to_string(dropped)));
}

TEST_F(DeviceTracesTest, outlive_the_kernels_that_they_name) {
  makeTeam({0, 0});
  machine.kernel = [&](const RecordedLaunch &launch) { runChain(launch, 0); };
  ASSERT_EQ(dtile_trace_begin(team.get(), 0), DTILE_OK);
  std::string name = "shift", file = "kernel.dtile", constants = "BM=128";
  kernel.desc.name = name.c_str();
  kernel.desc.file = file.c_str();
  kernel.image.constants = constants.c_str();
  ASSERT_TRUE(launch().ok());
  name.assign(name.size(), '?');
  file.assign(file.size(), '?');
  constants.assign(constants.size(), '?');
  EXPECT_THAT(end(), Not(HasSubstr("?")));
  EXPECT_TRUE(isGood("arrows=1"));
}

TEST_F(DeviceTracesTest, keep_what_was_recorded_before_there_were_more_programs) {
  makeTeam({0});
  machine.kernel = [&](const RecordedLaunch &launch) { runChain(launch, 0); };
  ASSERT_EQ(dtile_trace_begin(team.get(), 0), DTILE_OK);
  ASSERT_TRUE(launchOn(0).ok());
  const int32_t few = machine.launches.back().programs;
  makeArguments(16);
  machine.kernel = [&](const RecordedLaunch &launch) { runChain(launch, 1); };
  ASSERT_TRUE(launchOn(0).ok());
  const int32_t many = machine.launches.back().programs;
  ASSERT_GT(many, few);
  (void)end();
  EXPECT_TRUE(isGood("launches=2 dropped=0 bodies=" + std::to_string(few + many)));
}

TEST_F(DeviceTracesTest, show_launches_that_failed_and_those_behind_them) {
  makeTeam({0, 0});
  bool fails = true;
  machine.kernel = [&](const RecordedLaunch &launch) {
    // Launches count from zero again.
    runChain(launch, 0);
    if (launch.words.rank == 1 && std::exchange(fails, false))
      giveUp(launch.words);
  };
  ASSERT_EQ(dtile_trace_begin(team.get(), 0), DTILE_OK);
  EXPECT_EQ(launch().code, DTILE_TIMEOUT);
  EXPECT_TRUE(launch().ok());
  (void)end();
  EXPECT_TRUE(isGood("launches=4 waits=2 arrows=2"));
}

TEST_F(DeviceTracesTest, put_clocks_of_devices_beside_each_other) {
  makeTeam({0, 1});
  constexpr int64_t kSecond = 1'000'000'000;
  machine.kernel = [&](const RecordedLaunch &launch) {
    runChain(launch, 0, launch.words.rank == 0 ? -7 * kSecond : 3 * kSecond);
  };
  ASSERT_EQ(dtile_trace_begin(team.get(), 0), DTILE_OK);
  ASSERT_TRUE(launch().ok());
  const runtime::DeviceTrace::Reading reading = team->trace()->read();
  const int64_t begin = team->trace()->begin();
  EXPECT_FALSE(reading.records.empty());
  for (const runtime::TraceRecord &record : reading.records) {
    EXPECT_GE(record.begin, begin);
    EXPECT_LT(record.end, begin + kSecond);
  }
  (void)end();
  EXPECT_TRUE(isGood("ranks=2 arrows=1"));
}

TEST_F(DeviceTracesTest, have_waits_for_several_cells_and_of_warps_that_load) {
  makeTeam({0});
  machine.kernel = [&](const RecordedLaunch &launch) {
    program = 0;
    const Recorder own{launch, 0}, loads{launch, 0, 0, DTILE_RECORD_LOADS};
    const int64_t begin = own.now();
    for (int64_t cell : {0, 1, 2})
      own.cell(DTILE_TRACE_NOTIFY, own.now(), 0, cell);
    loads.cell(DTILE_TRACE_WAIT, begin, 0, 0, 1);
    loads.cell(DTILE_TRACE_CELL, begin, 0, 1, 1);
    loads.cell(DTILE_TRACE_CELL, begin, 0, 2, 1);
    if (int64_t *words = own.record(DTILE_TRACE_POLL, kBuffer, own.now(), 0))
      words[0] = 16;
    (void)own.record(DTILE_TRACE_BARRIER, kBuffer, own.now(), 0);
    own.body(begin, 0);
  };
  ASSERT_EQ(dtile_trace_begin(team.get(), 0), DTILE_OK);
  ASSERT_TRUE(launch().ok());
  const std::string text = end();
  EXPECT_TRUE(isGood("bodies=1 waits=1 notifies=3 arrows=1"));
  EXPECT_THAT(text, HasSubstr("\"wait ready[0, 0] and 2 more\""));
  EXPECT_THAT(text, HasSubstr("\"shift.work program 0, loads\""));
  EXPECT_THAT(text, HasSubstr("\"poll buffer\""));
  EXPECT_THAT(text, HasSubstr("\"blocked\":true"));
}

TEST_F(DeviceTracesTest, leave_out_what_makes_no_sense) {
  makeTeam({0});
  machine.kernel = [&](const RecordedLaunch &launch) {
    program = 0;
    const Recorder own{launch, 0};
    (void)own.record(99, kReady, own.now(), 0);
    (void)own.record(DTILE_TRACE_WAIT, 1000, own.now(), 0);
    (void)own.record(DTILE_TRACE_PUT, kBuffer, own.now() + 1'000'000'000'000, 0);
    own.body(own.now(), 0);
  };
  ASSERT_EQ(dtile_trace_begin(team.get(), 0), DTILE_OK);
  ASSERT_TRUE(launch().ok());
  (void)end();
  EXPECT_TRUE(isGood("bodies=1 waits=0 transfers=0"));
}

TEST_F(DeviceTracesTest, say_where_there_is_no_memory_for_them) {
  makeTeam({0});
  ASSERT_EQ(dtile_trace_begin(team.get(), 0), DTILE_OK);
  machine.memory = 1 << 20;
  const Status status = launch();
  EXPECT_EQ(status.code, DTILE_OUT_OF_MEMORY);
  EXPECT_THAT(status.message, HasSubstr("no memory for the trace of rank 0 (trace fewer slices)"));
  machine.memory = 1 << 30;
  EXPECT_TRUE(launch().ok());
}

} // namespace
} // namespace dtile::test
