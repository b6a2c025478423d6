// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The rule that shares a device's programs between the spaces of a launch.
#include "backend/runtime/device/choose/device_programs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <vector>

namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::Ge;
using testing::Gt;
using testing::Le;
using testing::Lt;

struct Space {
  int64_t bodies = 0;
  int64_t weight = 1000;
  dtile_device_space facts = {};
  int64_t latency = 0;
};

Space computes(int64_t bodies, int64_t weight = 1000) { return {bodies, weight, {}, 0}; }
/// Waits for what others move, and lets them help.
Space consumes(int64_t bodies, int64_t weight) {
  Space space = computes(bodies, weight);
  space.facts.shares = space.facts.waits = 1;
  return space;
}
/// Data for another device: 8 programs fill the way to it.
Space moves(int64_t bodies, int64_t weight = 1000) {
  Space space = computes(bodies, weight);
  space.facts.most = 10;
  space.facts.fill = 8;
  return space;
}
Space pinned(int64_t bodies, int32_t programs) {
  Space space = computes(bodies);
  space.facts.pinned = programs;
  return space;
}
Space ordered(int64_t bodies) {
  Space space = computes(bodies);
  space.facts.ordered = 1;
  return space;
}

/// Clusters may share its bodies.
Space splits(int64_t bodies, int64_t weight) {
  Space space = computes(bodies, weight);
  space.facts.exchange = 100;
  return space;
}

struct Shared {
  int32_t total;
  std::vector<int32_t> programs;
};

/// The spaces of a launch as the functions take them.
struct Launch {
  explicit Launch(const std::vector<Space> &spaces)
      : count(int32_t(spaces.size())), first(spaces.size() + 1, -1) {
    for (const Space &space : spaces) {
      facts.push_back(space.facts);
      bodies.push_back(space.bodies);
      weights.push_back(space.weight);
      latencies.push_back(space.latency);
    }
  }
  int32_t share(int32_t resident) {
    return dtile_share_programs(count, facts.data(), bodies.data(), weights.data(),
                                latencies.data(), resident, first.data());
  }
  int32_t count;
  std::vector<dtile_device_space> facts;
  std::vector<int64_t> bodies, weights, latencies;
  std::vector<int32_t> first;
};

Shared share(const std::vector<Space> &spaces, int32_t resident) {
  Launch launch(spaces);
  const std::vector<int32_t> &first = launch.first;
  Shared result;
  result.total = launch.share(resident);
  if (result.total >= 0)
    for (size_t s = 0; s < spaces.size(); ++s)
      result.programs.push_back(first[s + 1] - first[s]);
  return result;
}

TEST(DevicePrograms, OneSpaceTakesAllThatItHasBodiesFor) {
  EXPECT_THAT(share({computes(1000)}, 132).programs, ElementsAre(132));
  EXPECT_THAT(share({computes(7)}, 132).programs, ElementsAre(7));
}

TEST(DevicePrograms, ASpaceWithoutBodiesGetsNone) {
  EXPECT_THAT(share({computes(0), computes(500)}, 132).programs, ElementsAre(0, 132));
  EXPECT_EQ(share({computes(0)}, 132).total, 0);
}

/// When all of a space that consumes is done, body by body: by its own programs, and by those of
/// the space before it once they have moved everything.
double consumed(const Space &mover, const Space &consumer, const Shared &shared) {
  const double moved = double(mover.bodies) * double(mover.weight) /
                       double(std::min(shared.programs[0], mover.facts.fill));
  std::vector<double> free(size_t(shared.programs[0]), moved);
  free.insert(free.end(), size_t(shared.programs[1]), 0.0);
  double end = moved;
  for (int64_t body = 0; body < consumer.bodies; ++body) {
    double &first = *std::min_element(free.begin(), free.end());
    first += double(consumer.weight);
    end = std::max(end, first);
  }
  return end;
}

/// Rows of 4096 two-byte numbers, 128 at once, for other devices, at 44 GB/s; tiles of 128x256 by
/// 4096 at 3e12 products a second.
constexpr int64_t kChunk = int64_t(1) << 20, kChunkTime = kChunk / 44;
constexpr int64_t kTileTime = int64_t(128) * 256 * 4096 / 3000;

TEST(DevicePrograms, TilesOfALayerTakeNoMoreWavesThanTheyMust) {
  // 48 MiB to send, 768 tiles: 122 programs beside 10 would take seven waves.
  const Space mover = moves(48, kChunkTime), consumer = consumes(768, kTileTime);
  const Shared shared = share({mover, consumer}, 132);
  EXPECT_THAT(shared.programs, ElementsAre(8, 124));
  // What moves data is through a little after the third wave, and runs the last 24.
  EXPECT_LT(consumed(mover, consumer, shared), 6.3 * double(kTileTime));
  EXPECT_GT(consumed(mover, consumer, {132, {10, 122}}), 6.9 * double(kTileTime));
}

