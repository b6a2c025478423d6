// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Blocks of telemetry: what is written is read, whatever else is there harms nobody, and who is at
// the root or slow is found.
#include "backend/runtime/telemetry/stragglers.h"
#include "backend/runtime/telemetry/wait_graph.h"
#include "backend/runtime/telemetry/writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <random>
#include <thread>
#include <unistd.h>

using namespace dtile::runtime;
using namespace dtile::runtime::telemetry;
using testing::HasSubstr;
using testing::Not;

namespace {

ProcessView viewOf(const Writer &writer) {
  std::string why;
  std::optional<ProcessView> view = readBlock(writer.bytes(), &why);
  EXPECT_TRUE(view) << why;
  return view.value_or(ProcessView());
}

/// Task `number` of a rank waits for "came[cell]" of rank `from`, which role "send" notifies.
void wait(Writer &writer, size_t number, int32_t rank, const char *role, int32_t from) {
  Wait *wait = writer.openWait(number);
  ASSERT_NE(wait, nullptr);
  wait->rank = rank;
  wait->kernel = writer.stringOf("k");
  wait->role = writer.stringOf(role);
  wait->signal = writer.stringOf("came");
  wait->dims = writer.stringOf("m,n");
  wait->place = writer.stringOf("k.dtile:3:4");
  wait->fromRoles = writer.stringOf("send");
  wait->fromPlace = writer.stringOf("k.dtile:1:2");
  wait->from = from < 0 ? From::Anybody : From::Rank;
  wait->fromRank = from;
  wait->ndims = 2;
  wait->body[1] = 7;
  wait->cellDims = 1;
  wait->cell[0] = from;
  wait->wanted = 1;
  wait->seen = 0;
  writer.closeWait(*wait, WaitState::Cell);
}

JobView jobOf(const Writer &writer) { return joinJobs({viewOf(writer)}, nullptr).front(); }

std::vector<int32_t> rootsOf(const WaitGraph &graph) {
  std::vector<int32_t> ranks;
  for (const WaitNode &node : graph.nodes)
    if (node.isRoot)
      ranks.push_back(node.rank);
  return ranks;
}

/// Launches in which a rank runs so long for what it sends to each other one, and as long in all.
JobView launchesOf(int32_t ranks, uint64_t count,
                   const std::function<int64_t(uint64_t, int32_t, int32_t)> &own) {
  JobView job;
  job.nowNs = 1;
  ProcessView &process = job.processes.emplace_back();
  process.ranks = ranks;
  for (int32_t rank = 0; rank < ranks; ++rank) {
    RankView &view = process.local.emplace_back();
    view.rank = rank;
    view.peers.resize(size_t(ranks));
    for (uint64_t launch = 0; launch < count; ++launch) {
      LaunchView &ended = view.launches.emplace_back();
      ended.number = launch;
      for (int32_t peer = 0; peer < ranks; ++peer) {
        ended.ownNs.push_back(std::max<int64_t>(1, 1'000'000 + own(launch, rank, peer)));
        ended.ranNs += ended.ownNs.back();
      }
    }
  }
  return job;
}

TEST(Telemetry, SaysWhatRanksDo) {
  Writer writer({.ranks = 4, .firstLocal = 1, .localCount = 2, .timeoutMs = 5, .job = 77});
  ASSERT_TRUE(writer.isOpen());
  writer.launchBegins(0, "first");
  writer.bodiesBegin(0);
  writer.notified(0, 3, 2, 900, 1000);
  writer.ran(0, 1500);
  writer.launchEnds(0);
  writer.launchBegins(1, "second");
  wait(writer, 5, 2, "use", 3);
  const ProcessView view = viewOf(writer);
  EXPECT_EQ(view.job, 77u);
  EXPECT_EQ(view.ranks, 4);
  ASSERT_EQ(view.local.size(), 2u);
  EXPECT_EQ(view.local[0].rank, 1);
  EXPECT_EQ(view.local[0].state, RankState::Idle);
  EXPECT_EQ(view.local[0].kernel, "first");
  EXPECT_EQ(view.local[0].peers[3].notified, 2u);
  ASSERT_EQ(view.local[0].launches.size(), 1u);
  EXPECT_EQ(view.local[0].launches[0].ownNs[2], 0);
  EXPECT_EQ(view.local[0].launches[0].ownNs[3], 900);
  EXPECT_EQ(view.local[0].launches[0].ranNs, 1500);
  EXPECT_EQ(view.local[1].state, RankState::Begins);
  EXPECT_EQ(view.local[1].begun, 1u);
  EXPECT_EQ(view.local[1].ended, 0u);
  ASSERT_EQ(view.waits.size(), 1u);
  EXPECT_EQ(view.waits[0].cell, "came[3]");
  EXPECT_EQ(view.waits[0].body, "m = 0, n = 7");
  EXPECT_EQ(view.waits[0].fromRank, 3);
  Wait *again = writer.openWait(5);
  EXPECT_TRUE(viewOf(writer).waits.empty()) << "it is being written";
  writer.closeWait(*again, WaitState::None);
  EXPECT_TRUE(viewOf(writer).waits.empty());
}

TEST(Telemetry, RemembersAsManyLaunchesAsThereIsRoomFor) {
  Writer writer({.ranks = 2, .localCount = 2});
  for (int i = 0; i < 100; ++i) {
    writer.launchBegins(0, "k");
    writer.launchEnds(0);
  }
  const ProcessView view = viewOf(writer);
  ASSERT_EQ(view.local[0].launches.size(), size_t(Layout::kMostWindow));
  EXPECT_EQ(view.local[0].launches.front().number, 36u);
  EXPECT_EQ(view.local[0].launches.back().number, 99u);
  // So many ranks in one process leave room for few.
  EXPECT_LT(layoutOf(1024, 1024).window, 8);
  EXPECT_LT(layoutOf(1024, 1024).bytes, kMostBytes);
}

TEST(Telemetry, IsFoundAsAFileOfItsProcess) {
  const uint64_t job = 0x1234500000000001u + uint64_t(getpid());
  const auto isThere = [&] {
    for (const JobView &each : findJobs(nullptr))
      if (each.job == job)
        return each.processes.front().pid == getpid();
    return false;
  };
  {
    Writer writer({.ranks = 2, .localCount = 2, .job = job});
    EXPECT_TRUE(isThere());
  }
  EXPECT_FALSE(isThere()) << "nothing is left";
  setenv("DTILE_TELEMETRY", "0", 1);
  {
    Writer writer({.ranks = 2, .localCount = 2, .job = job});
    EXPECT_TRUE(writer.isOpen());
    EXPECT_FALSE(isThere()) << "switched off";
  }
  unsetenv("DTILE_TELEMETRY");
}

TEST(Telemetry, CorruptBlocksHarmNobody) {
  Writer writer({.ranks = 3, .localCount = 3, .job = 5});
  for (int i = 0; i < 10; ++i)
    for (int32_t local = 0; local < 3; ++local) {
      writer.launchBegins(local, "kernel");
      writer.notified(local, (local + 1) % 3, 1, 10, 20);
      writer.launchEnds(local);
    }
  for (int32_t i = 0; i < 8; ++i)
    wait(writer, size_t(i), i % 3, "use", i % 3);
  writer.fail(3, "words");
  const std::string good(writer.bytes());
  std::mt19937_64 random(7);
  size_t accepted = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string bytes = good;
    // Most of what matters is in the head, the ranks and the first waits.
    const size_t areas[] = {sizeof(Header), good.size(), 512};
    for (uint64_t n = 1 + random() % 16; n != 0; --n) {
      const size_t at = random() % areas[random() % 3];
      const uint64_t value = random() % 3 == 0 ? ~uint64_t(0) : random();
      std::memcpy(&bytes[at], &value, std::min<size_t>(1 + random() % 8, bytes.size() - at));
    }
    // The greeting stays in half of them, so that the rest is read.
    if (random() % 2 == 0)
      std::memcpy(bytes.data(), good.data(), 64);
    if (random() % 4 == 0)
      bytes.resize(random() % bytes.size());
    std::string why;
    std::optional<ProcessView> view = readBlock(bytes, &why);
    EXPECT_NE(view.has_value(), !why.empty());
    if (!view)
      continue;
    ++accepted;
    for (const JobView &job : joinJobs({*view, viewOf(writer)}, nullptr)) {
      const WaitGraph graph = waitGraphOf(job);
      const std::string all =
          textOf(graph) + dotOf(graph) + jsonOf(graph) + textOf(findStragglers(job));
      EXPECT_THAT(all, Not(HasSubstr("\x1b")));
    }
  }
  EXPECT_GT(accepted, 500u);
}

