// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to backend/gpu: how long bodies take, for backend/runtime/device/device_programs.h.
#pragma once

#include "backend/launch/frame.h"
#include "ir/machine/target_facts.h"

namespace dtile::backend::gpu {

/// Emits `i64 weight(frame, body)`: the nanoseconds that a body of a space is estimated to take on
/// a program, from the sizes of the launch and the body's position. What a body moves comes while
/// it computes, within a round of a loop. What only the device will know is guessed: a loop has 32
/// rounds, a dimension of a view 1024 elements. The frame's places must be known.
[[nodiscard]] llvm::Function *lowerCost(launch::LaunchModule &module, const launch::Frame &frame,
                                        ir::Op &space, const TargetFacts &machine,
                                        llvm::StringRef name);

/// Whether an op is arithmetic on tiles.
[[nodiscard]] bool computes(const ir::Op &op);
/// Whether a put or get is one of memory, large enough for the engine that copies.
[[nodiscard]] bool isBulkCopy(const ir::Op &op, const TargetFacts &machine);

} // namespace dtile::backend::gpu
