// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The search for slow launches, on times that are computed.
#include "backend/driver/bench/slow_launches.h"

#include "llvm/ADT/STLExtras.h"
#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace dtile::driver;

namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();

/// So many launches are timed, each of which takes what `time` says.
std::vector<SlowLaunch>
search(std::vector<SizeRange> ranges, uint64_t seed,
       const std::function<std::optional<LaunchTime>(const LaunchPoint &)> &time,
       size_t settings = 1, size_t launches = 3000) {
  size_t timed = 0, asked = 0;
  SlowSearch search({.ranges = std::move(ranges),
                     .settings = settings,
                     .seed = seed,
                     .time =
                         [&](const LaunchPoint &point) {
                           ++timed;
                           return time(point);
                         },
                     .isOver =
                         [&](double part) {
                           return double(timed) + double(asked++) / 100 > part * double(launches);
                         }});
  return search.run();
}

const std::vector<SizeRange> kProduct = {{"M", 1, 4096}, {"N", 1, 4096}, {"K", 1, 4096}};

/// Of whole tiles of 64, at a thousand products a nanosecond.
double product(const LaunchPoint &point) {
  double time = 5000;
  double work = 1;
  for (const int64_t size : point.sizes)
    work *= 64 * std::ceil(double(size) / 64);
  return time + work / 1000;
}

TEST(SlowLaunches, are_none_where_larger_launches_take_longer) {
  for (const uint64_t seed : {1, 2, 3})
    EXPECT_TRUE(search(kProduct, seed, [](const LaunchPoint &point) {
                  return LaunchTime{product(point), kNone};
                }).empty());
}

// An odd K costs five times as much: the smallest of such launches is found, whatever the seed.
TEST(SlowLaunches, of_odd_rows_are_found_and_made_small) {
  for (const uint64_t seed : {1, 2, 3, 4, 5}) {
    const auto slow = search(kProduct, seed, [](const LaunchPoint &point) {
      return LaunchTime{product(point) * (point.sizes[2] % 2 != 0 ? 5 : 1), kNone};
    });
    ASSERT_FALSE(slow.empty()) << "seed " << seed;
    const SlowLaunch &one = slow.front();
    EXPECT_EQ(one.point.sizes[2] % 2, 1);
    ASSERT_TRUE(one.larger);
    EXPECT_EQ(one.larger->sizes[2] % 2, 0);
    EXPECT_GE(one.factor, 2);
    // What has nothing to do with it is as small as it gets.
    EXPECT_EQ(one.point.sizes[0], 1) << "seed " << seed;
    EXPECT_EQ(one.point.sizes[1], 1) << "seed " << seed;
    EXPECT_GT(one.count, 1U);
  }
}

// Only the model knows that sums from 1024 on take too long: larger launches take longer still.
TEST(SlowLaunches, are_held_against_what_the_model_expects) {
  const auto slow = search(kProduct, 1, [](const LaunchPoint &point) {
    const bool isSlow = point.sizes[2] >= 1024 && point.sizes[0] <= 16;
    return LaunchTime{3 * product(point) * (isSlow ? 4 : 1), product(point)};
  });
  ASSERT_FALSE(slow.empty());
  for (const SlowLaunch &one : slow) {
    EXPECT_LE(one.point.sizes[0], 16);
    EXPECT_GE(one.point.sizes[2], 1024);
    // Three times the model's time is what all launches take.
    EXPECT_LT(one.factor, 4.5);
  }
  EXPECT_TRUE(llvm::any_of(slow, [](const SlowLaunch &one) {
    return !one.larger && one.point.sizes[2] == 1024 && one.point.sizes[1] == 1;
  }));
}

// A narrow region far from where draws fall: chains climb towards it.
TEST(SlowLaunches, of_a_slope_are_climbed_to) {
  const std::vector<SizeRange> ranges = {{"M", 1, 100'000}, {"N", 1, 100'000}};
  const auto slow = search(
      ranges, 7,
      [](const LaunchPoint &point) {
        const double away = std::max(std::abs(std::log2(double(point.sizes[0]) / 30'000)),
                                     std::abs(std::log2(double(point.sizes[1]) / 50)));
        const double time = 1e5;
        return LaunchTime{time * (1 + 3 / (1 + 2 * away)), time};
      },
      1, 1500);
  ASSERT_FALSE(slow.empty());
}

TEST(SlowLaunches, are_of_the_plainest_setting_that_shows_them) {
  const auto slow = search(
      {{"N", 1, 4096}}, 3,
      [](const LaunchPoint &point) {
        const bool isSlow = point.setting >= 2 && point.sizes[0] % 16 != 0;
        return LaunchTime{(1e4 + 10 * double(point.sizes[0])) * (isSlow ? 4 : 1), kNone};
      },
      4);
  ASSERT_FALSE(slow.empty());
  EXPECT_EQ(slow.front().point.setting, 2U);
}

TEST(SlowLaunches, keep_to_steps_and_to_what_runs) {
  std::vector<SizeRange> ranges = {{"M", 3, 300, 9}, {"N", 128, 128}};
  const auto slow = search(ranges, 2, [](const LaunchPoint &point) -> std::optional<LaunchTime> {
    EXPECT_EQ((point.sizes[0] - 3) % 9, 0);
    EXPECT_EQ(point.sizes[1], 128);
    if (point.sizes[0] % 4 == 0)
      return std::nullopt;
    return LaunchTime{point.sizes[0] == 30 ? 1e6 : 1e5, kNone};
  });
  ASSERT_EQ(slow.size(), 1U);
  EXPECT_EQ(slow.front().point.sizes[0], 30);
}

// A search of few launches ends before its time, and one in which nothing runs ends.
TEST(SlowLaunches, end_where_nothing_is_left) {
  size_t timed = 0;
  const auto slow = search({{"M", 1, 4}}, 1, [&](const LaunchPoint &) -> std::optional<LaunchTime> {
    ++timed;
    return LaunchTime{1e5, kNone};
  });
  EXPECT_TRUE(slow.empty());
  EXPECT_LE(timed, 8U);
  EXPECT_TRUE(search({{"M", 1, 4096}}, 1, [](const LaunchPoint &) {
                return std::optional<LaunchTime>();
              }).empty());
}

TEST(SizeRanges, are_read_by_name) {
  const SizeRange usual{"", 1, 4096};
  std::string why;
  const auto ranges = readSizeRanges({"M", "N", "K"}, "K=512, M=1..8192,N=64..4096:64", usual, why);
  ASSERT_TRUE(ranges) << why;
  EXPECT_EQ((*ranges)[0], (SizeRange{"M", 1, 8192}));
  EXPECT_EQ((*ranges)[1], (SizeRange{"N", 64, 4096, 64}));
  EXPECT_EQ((*ranges)[2], (SizeRange{"K", 512, 512}));
  EXPECT_EQ((*readSizeRanges({"M"}, "", usual, why))[0], (SizeRange{"M", 1, 4096}));
}

TEST(SizeRanges, that_make_no_sense_are_refused_in_words) {
  const SizeRange usual{"", 1, 4096};
  for (const char *text :
       {"M", "M=", "M=0", "M=-1..4", "M=4..1", "M=1..", "M=..4", "M=1..4:0",
        "M=1..4:", "M=1..99999999999999999999", "M=1,M=2", "Q=1", "M=1.5", "M=1...4"}) {
    std::string why;
    EXPECT_FALSE(readSizeRanges({"M"}, text, usual, why)) << text;
    EXPECT_FALSE(why.empty()) << text;
  }
}

} // namespace
