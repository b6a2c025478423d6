// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to backend/nvptx: what Hopper (sm_90a) brought. Blackwell (sm_100a) has all of it but
// wgmma.
#pragma once

#include "backend/gpu/bulk_copies.h"
#include "backend/gpu/cluster_ops.h"
#include "backend/gpu/warp_ops.h"
#include "backend/gpu/warpgroup_mma.h"

namespace dtile::backend::nvptx {

[[nodiscard]] const gpu::WarpOps &hopperWarpOps();
[[nodiscard]] const gpu::BulkCopies &tma();
[[nodiscard]] const gpu::ClusterOps &clusters();
[[nodiscard]] const gpu::WarpgroupMma &wgmma();

} // namespace dtile::backend::nvptx