TEST(DevicePrograms, HowManyProgramsMoveDataDependsOnWhatTheyLeave) {
  // Seven waves do for 896 tiles with 7 programs that help for the last three, and for 880 with 10.
  const Space mover = moves(48, kChunkTime), tiles = consumes(896, kTileTime);
  EXPECT_THAT(share({mover, tiles}, 132).programs, ElementsAre(7, 125));
  EXPECT_LT(consumed(mover, tiles, share({mover, tiles}, 132)), 7.01 * double(kTileTime));
  EXPECT_THAT(share({mover, consumes(880, kTileTime)}, 132).programs, ElementsAre(10, 122));
}

TEST(DevicePrograms, NoNumberOfMoversWouldEndEarlier) {
  for (int64_t chunks : {8, 48, 96, 200})
    for (int64_t tiles = 132; tiles < 2000; tiles += 59) {
      const Space mover = moves(chunks, kChunkTime), consumer = consumes(tiles, kTileTime);
      const auto end = [&](const Shared &shared) {
        // The last tiles wait for the last data.
        const int32_t movers = std::min(shared.programs[0], mover.facts.fill);
        return std::max(consumed(mover, consumer, shared),
                        double(chunks * kChunkTime) / movers + double(kTileTime));
      };
      const Shared shared = share({mover, consumer}, 132);
      ASSERT_EQ(shared.total, 132);
      for (int32_t movers = 1; movers <= std::min<int64_t>(chunks, 10); ++movers)
        EXPECT_LE(end(shared), 1.03 * end({132, {movers, 132 - movers}}))
            << chunks << " chunks, " << tiles << " tiles, " << movers << " instead of "
            << shared.programs[0];
    }
}

TEST(DevicePrograms, DataThatIsWaitedForGoesAsFastAsItCan) {
  // Arithmetic is over long before the data has come.
  EXPECT_THAT(share({moves(1000, kChunkTime), consumes(512, 1000)}, 132).programs,
              ElementsAre(10, 122));
  // There are fewer bodies than programs that fill the way.
  EXPECT_THAT(share({moves(3, kChunkTime), consumes(512, 1000)}, 132).programs,
              ElementsAre(3, 129));
}

TEST(DevicePrograms, ProgramsOnlyMoveDataWhereTheyAreMissedLess) {
  // A quarter of the programs at most.
  EXPECT_THAT(share({moves(64, kChunkTime), consumes(512, 1000)}, 8).programs, ElementsAre(2, 6));
  // Nobody helps where bodies are not shared: 130 programs need two waves, 129 three.
  Space alone = consumes(260, kTileTime);
  alone.facts.shares = 0;
  EXPECT_THAT(share({moves(64, 10), alone}, 132).programs, ElementsAre(2, 130));
}

TEST(DevicePrograms, WhatMovesResultsStaysUntilThereAreNone) {
  // It waits for products, so it does not help: 128 programs take six waves.
  Space mover = moves(48, kChunkTime);
  mover.facts.waits = 1;
  Space first = consumes(768, kTileTime);
  first.facts.waits = 0;
  EXPECT_THAT(share({mover, first}, 132).programs, ElementsAre(4, 128));
}

TEST(DevicePrograms, WhatOnlyMovesDataTakesWhatComputationsLeave) {
  EXPECT_THAT(share({moves(64), computes(100)}, 132).programs, ElementsAre(32, 100));
  EXPECT_THAT(share({moves(20), computes(100)}, 132).programs, ElementsAre(20, 100));
  EXPECT_THAT(share({moves(64), computes(122)}, 132).programs, ElementsAre(10, 122));
}

TEST(DevicePrograms, WhatOnlyMovesDataTakesAllWhereNobodyComputes) {
  EXPECT_THAT(share({moves(64)}, 132).programs, ElementsAre(64));
  EXPECT_THAT(share({moves(1000)}, 132).programs, ElementsAre(132));
  // By work, of which latency is a part.
  EXPECT_THAT(share({moves(64, 3000), moves(64, 1000)}, 16).programs, ElementsAre(12, 4));
  Space late = moves(64, 1000);
  late.latency = 2000;
  EXPECT_THAT(share({late, moves(64, 1000)}, 16).programs, ElementsAre(12, 4));
}

