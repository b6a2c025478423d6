// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `--deterministic`: two runs on one executor and machine give the same bits.
// `--batch-invariant`: a row's bits do not depend on the other rows of a launch.
#pragma once

#include "backend/driver/session.h"
#include "ir/core/ir.h"

namespace dtile::driver {

/// Reports each operation whose result depends on who comes first: atomic sums of floats, and old
/// values of atomics that somebody uses. False after reporting.
bool checkDeterminism(Session &session, ir::Module &module);

/// Whether two runs of a kernel may have results that differ by more than rounding.
[[nodiscard]] bool dependsOnWhoComesFirst(ir::Op &kernel);

/// Reports each atomic sum of floats: how many others come, and when, depends on the other rows.
/// False after reporting. That sums have one order otherwise is settled where variants are chosen.
bool checkBatchInvariance(Session &session, ir::Module &module);

} // namespace dtile::driver
