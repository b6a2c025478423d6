// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to ir/schedule: what runs beside staged products.
#pragma once

#include "ir/core/ir.h"

namespace dtile::passes {

/// Spaces without staged products of kernels that have some (stage-loads): their threads are few,
/// with a fixed share of the registers.
[[nodiscard]] inline llvm::SmallVector<ir::Op *, 4> spacesBesideProducts(ir::Module &module) {
  llvm::SmallVector<ir::Op *, 4> spaces;
  for (ir::Op &kernel : module.body().ops()) {
    if (!kernel.is(ir::OpKind::Kernel) || !kernel.has(ir::attr::threads))
      continue;
    for (ir::Op &op : kernel.body().ops())
      if (op.is(ir::OpKind::Space) && !op.has(ir::attr::warpgroups))
        spaces.push_back(&op);
  }
  return spaces;
}

} // namespace dtile::passes
