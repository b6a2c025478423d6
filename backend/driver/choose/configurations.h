// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which values choices may have, and the sizes that configurations are compared for.
#pragma once

#include "backend/driver/choose/choose.h"
#include "backend/driver/choose/size_ranges.h"

namespace dtile::driver {

/// Values worth trying of each choice, in the order of `choices`.
[[nodiscard]] std::vector<std::vector<int64_t>> valuesOf(llvm::ArrayRef<sema::Choice> choices);

/// The same with all multiples of 16 for blocks of products.
[[nodiscard]] std::vector<std::vector<int64_t>>
finerValuesOf(llvm::ArrayRef<sema::Choice> choices, llvm::ArrayRef<std::vector<int64_t>> values);

/// All configurations where they are at most `most`, else as many by a fixed seed.
[[nodiscard]] std::vector<Constants> combinations(llvm::ArrayRef<sema::Choice> choices,
                                                  llvm::ArrayRef<std::vector<int64_t>> values,
                                                  size_t most);

/// Sizes of a launch and its number of ranks.
struct SampleSizes {
  std::vector<int64_t> sizes;
  int64_t ranks = 1;
  /// The sizes, those of which nothing is known no multiples of a word of 16 bytes, which TMA needs
  /// rows to be.
  std::vector<int64_t> odd;
};

/// What is known of launches before they are drawn: of each size, in order, and of the number of
/// ranks; nothing for any.
struct KnownSizes {
  std::vector<std::optional<SizeRange>> sizes;
  std::optional<SizeRange> ranks;
};

/// What a size of a launch is one of.
enum class SizeUse : uint8_t {
  /// Of a list: from a message of a few bytes to all gradients of a model.
  List,
  /// Rows: tokens, of which there may be any number up to 16384.
  Rows,
  /// Hidden sizes and the like: mostly multiples of 16 from 256 to 24576.
  Model,
  /// Sequences, heads: mostly up to 64.
  Count,
  /// Queries or keys of a sequence: mostly 128 to 131072.
  Length,
};

/// Launches of all kinds, by a fixed seed; sizes are log-uniform. Of `known`, each in turn.
[[nodiscard]] std::vector<SampleSizes> sampleSizes(llvm::ArrayRef<SizeUse> uses, bool hasRanks,
                                                   size_t count,
                                                   llvm::ArrayRef<KnownSizes> known = {});

/// Positions of the configurations, at most `most`, with which the times of samples are near the
/// best: each in turn is the one that lowers the mean logarithm of time over best time the most.
/// `times[c][s]`; infinite where configuration c cannot run sample s. Gains below `leastGain` are
/// within what the model does not know.
[[nodiscard]] std::vector<size_t> cover(llvm::ArrayRef<std::vector<double>> times, size_t most,
                                        double leastGain = 0.002);

/// The mean logarithm of the times with some configurations, of `rows`, over the best of `all`.
[[nodiscard]] double lossOf(llvm::ArrayRef<std::vector<double>> rows, llvm::ArrayRef<size_t> kept,
                            llvm::ArrayRef<std::vector<double>> all);

} // namespace dtile::driver
