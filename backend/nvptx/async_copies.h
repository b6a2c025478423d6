// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// cp.async, of sm_80 and what came after it.
#pragma once

#include "backend/gpu/async_copies.h"

namespace dtile::backend::nvptx {

[[nodiscard]] const gpu::AsyncCopies &ampereCopies();

} // namespace dtile::backend::nvptx
