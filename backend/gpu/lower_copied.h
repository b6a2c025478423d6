// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to backend/gpu: a loop whose loads the program's threads copy to shared memory some
// iterations ahead (pass copy-ahead).
#pragma once

#include "backend/gpu/async_copies.h"
#include "backend/gpu/lower_body.h"
#include "ir/analysis/loop_positions.h"

namespace dtile::backend::gpu {

/// Whether a load is copied ahead by the loop that it stands in.
[[nodiscard]] bool isCopiedLoad(const ir::Op &op);

/// The slots of one loop that is being lowered.
class CopiedLoop {
public:
  CopiedLoop(BodyLowering &body, ir::Op &loop);

  /// Before the loop: starts the copies of its first iterations.
  void begin();
  /// In the loop's body, before everything else: this iteration's copies have arrived in all
  /// threads; those of a later one are started.
  void beginIteration();
  /// Where a load's tile is in this iteration.
  [[nodiscard]] SharedTile tile(const ir::Op &load) const;

private:
  /// What one load's copies need to know besides where they go.
  struct Source {
    View view;
    DType dtype = DType::F32;
    llvm::Value *base = nullptr;
    /// i32, a dimension: the first position that exists, and how many do.
    llvm::SmallVector<llvm::Value *, 2> low, span;
  };

  [[nodiscard]] SharedTile placeOf(const ir::Op &load) const;
  [[nodiscard]] int64_t overhangOf(const ir::Value *tile, const SharedTile &place) const;
  [[nodiscard]] ir::PositionChain chain() const;
  /// Starts the copies of the iteration at a position, if there is one, to a slot (its offset).
  void start(llvm::Value *position, llvm::Value *slot);
  void copy(ir::Op &load, const SharedTile &to);
  [[nodiscard]] Source source(ir::Op &load);
  /// i1: all runs of `bytes` begin at multiples of that, and are neighbours.
  [[nodiscard]] llvm::Value *isAligned(const Source &from, unsigned bytes);
  /// i32: of a run of elements from a position on, the bytes that exist.
  [[nodiscard]] llvm::Value *validBytes(const Source &from, llvm::Value *row, llvm::Value *column,
                                        unsigned elements);
  void copyWords(const Source &from, const SharedTile &to, llvm::ArrayRef<int64_t> shape);
  void copyNarrow(const Source &from, const SharedTile &to, llvm::ArrayRef<int64_t> shape,
                  unsigned bytes);
  void copyElements(const Source &from, const SharedTile &to, llvm::ArrayRef<int64_t> shape);
  void eachOfThread(int64_t count, llvm::function_ref<void(llvm::Value *number)> body);

  BodyLowering &body_;
  llvm::IRBuilder<> &b;
  ir::Op &loop_;
  const AsyncCopies &copies_;
  int64_t slots_;
  llvm::SmallVector<ir::Op *, 4> loads_;
  /// Without a slot: their offsets in one.
  llvm::SmallDenseMap<const ir::Op *, SharedTile, 4> places_;
  llvm::SmallDenseMap<const ir::Op *, int64_t, 4> offsets_;
  int64_t slotBytes_ = 0;
  llvm::Value *ring_ = nullptr;
  /// i32 offset of this iteration's slot; where the next one's is kept.
  llvm::Value *slot_ = nullptr;
  llvm::Value *nextSlot_ = nullptr;
};

} // namespace dtile::backend::gpu
