// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to backend/gpu: what a copy engine is to do, as code for the host that a launch calls.
#pragma once

#include "backend/launch/frame.h"

namespace dtile::backend::gpu {

/// Emits `void list(launch, frame, body)`: what a body of a space with `engine_copies` puts and
/// notifies, as calls of the runtime (dtile_rt_engine_*). The frame's places must be known.
[[nodiscard]] llvm::Function *lowerEngineCopies(launch::LaunchModule &module,
                                                const launch::Frame &frame, ir::Op &space,
                                                llvm::StringRef name);

} // namespace dtile::backend::gpu
