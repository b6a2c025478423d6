// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The rule that shares a device's programs between the spaces of a launch.
#include "backend/runtime/device_programs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace {

using testing::ElementsAre;

struct Space {
  int64_t bodies = 0;
  dtile_device_space facts = {.weight = 1};
};

Space computes(int64_t bodies, int64_t weight = 1) {
  return {bodies, {.pinned = 0, .ordered = 0, .most = 0, .follows = 0, .weight = weight}};
}
Space moves(int64_t bodies, int32_t most = 16) {
  return {bodies, {.pinned = 0, .ordered = 0, .most = most, .follows = 0, .weight = 1}};
}
Space pinned(int64_t bodies, int32_t programs) {
  return {bodies, {.pinned = programs, .ordered = 0, .most = 0, .follows = 0, .weight = 1}};
}
Space ordered(int64_t bodies) {
  return {bodies, {.pinned = 0, .ordered = 1, .most = 0, .follows = 0, .weight = 1}};
}

struct Shared {
  int32_t total;
  std::vector<int32_t> programs;
};

Shared share(const std::vector<Space> &spaces, int32_t resident) {
  std::vector<dtile_device_space> facts;
  std::vector<int64_t> bodies;
  for (const Space &space : spaces) {
    facts.push_back(space.facts);
    bodies.push_back(space.bodies);
  }
  std::vector<int32_t> first(spaces.size() + 1, -1);
  Shared result;
  result.total = dtile_share_programs(int32_t(spaces.size()), facts.data(), bodies.data(), resident,
                                      first.data());
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

TEST(DevicePrograms, WhatOnlyMovesDataGetsFew) {
  EXPECT_THAT(share({moves(64), computes(512)}, 132).programs, ElementsAre(16, 116));
  EXPECT_THAT(share({moves(3), computes(512)}, 132).programs, ElementsAre(3, 129));
  EXPECT_THAT(share({moves(64), computes(512)}, 8).programs, ElementsAre(2, 6));
}

TEST(DevicePrograms, WhatOnlyMovesDataTakesWhatComputationsLeave) {
  EXPECT_THAT(share({moves(64), computes(100)}, 132).programs, ElementsAre(32, 100));
  EXPECT_THAT(share({moves(20), computes(100)}, 132).programs, ElementsAre(20, 100));
  EXPECT_THAT(share({moves(64), computes(116)}, 132).programs, ElementsAre(16, 116));
}

TEST(DevicePrograms, WhatOnlyMovesDataKeepsToItsLimitAlone) {
  EXPECT_THAT(share({moves(64)}, 132).programs, ElementsAre(16));
  EXPECT_THAT(share({moves(64), moves(64)}, 20).programs, ElementsAre(16, 4));
}

TEST(DevicePrograms, PinnedAndOrderedSpacesKeepTheirNumbers) {
  EXPECT_THAT(share({pinned(100, 20), ordered(50), computes(500)}, 132).programs,
              ElementsAre(20, 1, 111));
  EXPECT_THAT(share({pinned(5, 20), computes(500)}, 132).programs, ElementsAre(5, 127));
}

TEST(DevicePrograms, WorkDecidesBetweenSpacesThatCompute) {
  EXPECT_THAT(share({computes(100, 3), computes(100, 1)}, 40).programs, ElementsAre(30, 10));
  // What the first has no bodies for goes to the second.
  EXPECT_THAT(share({computes(10, 100), computes(100, 1)}, 40).programs, ElementsAre(10, 30));
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
      const std::vector<Space> spaces = {moves(4), computes(bodies, 7), computes(40, 2)};
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

TEST(DevicePrograms, TooFewProgramsAreRefusedWithTheNumberThatIsNeeded) {
  EXPECT_EQ(share({computes(10), computes(10), computes(10)}, 2).total, -3);
  EXPECT_EQ(share({pinned(100, 64), computes(10)}, 32).total, -65);
}

} // namespace
