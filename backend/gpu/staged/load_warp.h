// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to backend/gpu: the producer warp of a warp-specialized space. It claims bodies and loads
// operands into the ring.
#pragma once

#include "backend/gpu/staged/warp_role.h"

namespace dtile::backend::gpu {

/// Loads operands into the ring: boxes by TMA, a few scalars by cp.async.
class LoadWarp : public HelperWarp {
public:
  /// `byThreads`: the warp's threads copy elements, for tensors that TMA cannot describe.
  LoadWarp(GpuModule &module, const KernelScaffold &kernel, const Ring &ring, bool byThreads);
  void lowerBodies(ir::Op &space, const BodyRange &range) override;

protected:
  llvm::Value *nextBody(const BodyRange &range) override;
  void lowerOp(ir::Op &op) override;

private:
  void load(ir::Op &load);
  void loadTile(ir::Op &load, llvm::Value *slot, llvm::Value *full);
  /// A tile of scales, by cp.async of the warp's threads: in 16-byte words, or element by element.
  void loadScalars(ir::Op &load, llvm::Value *slot);
  void loadScalarWords(ir::Op &load, llvm::Value *from, llvm::Value *count, llvm::Value *slot);
  void loadScalarElements(ir::Op &load, const View &from, llvm::Value *slot);
  /// From one of the tile's sources, by TMA.
  void loadBoxes(const StagedTile &tile, const ir::TensorBox &box, llvm::Value *slot,
                 llvm::Value *full);
  [[nodiscard]] llvm::Value *tensorMap(const StagedTile &tile, const ir::TensorBox &box);
  /// The whole tile by the threads of the warp; zeros outside of the tensor.
  void copyByThreads(ir::Op &load, llvm::Value *slot);
  /// Publishes what the threads have copied to the consumers.
  void publish(llvm::Value *full);
  void claimNext(ir::Op &loop);
  void storeNext();

  const BodyRange *range_ = nullptr;
  bool byThreads_;
  /// i1: this thread issues the loads of the current slot.
  llvm::Value *copies_ = nullptr;
  /// i64: addresses of the tensor maps of the tiles' boxes.
  llvm::DenseMap<const ir::TensorBox *, llvm::Value *> maps_;
  /// i64 and i1: the number of the next body, and whether it has been claimed.
  llvm::AllocaInst *next_;
  llvm::AllocaInst *hasNext_;
};

} // namespace dtile::backend::gpu
