// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to backend/gpu: the roles of warps in a warp-specialized space. Each role lowers its
// share of the bodies, and keeps its own position in the rings (lower_staged.cpp draws their
// barriers).
#pragma once

#include "backend/gpu/bulk_copies.h"
#include "backend/gpu/divided_bodies.h"
#include "backend/gpu/staged/ring.h"
#include "backend/gpu/warp_ops.h"

#include "llvm/ADT/DenseSet.h"

namespace dtile::backend::gpu {

/// The program's named barrier of the threads that run bodies, where these are not all.
inline constexpr unsigned kBodyBarrier = 1;
/// That of all threads where a space begins. (At barrier 0 the load warp, which may not wait there,
/// could come by twice before others do once.)
inline constexpr unsigned kStartBarrier = 3;

/// Of the helper warpgroup, those that neither load by TMA nor store: copy warps or gather warps.
inline constexpr unsigned kFirstSpareWarp = 2, kSpareWarps = 2;

/// What all roles share.
class WarpRole : public BodyLowering {
public:
  WarpRole(GpuModule &module, const KernelScaffold &kernel, const Ring &ring, llvm::StringRef who);

protected:
  /// Of a loop that programs share, this one's part of the iterations.
  std::pair<llvm::Value *, llvm::Value *> loopBounds(ir::Op &op) override;
  /// i64: where this program's part of the positions from `first` to `end` begins and ends.
  [[nodiscard]] std::pair<llvm::Value *, llvm::Value *> partOf(llvm::Value *first, llvm::Value *end,
                                                               llvm::Value *step);
  /// Emits the loop of a program over its bodies and parts of bodies (divided_bodies.h).
  void forEachItem(ir::Op &space, const BodyRange &range, llvm::function_ref<void()> body);
  /// i64: where this program's part of a loop begins and ends; used in the loop and after it.
  [[nodiscard]] llvm::Value *loopBegin(ir::Op &loop);
  [[nodiscard]] llvm::Value *loopEnd(ir::Op &loop);
  /// Before bodies: which part of shared loops this program has, and of shared loads.
  void setParts(const BodyRange &range) {
    parts_ = range.parts;
    part_ = range.part;
    exchanged_.begin(0);
    paired_ = range.paired;
    half_ = range.half;
  }
  /// Spins until a phase of a barrier is over.
  void waitPhase(llvm::Value *barrier, llvm::Value *phase);
  /// i32: the phase of `Ring::reusable` that ends the last exchange; before the first one, the
  /// phase before the first, which counts as over.
  [[nodiscard]] llvm::Value *lastExchange() {
    return b.CreateXor(exchanged_.phase(), b.getInt32(1));
  }
  /// i32 address in a slot.
  [[nodiscard]] llvm::Value *address(llvm::Value *slot, int64_t offset);
  [[nodiscard]] llvm::Value *shared(llvm::Value *address);
  /// i64: the body's number in the current slot of the ring of bodies, which the load warp wrote;
  /// arrives at the slot's `empty` barrier.
  [[nodiscard]] llvm::Value *readBodyNumber();
  /// Address of the current body's number.
  [[nodiscard]] llvm::Value *bodyNumber();
  /// Takes the number that the load warp has passed for a load; `full` is over. Arrives at the
  /// slot's `empty` barrier.
  void takeNumber(ir::Op &load);
  /// Address of a slot of the ring of numbers.
  [[nodiscard]] llvm::Value *passedNumber(llvm::Value *slot);
  const Ring &ring_;
  const WarpOps &warp_;
  const BulkCopies &bulk_;
  /// Runs what follows where the programs of a cluster share loops (none where they cannot).
  void whenInCluster(llvm::function_ref<void()> body) {
    if (parts_)
      when(b.CreateICmpNE(parts_, b.getInt32(1)), "in.cluster", body);
  }
  /// Runs what only one program does: the one that continues after a loop that programs share.
  void whenGoesOn(llvm::function_ref<void()> body);
  RingPosition place_, body_, number_, output_, prefetched_;
  /// The exchanges of sums that are over.
  RingPosition exchanged_;
  /// i32, as BodyRange has them.
  llvm::Value *parts_ = nullptr, *part_ = nullptr, *paired_ = nullptr, *half_ = nullptr;
  /// The body, or the part of one, that is being emitted, where bodies may be divided.
  std::optional<DividedBodies::Item> item_;

private:
  llvm::DenseMap<const ir::Op *, std::pair<llvm::Value *, llvm::Value *>> bounds_;
};

/// A role without tiles: it lowers only those ops of the bodies that its own ops depend on. It
/// takes part in no barrier of the consumers: each of its threads waits by itself. A proxy fence
/// after each wait lets TMA see what the notifies published.
class HelperWarp : public WarpRole {
public:
  HelperWarp(GpuModule &module, const KernelScaffold &kernel, const Ring &ring,
             llvm::StringRef who);

protected:
  [[nodiscard]] bool pollsInPlace() const override { return true; }
  /// Only the warps that load by TMA and that store record anything.
  [[nodiscard]] std::optional<dtile_device_recorder> recorder() const override {
    return std::nullopt;
  }
  [[nodiscard]] llvm::Value *isRecording() override;
  void need(ir::Op &op);
  void needValue(ir::Value *value);
  /// What another role reads: this one needs nothing to know it.
  void needPassed(ir::Op &load);
  /// Reads such a number from memory.
  void readNumber(ir::Op &load) { WarpRole::lowerOp(load); }
  [[nodiscard]] bool isNeeded(const ir::Op &op) const { return needed_.contains(&op); }
  /// Spins until other roles have completed a phase. If the launch has failed they may have exited:
  /// then this thread exits, too, after a time that suffices for roles that still run. (Consumers
  /// never exit early: ptxas serializes wgmma beside exits.)
  void waitOrLeave(llvm::Value *barrier, llvm::Value *phase);
  /// Before a body's first load into the ring: the last body's sums were exchanged there.
  void awaitExchange();
  /// i1: a wait or check of this thread has failed.
  [[nodiscard]] llvm::Value *hasFailed();
  /// Reports, and goes on: consumers wait for this role's barriers.
  void fail(int32_t site, llvm::ArrayRef<llvm::Value *> arguments) override;
  llvm::SmallVector<llvm::Type *, 4> partTypes(ir::Type type) override;
  /// The number that the load warp has claimed.
  llvm::Value *nextBody(const BodyRange &range) override;
  void lowerOp(ir::Op &op) override;