TEST(DevicePrograms, LatencyIsMadeUpForByMorePrograms) {
  // Rows of 10 KiB, each with a notify: a program moves a fifth of what it could, so five times as
  // many fill the way, and more than that are not given.
  Space rows = moves(4096, 540);
  rows.latency = 2200;
  const Space sums = consumes(4096, 2000);
  EXPECT_THAT(share({moves(4096, 540), sums}, 396).programs, ElementsAre(10, 386));
  EXPECT_THAT(share({rows, sums}, 396).programs, ElementsAre(50, 346));
  // Still at most a quarter of what there is, and no more bodies than there are.
  EXPECT_THAT(share({rows, sums}, 132).programs, ElementsAre(33, 99));
  rows.bodies = 20;
  EXPECT_THAT(share({rows, sums}, 396).programs, ElementsAre(20, 376));
  // Large bodies hardly notice it.
  Space chunks = moves(48, kChunkTime);
  chunks.latency = 2200;
  EXPECT_THAT(share({chunks, consumes(512, 1000)}, 132).programs, ElementsAre(10, 122));
}

TEST(DevicePrograms, LatencyIsWorkBetweenSpacesThatCompute) {
  Space late = computes(1000, 500);
  late.latency = 1500;
  EXPECT_THAT(share({late, computes(1000, 1000)}, 30).programs, ElementsAre(20, 10));
}

TEST(DevicePrograms, PinnedAndOrderedSpacesKeepTheirNumbers) {
  EXPECT_THAT(share({pinned(100, 20), ordered(50), computes(500)}, 132).programs,
              ElementsAre(20, 1, 111));
  EXPECT_THAT(share({pinned(5, 20), computes(500)}, 132).programs, ElementsAre(5, 127));
  Space mover = moves(48, kChunkTime);
  mover.facts.pinned = 20;
  EXPECT_THAT(share({mover, consumes(768, kTileTime)}, 132).programs, ElementsAre(20, 112));
}

TEST(DevicePrograms, WorkDecidesBetweenSpacesThatCompute) {
  EXPECT_THAT(share({computes(100, 3000), computes(100, 1000)}, 40).programs, ElementsAre(30, 10));
  // What the first has no bodies for goes to the second.
  EXPECT_THAT(share({computes(10, 100000), computes(100, 1000)}, 40).programs, ElementsAre(10, 30));
}

TEST(DevicePrograms, WhatFollowsUsesTheProgramsBeforeIt) {
  Space follows = computes(64);
  follows.facts.follows = 1;
  EXPECT_THAT(share({computes(1000), follows}, 132).programs, ElementsAre(132, 0));
  // Nobody comes along where the others have nothing to do.
  EXPECT_THAT(share({computes(0), follows}, 132).programs, ElementsAre(0, 64));
  EXPECT_THAT(share({follows, computes(10)}, 132).programs, ElementsAre(64, 10));
}

TEST(DevicePrograms, EveryProgramHasABodyAndNoneIsLeftWhileThereAreBodies) {
  for (int32_t resident = 3; resident < 200; ++resident)
    for (int64_t bodies : {1, 2, 5, 66, 132, 1000}) {
      const std::vector<Space> spaces = {moves(4), computes(bodies, 7000), computes(40, 2000)};
      const Shared shared = share(spaces, resident);
      ASSERT_GE(shared.total, 3);
      int64_t room = 0;
      for (size_t s = 0; s < spaces.size(); ++s) {
        EXPECT_GE(shared.programs[s], 1);
        EXPECT_LE(shared.programs[s], spaces[s].bodies);
        if (s > 0)
          room += spaces[s].bodies - shared.programs[s];
      }
      EXPECT_TRUE(shared.total == resident || room == 0)
          << resident << " programs, " << bodies << " bodies, " << shared.total << " given";
    }
}

TEST(DevicePrograms, WeightsAreTheMeanOfBodiesAllOver) {
  // By halves, by turns, and all.
  const auto mean = [](int64_t (*weight)(const void *, int64_t, int64_t, int64_t), int64_t bodies) {
    return dtile_mean_weight(weight, nullptr, bodies, /*together=*/1, /*running=*/132);
  };
  EXPECT_EQ(mean([](const void *, int64_t body, int64_t,
                    int64_t) -> int64_t { return body < 32 ? 1 : 3; },
                 64),
            2);
  EXPECT_EQ(
      mean([](const void *, int64_t body, int64_t, int64_t) -> int64_t { return body % 2 ? 1 : 3; },
           64),
      2);
  EXPECT_EQ(
      mean([](const void *, int64_t body, int64_t, int64_t) -> int64_t { return 4 * (body % 4); },
           640),
      6);
  EXPECT_THAT(mean([](const void *, int64_t body, int64_t, int64_t) { return body; }, 100000),
              AllOf(Ge(45000), Le(50000)));
  EXPECT_EQ(mean([](const void *, int64_t body, int64_t, int64_t) { return 10 * body; }, 3), 10);
  EXPECT_EQ(mean([](const void *, int64_t, int64_t, int64_t) -> int64_t { return 0; }, 7), 1);
  EXPECT_EQ(mean([](const void *, int64_t, int64_t, int64_t) -> int64_t { abort(); }, 0), 1);
}

