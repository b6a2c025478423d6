// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which measured choice a launch takes. The runtime asks it at launches, and dtilec where it
// explains them, so that both say the same.
//
// A launch takes the row that is nearest, where each size is within kNear of the row's. Else, where
// two rows differ in one size alone, made the same choice and have no other row between them, all
// sizes between theirs take it, if theirs are at most kApart from each other. Everything else is
// the model's.
#pragma once

#include "backend/runtime/kernel_abi.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace dtile::runtime {

/// Factors between sizes.
inline constexpr double kNear = 1.25;
inline constexpr double kApart = 8;

/// A row as far as the choice among rows goes.
struct TunedPoint {
  int32_t variant = 0;
  std::vector<int64_t> sizes;
};

/// Larger over smaller; 0 is near nothing else.
inline double factorBetween(int64_t a, int64_t b) {
  if (a == b)
    return 1;
  const auto [least, most] = std::minmax(a, b);
  return least <= 0 ? 1e300 : double(most) / double(least);
}

namespace tuned {

/// Of the size that is farthest.
inline double distance(const std::vector<int64_t> &a, const std::vector<int64_t> &b) {
  double most = 1;
  for (size_t i = 0; i < a.size(); ++i)
    most = std::max(most, factorBetween(a[i], b[i]));
  return most;
}

/// Whether the sizes differ in number `i` at most.
inline bool areOnLine(const std::vector<int64_t> &a, const std::vector<int64_t> &b, size_t i) {
  for (size_t d = 0; d < a.size(); ++d)
    if (d != i && a[d] != b[d])
      return false;
  return true;
}

/// The row below `sizes` on a line along size `i` whose neighbour above made the same choice.
inline int32_t between(const std::vector<TunedPoint> &rows, const std::vector<int64_t> &sizes,
                       size_t i) {
  for (size_t low = 0; low < rows.size(); ++low) {
    const std::vector<int64_t> &from = rows[low].sizes;
    if (from[i] > sizes[i])
      continue;
    std::vector<int64_t> moved = from;
    moved[i] = sizes[i];
    if (distance(moved, sizes) > kNear)
      continue;
    // The next row above, and none between this one and the launch.
    int32_t above = -1;
    bool isNext = true;
    for (size_t other = 0; other < rows.size(); ++other) {
      const std::vector<int64_t> &to = rows[other].sizes;
      if (other == low || !areOnLine(from, to, i) || to[i] <= from[i])
        continue;
      isNext &= to[i] >= sizes[i];
      if (to[i] >= sizes[i] && (above < 0 || to[i] < rows[size_t(above)].sizes[i]))
        above = int32_t(other);
    }
    if (isNext && above >= 0 && rows[size_t(above)].variant == rows[low].variant &&
        factorBetween(from[i], rows[size_t(above)].sizes[i]) <= kApart)
      return int32_t(low);
  }
  return -1;
}

} // namespace tuned

/// The position of the row that a launch of these sizes takes, or -1.
inline int32_t chooseTuned(const std::vector<TunedPoint> &rows, const std::vector<int64_t> &sizes) {
  int32_t nearest = -1;
  double least = kNear;
  for (size_t i = 0; i < rows.size(); ++i)
    if (const double far = tuned::distance(rows[i].sizes, sizes);
        far <= least && (nearest < 0 || far < least)) {
      nearest = int32_t(i);
      least = far;
    }
  for (size_t i = 0; nearest < 0 && i < sizes.size(); ++i)
    nearest = tuned::between(rows, sizes, i);
  return nearest;
}

/// The same by some of the sizes alone: one word a size says whether it counts. Of rows that differ
/// in others only, the one with the largest speaks, as estimates take sizes that may differ among
/// ranks as large.
[[nodiscard]] int32_t chooseTuned(const std::vector<TunedPoint> &rows,
                                  const std::vector<int64_t> &sizes,
                                  const std::vector<bool> &counts);

/// Whether other ranks see what launches do.
[[nodiscard]] bool communicates(const dtile_kernel_desc &desc);

/// What a launch asks about.
struct TunedLaunch {
  const dtile_kernel_desc &desc;
  const char *machine;
  const char *arch;
  int32_t ranks;
  /// Size of a dimension of a parameter.
  int64_t (*size)(const void *arguments, int32_t param, int32_t dim);
  const void *arguments;
};

/// The kernel's row for a launch, or null. Ranks that do not know each other's sizes all take the
/// same row by `agreedOnly`: it leaves other sizes out (dtile_param_desc.agreed).
[[nodiscard]] const dtile_tuned_row *findTuned(const TunedLaunch &launch, bool agreedOnly);

} // namespace dtile::runtime
