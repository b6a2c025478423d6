// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `--deterministic`: two runs on one executor and machine give the same bits.
#pragma once

#include "backend/driver/session.h"
#include "ir/core/ir.h"

namespace dtile::driver {

/// Reports each operation whose result depends on who comes first: atomic sums of floats, and old
/// values of atomics that somebody uses. False after reporting.
bool checkDeterminism(Session &session, ir::Module &module);

} // namespace dtile::driver