TEST(DevicePrograms, ALaunchEndsWithItsLastWave) {
  const dtile_device_space space = {};
  const int64_t bodies = 10, weight = 90, latency = 10;
  int32_t first[2] = {};
  ASSERT_EQ(dtile_share_programs(1, &space, &bodies, &weight, &latency, 4, first), 4);
  EXPECT_EQ(dtile_launch_time(1, &space, &bodies, &weight, &latency, first), 300);
}

TEST(DevicePrograms, TooFewProgramsAreRefusedWithTheNumberThatIsNeeded) {
  EXPECT_EQ(share({computes(10), computes(10), computes(10)}, 2).total, -3);
  EXPECT_EQ(share({pinned(100, 64), computes(10)}, 32).total, -65);
}

/// When a launch that is shared so has ended.
double timeOf(const std::vector<Space> &spaces, int32_t resident) {
  Launch launch(spaces);
  launch.share(resident);
  return dtile_launch_time(launch.count, launch.facts.data(), launch.bodies.data(),
                           launch.weights.data(), launch.latencies.data(), launch.first.data());
}

TEST(DevicePrograms, WhatMayFollowDoesWhereAllBodiesBeforeItRunAtOnce) {
  Space follows = computes(64);
  follows.facts.follows = 2;
  EXPECT_THAT(share({computes(132), follows}, 132).programs, ElementsAre(132, 0));
  EXPECT_THAT(share({computes(133), follows}, 132).programs, ElementsAre(Lt(132), Gt(0)));
  EXPECT_THAT(share({computes(0), follows}, 132).programs, ElementsAre(0, 64));
}

TEST(LaunchTimeTest, WhatFollowsAddsItsOwnRounds) {
  Space follows = computes(100, 10);
  follows.facts.follows = follows.facts.shares = 1;
  EXPECT_DOUBLE_EQ(timeOf({computes(132, 1000), follows}, 132), 1010);
}

TEST(LaunchTimeTest, BodiesThatFollowTakeTimeToo) {
  Space follows = computes(132, 1000);
  follows.facts.follows = follows.facts.shares = 1;
  EXPECT_DOUBLE_EQ(timeOf({computes(264, 1000)}, 132), 2000);
  EXPECT_DOUBLE_EQ(timeOf({computes(264, 1000), follows}, 132), 3000);
  // Behind data that is moved, on the programs that moved it.
  EXPECT_GE(timeOf({moves(8, 1000), follows}, 132), 2000);
}

TEST(DevicePrograms, WhoMovesDataForWhatFollowsHasProgramsForThat) {
  // Four chunks, and a wave of tiles that begins when they are there.
  Space follows = consumes(132, 1000);
  follows.facts.follows = 1;
  const Space mover = moves(4, 100);
  EXPECT_THAT(share({mover, follows}, 132).programs, ElementsAre(132, 0));
  EXPECT_THAT(share({mover, mover, follows}, 132).programs, ElementsAre(4, 128, 0));
  const double moved = timeOf({mover}, 132);
  EXPECT_DOUBLE_EQ(timeOf({mover, follows}, 132), moved + 1000);
  // A pinned number is what the author asked for.
  Space pinned = mover;
  pinned.facts.pinned = 2;
  EXPECT_THAT(share({pinned, follows}, 132).programs, ElementsAre(2, 0));
}

/// When each space of such a launch has ended.
std::vector<double> endsOf(const std::vector<Space> &spaces, int32_t resident) {
  Launch launch(spaces);
  launch.share(resident);
  std::vector<double> ends(spaces.size(), -1);
  dtile_space_ends(launch.count, launch.facts.data(), launch.bodies.data(), launch.weights.data(),
                   launch.latencies.data(), launch.first.data(), ends.data());
  return ends;
}

