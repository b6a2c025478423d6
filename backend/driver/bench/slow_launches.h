// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Looks for launches that take much longer than they should, as Collie does for networks of
// machines (Kong et al., NSDI 2022): simulated annealing over sizes and settings, and for each find
// the smallest launch that shows it.
//
// A launch should take no longer than the model says, times what launches of its setting take of
// that in the median, and no longer than a launch of which no size is smaller. The latter needs no
// model: who pads the arguments gets that time.
#pragma once

#include "backend/driver/choose/size_ranges.h"

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace dtile::driver {

/// A launch: one of the settings (ranks and constants), and sizes in the order of the ranges.
struct LaunchPoint {
  size_t setting = 0;
  std::vector<int64_t> sizes;

  auto operator<=>(const LaunchPoint &) const = default;
};

/// In nanoseconds.
struct LaunchTime {
  double measured = 0;
  /// By the model; infinite where it says nothing.
  double expected = 0;
};

/// A kind of launch that takes longer than it should.
struct SlowLaunch {
  /// The smallest and roundest that was found.
  LaunchPoint point;
  double measured = 0;
  /// What it should take, and how many times that it takes.
  double limit = 0;
  double factor = 0;
  /// The launch that sets the limit; nothing where the model does.
  std::optional<LaunchPoint> larger;
  /// The launches that came to this one, and the slowest of them.
  size_t count = 1;
  LaunchPoint worst;
  double worstFactor = 0;
};

/// What a search has to know of its surroundings.
struct SlowSearchInput {
  std::vector<SizeRange> ranges;
  /// The setting of the first number is the plainest.
  size_t settings = 1;
  /// So many times as long as it should is slow.
  double factor = 2;
  uint64_t seed = 0;
  /// Times a launch; nothing where it cannot run. Asked again for the same launch where a time has
  /// to be certain.
  std::function<std::optional<LaunchTime>(const LaunchPoint &)> time;
  /// Whether this part of the time is over, from 0 to 1.
  std::function<bool(double)> isOver;
};

class SlowSearch {
public:
  explicit SlowSearch(SlowSearchInput input);

  /// The kinds that were found, the slowest first.
  std::vector<SlowLaunch> run();
  /// How many different launches were timed.
  [[nodiscard]] size_t measured() const { return times_.size() - refused_; }
  /// What launches of a setting take of the model's time in the median; 1 where too few were timed.
  [[nodiscard]] double typical(size_t setting) const;

private:
  /// What became of a launch.
  struct Known {
    std::optional<LaunchTime> time;
    /// Of which that is the median; sorted.
    std::vector<double> timings;
  };
  struct Verdict {
    double factor = 0;
    double measured = 0;
    double limit = 0;
    std::optional<LaunchPoint> larger;
  };

  const Known &timed(const LaunchPoint &point, size_t timings = 1);
  /// Nothing where it cannot run.
  std::optional<Verdict> judge(const LaunchPoint &point);
  /// The same, where it is slow after each time that matters was taken often.
  std::optional<Verdict> judgeWithCare(const LaunchPoint &point);
  [[nodiscard]] LaunchPoint roundedUp(const LaunchPoint &point) const;

  LaunchPoint anyPoint();
  /// Whether hardly a launch is left that is not known, or none can run.
  [[nodiscard]] bool isExhausted() const;
  LaunchPoint neighbour(const LaunchPoint &point);
  int64_t anySize(const SizeRange &range);
  [[nodiscard]] bool chance(double part);

  /// One chain of the annealing: from a point to launches that are slower.
  void anneal(LaunchPoint from);
  /// What is slow becomes a find.
  void keep(const LaunchPoint &point, double factor);
  [[nodiscard]] SlowLaunch *explaining(const LaunchPoint &point);
  LaunchPoint shrink(LaunchPoint point);
  [[nodiscard]] std::vector<int64_t> simpler(const SizeRange &range, int64_t size) const;

  SlowSearchInput input_;
  std::mt19937_64 random_;
  std::map<LaunchPoint, Known> times_;
  size_t refused_ = 0;
  /// Launches in turn that were drawn and known already.
  size_t stale_ = 0;
  std::vector<SlowLaunch> found_;
};

} // namespace dtile::driver
