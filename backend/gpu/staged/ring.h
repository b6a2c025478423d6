// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to backend/gpu: what stands in shared memory while the bodies of a staged space run, and
// at which position in it each role is (lower_staged.cpp describes the roles).
#pragma once

#include "backend/gpu/bodies/lower_body.h"
#include "ir/analysis/boxes/folded_tiles.h"
#include "ir/analysis/boxes/tensor_box.h"
#include "ir/analysis/shared_memory_plan.h"
#include "ir/core/op_classes.h"

#include "llvm/ADT/MapVector.h"

#include <optional>

namespace dtile::backend::gpu {

/// Offset in bytes that stands for a gathered row which does not exist; tensors are smaller.
inline constexpr int64_t kNoRow = 0xfffffff0;

/// A load of boxes by TMA.
[[nodiscard]] inline bool isBox(const ir::Op &op) { return comesVia(op, ir::LoadPath::Tma); }

/// A gather of rows by the gather warps.
[[nodiscard]] inline bool isGathered(const ir::Op &op) { return comesVia(op, ir::LoadPath::Rows); }

/// A tile of scales that the load warp brings to the slot by cp.async (pass stage-loads).
[[nodiscard]] inline bool isScalarLoad(const ir::Op &op) {
  return comesVia(op, ir::LoadPath::Scalars);
}

/// A tile that the load warp brings for the warpgroups to read into registers.
[[nodiscard]] inline bool isReadLoad(const ir::Op &op) {
  return isBox(op) && op.get(ir::attr::in_registers);
}

/// A load of a number that the load warp passes to the other roles (pass stage-loads).
[[nodiscard]] inline bool isPassedNumber(const ir::Op &op) {
  return op.is(ir::OpKind::Load) && op.get(ir::attr::agreed);
}

/// How a tile lies in shared memory for products of warpgroups: box beside box, each of all rows.
struct BoxedTile {
  DType dtype = DType::F32;
  int64_t rows = 0;
  /// Bytes of a row, in all and of one box.
  int64_t rowBytes = 0;
  int64_t swizzle = 0;

