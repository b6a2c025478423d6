// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to backend/nvptx.
#pragma once

#include "backend/gpu/staging_ops.h"

namespace dtile::backend::nvptx {

/// Instructions of sm_90a.
[[nodiscard]] const gpu::StagingOps &hopperOps();

} // namespace dtile::backend::nvptx
