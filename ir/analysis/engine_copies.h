// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which spaces a copy engine can send for: those whose bodies only put regions of inputs to other
// ranks and notify, so that the host can list all of it before the launch.
#pragma once

#include "ir/core/ir.h"

#include <optional>
#include <string>

namespace dtile::ir {

/// Why a copy engine cannot send for a space, and the op that says so.
struct EngineRefusal {
  const Op *op = nullptr;
  std::string reason;
};

/// Nothing where a copy engine can. Expects derived counts: a copy engine writes to a cell how many
/// launches the signal has had, so each cell that is notified at another rank must get exactly one
/// notify in each launch, or none in any.
[[nodiscard]] std::optional<EngineRefusal> whyNoCopyEngine(Op &space);

/// The signals that bodies of the space notify at other ranks, in the order of the parameters.
[[nodiscard]] llvm::SmallVector<Op *, 4> signalsOfEngine(Op &space);

/// Whether a kernel has spaces for which a copy engine sends (attribute `engine_copies`).
[[nodiscard]] bool usesCopyEngine(const Op &kernel);

} // namespace dtile::ir
