// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to backend/gpu: the consumer warpgroups of a warp-specialized space.
#pragma once

#include "backend/gpu/staged/warp_role.h"
#include "backend/gpu/warpgroup_mma.h"

namespace dtile::backend::gpu {

/// Multiplies, and lowers everything of the bodies that no helper warp does.
class MmaWarpgroups : public WarpRole {
public:
  MmaWarpgroups(GpuModule &module, const KernelScaffold &kernel, const Ring &ring)
      : WarpRole(module, kernel, ring, "dot"), mma_(*module.device.warpgroupMma()) {}
  void lowerBodies(ir::Op &space, const BodyRange &range) override;

protected:
  void lowerOp(ir::Op &op) override;
  void fail(int32_t site, llvm::ArrayRef<llvm::Value *> arguments) override;
  llvm::Value *nextBody(const BodyRange &range) override;
  /// ptxas serializes products where another warp of theirs might call a function.
  [[nodiscard]] bool pollsInPlace() const override { return true; }
  [[nodiscard]] bool stagesOperands() const override { return false; }

private:
  [[nodiscard]] static bool isForHelpers(const ir::Op &op);
  void awaitCells(ir::Op &op);
  void pollForAll(ir::Op &op);
  /// Whether an op is not done where something has failed; loops as a whole.
  [[nodiscard]] bool isLeftOut(ir::Op &op) const;
  [[nodiscard]] static const ir::Op *loadOf(const ir::Value *tile);
  struct Product;
  using Fragment = llvm::SmallVector<llvm::Value *, 4>;
  void lowerLoop(ir::Op &loop);
  /// Puts a tile where products read it, if they do.
  void storeResident(ir::Value *tile);
  /// Whether the instruction's sums are short (GroupProduct).
  [[nodiscard]] bool needsPromotion(const ir::Op &dot);
  [[nodiscard]] Product productOf(ir::Op &dot);
  void multiply(ir::Op &dot);
  /// Before the first op of an iteration that looks at its slot.
  void awaitSlot(const ir::Op &op);
  /// Before a product looks at its operands: writes zeros to what they hold past the limits of
  /// their views.
  [[nodiscard]] static llvm::SmallVector<const ir::Op *, 2> newOperands(const ir::Op &dot);
  void zeroPastLimits(llvm::ArrayRef<const ir::Op *> loads);
  /// i64: positions from a tile's first to its view's limit along a dimension.
  [[nodiscard]] llvm::Value *room(const StagedTile &tile, unsigned dim);
  /// Of a tile that begins at `begin` (i32, in shared memory). `rooms`: of rows and of columns;
  /// null where there is no limit.
  void zeroPast(const BoxedTile &tile, llvm::Value *begin, llvm::ArrayRef<llvm::Value *> rooms);
  /// Reads what has been fetched.
  void readScalars(ir::Op &load);
  void readTile(ir::Op &load);
  /// The words of the fragments of a tile in registers, by block of rows and instruction.
  [[nodiscard]] llvm::SmallVector<Fragment, 0> fragments(ir::Value *tile, int64_t groups);
  /// The sum is wanted in this iteration.
  void multiplyNow(ir::Op &dot);
  /// Those that an op uses, and all that began before them.
  void awaitOperands(ir::Op &op);
  /// The first ones of `begun_`.
  void awaitProducts(size_t count);
  void endIteration();
  void addDots(const Product &product, unsigned block, int64_t column, int64_t first, int64_t end,
               bool adds, llvm::MutableArrayRef<llvm::Value *> sums, bool fencesEach = false);
  /// `adds`: to what `sums` is, rather than to nothing.
  void promoteAccumulators(Product product, bool adds, Registers &sums);
  void finish(ir::Op &loop);
  /// Behind a loop that the programs of a cluster share, where there are several: adds up their
  /// sums. The first program goes on with them, the others at the end of the body.
  void addParts(ir::Op &loop);
  /// Behind a loop whose iterations several programs may share (divided_bodies.h): who does not
  /// have the first part leaves the sums in memory, and goes to the end of the body; who has it
  /// adds them to its own.
  void addPartial(ir::Op &loop);
  /// The elements of a loop's sums, one result after the other, and the block that they come from.
  struct SumsFrom {
    llvm::ArrayRef<llvm::Value *> elements;
    llvm::BasicBlock *block = nullptr;
  };
  /// Ends the current block, and emits what follows a loop at `merge`, which has the sums of this
  /// program alone, or what was added up (from the current block).
  void goOnWith(ir::Op &loop, const SumsFrom &own, const SumsFrom &added, llvm::BasicBlock *merge);
  /// One thread a warp says that the warp is done with a slot.
  void release(llvm::Value *slot);
  [[nodiscard]] llvm::Value *previousSlot();
  /// Waits until the tile before has left shared memory.
  void awaitOutputRead();
  /// Hands a tile over to the warp that stores.
  void stageOutput(ir::Op &store);
  void writeOutput(llvm::Value *part, const TileInfo &rows, llvm::ArrayRef<llvm::Value *> elements);
  /// Reads a tile that the warp that stores has brought.
  void readPrefetched(ir::Op &load);
  void releasePrefetched();

  const WarpgroupMma &mma_;
  /// Products of this iteration that have begun, and have not been awaited.
  llvm::SmallVector<ir::Op *, 2> begun_;
  /// Of those whose first operand was written to registers in between: its words.
  llvm::DenseMap<const ir::Op *, llvm::SmallVector<llvm::Value *, 16>> fragments_;
  /// Tiles of zeros that are in registers, for the loops that are being lowered.
  llvm::SmallPtrSet<ir::Value *, 2> zeros_;
  /// The op after which the tile that was taken last is in registers; null once it was reported.
  const ir::Op *prefetchedUntil_ = nullptr;
  /// Where programs go on that leave the rest of a body to another of their cluster.
  llvm::BasicBlock *bodyEnd_ = nullptr;
  /// i32: the barriers `empty` of the other program of a pair; null where there are no pairs.
  llvm::Value *otherEmpty_ = nullptr;
  /// i32: the number of this thread's group.
  llvm::Value *group_ = nullptr;
  /// Waits that fail need not end the warpgroups: all that the bodies do to memory is deferred, or
  /// is left out then. (Exits beside products make ptxas serialize those, and the other programs of
  /// a cluster would wait for who has left.)
  bool ignoresFailures_ = false;
  /// i1, the same in all threads: whether something has failed; null where nobody asks.
  llvm::Value *failed_ = nullptr;
};

} // namespace dtile::backend::gpu
