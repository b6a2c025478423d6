// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernels that `dtilec calibrate` times, embedded when dtilec is built.
#pragma once

#include "backend/driver/embedded_file.h"

namespace dtile::driver {

/// kernels.dtile, alone.
[[nodiscard]] llvm::ArrayRef<EmbeddedFile> calibrateKernels();

} // namespace dtile::driver
