// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `dtilec explain FILE --simulate`: what a launch on many ranks would take.
#pragma once

#include "backend/driver/session.h"

namespace dtile::driver {

/// Prints the simulation that the command line asks for, and writes its traces.
void explainSimulation(Session &session, llvm::StringRef path);

} // namespace dtile::driver
