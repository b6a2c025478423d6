// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether a `while` ends, whatever memory holds.
#pragma once

#include "ir/core/ir.h"

namespace dtile::ir {

/// Shows that a `while` ends: some side of its condition is a number that each iteration makes
/// smaller by at least one, and that the condition keeps from falling without end. Index arithmetic
/// is taken not to wrap. False where this is not shown; what the loop's body does otherwise (waits,
/// loops of its own) is not asked.
[[nodiscard]] bool isKnownToEnd(Op &loop);

/// What the condition of a `while` is computed from in the loop.
struct LoopState {
  /// The carried values among it, by their number.
  llvm::SmallVector<unsigned, 4> carried;
  /// Nothing among it reads memory or has effects: the same carried values give the same iteration
  /// again.
  bool isPure = true;
};
[[nodiscard]] LoopState stateOf(const Op &loop);

} // namespace dtile::ir
