// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to backend/gpu: who walks the bodies of a staged space, each with its own place in the
// rings (lower_staged.cpp draws how they meet).
#pragma once

#include "backend/gpu/staged/ring.h"
#include "backend/gpu/staging_ops.h"

#include "llvm/ADT/DenseSet.h"

namespace dtile::backend::gpu {

/// The program's barrier where those threads meet that run bodies, when they are not all.
inline constexpr unsigned kBodyBarrier = 1;

/// What all walkers share.
class StagedWalker : public BodyLowering {
public:
  StagedWalker(GpuModule &module, const KernelScaffold &kernel, const Ring &ring,
               llvm::StringRef who);

protected:
  /// Spins until a phase of a barrier is over.
  void waitPhase(llvm::Value *barrier, llvm::Value *phase);
  /// i32 address in a slot.
  [[nodiscard]] llvm::Value *address(llvm::Value *slot, int64_t offset);
  [[nodiscard]] llvm::Value *shared(llvm::Value *address);
  /// i64: the number in the current slot of the ring of bodies, where the copier has put it; this
  /// thread has read it then.
  [[nodiscard]] llvm::Value *readBodyNumber();
  /// Where the number of the current body is.
  [[nodiscard]] llvm::Value *bodyNumber();
  const Ring &ring_;
  const StagingOps &ops_;
  RingPosition place_, body_, output_, brought_;
};

/// A walker without tiles: of the bodies it lowers only what its own ops depend on. It runs apart
/// from the threads that meet; each of its threads waits for itself, and what the copy engine does
/// behind a wait sees what the notifies published.
class SliceLowering : public StagedWalker {
public:
  SliceLowering(GpuModule &module, const KernelScaffold &kernel, const Ring &ring,
                llvm::StringRef who);

protected:
  void need(ir::Op &op);
  void needValue(ir::Value *value);
  [[nodiscard]] bool isNeeded(const ir::Op &op) const { return needed_.contains(&op); }
  /// Spins until others are done with a phase. They may have left, when the launch was given up:
  /// then so does this thread, after a time in which those that are there would have come. (The
  /// groups never leave while products are in flight: an exit on their way would make ptxas
  /// serialize those.)
  void waitOrLeave(llvm::Value *barrier, llvm::Value *phase);
  /// i1: something has failed here.
  [[nodiscard]] llvm::Value *hasFailed();
  /// Reports, and goes on: the groups wait for this walker, and never leave on their own.
  void fail(int32_t site, llvm::ArrayRef<llvm::Value *> arguments) override;
  llvm::SmallVector<llvm::Type *, 4> partTypes(ir::Type type) override;
  /// The number that the warp that copies has told.
  llvm::Value *takeBody(const BodyRange &range) override;
  void lowerOp(ir::Op &op) override;

  /// i1, of this thread.
  llvm::AllocaInst *failed_;

private:
  llvm::DenseSet<const ir::Op *> needed_;
};

/// The warp that copies operands.
class CopyLowering : public SliceLowering {
public:
  /// `byHand`: the threads copy elements; else one has the copy engine copy boxes.
  CopyLowering(GpuModule &module, const KernelScaffold &kernel, const Ring &ring, bool byHand);
  void lowerBodies(ir::Op &space, const BodyRange &range) override;

protected:
  llvm::Value *takeBody(const BodyRange &range) override;
  void lowerOp(ir::Op &op) override;

private:
  void copy(ir::Op &load);
  void copyTile(ir::Op &load, llvm::Value *slot, llvm::Value *full);
  /// A few elements, by the threads of the warp: in words, or each by itself.
  void fetch(ir::Op &load, llvm::Value *slot);
  void fetchWords(ir::Op &load, llvm::Value *from, llvm::Value *count, llvm::Value *slot);
  void fetchElements(ir::Op &load, const View &from, llvm::Value *slot);
  /// From one of the tile's sources.
  void copyBoxes(const StagedTile &tile, const ir::TensorBox &box, llvm::Value *slot,
                 llvm::Value *full);
  [[nodiscard]] llvm::Value *map(const StagedTile &tile, const ir::TensorBox &box);
  /// All of the tile by the threads of the warp, zeros where nothing is.
  void copyElements(ir::Op &load, llvm::Value *slot);
  /// What the threads have copied is there for the groups.
  void publish(llvm::Value *full);
  void askForNext(ir::Op &loop);
  void takeNext();

