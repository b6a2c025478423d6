// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which rank, or which way between two, is apart from the others over the last launches, and which
// process over the last looks.
#pragma once

#include "backend/runtime/telemetry/processes.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dtile::runtime::telemetry {

/// How much time of its own a rank takes in a launch.
struct RankSkew {
  int32_t rank = 0;
  /// More than the median of the ranks: the median over the launches.
  int64_t lateNs = 0;
  /// Launches in which it took the most.
  size_t last = 0;
};

struct Straggler {
  int32_t rank = 0;
  /// Only what it sends to this rank is slow.
  std::optional<int32_t> peer;
  int64_t lateNs = 0;
  /// The same in median absolute deviations of the others from their median; 0: they have none.
  double deviations = 0;
  /// How far the others are from each other at most.
  int64_t othersNs = 0;
  /// Launches that by themselves show it, of the launches looked at.
  size_t launches = 0;
};

/// A process that waits for a processor for longer than others do.
struct Starved {
  /// Its first.
  int32_t rank = 0;
  int64_t pid = 0;
  /// Of the time, and the most among the others.
  double share = 0, othersShare = 0;
};

struct SkewReport {
  /// Launches that all ranks have ended.
  size_t launches = 0;
  /// By rank.
  std::vector<RankSkew> ranks;
  std::vector<Straggler> found;
  /// Why nothing can be said of launches; "" where something can.
  std::string whyNot;
  std::optional<Starved> starved;
};

/// What findJobs gave, oldest first.
using Looks = std::vector<std::vector<JobView>>;

/// Without `earlier` looks nothing is said of processes.
[[nodiscard]] SkewReport findStragglers(const JobView &job, const Looks &earlier = {});

/// Looks that say enough of processes.
inline constexpr size_t kLooks = 9;

[[nodiscard]] std::string textOf(const SkewReport &report);

} // namespace dtile::runtime::telemetry
