// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to backend/gpu: the warp that stores outputs, sends their notifies, and prefetches what
// epilogues read.
#pragma once

#include "backend/gpu/staged/warp_role.h"

namespace dtile::backend::gpu {

/// Stores the output tile of each body from shared memory and sends the body's notifies, while the
/// warpgroups multiply for the next body. Before that it prefetches the tiles that the body's
/// epilogue loads (bias, residual) to the same place.
class EpilogueWarp : public HelperWarp {
public:
  EpilogueWarp(GpuModule &module, const KernelScaffold &kernel, const Ring &ring);
  void lowerBodies(ir::Op &space, const BodyRange &range) override;

protected:
  [[nodiscard]] std::optional<dtile_device_recorder> recorder() const override {
    return DTILE_RECORD_STORES;
  }
  void lowerOp(ir::Op &op) override;

private:
  /// The global memory of an output tile or a prefetched one: what of the tile exists there.
  struct TileRegion {
    llvm::Value *data = nullptr;
    /// i64: positions of the tile that exist, of rows and columns.
    llvm::Value *low[2] = {}, *high[2] = {};
    /// i64 bytes from one to the next.
    llvm::Value *stride[2] = {};
    /// i1: each row is a run of whole 16-byte words, as TMA takes them; or a run that begins
    /// anywhere, but not in shared memory.
    llvm::Value *isRows = nullptr, *isShifted = nullptr;
    /// i64: the row that stands first in shared memory; null for the tile's first.
    llvm::Value *first = nullptr;
  };
  [[nodiscard]] TileRegion target(const View &to);
  [[nodiscard]] TileRegion rowsOf(const TileRegion &whole, llvm::Value *first);
  void store(ir::Op &op);
  void takeTile();
  /// By whichever way the region allows.
  void send(const TileRegion &to);
  void lowerLoop(ir::Op &loop);
  void notify(ir::Op &op);
  void prefetch(ir::Op &load);
  /// By TMA: the elected thread loads the rows, and announces their bytes.
  void prefetchRows(const TileRegion &from);
  void prefetchElements(const TileRegion &from);
  void fillWithZeros();
  /// Emits `body` for each element that exists, in one of the threads: its address, and its place
  /// in shared memory.
  void eachElement(const TileRegion &target,
                   llvm::function_ref<void(llvm::Value *there, llvm::Value *inShared)> body);
  /// By TMA: the elected thread stores the rows.
  void storeRows(const TileRegion &to);
  /// By all threads, in words of 16 bytes (store_shifted.cpp).
  void storeShifted(const TileRegion &to);
  /// Each thread stores some elements of each row.
  void storeElements(const TileRegion &to);
  [[nodiscard]] bool isSeenOnlyAfterKernel(const ir::Op &space);
  /// The existing rows of a region as runs of bytes. Number and bytes of the runs (i32); address of
  /// the first and bytes from one to the next (i64); address in shared memory (i32). All uniform.
  struct RowRuns {
    llvm::Value *count, *length;
    llvm::Value *there, *stride;
    llvm::Value *here;
  };
  [[nodiscard]] RowRuns rows(const TileRegion &target);
  /// A row (its number is an i32): its address (i64), that in shared memory, and its bytes before
  /// the first word of 16 bytes in memory (i32).
  struct ShiftedRow {
    llvm::Value *there, *here, *head;
  };
  [[nodiscard]] ShiftedRow shiftedRow(const RowRuns &rows, llvm::Value *number);
  void storeWords(const RowRuns &rows);
  void storeEnds(const RowRuns &rows);
  /// Emits `body` for each row: its address, and its place in shared memory.
  void eachRow(const RowRuns &rows,
               llvm::function_ref<void(llvm::Value *there, llvm::Value *here)> body);
  void moveElement(llvm::Value *from, llvm::Value *to);
  /// Takes over from the other roles whether the launch has failed.
  void readFailure();
  /// i64: how often eachOfLanes emits, in this thread.
  [[nodiscard]] llvm::Value *roundsOfLanes(llvm::Value *first, llvm::Value *end);
  /// Emits `body` for first + lane, and so on up to `end`, i64.
  void eachOfLanes(llvm::Value *first, llvm::Value *end,
                   llvm::function_ref<void(llvm::Value *)> body);
  /// i32: where a position of the tile is in shared memory.
  [[nodiscard]] llvm::Value *inShared(const TileRegion &target, llvm::Value *row,
                                      llvm::Value *column);

  void fail(int32_t site, llvm::ArrayRef<llvm::Value *> arguments) override;

  /// i32: number of this thread in its warp.
  llvm::Value *lane_ = nullptr;
  /// i1: the body is one of the space's, and does not only fill up a pair; null where all are.
  llvm::Value *isOfSpace_ = nullptr;
  /// What is emitted of a loop over ranks; in the last, each thread has some of the ranks.
  enum class LoopPart : uint8_t { None, Stores, Notifies, NotifiesOfLanes };
  LoopPart loopPart_ = LoopPart::None;
};

} // namespace dtile::backend::gpu