  /// Where a tile begins in the folded matrix of its tensor (launch/frame.h).
  struct FoldedPlace {
    /// i64: its first row, of the object; i32: its first column, from the matrix's begin on.
    llvm::Value *row, *column;
    /// i32: elements from a row to the next one, and rows that the last map alone has.
    llvm::Value *pitch, *rest;
    /// i64: addresses of the map of whole rows of the matrix, and of that which has its last row.
    llvm::Value *firstMap, *lastMap;
  };
  /// Reads what the frame says of the folded maps of a space, once for all bodies.
  void findFolded(ir::Op &space);
  [[nodiscard]] FoldedPlace foldedPlace(const StagedTile &tile);
  /// i32: the address of the current unit.
  [[nodiscard]] llvm::Value *unitAddress();

  /// This role's place in the ring of units.
  RingPosition unit_;
  /// i1, of this thread.
  llvm::AllocaInst *failed_;

private:
  /// `row` and `column` are where the object begins, and rows from a position of each dimension to
  /// the next one are known.
  struct FoldedTensor {
    FoldedPlace begin;
    llvm::SmallVector<llvm::Value *, 4> rowsApart;
  };
  [[nodiscard]] FoldedTensor foldedTensor(const StagedTile &tile, const ir::TensorBox &box);
  [[nodiscard]] FoldedPlace placeOfBox(const StagedTile &tile, const ir::TensorBox &box);

  llvm::DenseMap<const ir::TensorBox *, FoldedTensor> folded_;
  llvm::DenseSet<const ir::Op *> needed_;
};

} // namespace dtile::backend::gpu
