// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How the programs of a launch are shared among the spaces of a kernel, as data.
#pragma once

#include "ir/core/ir.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace dtile::model {

/// Sizes and scalars of a launch: values that are given numbers.
using KnownSizes = std::vector<std::pair<ir::Value *, int64_t>>;

/// For all ranks alike.
struct ProgramShares {
  /// Programs [first[s], first[s + 1]) are those of space s.
  std::vector<int32_t> first;
  /// Whether programs of earlier spaces run bodies of this one when they are done with theirs.
  std::vector<bool> shares;
  /// Programs on one processor, and on all.
  int64_t together = 1, running = 1;
  /// Nanoseconds of the launch beside its bodies.
  double overhead = 0;
};

} // namespace dtile::model
