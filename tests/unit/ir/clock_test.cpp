// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Clocks of the checker's runs: what joins know, and how much work they are.
#include "ir/protocol/check/clock.h"

#include "gtest/gtest.h"

#include <memory>
#include <random>

namespace dtile::protocol {
namespace {

/// Joins of clocks of many threads, one of two that were made before; `gap` bytes between them move
/// the addresses at which they lie.
uint64_t workOfJoins(size_t gap) {
  constexpr int kThreads = 64, kJoins = 4000;
  ClockSet clocks(1);
  std::mt19937 random(7 + uint32_t(testing::UnitTest::GetInstance()->random_seed()));
  std::vector<std::unique_ptr<char[]>> between;
  std::vector<ClockRef> made;
  for (int i = 0; i < kThreads; ++i)
    made.push_back(clocks.with(clocks.empty(), clocks.newThread(0, 0), 1));
  for (int i = 0; i < kJoins; ++i) {
    if (gap != 0)
      between.push_back(std::make_unique<char[]>(gap));
    const size_t a = random() % made.size(), b = random() % made.size(), to = random() % kThreads;
    made[to] = clocks.join(made[a], made[b]);
    if (i % 50 == 0)
      made[to] = clocks.with(clocks.empty(), clocks.newThread(0, 0), 1);
  }
  return clocks.work();
}

TEST(ClockTest, JoinsHaveTheEventsOfBoth) {
  ClockSet clocks(1);
  const ThreadId a = clocks.newThread(0, 0), b = clocks.newThread(0, 0);
  const ClockRef one = clocks.with(clocks.empty(), a, 3), other = clocks.with(clocks.empty(), b, 1);
  const ClockRef both = clocks.join(one, other);
  EXPECT_TRUE(clocks.includes(*both, a, 3) && clocks.includes(*both, b, 1));
  EXPECT_FALSE(clocks.includes(*both, a, 4) || clocks.includes(*one, b, 1));
  EXPECT_EQ(clocks.join(both, one), both);
}

// A verdict says what a budget of work was enough for, so that must be the same in each process.
TEST(ClockTest, WorkDoesNotDependOnAddresses) {
  const uint64_t work = workOfJoins(0);
  EXPECT_GT(work, 0u);
  for (const size_t gap : {16, 48, 1000, 70'000})
    EXPECT_EQ(workOfJoins(gap), work) << "with gaps of " << gap;
}

} // namespace
} // namespace dtile::protocol
