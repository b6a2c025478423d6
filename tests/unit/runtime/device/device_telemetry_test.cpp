// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a team of devices shows to other programs.
#include "backend/runtime/telemetry/processes.h"
#include "backend/runtime/telemetry/stragglers.h"
#include "backend/runtime/telemetry/wait_graph.h"
#include "tests/unit/runtime/device/device_fixture.h"

#include <gmock/gmock.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <unistd.h>

using namespace dtile::test;
using namespace dtile::runtime::telemetry;
using testing::HasSubstr;

namespace {

class DeviceTelemetryTest : public DeviceTeamTest {
protected:
  void SetUp() override {
    DeviceTeamTest::SetUp();
    spaces[0].nnotifies = 1;
    spaces[0].notifies = &notify;
    kernel.desc.spaces = spaces;
  }

  /// What another program sees of this process's team.
  static std::optional<JobView> seen() {
    for (JobView &job : findJobs(nullptr))
      if (job.processes.front().pid == getpid())
        return std::move(job);
    return std::nullopt;
  }

  /// Rank 1 waits for `ready[0, 1]`, which rank 0 notifies in `send`, until it gives up.
  static void rankOneGivesUp(const RecordedLaunch &launch) {
    if (launch.words.rank != 1)
      return;
    dtile_device_report &report = giveUp(launch.words);
    report.rank = 1;
    report.space = 1;
    report.program = 3;
    report.site = 0;
    report.cell = 1;
    report.wanted = 3;
    report.seen = 1;
  }

  dtile_notify_desc notify = {3, DTILE_FROM_POSITION, 0, {"kernel.dtile", "ready", 8, 9}};
  dtile_space_desc spaces[2] = {kSpaces[0], kSpaces[1]};
};

TEST_F(DeviceTelemetryTest, shows_launches_as_they_are_queued_and_waited_for) {
  ASSERT_TRUE(make({0, 1}).ok());
  makeArguments(64);
  std::optional<JobView> job = seen();
  ASSERT_TRUE(job);
  EXPECT_EQ(job->processes.front().kind, Kind::Gpus);
  EXPECT_EQ(job->ranks(), 2);
  EXPECT_EQ(job->rank(1)->state, RankState::Idle);
  ASSERT_TRUE(launchOn(0).ok());
  ASSERT_TRUE(launchOn(0).ok());
  ASSERT_TRUE(launchOn(1).ok());
  job = seen();
  ASSERT_TRUE(job);
  EXPECT_EQ(job->rank(0)->kernel, "shift");
  EXPECT_EQ(job->rank(0)->state, RankState::Runs);
  EXPECT_EQ(job->rank(0)->begun, 2u);
  EXPECT_EQ(job->rank(1)->begun, 1u);
  EXPECT_EQ(job->rank(1)->ended, 0u);
  ASSERT_TRUE(team->synchronize().ok());
  job = seen();
  ASSERT_TRUE(job);
  EXPECT_EQ(job->rank(0)->state, RankState::Idle);
  EXPECT_EQ(job->rank(0)->ended, 2u);
  EXPECT_EQ(job->rank(1)->ended, 1u);
  EXPECT_THAT(textOf(findStragglers(*job)), HasSubstr("GPUs"));
  team.reset();
  EXPECT_FALSE(seen()) << "nothing is left";
}

TEST_F(DeviceTelemetryTest, shows_what_was_waited_for_when_a_launch_was_given_up) {
  const std::string path = testing::TempDir() + "graph" + std::to_string(getpid()) + ".json";
  setenv("DTILE_WAIT_GRAPH", path.c_str(), 1);
  ASSERT_TRUE(make({0, 1}).ok());
  unsetenv("DTILE_WAIT_GRAPH");
  makeArguments(64);
  machine.kernel = rankOneGivesUp;
  EXPECT_EQ(launch().code, DTILE_TIMEOUT);
  std::optional<JobView> job = seen();
  ASSERT_TRUE(job);
  EXPECT_EQ(job->rank(1)->state, RankState::Failed);
  EXPECT_THAT(job->processes.front().failure, HasSubstr("a wait took more than 500 ms"));
  const std::string graph = textOf(waitGraphOf(*job));
  EXPECT_THAT(graph, HasSubstr("kernel.dtile:12:5: rank 1, role `work` (program = 3) in `shift`"));
  EXPECT_THAT(graph, HasSubstr("for `ready[0, 1]`: wants 3, has seen 1"));
  EXPECT_THAT(graph, HasSubstr("root: rank 0, role `send`"));
  std::ifstream file(path);
  std::ostringstream kept;
  kept << file.rdbuf();
  EXPECT_THAT(kept.str(), HasSubstr("\"cell\": \"ready[0, 1]\""));
  EXPECT_THAT(kept.str(), HasSubstr("\"notified_at\": \"kernel.dtile:8:9\""));
  std::remove(path.c_str());
  // The team goes on, and nobody waits any more.
  machine.kernel = nullptr;
  ASSERT_TRUE(launch().ok());
  job = seen();
  ASSERT_TRUE(job);
  EXPECT_TRUE(job->processes.front().waits.empty());
  EXPECT_EQ(job->rank(0)->state, RankState::Idle);
}

TEST_F(DeviceTelemetryTest, shows_whom_the_entry_of_a_launch_waits_for) {
  ASSERT_TRUE(make({0, 1}).ok());
  makeArguments(64);
  machine.kernel = [](const RecordedLaunch &launch) {
    if (launch.words.rank != 0)
      return;
    dtile_device_report &report = giveUp(launch.words);
    report.rank = 0;
    report.site = -1;
    report.cell = 1;
  };
  EXPECT_EQ(launch().code, DTILE_TIMEOUT);
  std::optional<JobView> job = seen();
  ASSERT_TRUE(job);
  EXPECT_THAT(textOf(waitGraphOf(*job)), HasSubstr("the entry of a launch: rank 0"));
  EXPECT_THAT(textOf(waitGraphOf(*job)), HasSubstr("root: rank 1"));
}

} // namespace