TEST(Telemetry, IsReadWhileItIsWritten) {
  Writer writer({.ranks = 2, .localCount = 2});
  std::atomic<bool> ends{false};
  std::thread thread([&] {
    for (int64_t i = 0; !ends; ++i) {
      Wait *wait = writer.openWait(0);
      wait->rank = 0;
      wait->wanted = wait->seen = uint64_t(i);
      writer.closeWait(*wait, WaitState::Cell);
      writer.launchBegins(0, "k");
      writer.launchEnds(0);
    }
  });
  for (int i = 0; i < 500; ++i) {
    const ProcessView view = viewOf(writer);
    EXPECT_LE(view.local[0].ended, view.local[0].begun);
  }
  ends = true;
  thread.join();
}

TEST(WaitGraph, TheRootIsWhoDoesNotWait) {
  Writer writer({.ranks = 3, .localCount = 3});
  for (int32_t local = 0; local < 3; ++local)
    writer.launchBegins(local, "k");
  writer.bodiesBegin(2);
  wait(writer, 0, 0, "use", 1);
  wait(writer, 1, 1, "send", 2);
  const WaitGraph graph = waitGraphOf(jobOf(writer));
  EXPECT_EQ(rootsOf(graph), std::vector<int32_t>{2});
  EXPECT_FALSE(graph.isCycle);
  EXPECT_THAT(textOf(graph), HasSubstr("root: rank 2, role `send`: runs"));
  EXPECT_THAT(textOf(graph), HasSubstr("k.dtile:3:4: rank 0, role `use` (m = 0, n = 7) in `k`"));
  EXPECT_THAT(dotOf(graph), HasSubstr("fillcolor"));
  EXPECT_THAT(jsonOf(graph), HasSubstr("\"root\": true"));
}

