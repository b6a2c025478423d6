// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which configurations are tried for a kernel, for which launches, and which of them are kept.
#include "backend/driver/choose/configurations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>

using namespace dtile::driver;
using dtile::sema::Choice;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Le;

namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();

Choice choiceOf(const char *name, Choice::Use use, std::vector<int64_t> allowed = {}) {
  Choice choice;
  choice.name = name;
  choice.use = use;
  choice.allowed = std::move(allowed);
  return choice;
}

TEST(Configurations, AllowedValuesAreAllThatIsTried) {
  const Choice choices[] = {choiceOf("BM", Choice::Use::Block, {48, 80}),
                            choiceOf("BK", Choice::Use::Loop)};
  const auto values = valuesOf(choices);
  EXPECT_THAT(values[0], ElementsAre(48, 80));
  const auto all = combinations(choices, values, 1000);
  EXPECT_EQ(all.size(), 2 * values[1].size());
  const std::set<Constants> different(all.begin(), all.end());
  EXPECT_EQ(different.size(), all.size());
}

TEST(Configurations, BlocksOfRowsMayBeSmallWhereNothingMultiplies) {
  Choice rows = choiceOf("BM", Choice::Use::Block), columns = choiceOf("BN", Choice::Use::Loop);
  rows.isOuter = true;
  for (const bool multiplies : {false, true}) {
    rows.multiplies = columns.multiplies = multiplies;
    const auto values = valuesOf({rows, columns});
    EXPECT_EQ(llvm::is_contained(values[0], 1), !multiplies);
    EXPECT_EQ(llvm::is_contained(values[1], 2048), !multiplies);
    // Launches are compared by what ends in time with the first.
    EXPECT_EQ(values[0].front(), 16);
  }
}

TEST(Configurations, TooManyAreDrawnTheSameEachTime) {
  const Choice choices[] = {choiceOf("A", Choice::Use::Other), choiceOf("B", Choice::Use::Other),
                            choiceOf("C", Choice::Use::Other), choiceOf("D", Choice::Use::Other)};
  const auto values = valuesOf(choices);
  const auto drawn = combinations(choices, values, 100);
  EXPECT_THAT(drawn.size(), Le(100u));
  EXPECT_EQ(drawn, combinations(choices, values, 100));
}

TEST(Configurations, SamplesHaveAllSizesAndRanksWhereTheyMatter) {
  using enum SizeUse;
  for (const SampleSizes &sample : sampleSizes({Rows, Model, Count}, /*hasRanks=*/false, 50)) {
    EXPECT_EQ(sample.sizes.size(), 3u);
    EXPECT_EQ(sample.ranks, 1);
    for (const int64_t size : sample.sizes)
      EXPECT_GE(size, 1);
    EXPECT_LE(sample.sizes[2], 512);
  }
  std::set<int64_t> ranks;
  for (const SampleSizes &sample : sampleSizes({List}, /*hasRanks=*/true, 50))
    ranks.insert(sample.ranks);
  EXPECT_THAT(ranks, ElementsAre(2, 4, 8));
}

TEST(Configurations, SamplesHaveTheSizesThatAreKnown) {
  using enum SizeUse;
  const KnownSizes few{{SizeRange{"M", 1, 16}, std::nullopt}, SizeRange{"W", 8, 8}};
  const KnownSizes many{{SizeRange{"M", 4096, 8192, 64}, SizeRange{"N", 512, 512}}, std::nullopt};
  const auto samples = sampleSizes({Rows, Model}, /*hasRanks=*/true, 50, {few, many});
  for (size_t i = 0; i < samples.size(); i += 2) {
    const SampleSizes &one = samples[i], &other = samples[i + 1];
    EXPECT_LE(one.sizes[0], 16);
    EXPECT_EQ(one.ranks, 8);
    EXPECT_GE(other.sizes[0], 4096);
    EXPECT_LE(other.sizes[0], 8192);
    EXPECT_EQ(other.sizes[0] % 64, 0);
    EXPECT_EQ(other.sizes[1], 512);
    // Only what nobody knows may have rows of any length.
    EXPECT_EQ(other.odd, other.sizes);
    EXPECT_EQ(one.odd[0], one.sizes[0]);
    EXPECT_TRUE(one.sizes[1] < 16 || one.odd[1] % 2 == 1);
  }
}

TEST(Configurations, WhatIsKeptIsGoodTogether) {
  // The second is good everywhere, the others where it is not: each comes by what it gains.
  const std::vector<double> rows[] = {
      {10, 90, 90, 90}, {12, 12, 40, 14}, {90, 90, 10, 90}, {91, 91, 11, 91}};
  EXPECT_THAT(cover(rows, 1), ElementsAre(1));
  EXPECT_THAT(cover(rows, 2), ElementsAre(1, 2));
  EXPECT_THAT(cover(rows, 10), ElementsAre(1, 2, 0));
}

TEST(Configurations, LaunchesThatSomeCannotRunAreNotForgotten) {
  const std::vector<double> rows[] = {{10, kNone}, {15, 20}};
  EXPECT_THAT(cover(rows, 1), ElementsAre(1));
  EXPECT_THAT(cover(rows, 2), ElementsAre(1, 0));
  EXPECT_THAT(cover({}, 3), IsEmpty());
}

} // namespace
