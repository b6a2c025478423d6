// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to backend/gpu: the warps that gather rows which index tiles select, by cp.async.
#pragma once

#include "backend/gpu/staged/warp_role.h"

namespace dtile::backend::gpu {

/// The warps that fetch rows which index tiles pick: each walks by itself, and has its share of the
/// rows.
class GatherWarps : public HelperWarp {
public:
  GatherWarps(GpuModule &module, const KernelScaffold &kernel, const Ring &ring);
  void lowerBodies(ir::Op &space, const BodyRange &range) override;

  static constexpr unsigned kFirstWarp = kFirstSpareWarp, kWarps = kSpareWarps;
  static constexpr unsigned kThreads = kWarps * WarpOps::kWarpThreads;

protected:
  void lowerOp(ir::Op &op) override;

private:
  struct Share;
  /// Before a loop: where each of the warp's rows is, which the lanes find out row by row, and keep
  /// in shared memory.
  void findRows(ir::Op &gather);
  /// In shared memory, i32: bytes from the tensor's first row to that which is picked for one.
  [[nodiscard]] llvm::Value *gatheredRow(ir::Op &gather, llvm::Value *row);
  /// An iteration's rows, with its slot.
  void gather(ir::Op &gather);
  void copyRows(ir::Op &gather, llvm::Value *slot);
  /// What the elements of a tile follow from (ir/analysis/row_gathers.h).
  void needElements(ir::Value *tile);

  llvm::DenseSet<const ir::Value *> elementsOf_;
  /// i32: the number of this thread among those of these warps, and in its warp.
  llvm::Value *lane_ = nullptr, *inWarp_ = nullptr;
};

} // namespace dtile::backend::gpu
