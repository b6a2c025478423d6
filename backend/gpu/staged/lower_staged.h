// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to backend/gpu: spaces whose loops have staged loads (pass stage-loads). A warpgroup
// after the body's threads issues the copies to shared memory, as many stages ahead as there
// are; the body's warpgroups multiply what has arrived.
#pragma once

#include "backend/gpu/bodies/lower_body.h"

namespace dtile::backend::gpu {

/// Asks the frame for the tensor maps of all staged loads, before the prologue is lowered.
void requestTensorMaps(ir::Op &kernel, launch::Frame &frame);

/// Lowers the bodies of a space of a kernel with staged spaces: a staged one, or one whose bodies
/// leave the warps that copy alone. One without copy warps is lowered twice: without staging too,
/// for tensors that TMA cannot describe (a stride that is no multiple of 16 bytes, say).
[[nodiscard]] std::unique_ptr<BodyLowering>
makeStagedLowering(GpuModule &module, const KernelScaffold &kernel, ir::Op &space);

} // namespace dtile::backend::gpu
