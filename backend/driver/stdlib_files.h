// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The standard library's .dtile files, embedded when dtilec is built (stdlib_files.cpp is
// generated).
#pragma once

#include "backend/driver/embedded_file.h"

namespace dtile::driver {

/// Named by their path below stdlib/, as imports look for them.
[[nodiscard]] llvm::ArrayRef<EmbeddedFile> stdlibFiles();

} // namespace dtile::driver
