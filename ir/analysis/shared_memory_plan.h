// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What takes shared memory in a program of a GPU, and how much. Passes ask how many stages, slots
// or tiles there is room for; code generation (backend/gpu) places what it emits by the same
// numbers. All sizes are in bytes. A program has, one after the other:
//
//   in a staged space:  barriers and row tables · stages · resident operands · output tile
//   in other spaces:    row buffers (pass keep-rows) · rings of multistage loops
//   in both, last:      what elements go through to other threads, for one op at a time
//
// The last is a measure of the code that is generated; docs/decisions/stages_fit.md says why.
#pragma once

#include "ir/core/ir.h"
#include "ir/machine/target_facts.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace dtile::ir {

// ---- Units ----

/// One access of a thread, the widest cp.async, and what swizzles permute.
inline constexpr int64_t kSharedWordBytes = 16;
/// A register of a thread.
inline constexpr int64_t kRegisterBytes = 4;
/// What all 32 banks give at once.
inline constexpr int64_t kBankLineBytes = 128;
/// Rows whose words the 128-byte swizzle permutes differently; its period.
inline constexpr int64_t kSwizzleRows = 8;
/// Units of the ring that folded tiles come through, at most (backend/gpu/staged/ring.h).
inline constexpr int64_t kMostUnits = 8;
/// What boxes begin at multiples of: that period (PTX ISA, "Swizzling modes").
inline constexpr int64_t kBoxAlignBytes = kSwizzleRows * kBankLineBytes;
/// What multistage slots, and what elements go through, begin at multiples of.
inline constexpr int64_t kScratchAlignBytes = kBankLineBytes;
/// The narrowest cp.async.
inline constexpr int64_t kLeastAsyncBytes = 4;
/// An mbarrier.
inline constexpr int64_t kMbarrierBytes = 8;
/// Bodies that the load warp may be ahead of the warpgroups.
inline constexpr int64_t kBodiesAhead = 4;
/// Numbers that the load warp may have passed to the other roles before these have read them.
inline constexpr int64_t kNumbersAhead = 4;

/// What a program leaves: the driver takes 1 KiB of each, and the device library has a few words.
inline constexpr int64_t kReservedSharedBytes = 1024;

// ---- Room ----

/// What each of so many programs of a processor has.
[[nodiscard]] int64_t sharedRoom(const TargetFacts &facts, int64_t programs = 1);

/// For how many programs of a processor there is room that take so much each.
[[nodiscard]] int64_t programsInShared(const TargetFacts &facts, int64_t bytes);

// ---- Tiles ----

[[nodiscard]] int64_t tileBytes(Type tile);

/// A row that begins in another bank than the row before it: a word longer, where it has several.
[[nodiscard]] int64_t paddedRowBytes(int64_t bytes);

/// A tile in padded rows. Where its layout is not known yet, sizes are taken as the next powers of
/// two, as layouts count in these.
[[nodiscard]] int64_t paddedTileBytes(Type tile);

/// The same of a tile with this shape and elements of so many bytes, whatever its layout will be.
[[nodiscard]] int64_t paddedTileBytes(llvm::ArrayRef<int64_t> shape, int64_t elementBytes);

/// The same of sums of warpgroups, as they are or transposed: their layouts have whole blocks of
/// rows and of columns, and no more.
[[nodiscard]] int64_t paddedSumBytes(Type sums, int64_t elementBytes);

/// A tile that stays in shared memory for a later loop (pass keep-rows): the registers of all
/// threads.
[[nodiscard]] int64_t rowBufferBytes(Type tile, int64_t threads);

/// What bulk copies of bodies go through: in kernels whose other programs multiply meanwhile they
/// have two rings, as memory answers later.
[[nodiscard]] int64_t copyRingBytes(const TargetFacts &facts, bool besideProducts);

/// What elements of an op's operands may go through to other threads, or its sums; an estimate from
/// above. `isShared`: a tile that products read where it is.
[[nodiscard]] int64_t exchangeBytes(Op &op, llvm::function_ref<bool(const Value &tile)> isShared);

// ---- Staged spaces ----

/// The offsets of a gather's rows, 4 bytes each: a warp finds 32 at once.
[[nodiscard]] constexpr int64_t rowTableBytes(int64_t rows) { return (rows + 31) / 32 * 32 * 4; }

/// One stage of a space: the boxes of one iteration, then the scalars of all its loops, as TMA
/// is not in order with plain accesses.
struct StageBytes {
  int64_t boxes = 0;
  int64_t scalars = 0;