TEST(LaunchTimeTest, TheLastSpaceToEndEndsTheLaunch) {
  const std::vector<std::vector<Space>> launches = {
      {computes(264, 1000)},
      {moves(64, 500), consumes(1000, 2000)},
      {moves(4000, 500), consumes(100, 2000), computes(0)},
      {moves(8, 1000), computes(132, 1000), ordered(3)}};
  for (const std::vector<Space> &spaces : launches) {
    const std::vector<double> ends = endsOf(spaces, 132);
    EXPECT_DOUBLE_EQ(*std::max_element(ends.begin(), ends.end()), timeOf(spaces, 132));
  }
  // Data has moved long before those that wait for it are through, or just before.
  const std::vector<double> early = endsOf({moves(64, 500), consumes(1000, 2000)}, 132);
  EXPECT_LT(early[0], early[1]);
  const std::vector<double> late = endsOf({moves(4000, 500), consumes(100, 2000)}, 132);
  EXPECT_DOUBLE_EQ(late[1], late[0] + 2000);
}

// Clusters.

struct InClusters {
  std::vector<int64_t> bodies, weights;
  std::vector<int32_t> first;
  int32_t total = 0;
};

/// Of each weight, half is shared.
InClusters shareInClusters(const std::vector<Space> &spaces, int32_t parts, int32_t resident) {
  Launch launch(spaces);
  std::vector<int64_t> shared;
  for (const Space &space : spaces)
    shared.push_back(space.weight / 2);
  int32_t total = 0;
  if (dtile_share_loops(launch.count, launch.facts.data(), parts, shared.data(), resident,
                        launch.bodies.data(), launch.weights.data()) &&
      launch.share(resident) > 0)
    total = dtile_align_to_clusters(launch.count, launch.facts.data(), parts, resident,
                                    launch.bodies.data(), launch.first.data());
  return {launch.bodies, launch.weights, launch.first, total};
}

TEST(ClusterTest, EachProgramHasItsPartOfTheLoopAndTheExchange) {
  const InClusters in = shareInClusters({splits(5, 8000)}, 4, 132);
  EXPECT_THAT(in.bodies, ElementsAre(20));
  EXPECT_THAT(in.weights, ElementsAre(4000 + 1000 + 100));
  EXPECT_THAT(in.first, ElementsAre(0, 20));
  EXPECT_EQ(in.total, 20);
}

TEST(ClusterTest, ClustersTakeBodiesInTurn) {
  // 40 bodies of 4 programs, on 33 clusters; half of the weight is shared, and rings are refilled.
  const InClusters in = shareInClusters({splits(40, 8000)}, 4, 132);
  EXPECT_THAT(in.bodies, ElementsAre(160));
  EXPECT_THAT(in.weights, ElementsAre(4000 + 1000 + 100 + 1000));
  EXPECT_THAT(in.first, ElementsAre(0, 132));
  EXPECT_EQ(in.total, 132);
}

TEST(ClusterTest, ProgramsAreWholeClusters) {
  for (const int32_t parts : {2, 3, 5, 6, 7, 8}) {
    const InClusters in = shareInClusters({splits(100, 8000)}, parts, 132);
    EXPECT_EQ(in.total, 132 / parts * parts) << parts;
    EXPECT_THAT(in.first, ElementsAre(0, in.total)) << parts;
  }
}

TEST(ClusterTest, ProgramsOfOtherSpacesTakeNoBodiesOfClusters) {
  Launch launch({moves(3), splits(5, 8000)});
  launch.facts[0].shares = launch.facts[1].shares = 1;
  const std::vector<int64_t> shared = {0, 4000};
  ASSERT_TRUE(dtile_share_loops(launch.count, launch.facts.data(), 4, shared.data(), 132,
                                launch.bodies.data(), launch.weights.data()));
  EXPECT_EQ(launch.facts[0].shares, 1);
  EXPECT_EQ(launch.facts[1].shares, 0);
}

TEST(ClusterTest, WhatFollowsHasProgramsOfItsOwn) {
  Space waiting = splits(5, 8000);
  waiting.facts.follows = 1;
  EXPECT_THAT(share({moves(3), waiting}, 132).programs, ElementsAre(Gt(0), 0));
  const InClusters in = shareInClusters({moves(3), waiting}, 4, 132);
  EXPECT_EQ(in.first[2] - in.first[1], 20);
  EXPECT_GT(in.total, 0);
}

TEST(ClusterTest, ManyBodiesOrFewProgramsAreNoReasonForClusters) {
  EXPECT_EQ(shareInClusters({splits(int64_t(1) << 62, 8000)}, 2, 132).total, 0);
  EXPECT_EQ(shareInClusters({splits(5, 8000)}, 4, 3).total, 0);
}