  const BodyRange *range_ = nullptr;
  bool byHand_;
  /// i1: this thread copies what the current slot is for.
  llvm::Value *copies_ = nullptr;
  /// i64: addresses of the maps of the tiles' boxes.
  llvm::DenseMap<const ir::TensorBox *, llvm::Value *> maps_;
  /// i64 and i1: the number of the next body, and whether it has been taken.
  llvm::AllocaInst *next_;
  llvm::AllocaInst *hasNext_;
};

/// The warps that fetch rows which index tiles pick: each walks by itself, and has its share of the
/// rows.
class RowLowering : public SliceLowering {
public:
  RowLowering(GpuModule &module, const KernelScaffold &kernel, const Ring &ring);
  void lowerBodies(ir::Op &space, const BodyRange &range) override;

  /// Of the last group of warps, those that neither copy nor store.
  static constexpr unsigned kFirstWarp = 2, kWarps = 2;
  static constexpr unsigned kThreads = kWarps * StagingOps::kWarpThreads;

protected:
  void lowerOp(ir::Op &op) override;

private:
  struct Share;
  /// Before a loop: where each of the warp's rows is, which the lanes find out row by row, and keep
  /// in shared memory.
  void findRows(ir::Op &gather);
  /// In shared memory, i32: bytes from the tensor's first row to that which is picked for one.
  [[nodiscard]] llvm::Value *pickedRow(ir::Op &gather, llvm::Value *row);
  /// An iteration's rows, with its slot.
  void fetch(ir::Op &gather);
  void fetchRows(ir::Op &gather, llvm::Value *slot);
  /// What the elements of a tile follow from (ir/analysis/row_gathers.h).
  void needElements(ir::Value *tile);

  llvm::DenseSet<const ir::Value *> elementsOf_;
  /// i32: the number of this thread among those of these warps, and in its warp.
  llvm::Value *lane_ = nullptr, *inWarp_ = nullptr;
};

/// The groups that multiply, and everything else of the bodies.
class GroupLowering : public StagedWalker {
public:
  GroupLowering(GpuModule &module, const KernelScaffold &kernel, const Ring &ring)
      : StagedWalker(module, kernel, ring, "dot") {}
  void lowerBodies(ir::Op &space, const BodyRange &range) override;

protected:
  void lowerOp(ir::Op &op) override;
  llvm::Value *takeBody(const BodyRange &range) override;
  /// ptxas serializes products where another warp of theirs might call a function.
  [[nodiscard]] bool pollsInPlace() const override { return true; }
  [[nodiscard]] bool stagesOperands() const override { return false; }

private:
  [[nodiscard]] static bool isForOthers(const ir::Op &op);
  void awaitCells(ir::Op &op);
  [[nodiscard]] static const ir::Op *loadOf(const ir::Value *tile);
  struct Product;
  using Fragment = llvm::SmallVector<llvm::Value *, 4>;
  void lowerLoop(ir::Op &loop);
  /// Puts a tile where products read it, if they do.
  void keep(ir::Value *tile);
  /// Whether the instruction's sums are short (GroupProduct).
  [[nodiscard]] bool isShort(const ir::Op &dot);
  [[nodiscard]] Product productOf(ir::Op &dot);
  void multiply(ir::Op &dot);
  /// Before the first op of an iteration that looks at its slot.
  void awaitSlot(const ir::Op &op);
  /// Reads what has been fetched.
  void readFetched(ir::Op &load);
  /// The words of the fragments of a tile in registers, by block of rows and instruction.
  [[nodiscard]] llvm::SmallVector<Fragment, 0> fragments(ir::Value *tile, int64_t groups);
  /// The sum is wanted in this iteration.
  void multiplyForIteration(ir::Op &dot);
  /// Those that an op uses, and all that began before them.
  void awaitOperands(ir::Op &op);
  /// The first ones of `begun_`.
  void awaitProducts(size_t count);
  void endIteration();
  void addDots(const Product &product, unsigned block, int64_t column, int64_t first, int64_t end,
               bool adds, llvm::MutableArrayRef<llvm::Value *> sums);
  /// `adds`: to what `sums` is, rather than to nothing.
  void addShortSums(Product product, bool adds, Registers &sums);
  void finish(ir::Op &loop);
  /// One thread a warp says that the warp is done with a slot.
  void release(llvm::Value *slot);
  [[nodiscard]] llvm::Value *previousSlot();
  /// Waits until the tile before has left shared memory.
  void awaitDrained();
  /// Hands a tile over to the warp that stores.
  void handOver(ir::Op &store);
  /// Reads a tile that the warp that stores has brought.
  void take(ir::Op &load);
  void leaveTaken();

