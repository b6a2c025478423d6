// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to ir/simulate: a launch as it was read, and its simulation on some of its ranks.
#pragma once

#include "ir/simulate/state.h"
#include "ir/simulate/symmetry.h"

namespace dtile::simulate {

/// A space and how its bodies follow each other.
struct PlannedSpace {
  SpaceSteps steps;
  std::vector<SignalShape> signals;
  ir::TileOrder order;
  /// The space whose bodies must have ended; -1: none.
  int32_t after = -1;
  /// With what does not depend on the rank.
  std::vector<Word> launchWords;

  /// The same with what depends on the rank alone.
  [[nodiscard]] std::vector<Word> wordsOf(int64_t rank) const {
    std::vector<Word> words = launchWords;
    words[size_t(steps.arithmetic.rank())].integer = rank;
    steps.arithmetic.run(model::kRankLevel, words.data());
    return words;
  }
};

struct Plan {
  SourceLoc kernelLoc;
  Cluster cluster;
  ProgramShares shares;
  std::vector<PlannedSpace> spaces;
  /// Some wait is for a count of its own.
  bool hasCounts = false;
  /// Ranks meet before bodies start.
  bool meets = false;
};

/// Blocks of each dimension.
[[nodiscard]] llvm::SmallVector<int64_t, 4> blocksOf(const PlannedSpace &space,
                                                     const std::vector<Word> &words);

/// Why a simulation has no end.
struct Failure {
  SourceLoc loc;
  std::string why;
};

/// What ranks must have in common to stand for each other.
enum class Likeness : uint8_t {
  /// All that a launch's time follows from.
  Full,
  /// They may wait for what comes from others in other orders.
  ButForWaits,
};

/// Simulates the ranks that stand for all.
[[nodiscard]] std::variant<Outcome, Failure> simulate(const Plan &plan, const Symmetry &symmetry,
                                                      Likeness likeness, const Options &options);

} // namespace dtile::simulate
