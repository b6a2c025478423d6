// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which values choices may have, and the sizes that configurations are compared for.
#pragma once

#include "backend/driver/choose/choose.h"

namespace dtile::driver {

/// Values worth trying of each choice, in the order of `choices`.
[[nodiscard]] std::vector<std::vector<int64_t>> valuesOf(llvm::ArrayRef<sema::Choice> choices);

/// All configurations where they are at most `most`, else as many by a fixed seed.
[[nodiscard]] std::vector<Constants> combinations(llvm::ArrayRef<sema::Choice> choices,
                                                  llvm::ArrayRef<std::vector<int64_t>> values,
                                                  size_t most);

/// Sizes of a launch and its number of ranks.
struct SampleSizes {
  std::vector<int64_t> sizes;
  int64_t ranks = 1;
};

/// Launches of all kinds, by a fixed seed: the first size is log-uniform from 1 to 16384, others
/// are mostly multiples of 16 from 256 to 24576.
[[nodiscard]] std::vector<SampleSizes> sampleSizes(size_t dimensions, bool hasRanks, size_t count);

/// Positions of the configurations, at most `most`, with which the times of samples are near the
/// best: each in turn is the one that lowers the mean logarithm of time over best time the most.
/// `times[c][s]`; infinite where configuration c cannot run sample s.
[[nodiscard]] std::vector<size_t> cover(llvm::ArrayRef<std::vector<double>> times, size_t most);

} // namespace dtile::driver