TEST(ClusterTest, SpacesWithoutSharedLoopsAreNoReasonForClusters) {
  EXPECT_EQ(shareInClusters({computes(5, 8000)}, 2, 132).total, 0);
  EXPECT_EQ(shareInClusters({splits(0, 8000), computes(5)}, 2, 132).total, 0);
}

TEST(ClusterTest, BoundariesMoveToWhereClustersBegin) {
  for (const int64_t movers : {1, 3, 7, 9}) {
    const InClusters in = shareInClusters({moves(movers), splits(6, 8000), computes(2)}, 4, 132);
    ASSERT_GT(in.total, 0) << movers;
    EXPECT_EQ(in.first[1] % 4, 0) << movers;
    EXPECT_GE(in.first[1], std::min<int64_t>(movers, 3)) << movers;
    EXPECT_EQ(in.first[2] - in.first[1], 24) << movers;
    EXPECT_EQ(in.total % 4, 0) << movers;
    EXPECT_EQ(in.total, in.first[3]) << movers;
  }
}

TEST(ClusterTest, NumbersThatAuthorsAskedForStay) {
  EXPECT_EQ(shareInClusters({pinned(9, 3), splits(6, 8000)}, 4, 132).total, 0);
  EXPECT_EQ(shareInClusters({ordered(9), splits(6, 8000)}, 4, 132).total, 0);
  EXPECT_GT(shareInClusters({pinned(9, 4), splits(6, 8000)}, 4, 132).total, 0);
}

/// Bodies of the last round may be divided, for 100 ns.
Space divides(int64_t bodies, int64_t weight) {
  Space space = computes(bodies, weight);
  space.facts.divide = 100;
  return space;
}

uint32_t dividedSpaces(const std::vector<Space> &spaces, int32_t resident) {
  Launch launch(spaces);
  launch.share(resident);
  return dtile_divided_spaces(launch.count, launch.facts.data(), launch.bodies.data(),
                              launch.weights.data(), launch.latencies.data(), launch.first.data());
}

TEST(DividedTest, BodiesAreDividedWhereTheLastRoundHasFew) {
  EXPECT_EQ(dividedSpaces({divides(132, 10000)}, 132), 0u);
  EXPECT_EQ(dividedSpaces({divides(133, 10000)}, 132), 1u);
  EXPECT_EQ(dividedSpaces({divides(132 + 99, 10000)}, 132), 1u);
  // More than three quarters of a round.
  EXPECT_EQ(dividedSpaces({divides(132 + 100, 10000)}, 132), 0u);
  EXPECT_EQ(dividedSpaces({divides(264, 10000)}, 132), 0u);
  EXPECT_EQ(dividedSpaces({divides(300, 10000)}, 132), 1u);
  EXPECT_EQ(dividedSpaces({computes(133, 10000)}, 132), 0u);
}

TEST(DividedTest, FewBodiesGetAllPrograms) {
  // 76 bodies: 66 of two parts, 10 of four.
  EXPECT_EQ(dividedSpaces({divides(76, 10000)}, 132), 1u);
  EXPECT_NEAR(timeOf({divides(76, 10000)}, 132), 7750, 1);
  EXPECT_NEAR(timeOf({divides(66, 10000)}, 132), 5100, 1);
  EXPECT_NEAR(timeOf({divides(33, 10000)}, 132), 2650, 1);
  // Four programs a body, and no more.
  EXPECT_NEAR(timeOf({divides(5, 10000)}, 132), 2650, 1);
  EXPECT_THAT(share({divides(5, 10000)}, 132).programs, ElementsAre(20));
  EXPECT_THAT(share({divides(76, 10000)}, 132).programs, ElementsAre(132));
  // Four programs a body as far as there are so many, two where there are not.
  EXPECT_THAT(share({divides(24, 350)}, 132).programs, ElementsAre(96));
  EXPECT_THAT(share({divides(40, 350)}, 132).programs, ElementsAre(80));
  // All processors are busy, or parts take longer.
  EXPECT_THAT(share({divides(100, 10000)}, 132).programs, ElementsAre(100));
  EXPECT_THAT(share({divides(66, 150)}, 132).programs, ElementsAre(66));
  EXPECT_THAT(share({computes(66, 10000)}, 132).programs, ElementsAre(66));
  // Another space uses the programs that are left.
  EXPECT_EQ(dividedSpaces({divides(33, 10000), computes(400, 1000)}, 132), 0u);
}