  BoxedTile() = default;
  BoxedTile(ir::Type tile, int64_t swizzle)
      : dtype(tile.dtype()), rows(tile.shape()[0]),
        rowBytes(tile.shape()[1] * int64_t(dtypeBytes(tile.dtype()))), swizzle(swizzle) {}
  [[nodiscard]] int64_t bytes() const { return rows * rowBytes; }
  [[nodiscard]] int64_t boxes() const { return rowBytes / swizzle; }
  [[nodiscard]] int64_t boxBytes() const { return rows * swizzle; }
  [[nodiscard]] int64_t columns() const { return rowBytes / int64_t(dtypeBytes(dtype)); }
  /// Where its elements are, in bytes from its first one on.
  [[nodiscard]] SharedTile layout() const;
  /// With columns for rows, in boxes of the same width.
  [[nodiscard]] BoxedTile transposed() const;
};

/// A staged load's tile in a slot.
struct StagedTile : BoxedTile {
  using BoxedTile::BoxedTile;
  ir::Op *load = nullptr;
  /// None where rows are picked.
  ir::TensorBoxes source;
  [[nodiscard]] ir::FoldedTile folded() const { return {load->result()->type(), swizzle}; }
  /// Two programs may load half of its rows each, for both.
  [[nodiscard]] bool isMulticast() const {
    return load->is(ir::OpKind::Load) && load->get(ir::attr::multicast);
  }
  /// Copy warps transpose it in its slot.
  [[nodiscard]] bool isTransposed() const {
    return load->is(ir::OpKind::Load) && load->get(ir::attr::transposed);
  }
  /// As products find it in its slot.
  [[nodiscard]] BoxedTile multiplied() const {
    return isTransposed() ? transposed() : BoxedTile(*this);
  }
  /// TMA rounds its elements to tf32.
  [[nodiscard]] bool isTf32() const {
    return dtype == DType::F32 && ir::isOnlyTf32Factor(*load->result());
  }
  /// Of the tile in its slot.
  int64_t offset = 0;
};

/// A resident operand: the first operand of products, which stays in shared memory for the loop.
struct ResidentTile : BoxedTile {
  ResidentTile(ir::Type tile, int64_t swizzle);
  SharedTile shared;
};

/// Whether an op is the epilogue warp's (pass specialize-stores).
[[nodiscard]] inline bool isOfEpilogue(const ir::Op &op) { return op.get(ir::attr::epilogue); }

/// Whether the epilogue warp prefetches a load (pass prefetch-epilogue).
[[nodiscard]] inline bool isEpilogueLoad(const ir::Op &op) {
  return comesVia(op, ir::LoadPath::Epilogue);
}

/// The output tile that each body leaves to the epilogue warp.
struct OutputTile {
  /// The store, and the ops after it.
  llvm::SmallVector<ir::Op *, 4> deferred;
  llvm::SmallVector<int64_t, 2> shape;
  /// Loads of tiles that come where it will stand.
  llvm::SmallVector<ir::Op *, 2> brought;
  SharedTile tile;
  /// It is handed over in so many parts, one after the other, each of `partRows` rows. `tile` has
  /// room for one.
  int64_t parts = 1, partRows = 0;
  /// A part has the rows of one warpgroup; else all of them write each part.
  bool isInTurns = false;
  /// i32: the barriers where the warpgroups have written a part, where it has been read (one
  /// barrier for each that takes turns, 8 bytes apart, else one), and where who stores has ended;
  /// where a tile has been brought, and where the warpgroups have taken it.
  llvm::Value *stored = nullptr, *drained = nullptr, *ended = nullptr;
  llvm::Value *arrived = nullptr, *taken = nullptr;
};

[[nodiscard]] StagedTile stagedTile(ir::Op &load);
/// Sizes of a box of so many of the tile's rows, innermost dimension last.
[[nodiscard]] llvm::SmallVector<int32_t, 4> boxSizes(const StagedTile &tile,
                                                     const ir::TensorBox &box, int64_t rows);

/// The tensor map that a box of so many of a tile's rows needs; with folded maps for whole tiles
/// that may come so.
[[nodiscard]] launch::Frame::TensorMap neededTensorMap(const StagedTile &tile,
                                                       const ir::TensorBox &box, int64_t rows);

/// The same, once the frame was asked for it (requestTensorMaps).
[[nodiscard]] const launch::Frame::TensorMap &tensorMapOf(const launch::Frame &frame,
                                                          const StagedTile &tile,
                                                          const ir::TensorBox &box, int64_t rows);

/// The staged loads of each loop of a space, and the ring that all its loops share.
struct Ring {
  llvm::DenseMap<const ir::Op *, StagedTile> tiles;
  /// What the warp that copies brings in an iteration, in its order: boxes, and loads whose
  /// elements are fetched; and what the warps that fetch rows do.
  llvm::DenseMap<const ir::Op *, llvm::SmallVector<ir::Op *, 2>> loadsOf, gathersOf;
  /// Where the elements of a fetched load are in a slot.
  llvm::DenseMap<const ir::Op *, int64_t> fetched;
  /// i32, in shared memory, of staged gathers: where rows.cpp keeps what it knows of their rows.
  llvm::MapVector<const ir::Op *, llvm::Value *> picked;
  llvm::MapVector<const ir::Value *, ResidentTile> kept;
  int64_t stages = 0;
  ir::StageBytes slot;
  ir::FoldedRing folded;
  /// Elements of the largest sum.
  int64_t sums = 0;
  /// Registers of all threads for tiles that are read from slots, in an iteration: their elements,
  /// and the operands that follow from them.
  int64_t read = 0;
  /// The warpgroups read tiles or scales from slots.
  bool hasReads = false;
  /// The warpgroups compute with more than one sum at a time: products whose sums are used in their
  /// iteration, or several in one.
  bool hasManySums = false;
  /// i32, in shared memory.
  llvm::Value *slots = nullptr, *full = nullptr, *empty = nullptr;
  /// Copy warps transpose some of the tiles.
  bool transposes = false;
  /// i32, in shared memory: the barriers where TMA has loaded those.
  llvm::Value *loaded = nullptr;
  /// i32, in shared memory: the first unit, and the barriers of the units.
  llvm::Value *firstUnit = nullptr, *unitFull = nullptr, *unitEmpty = nullptr;
  /// i32: stages in this launch.
  llvm::Value *length = nullptr;
  /// i1: the load warp fills stages, too: not all tiles come by way of copy warps.
  llvm::Value *isLoaded = nullptr;
  /// How the boxes of a load come in this launch, both i1: by TMA, to where the tile will be; or by
  /// folded maps (null: there are none). Else copy warps load them by themselves.
  struct Path {
    llvm::Value *isWhole = nullptr, *isFolded = nullptr;
  };
  llvm::DenseMap<const ir::Op *, Path> paths;
  /// i1: all tiles of the kernel come by TMA to where they will be.
  llvm::Value *areWhole = nullptr;
  /// i32, in shared memory: not 0 once a wait has failed, or a check of a helper warp.
  llvm::Value *failed = nullptr;
  /// Of the exchange of sums in a cluster (exchange_sums.cpp): all programs have multiplied; the
  /// other programs' sums are here; the sums are here that the others have added up; the ring may
  /// be filled for the next body.
  llvm::Value *ready = nullptr, *received = nullptr, *added = nullptr, *reusable = nullptr;
  /// Numbers of the bodies that were taken, and their barriers.
  llvm::Value *bodies = nullptr, *bodiesFull = nullptr, *bodiesEmpty = nullptr;
  /// The loads whose numbers the load warp passes on; those numbers, and their barriers.
  llvm::SmallVector<ir::Op *, 2> passed;
  llvm::Value *numbers = nullptr, *numbersFull = nullptr, *numbersEmpty = nullptr;