TEST(WaitGraph, LateRanksAreCalledLate) {
  Writer writer({.ranks = 2, .localCount = 2});
  writer.launchBegins(0, "k");
  writer.bodiesBegin(0);
  wait(writer, 0, 0, "use", 1);
  EXPECT_THAT(textOf(waitGraphOf(jobOf(writer))),
              HasSubstr("root: rank 1, role `send`: late: has begun 0 launches, and others 1"));
}

TEST(WaitGraph, RanksThatAreNotThereAreGone) {
  Writer writer({.ranks = 2, .firstLocal = 0, .localCount = 1});
  writer.launchBegins(0, "k");
  writer.bodiesBegin(0);
  wait(writer, 0, 0, "use", 1);
  EXPECT_THAT(textOf(waitGraphOf(jobOf(writer))), HasSubstr("root: rank 1, role `send`: gone"));
}

TEST(WaitGraph, MeetingsWaitForWhoDoesNotCome) {
  Writer writer({.ranks = 2, .firstLocal = 0, .localCount = 1});
  writer.openMeeting(0, "dtile_team_barrier", 1);
  const std::string text = textOf(waitGraphOf(jobOf(writer)));
  EXPECT_THAT(text, HasSubstr("dtile_team_barrier: rank 0 waits"));
  EXPECT_THAT(text, HasSubstr("root: rank 1: gone"));
  writer.endMeeting();
  EXPECT_EQ(textOf(waitGraphOf(jobOf(writer))), "");
}

TEST(WaitGraph, MeetingsOfAllWaitForWhoIsNotThere) {
  std::vector<ProcessView> processes;
  for (int32_t rank = 0; rank < 3; ++rank) {
    Writer writer({.ranks = 3, .firstLocal = rank, .localCount = 1, .job = 9});
    if (rank != 1)
      writer.openMeeting(rank, "dtile_team_all_gather", -1);
    processes.push_back(viewOf(writer));
  }
  const std::string text = textOf(waitGraphOf(joinJobs(processes, nullptr).front()));
  EXPECT_THAT(text, HasSubstr("dtile_team_all_gather: rank 0 waits"));
  EXPECT_THAT(text, HasSubstr("it is for rank 1\n"));
  EXPECT_THAT(text, HasSubstr("root: rank 1"));
  // One that is stopped there keeps the others.
  processes[1] = processes[0];
  processes[1].firstLocal = processes[1].local[0].rank = processes[1].waits[0].rank = 1;
  EXPECT_EQ(textOf(waitGraphOf(joinJobs(processes, nullptr).front())), "") << "all are there";
  processes[1].isStopped = true;
  EXPECT_THAT(textOf(waitGraphOf(joinJobs(processes, nullptr).front())),
              HasSubstr("root: rank 1: process"));
}

