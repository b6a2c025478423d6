// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to backend/gpu: the producer warp of a warp-specialized space. It claims bodies and loads
// operands into the ring.
#pragma once

#include "backend/gpu/staged/warp_role.h"

namespace dtile::backend::gpu {

/// Loads operands into the ring: boxes by TMA, where it can read their tensors (the copy warps load
/// the others), and a few scalars by cp.async.
class LoadWarp : public HelperWarp {
public:
  LoadWarp(GpuModule &module, const KernelScaffold &kernel, const Ring &ring);
  void lowerBodies(ir::Op &space, const BodyRange &range) override;

protected:
  [[nodiscard]] std::optional<dtile_device_recorder> recorder() const override {
    return DTILE_RECORD_LOADS;
  }
  llvm::Value *nextBody(const BodyRange &range) override;
  void lowerOp(ir::Op &op) override;

private:
  void load(ir::Op &load);
  void loadTile(ir::Op &load, llvm::Value *slot, llvm::Value *full);
  /// Whether the folded tiles of an iteration are asked for before the warp waits for the stage:
  /// they need units, not the stage. So it must be known there where they are.
  [[nodiscard]] bool foldedComeFirst(llvm::ArrayRef<ir::Op *> loads);
  void loadIfFolded(const ir::Op &load);
  /// The units of a tile that comes by folded maps.
  void loadFolded(const StagedTile &tile);
  /// A tile of scales, by cp.async of the warp's threads: in 16-byte words, or element by element.
  void loadScalars(ir::Op &load, llvm::Value *slot);
  void loadScalarWords(ir::Op &load, llvm::Value *from, llvm::Value *count, llvm::Value *slot);
  void loadScalarElements(ir::Op &load, const View &from, llvm::Value *slot);
  /// From one of the tile's sources, by TMA.
  void loadBoxes(const StagedTile &tile, const ir::TensorBox &box, llvm::Value *slot,
                 llvm::Value *full);
  /// The same of half of the rows, for both programs of a pair.
  void multicastBoxes(const StagedTile &tile, const ir::TensorBox &box, llvm::Value *slot,
                      llvm::Value *full);
  /// Emits `issue` for each box of the tile, from its row `first` (i32) on: the address in shared
  /// memory, and the coordinates.
  void eachBox(const StagedTile &tile, const ir::TensorBox &box, llvm::Value *slot,
               llvm::Value *first,
               llvm::function_ref<void(llvm::Value *, llvm::ArrayRef<llvm::Value *>)> issue);
  /// i64: address of the map of a box of so many rows.
  [[nodiscard]] llvm::Value *tensorMap(const StagedTile &tile, const ir::TensorBox &box,
                                       int64_t rows);
  void claimNext(ir::Op &loop);
  /// Reads a number, and passes it to the other roles.
  void passNumber(ir::Op &load);
  void storeNext();

  const BodyRange *range_ = nullptr;
  /// i1: this thread issues the loads of the current slot.
  llvm::Value *copies_ = nullptr;
  /// i64: addresses of the tensor maps of the tiles' boxes.
  /// By box; of whole tiles, and of halves of what two programs share.
  llvm::DenseMap<const ir::TensorBox *, llvm::Value *> maps_, halfMaps_;
  /// i32, by loop: bytes that TMA loads in an iteration, of tiles as they are multiplied and of
  /// those that copy warps transpose first.
  struct LoadedBytes {
    llvm::Value *ready = nullptr, *transposed = nullptr;
  };
  llvm::DenseMap<const ir::Op *, LoadedBytes> bytes_;
  /// i64 and i1: the number of the next body, and whether it has been claimed.
  llvm::AllocaInst *next_;
  llvm::AllocaInst *hasNext_;
};

} // namespace dtile::backend::gpu
