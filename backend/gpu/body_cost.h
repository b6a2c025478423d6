// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to backend/gpu: how long bodies take, as code for the host that a launch calls.
#pragma once

#include "backend/launch/frame.h"
#include "ir/machine/target_facts.h"

namespace dtile::backend::gpu {

/// Emits `i64 weight(frame, body, together, running)`: the nanoseconds that a body of a space is
/// estimated to take (ir/model/body_time.h), from the sizes of the launch and the body's position.
/// What only the device will know is guessed: a loop has 32 rounds, a dimension of a view 1024
/// elements. The frame's places must be known.
[[nodiscard]] llvm::Function *lowerCost(launch::LaunchModule &module, const launch::Frame &frame,
                                        ir::Op &space, const TargetFacts &machine,
                                        llvm::StringRef name);

/// The same of bodies whose programs share loads in pairs (pass multicast-operands).
[[nodiscard]] llvm::Function *lowerPairedCost(launch::LaunchModule &module,
                                              const launch::Frame &frame, ir::Op &space,
                                              const TargetFacts &machine, llvm::StringRef name);

/// Emits `i64 latency(frame, body, together, running)`: the nanoseconds that such a body waits
/// beside that. For memory once, and before each copy; for what it has sent to land, before each
/// notify; for a signal that is there to be read.
[[nodiscard]] llvm::Function *lowerLatency(launch::LaunchModule &module, const launch::Frame &frame,
                                           ir::Op &space, const TargetFacts &machine,
                                           llvm::StringRef name);

/// Emits `i64 shared(frame, body, together, running)`: of the weight, what the programs of a
/// cluster share (pass split-sums).
[[nodiscard]] llvm::Function *lowerSharedCost(launch::LaunchModule &module,
                                              const launch::Frame &frame, ir::Op &space,
                                              const TargetFacts &machine, llvm::StringRef name);

/// Emits `i64 bytes(frame, body, together, running)`: what such a body moves between this device
/// and others.
[[nodiscard]] llvm::Function *lowerRemoteBytes(launch::LaunchModule &module,
                                               const launch::Frame &frame, ir::Op &space,
                                               const TargetFacts &machine, llvm::StringRef name);

} // namespace dtile::backend::gpu
