// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to backend/gpu: the warps that load operands which TMA cannot describe.
#pragma once

#include "backend/gpu/staged/warp_role.h"

#include <array>

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
  /// What of a tile exists: rows and bytes of rows (i32) from `low` on, before `high`.
  struct Window {
    llvm::Value *lowRow, *highRow, *lowByte, *highByte;
  };
  /// An operand of an iteration, as numbers: operands with the same type of elements and the same
  /// swizzle may share code.
  struct Operand {
    /// Those of all that share the code.
    llvm::SmallVector<const StagedTile *, 2> tiles;
    /// i32: address of the tile; its rows, bytes of a row, boxes, and bytes of a box.
    llvm::Value *to = nullptr, *rows = nullptr, *rowBytes = nullptr;
    llvm::Value *boxes = nullptr, *boxBytes = nullptr;
    Window window = {};
    /// i64: address of the first row, and bytes from a row to the next, and from a column.
    llvm::Value *data = nullptr, *row = nullptr, *column = nullptr;
    /// i1: it comes by folded maps (null: there are none); these warps copy it.
    llvm::Value *isFolded = nullptr, *isCopied = nullptr;
    /// Only where it may come by folded maps.
    FoldedPlace place = {};
    /// The numbers that copies of tiles take.
    [[nodiscard]] std::array<llvm::Value **, 13> numbers() {
      return {&to,
              &rows,
              &rowBytes,
              &boxes,
              &boxBytes,
              &window.lowRow,
              &window.highRow,
              &window.lowByte,
              &window.highByte,
              &data,
              &row,
              &column,
              &isCopied};
    }
    /// One of the tiles, for what all have alike.
    [[nodiscard]] const StagedTile &tile() const { return *tiles.front(); }
  };
  struct Share;
  /// A load in an iteration's order; the first waits for the slot, the last one publishes it.
  void lowerLoad(ir::Op &load);
  /// The loads of boxes that one code fills tiles for: this one and those before it; none where it
  /// is for a later load, too.
  [[nodiscard]] llvm::SmallVector<ir::Op *, 2> sharingLoads(ir::Op &load);
  [[nodiscard]] bool shareCode(ir::Op &first, ir::Op &second);
  void fillTiles(llvm::ArrayRef<ir::Op *> loads, llvm::Value *slot);
  [[nodiscard]] Operand operandOf(ir::Op &load, llvm::Value *slot);
  /// The operand of this number (i32).
  [[nodiscard]] Operand oneOf(llvm::MutableArrayRef<Operand> operands, llvm::Value *turn);
  void copyTile(const Operand &operand);
  /// The rows of a tile that came in units, to where TMA would have put them (shift_rows.cpp).
  void shiftTile(const Operand &operand);
  struct Shift;
  /// Of some copies of a unit; a lane has `atOnce` words of each in registers at once.
  void shiftCopies(const StagedTile &tile, llvm::ArrayRef<Shift> shifts, int64_t atOnce);
  /// Writes zeros to what does not exist of the rows that this warp has shifted.
  void zeroOutside(const Operand &operand);
  /// Of the rows from `begin` to `end` (i32).
  void zeroRows(const Operand &operand, llvm::Value *begin, llvm::Value *end);
  void zeroColumns(const Operand &operand);
  /// A tile that has come, in its place (transpose_tile.cpp).
  void transpose(ir::Op &load, llvm::Value *slot);
  void transposeTile(const StagedTile &tile, llvm::Value *slot);
  /// Of a tile whose rows' elements are neighbours in memory.
  void copyRows(const Operand &operand);
  /// The words of some groups of rows of a box, from `first` (i32) of the warp's groups on.
  void copyGroups(const Operand &operand, const Share &share, llvm::Value *box, llvm::Value *first);
  /// i64: where a byte of a row is.
  [[nodiscard]] llvm::Value *addressIn(const Operand &operand, llvm::Value *row, llvm::Value *byte);
  /// i32: the aligned word in which a byte of a row is, and by how many bits the byte lies in it
  /// (modulo 32). `begin`: its address.
  struct RowWord {
    llvm::Value *bits, *shift;
  };
  [[nodiscard]] RowWord wordOfRow(const Operand &operand, llvm::Value *row, llvm::Value *begin,
                                  llvm::Value *byte);
  /// i32: the word after the box, of each row of the groups; 32 rows in a warp's threads.
  [[nodiscard]] llvm::SmallVector<llvm::Value *, 4>
  wordsBehind(const Operand &operand, const Share &share, llvm::Value *box, llvm::Value *first);
  /// Any tile, element by element.
  void copyElements(const Operand &operand);
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
