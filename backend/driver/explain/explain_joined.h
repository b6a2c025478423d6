// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Prints kernels as text that compiles to the same thing.
#pragma once

#include "backend/driver/session.h"

namespace dtile::driver {

/// The kernels of a program, or the one that `--kernel` names, with the imports, constants and
/// functions that they need.
void explainJoined(Session &session, llvm::StringRef path);

} // namespace dtile::driver