TEST(DividedTest, NotWhereThatTakesLonger) {
  EXPECT_EQ(dividedSpaces({divides(133, 190)}, 132), 0u);
  EXPECT_EQ(dividedSpaces({divides(133, 400)}, 132), 1u);
  EXPECT_EQ(dividedSpaces({divides(132 + 70, 1000)}, 132), 0u);
  EXPECT_EQ(dividedSpaces({divides(132 + 70, 3000)}, 132), 1u);
}

TEST(DividedTest, ALaunchEndsWithPartsOfARound) {
  EXPECT_NEAR(timeOf({divides(132 + 33, 10000)}, 132), 12650, 1);
  EXPECT_NEAR(timeOf({divides(132 + 34, 10000)}, 132), 15100, 1);
  EXPECT_NEAR(timeOf({divides(132 + 66, 10000)}, 132), 15100, 1);
  EXPECT_NEAR(timeOf({divides(132 + 67, 10000)}, 132), 17750, 1);
  EXPECT_NEAR(timeOf({divides(264, 10000)}, 132), 20000, 1);
  EXPECT_NEAR(timeOf({divides(100, 10000)}, 132), 10000, 1);
}

TEST(DividedTest, EachSpaceByItself) {
  EXPECT_EQ(dividedSpaces({pinned(9, 3), divides(200, 10000)}, 132), 2u);
}

TEST(DividedTest, NotInClustersThatShareLoops) {
  Space both = divides(6, 8000);
  both.facts.exchange = 100;
  int64_t bodies = both.bodies, weight = both.weight, shared = 0;
  ASSERT_EQ(dtile_share_loops(1, &both.facts, 2, &shared, 132, &bodies, &weight), 1);
  EXPECT_EQ(both.facts.divide, 0);
}

TEST(PairTest, ProgramsAreEvenAndTakeNoMoreRounds) {
  EXPECT_EQ(dtile_pair_programs(264, 132, 264, 132, 0, 1, 0), 132);
  EXPECT_EQ(dtile_pair_programs(66, 132, 66, 66, 0, 1, 0), 66);
  // A row of blocks that fills up pairs fits in the last round, or does not.
  EXPECT_EQ(dtile_pair_programs(260, 132, 250, 132, 0, 1, 0), 132);
  EXPECT_EQ(dtile_pair_programs(266, 132, 260, 132, 0, 1, 0), 0);
  // Processors without a neighbour.
  EXPECT_EQ(dtile_pair_programs(264, 131, 264, 132, 0, 1, 0), 0);
  EXPECT_EQ(dtile_pair_programs(200, 131, 200, 132, 0, 1, 0), 130);
}

TEST(PairTest, OfBodiesThatAreDividedPartsOfRoundsCount) {
  EXPECT_EQ(dtile_pair_programs(266, 132, 260, 132, 0, 1, 0), 0);
  // A quarter of a round more than two.
  EXPECT_EQ(dtile_pair_programs(266, 132, 264, 132, 0.01, 1, 0), 0);
  EXPECT_EQ(dtile_pair_programs(270, 132, 266, 132, 0.01, 1, 0), 132);
  // As many rounds, if nothing were divided: pairs end 2.5, single programs 2.25 rounds.
  EXPECT_EQ(dtile_pair_programs(300, 132, 266, 132, 0.01, 1, 0), 0);
  EXPECT_EQ(dtile_pair_programs(300, 132, 266, 132, 0.01, 1.2, 0), 132);
}

TEST(PairTest, WhatASharedLoadGainsMayBeWorthARound) {
  EXPECT_EQ(dtile_pair_programs(266, 132, 260, 132, 0, 1.4, 0), 0);
  EXPECT_EQ(dtile_pair_programs(266, 132, 260, 132, 0, 1.5, 0), 132);
  // Nor are pairs made that are no faster.
  EXPECT_EQ(dtile_pair_programs(264, 132, 264, 132, 0, 0.9, 0), 0);
}

TEST(PairTest, WhatASharedLoadGainsIsWorthItsLaterStart) {
  EXPECT_EQ(dtile_pair_programs(264, 132, 264, 132, 0, 1.2, 0.5), 0);
  EXPECT_EQ(dtile_pair_programs(264, 132, 264, 132, 0, 1.5, 0.5), 132);
  // Over many rounds.
  EXPECT_EQ(dtile_pair_programs(2640, 132, 2640, 132, 0, 1.2, 0.5), 132);
  EXPECT_EQ(dtile_pair_programs(264, 132, 264, 132, 0, 1, 0.5), 0);
}

