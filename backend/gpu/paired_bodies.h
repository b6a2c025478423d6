// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to backend/gpu: launches whose clusters of two programs share the loads of an operand
// (pass multicast-operands).
#pragma once

#include "backend/launch/frame.h"

namespace dtile::backend::gpu {

/// Whether programs of a cluster may share loads of a space's bodies.
[[nodiscard]] bool mayPairBodies(ir::Op &space);

/// Emits `i64 loading(frame)` of a kernel with tensor maps: a dtile_loading (kernel_abi.h).
[[nodiscard]] llvm::Function *lowerByTma(launch::LaunchModule &module, const launch::Frame &frame,
                                         llvm::StringRef name);

/// Emits `i64 paired(frame)`: the number of bodies of such a launch, those that fill up pairs among
/// them; 0 where no two bodies have a tile in common.
[[nodiscard]] llvm::Function *lowerPairedCount(launch::LaunchModule &module,
                                               const launch::Frame &frame, ir::Op &space,
                                               llvm::StringRef name);

} // namespace dtile::backend::gpu