  /// The last staged loop of a body; null where loops are nested.
  const ir::Op *lastLoop = nullptr;
  /// Where the bodies' last store is deferred.
  std::optional<OutputTile> output;

  [[nodiscard]] int64_t bytes() const { return stages * slot.bytes(); }

  explicit Ring(ir::Op &space);
};

/// A role's position in the ring: the slot, and the phase of its barriers.
class RingPosition {
public:
  RingPosition(llvm::IRBuilder<> &b, llvm::BasicBlock *entry, llvm::Value *length,
               llvm::StringRef who)
      : b(b), length_(length) {
    llvm::IRBuilder<> start(entry, entry->begin());
    slot_ = start.CreateAlloca(b.getInt32Ty(), nullptr, who + ".slot");
    phase_ = start.CreateAlloca(b.getInt32Ty(), nullptr, who + ".phase");
  }
  void begin(unsigned phase) { beginAt(b.getInt32(phase)); }
  void beginAt(llvm::Value *phase) {
    b.CreateStore(b.getInt32(0), slot_);
    b.CreateStore(phase, phase_);
  }
  [[nodiscard]] llvm::Value *slot() { return b.CreateLoad(b.getInt32Ty(), slot_); }
  [[nodiscard]] llvm::Value *phase() { return b.CreateLoad(b.getInt32Ty(), phase_); }
  void next() {
    llvm::Value *next = b.CreateAdd(slot(), b.getInt32(1));
    llvm::Value *isLast = b.CreateICmpEQ(next, length_);
    b.CreateStore(b.CreateSelect(isLast, b.getInt32(0), next), slot_);
    b.CreateStore(b.CreateXor(phase(), b.CreateZExt(isLast, b.getInt32Ty())), phase_);
  }
  /// i32 address of a barrier of a slot.
  [[nodiscard]] llvm::Value *barrier(llvm::Value *first, llvm::Value *slot) {
    return b.CreateAdd(first, b.CreateShl(slot, 3));
  }

private:
  llvm::IRBuilder<> &b;
  /// i32
  llvm::Value *length_;
  llvm::AllocaInst *slot_;
  llvm::AllocaInst *phase_;
};

} // namespace dtile::backend::gpu
