// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pages of docs/diagnostics, embedded when dtilec is built (diagnostic_pages.cpp is generated).
#pragma once

#include "backend/driver/embedded_file.h"

namespace dtile::driver {

/// One page a code, which is its name.
[[nodiscard]] llvm::ArrayRef<EmbeddedFile> diagnosticPages();

} // namespace dtile::driver
