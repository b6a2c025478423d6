// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to backend/gpu: the warps that load operands which TMA cannot describe.
#pragma once

#include "backend/gpu/staged/warp_role.h"

namespace dtile::backend::gpu {

/// Loads tiles of tensors that TMA cannot describe in this launch (rows that begin at no multiple
/// of 16 bytes, say) to where TMA would put them, and transposes tiles of types of which warpgroups
/// multiply only K-major ones. They take part in a space only where there is such a tensor or tile.
class CopyWarps : public HelperWarp {
public:
  /// `hasFewRegisters`: the consumers have taken registers of these warps.
  CopyWarps(GpuModule &module, const KernelScaffold &kernel, const Ring &ring,
            bool hasFewRegisters);
  void lowerBodies(ir::Op &space, const BodyRange &range) override;

  static constexpr unsigned kFirstWarp = kFirstSpareWarp, kWarps = kSpareWarps;
  static constexpr unsigned kThreads = kWarps * WarpOps::kWarpThreads;
  /// The program's named barrier of these threads.
  static constexpr unsigned kBarrier = 2;

protected:
  void lowerOp(ir::Op &op) override;

private:
  struct Share;
  struct Rows;
  /// A load in an iteration's order; the first waits for the slot, the last one publishes it.
  void lowerLoad(ir::Op &load);
  void copyTile(ir::Op &load, llvm::Value *slot);
  /// The rows of a tile that came in units, to where TMA would have put them (shift_rows.cpp).
  void shiftTile(ir::Op &load, llvm::Value *slot);
  /// A tile that has come, in its place (transpose_tile.cpp).
  void transposeTile(const StagedTile &tile, llvm::Value *slot);
  struct Window;
  struct Shift;
  /// Of some copies of a unit. `window`: null where all of the tile exists.
  void shiftRows(const StagedTile &tile, const ir::FoldedTile &folded, llvm::ArrayRef<Shift> shifts,
                 const Window *window);
  /// Words of 16 bytes that a lane has in registers at once, and those of a copy.
  [[nodiscard]] int64_t mostWords() const;
  [[nodiscard]] static int64_t wordsOfLane(const StagedTile &tile, const ir::FoldedTile &folded);
  /// Of a tile whose rows are neighbours in memory.
  void copyRows(const StagedTile &tile, const View &from, llvm::Value *slot);
  /// The words of some groups of rows, from `first` (i32) of the warp's groups on.
  void copyGroups(const StagedTile &tile, const Share &share, const Rows &rows, int64_t box,
                  llvm::Value *first, llvm::Value *slot);
  /// i32: the word after the box, of each row of the groups; 32 rows in a warp's threads.
  [[nodiscard]] llvm::SmallVector<llvm::Value *, 4>
  wordsBehind(const Share &share, const Rows &rows, int64_t behind, llvm::Value *first);
  /// Any tile, element by element.
  void copyElements(const StagedTile &tile, const View &from, llvm::Value *slot);
  /// Tells the consumers that this warp has done its part of a slot.
  void publish(llvm::Value *slot);

  /// i1: this warp transposes the tiles of the current stage, which is every second one. (A fence
  /// and two barriers for each stage take as long as four boxes.)
  [[nodiscard]] llvm::Value *isTurn();
  /// Where TMA loads all tiles, the other warp has nothing to do at a stage.
  void whereActing(llvm::function_ref<void()> body);

  bool hasFewRegisters_;
  /// i32: the warp whose turn it is.
  llvm::AllocaInst *turn_;
  /// i32: this warp's number among these warps, and the thread's in its warp.
  llvm::Value *warpNumber_ = nullptr, *lane_ = nullptr;
};

} // namespace dtile::backend::gpu