TEST(WaitGraph, WaitsInACircleAreTheRoot) {
  Writer writer({.ranks = 3, .localCount = 3});
  for (int32_t local = 0; local < 3; ++local) {
    writer.launchBegins(local, "k");
    writer.bodiesBegin(local);
  }
  wait(writer, 0, 0, "send", 1);
  wait(writer, 1, 1, "send", 0);
  wait(writer, 2, 2, "use", 0);
  const WaitGraph graph = waitGraphOf(jobOf(writer));
  EXPECT_TRUE(graph.isCycle);
  EXPECT_EQ(rootsOf(graph), (std::vector<int32_t>{0, 1}));
}

TEST(WaitGraph, ACellThatAnybodyNotifiesIsForAll) {
  Writer writer({.ranks = 3, .localCount = 3});
  writer.launchBegins(0, "k");
  writer.bodiesBegin(0);
  wait(writer, 0, 0, "use", -1);
  const WaitGraph graph = waitGraphOf(jobOf(writer));
  ASSERT_EQ(graph.edges.size(), 1u);
  EXPECT_EQ(graph.edges[0].to.size(), 3u);
  EXPECT_THAT(dotOf(graph), HasSubstr("dashed"));
}

TEST(Stragglers, ARankApartIsNamed) {
  std::mt19937 random(1);
  std::normal_distribution<double> noise(0, 20'000);
  const SkewReport report = findStragglers(launchesOf(8, 40, [&](uint64_t, int32_t rank, int32_t) {
    return int64_t(noise(random)) + (rank == 5 ? 200'000 : 0);
  }));
  ASSERT_EQ(report.found.size(), 1u);
  EXPECT_EQ(report.found[0].rank, 5);
  EXPECT_FALSE(report.found[0].peer);
  EXPECT_THAT(textOf(report), HasSubstr("rank 5 is slow: its launches take it"));
}

TEST(Stragglers, AWayApartIsNamed) {
  std::mt19937 random(2);
  std::normal_distribution<double> noise(0, 5'000);
  const SkewReport report =
      findStragglers(launchesOf(8, 40, [&](uint64_t, int32_t rank, int32_t peer) {
        return int64_t(noise(random)) + (rank == 2 && peer == 6 ? 400'000 : 0);
      }));
  ASSERT_EQ(report.found.size(), 1u);
  EXPECT_EQ(report.found[0].rank, 2);
  EXPECT_EQ(report.found[0].peer, 6);
}

TEST(Stragglers, ARankThatIsSlowOnAllWaysIsNoWay) {
  // One of its ways is a little slower still.
  const SkewReport report =
      findStragglers(launchesOf(8, 40, [&](uint64_t launch, int32_t rank, int32_t peer) {
        const int64_t noise = int64_t(launch * 7 + uint64_t(rank) * 3 + uint64_t(peer)) % 5;
        return rank != 1 ? noise : 2'000'000 + (peer == 0 ? 20'000 : noise);
      }));
  ASSERT_EQ(report.found.size(), 1u);
  EXPECT_EQ(report.found[0].rank, 1);
  EXPECT_FALSE(report.found[0].peer);
}

TEST(Stragglers, ASlowRankAndASlowWayOfAnotherAreBothNamed) {
  const SkewReport report =
      findStragglers(launchesOf(8, 40, [&](uint64_t launch, int32_t rank, int32_t peer) {
        const int64_t noise = int64_t(launch * 7 + uint64_t(rank) * 3 + uint64_t(peer)) % 5;
        return noise + (rank == 4 ? 900'000 : 0) + (rank == 2 && peer == 6 ? 800'000 : 0);
      }));
  ASSERT_EQ(report.found.size(), 2u);
  EXPECT_EQ(report.found[0].rank, 4);
  EXPECT_EQ(report.found[1].rank, 2);
  EXPECT_EQ(report.found[1].peer, 6);
}

TEST(Stragglers, ALadderAndNoiseAreNobodys) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    std::normal_distribution<double> noise(0, 30'000);
    const SkewReport report =
        findStragglers(launchesOf(8, 40, [&](uint64_t, int32_t rank, int32_t) {
          return int64_t(noise(random)) + (seed % 2 == 0 ? 50'000 * rank : 0);
        }));
    EXPECT_TRUE(report.found.empty()) << "seed " << seed << ": " << textOf(report);
  }
}

TEST(Stragglers, WhatOnlyTheMedianOfLaunchesShowsIsNobodys) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    std::normal_distribution<double> noise(0, 600);
    const SkewReport report =
        findStragglers(launchesOf(8, 64, [&](uint64_t, int32_t rank, int32_t peer) {
          return peer == 0 ? int64_t(noise(random)) + (rank == 7 ? 1'200 : 0) : 0;
        }));
    EXPECT_TRUE(report.found.empty()) << "seed " << seed << ": " << textOf(report);
  }
}

TEST(Stragglers, SomeLateLaunchesAreNotAMajority) {
  const SkewReport report =
      findStragglers(launchesOf(8, 40, [&](uint64_t launch, int32_t rank, int32_t) {
        return rank == 3 && launch % 3 == 0 ? 900'000 : 1000 * (int64_t(launch) * rank % 7);
      }));
  EXPECT_TRUE(report.found.empty()) << textOf(report);
}

/// Looks at eight processes, between which each ran and waited for a processor for so long.
Looks looksAt(size_t count,
              const std::function<std::pair<int64_t, int64_t>(size_t, int32_t)> &times) {
  Looks looks;
  JobView job;
  job.nowNs = 1;
  for (int32_t rank = 0; rank < 8; ++rank) {
    ProcessView &process = job.processes.emplace_back();
    process.ranks = 8;
    process.firstLocal = rank;
    process.pid = 100 + rank;
    process.local.emplace_back().rank = rank;
  }
  for (size_t look = 0; look < count; ++look) {
    looks.push_back({job});
    job.nowNs += 100'000'000;
    for (int32_t rank = 0; rank < 8; ++rank) {
      const auto [ran, starved] = times(look, rank);
      job.processes[size_t(rank)].ranNs += ran;
      job.processes[size_t(rank)].starvedNs += starved;
    }
  }
  return looks;
}

SkewReport reportOf(Looks looks) {
  const JobView last = looks.back().front();
  looks.pop_back();
  return findStragglers(last, looks);
}

TEST(Stragglers, AProcessThatWaitsForAProcessorIsNamed) {
  const SkewReport report = reportOf(looksAt(kLooks, [](size_t look, int32_t rank) {
    const int64_t starved = rank == 5 ? 60'000'000 : int64_t(look * 7 + size_t(rank) * 3) % 5;
    return std::pair(100'000'000 - starved, starved);
  }));
  ASSERT_TRUE(report.starved);
  EXPECT_EQ(report.starved->rank, 5);
  EXPECT_EQ(report.starved->pid, 105);
  EXPECT_NEAR(report.starved->share, 0.6, 1e-6);
  EXPECT_THAT(textOf(report), HasSubstr("process 105, rank 5, waits for a processor 60 % of the "
                                        "time, the others at most 0 %"));
}

TEST(Stragglers, ProcessesThatShareProcessorsAlikeAreNotNamed) {
  const auto alike = [](size_t look, int32_t rank) {
    const int64_t ran = 25'000'000 + int64_t(look * 7 + size_t(rank) * 3) % 11 * 100'000;
    return std::pair(ran, 100'000'000 - ran);
  };
  EXPECT_FALSE(reportOf(looksAt(kLooks, alike)).starved);
  // Idle ones run little, and wait as little.
  const auto idle = [](size_t look, int32_t rank) {
    return std::pair(int64_t(10'000), int64_t(look * 5 + size_t(rank)) % 7 * 10'000);
  };
  EXPECT_FALSE(reportOf(looksAt(kLooks, idle)).starved);
  // One that waited once did not for most of the time; and few looks say nothing.
  const auto once = [](size_t look, int32_t rank) {
    const int64_t starved = rank == 2 && look == 3 ? 90'000'000 : 0;
    return std::pair(100'000'000 - starved, starved);
  };
  EXPECT_FALSE(reportOf(looksAt(kLooks, once)).starved);
  const auto always = [](size_t, int32_t rank) {
    return std::pair(int64_t(50'000'000), int64_t(rank == 2 ? 50'000'000 : 0));
  };
  EXPECT_TRUE(reportOf(looksAt(kLooks, always)).starved);
  EXPECT_FALSE(reportOf(looksAt(kLooks - 1, always)).starved);
}

TEST(Stragglers, WhatCannotBeSaidIsSaid) {
  const auto none = [](uint64_t, int32_t, int32_t) { return 0; };
  EXPECT_THAT(textOf(findStragglers(launchesOf(8, 3, none))), HasSubstr("too few"));
  EXPECT_THAT(textOf(findStragglers(launchesOf(2, 40, none))), HasSubstr("too few"));
}

} // namespace
