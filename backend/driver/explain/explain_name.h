// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `dtilec explain dot`, `dtilec explain math.silu`: what a built-in or library name is.
#pragma once

#include "backend/driver/session.h"

namespace dtile::driver {

/// Prints the signature and documentation of built-in functions, test functions and library
/// declarations of this name (`silu`, `math.silu`, or a module, `math`); false where there is none.
bool explainName(Session &session, llvm::StringRef name);

} // namespace dtile::driver