  StageBytes() = default;
  /// Of a staged loop's loads.
  explicit StageBytes(Op &loop);
  /// Where the tile is in the stage.
  int64_t addBox(Type tile);
  /// Where the elements, 4 bytes each, are after the boxes.
  int64_t addScalars(Type tile);
  /// Loops of a space use the same stages.
  void unite(const StageBytes &other);
  [[nodiscard]] int64_t bytes() const;
};

/// What else of a staged space needs room: tiles for which warps beside the load warp do, and
/// numbers that the load warp passes to the other roles.
struct CopiedTiles {
  /// Rows of each gather whose rows come to stages.
  llvm::SmallVector<int64_t, 2> gathered;
  /// Copy warps transpose some.
  bool areTransposed = false;
  /// The load warp passes numbers (attribute `agreed`).
  bool passesNumbers = false;

  CopiedTiles() = default;
  explicit CopiedTiles(Op &space);
};

/// Where the mbarriers of a staged space are, its flag, and the tables of its gathers. Those of the
/// space before may still be looked at, so each space has its own.
struct StagedControl {
  /// `parts` of the output tile, 0 without one.
  StagedControl(int64_t begin, int64_t stages, int64_t parts, const CopiedTiles &copied);

  int64_t begin;
  /// One a stage: its loads have arrived; it may be filled.
  int64_t full, empty;
  /// Not 0 once a wait or check has failed.
  int64_t failed;
  /// Of the exchange of sums in a cluster.
  int64_t ready, received, added, reusable;
  /// One a stage, where tiles are transposed: those have arrived.
  int64_t loaded = 0;
  /// Of the ring of units that folded tiles come through.
  int64_t unitFull, unitEmpty;
  /// Numbers of claimed bodies, and the barriers of their ring.
  int64_t bodies, bodiesFull, bodiesEmpty;
  /// Numbers that the load warp passes on, and the barriers of their ring.
  int64_t numbers = 0, numbersFull = 0, numbersEmpty = 0;
  llvm::SmallVector<int64_t, 2> tables;
  /// Of the output tile; one `drained` a part.
  int64_t stored = 0, drained = 0, ended = 0, arrived = 0, taken = 0;
  int64_t end;
};

/// All that stands in shared memory while the bodies of a staged space run.
struct StagedPlan {
  StageBytes stage;
  /// Where the barriers end; those of earlier spaces of the kernel stand before.
  int64_t controlEnd = 0;
  int64_t resident = 0;
  int64_t output = 0;

  StagedPlan() = default;
  /// Of a space whose barriers stand at `begin`, and whose output tile is handed over in so many
  /// parts, one after the other.
  StagedPlan(Op &space, int64_t begin, int64_t parts);
  void addResident(Type tile);
  [[nodiscard]] int64_t bytes(int64_t stages) const;
  /// How many stages there is room for.
  [[nodiscard]] int64_t stagesIn(int64_t room) const;
};

/// Where the barriers of a kernel's space begin, at most: spaces before it may get more stages, and
/// hand over their output in parts.
[[nodiscard]] int64_t controlBegin(Op &space);

/// Stages of a loop, at least and at most: copies further ahead hide no more latency.
inline constexpr int64_t kFewestStages = 2;
inline constexpr int64_t kMostStages = 8;

/// The tile that a resident product's first operand is, in whatever layout.
[[nodiscard]] Value *residentOperand(const Op &dot);

/// Elements of sums that programs of a cluster exchange at once.
inline constexpr int64_t kExchangeGroup = 4;
inline constexpr int64_t kExchangeGroupBytes = kExchangeGroup * int64_t(sizeof(float));
/// Elements of the sums that a loop carries.
[[nodiscard]] int64_t carriedElements(const Op &loop);
/// Whether the stages of a staged loop are room for the exchange of its sums.
[[nodiscard]] bool stagesHoldExchange(Op &loop, const TargetFacts &facts);

// ---- Multistage loops ----

/// Slots of a loop, at least.
inline constexpr int64_t kFewestSlots = 2;

/// A row of a tile in a slot: swizzled by `swizzle` bytes, or padded to an odd number of words.
[[nodiscard]] int64_t slotRowBytes(int64_t bytes, int64_t swizzle);

/// One slot of a multistage loop. The functions say where what they add is in it.
class MultistageSlot {
public:
  int64_t addTile(Type tile, int64_t swizzle);
  /// Whether there is room for so many numbers that are looked up (of pages).
  [[nodiscard]] static bool holdsNumbers(size_t count);
  int64_t addNumbers(size_t count);
  /// An index tile.
  int64_t addLookup(Type tile);
  [[nodiscard]] int64_t bytes() const { return bytes_; }

  /// A number that is looked up, in a slot.
  static constexpr int64_t kNumberBytes = 8;

private:
  int64_t add(int64_t bytes);

  int64_t bytes_ = 0;
};

} // namespace dtile::ir
