// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `dtilec explain --timeline OUT.svg`: when a launch is predicted to do what.
#pragma once

#include "backend/driver/session.h"

namespace dtile::driver {

/// Draws the launch that `--sizes` names, in the configuration that is predicted to be the fastest,
/// to a file. What is wrong is reported.
void drawTimeline(Session &session, llvm::StringRef path, llvm::StringRef svg);

} // namespace dtile::driver