  /// Products of this iteration that have begun, and have not been awaited.
  llvm::SmallVector<ir::Op *, 2> begun_;
  /// Tiles of zeros that are in registers, for the loops that are being lowered.
  llvm::SmallPtrSet<ir::Value *, 2> zeros_;
  /// The op behind which the tile that was taken last is in registers; null once that was said.
  const ir::Op *taken_ = nullptr;
  /// i32: the number of this thread's group.
  llvm::Value *group_ = nullptr;
  /// Waits that fail need not end the groups: all that the bodies do to memory is deferred. (Exits
  /// beside products make ptxas serialize those.)
  bool goesOn_ = false;
};

/// The warp that stores: brings the tile of each body from shared memory to where it goes, and says
/// so to whom it concerns, while the groups multiply for the next body; and before that, the other
/// way, tiles that the body loads behind its products.
class StoreLowering : public SliceLowering {
public:
  StoreLowering(GpuModule &module, const KernelScaffold &kernel, const Ring &ring);
  void lowerBodies(ir::Op &space, const BodyRange &range) override;

protected:
  void lowerOp(ir::Op &op) override;

private:
  /// Where an output tile goes, or a tile comes from: what of it exists there.
  struct Target {
    llvm::Value *data = nullptr;
    /// i64: positions of the tile that exist, of rows and columns.
    llvm::Value *low[2] = {}, *high[2] = {};
    /// i64 bytes from one to the next.
    llvm::Value *stride[2] = {};
    /// i1: each row is a run of whole words of the copy engine.
    llvm::Value *isRows = nullptr;
    /// i64: the row that stands first in shared memory; null for the tile's first.
    llvm::Value *first = nullptr;
  };
  [[nodiscard]] Target target(const View &to);
  [[nodiscard]] Target rowsOf(const Target &whole, llvm::Value *first);
  void store(ir::Op &op);
  void bring(ir::Op &load);
  /// One thread has the copy engine bring the rows, and all say how much that is.
  void bringRows(const Target &from);
  void bringElements(const Target &from);
  void fillWithZeros();
  /// Emits `body` for each element that exists, in one of the threads: its address, and its place
  /// in shared memory.
  void eachElement(const Target &target,
                   llvm::function_ref<void(llvm::Value *there, llvm::Value *inShared)> body);
  /// One thread has the copy engine store the rows.
  void storeRows(const Target &to);
  /// Each thread stores some elements of each row.
  void storeElements(const Target &to);
  [[nodiscard]] bool isSeenOnlyAfterKernel(const ir::Op &space);
  /// The rows of a target that exist there, which are runs of bytes: how many, and how long (i32);
  /// where the first one begins, and how far it is to the next (i64); and where it is in shared
  /// memory (i32). All are uniform.
  struct Rows {
    llvm::Value *count, *length;
    llvm::Value *there, *stride;
    llvm::Value *here;
  };
  [[nodiscard]] Rows rows(const Target &target);
  /// Emits `body` for each row: its address, and its place in shared memory.
  void eachRow(const Rows &rows,
               llvm::function_ref<void(llvm::Value *there, llvm::Value *here)> body);
  void moveElement(llvm::Value *from, llvm::Value *to);
  /// What the other walkers know of a launch that was given up.
  void learnOfFailure();
  /// i64: how often eachOfLanes emits, in this thread.
  [[nodiscard]] llvm::Value *lanesRounds(llvm::Value *first, llvm::Value *end);
  /// Emits `body` for first + lane, and so on up to `end`, i64.
  void eachOfLanes(llvm::Value *first, llvm::Value *end,
                   llvm::function_ref<void(llvm::Value *)> body);
  /// i32: where a position of the tile is in shared memory.
  [[nodiscard]] llvm::Value *inShared(const Target &target, llvm::Value *row, llvm::Value *column);

  /// i32: number of this thread in its warp.
  llvm::Value *lane_ = nullptr;
};

} // namespace dtile::backend::gpu
