// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A picture of what the roles of kernels read and write.
#pragma once

#include "backend/driver/session.h"

namespace dtile::driver {

/// Writes an SVG of the chosen kernels of a program: roles, tensors, the regions that go between
/// them, and what is waited for.
void drawRegions(Session &session, llvm::StringRef path, llvm::StringRef svg);

} // namespace dtile::driver
