// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Findings as diagnostics, with a counterexample in terms of ranks, positions and sizes. Private to
// ir/protocol.
#pragma once

#include "frontend/base/diagnostics.h"
#include "ir/interpret/interpreter.h"
#include "ir/protocol/check/check_protocol.h"
#include "ir/protocol/check/launch_sizes.h"
#include "ir/protocol/check/race_detector.h"

namespace dtile::protocol {

/// The run in which something was found.
struct Case {
  ir::Op &kernel;
  int ranks;
  const std::vector<SizeSymbol> &symbols;
  const SizeValues &values;
  const CheckOptions *options = nullptr;
  /// What was found shows in this launch first.
  int64_t launch = 0;

  [[nodiscard]] std::string name() const { return kernel.get(ir::attr::name).str(); }
  /// "W = 2, S = 129, K = 1"; of a later launch than the first, "W = 2, S = 129, launch 3".
  [[nodiscard]] std::string text() const;
};

void reportFinding(Diagnostics &diagnostics, const Case &at, const Finding &finding);
void reportLeftOut(Diagnostics &diagnostics, const Case &at, const LeftOut &part);
void reportUnheard(Diagnostics &diagnostics, const Case &at, const Unheard &cell);
/// All bodies that a deadlock has left, as one error.
void reportDeadlock(Diagnostics &diagnostics, const Case &at, const std::vector<Finding> &stuck);
/// What is assumed in a body is not so.
void reportFalseAssumption(Diagnostics &diagnostics, const Case &at,
                           const interpret::RunError &error);
/// A rank, a cell or a size out of range, or a count that does not come out.
void reportTrap(Diagnostics &diagnostics, const Case &at, const interpret::RunError &error);

/// A loop that does not end.
void reportEndless(Diagnostics &diagnostics, const Case &at, const interpret::RunError &error);

} // namespace dtile::protocol
