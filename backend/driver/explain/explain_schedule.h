// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the scheduler decided for a program, as a table.
#pragma once

#include "backend/driver/session.h"

namespace dtile::driver {

/// Prints, for each space of each kernel of the file, its order, grouping and rotation, then the
/// remarks of the passes.
void explainSchedule(Session &session, llvm::StringRef path);

} // namespace dtile::driver
