// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to backend/gpu: what the number of programs of a space depends on.
#pragma once

#include "backend/runtime/kernel_abi.h"
#include "ir/core/ir.h"
#include "ir/machine/target_facts.h"

namespace dtile::backend::gpu {

/// For the rule of backend/runtime/device/choose/device_programs.h; body_cost.h says how long
/// bodies take.
[[nodiscard]] dtile_device_space spaceFacts(ir::Op &space, const TargetFacts &machine);

/// The number of a space among those of its kernel.
[[nodiscard]] int32_t spaceNumber(const ir::Op &space);

/// Whether programs of earlier spaces may run bodies of this one when they are done with their own:
/// it computes, and no number of programs or order is asked of it. Every program that takes bodies
/// takes the next in order, so there are only more to make progress.
[[nodiscard]] bool sharesBodies(const ir::Op &space);

/// Whether the programs of a cluster may share the loops of a space's bodies (pass split-sums).
[[nodiscard]] bool mayShareLoops(const ir::Op &space);

/// Whether ranks may have to meet before the bodies of a kernel (kernel_abi.h,
/// DTILE_KERNEL_ENTRY_BARRIER).
[[nodiscard]] bool mayMeet(const ir::Op &kernel);

/// Nanoseconds that a launch of the kernel takes besides its bodies.
[[nodiscard]] int32_t launchTime(ir::Op &kernel, const TargetFacts &machine);

/// Whether a space of the kernel has staged loads (pass stage-loads), with warp roles.
[[nodiscard]] bool hasStagedLoads(ir::Op &kernel);

} // namespace dtile::backend::gpu
