// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which of several kernels of one name runs by what is estimated of them.
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

namespace dtile::runtime {

/// How many times as fast as an earlier alternative a later one must be estimated to be: the model
/// does not tell less.
inline constexpr double kAdvantage = 1.15;

/// The position of the fastest; of those that the model cannot tell apart, the first. A time is
/// infinite where an alternative cannot run.
inline size_t fastestAlternative(const std::vector<double> &times) {
  size_t fastest = 0;
  double least = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < times.size(); ++i)
    if (times[i] * kAdvantage < least) {
      least = times[i];
      fastest = i;
    }
  return fastest;
}

} // namespace dtile::runtime