TEST(PairTest, NothingIsPairedWhereNoTwoRun) {
  EXPECT_EQ(dtile_pair_programs(0, 132, 7, 7, 0, 1, 0), 0);
  EXPECT_EQ(dtile_pair_programs(8, 0, 7, 7, 0, 1, 0), 0);
  EXPECT_EQ(dtile_pair_programs(8, 1, 7, 7, 0, 1, 0), 0);
  EXPECT_EQ(dtile_pair_programs(64, 132, 64, 64, 0, 1, 0), 0);
  EXPECT_EQ(dtile_pair_programs(8, 132, 0, 0, 0, 1, 0), 0);
}

TEST(DevicePrograms, ACopyEngineIsAsOneProgramThatMovesAll) {
  dtile_device_space spaces[2] = {moves(8).facts, consumes(1000, 5000).facts};
  spaces[1].follows = 1;
  const int64_t bodies[] = {8, 1000};
  const double bytes[] = {1e6, 0};
  int64_t weights[] = {20000, 5000}, latencies[] = {700, 0};
  dtile_leave_to_engine(2, spaces, 1, bodies, bytes, /*link_rate=*/100, weights, latencies);
  EXPECT_EQ(weights[0], 12500);
  EXPECT_EQ(latencies[0], 0);
  EXPECT_EQ(weights[1], 5000);
  int32_t first[3] = {};
  EXPECT_EQ(dtile_share_programs(2, spaces, bodies, weights, latencies, 100, first), 100);
  EXPECT_THAT(first, ElementsAre(0, 1, 100));
  double ends[2] = {};
  dtile_space_ends(2, spaces, bodies, weights, latencies, first, ends);
  EXPECT_EQ(ends[0], 8 * 12500.0);
  // Without one nothing changes.
  dtile_device_space plain[2] = {moves(8).facts, consumes(1000, 5000).facts};
  plain[1].follows = 1;
  dtile_leave_to_engine(2, plain, 0, bodies, bytes, 100, weights, latencies);
  EXPECT_EQ(plain[0].pinned, 0);
  EXPECT_EQ(plain[1].follows, 1);
}

// What follows runs when all else is done: its bodies share the link.
TEST(LinkTest, IsSharedByBodiesThatFollow) {
  dtile_device_space spaces[] = {{}, {.follows = 1}, {.follows = 2}};
  const double bytes[] = {65'536, 65'536, 65'536};
  const int64_t latencies[] = {0, 4'000, 0};
  const auto weightsOf = [&](int64_t bodies, int64_t weight) {
    const int64_t counts[] = {bodies, bodies, bodies};
    std::array<int64_t, 3> weights = {weight, weight, weight};
    dtile_share_link(3, spaces, counts, bytes, 350, 132, latencies, weights.data());
    return weights;
  };
  // 132 · 65536 bytes at 350 a nanosecond, without what they wait anyway.
  EXPECT_THAT(weightsOf(1000, 5'000), ElementsAre(5'000, 20'716, 5'000));
  EXPECT_THAT(weightsOf(40, 5'000), ElementsAre(5'000, 5'000, 5'000));
  EXPECT_THAT(weightsOf(1000, 30'000), ElementsAre(30'000, 30'000, 30'000));
  // Nothing is known of the link.
  int64_t weights[] = {1, 1, 1};
  const int64_t counts[] = {10, 10, 10};
  dtile_share_link(3, spaces, counts, bytes, 0, 132, latencies, weights);
  EXPECT_THAT(weights, ElementsAre(1, 1, 1));
}

// Without products, bodies that do more than send are more at once on a link.
TEST(LinkTest, IsFilledByWhatBodiesSend) {
  dtile_device_space spaces[] = {{.most = 24, .fill = 16, .covers = 1},
                                 {.most = 24, .fill = 16, .covers = 1},
                                 {.most = 24, .fill = 16},
                                 {.most = 24, .fill = 1, .covers = 1}};
  const double bytes[] = {65'536, 0, 65'536, 65'536};
  const int64_t bodies[] = {100, 100, 100, 100}, latencies[] = {0, 0, 0, 0};
  int64_t weights[] = {6'000, 6'000, 6'000, 6'000};
  dtile_share_link(4, spaces, bodies, bytes, 350, 132, latencies, weights);
  // 350 · 6000 / 65536; what sends nothing, what runs beside products, and the engine stay.
  EXPECT_EQ(spaces[0].fill, 33);
  EXPECT_EQ(spaces[1].fill, 16);
  EXPECT_EQ(spaces[2].fill, 16);
  EXPECT_EQ(spaces[3].fill, 1);
  EXPECT_THAT(weights, ElementsAre(6'000, 6'000, 6'000, 6'000));
}

} // namespace
