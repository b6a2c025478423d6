// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to backend/host: lowers a space's body. Tiles are buffers in the workspace or are
// computed in the loops of their users (tile_plan.h); everything that leaves the body is a call of
// the runtime.
#pragma once

#include "backend/host/host_module.h"
#include "backend/host/tile_plan.h"

namespace dtile::backend::host {

class TileLoops;

/// Lowers one body.
class BodyLowering : public FrameFunction {
public:
  BodyLowering(HostModule &module, const Frame &frame, ir::Block &body)
      : FrameFunction(module, &frame), host_(module), plan_(body) {}

  [[nodiscard]] LoweredBody lower(ir::Op &space, llvm::StringRef name);

  // What loops over tiles need.
  using FunctionLowering::block;
  using FunctionLowering::loop;
  using FunctionLowering::when;
  [[nodiscard]] const TilePlan &plan() const { return plan_; }
  [[nodiscard]] HostModule &host() { return host_; }
  [[nodiscard]] Arith &arith() { return arith_; }
  [[nodiscard]] ViewBuilder &views() { return views_; }
  /// Address of a tile's buffer.
  [[nodiscard]] llvm::Value *buffer(const ir::Value *tile);
  /// Memory for the lowering of the current op.
  [[nodiscard]] llvm::Value *scratch(int64_t bytes);

protected:
  void lowerTargetOp(ir::Op &op) override;
  void moveTiles(ir::Op &op, llvm::ArrayRef<ir::Value *> from,
                 llvm::ArrayRef<ir::Value *> to) override;
  void checkCell(ir::Op &op, llvm::Value *position, llvm::Value *size) override;
  void checkRank(ir::Op &op, llvm::Value *rank) override;

private:
  void lowerTileOp(ir::Op &op);

  // lower_tiles.cpp
  /// Writes a tile's elements to memory as a dense array; `dtype` may be wider than the tile's.
  void materialize(ir::Value *tile, llvm::Value *destination, DType dtype);
  void materialize(ir::Value *tile, llvm::Value *destination) {
    materialize(tile, destination, tile->type().dtype());
  }
  /// The same for a tile that is computed now; `root` as in TileLoops.
  void fill(ir::Value *tile, llvm::Value *destination, DType dtype, const ir::Value *root);
  /// The address of a tile's elements, from its buffer or made now.
  [[nodiscard]] llvm::Value *address(ir::Value *tile);
  void copyBytes(llvm::Value *to, llvm::Value *from, int64_t bytes);
  /// What is still in flight from the tile's buffer has to leave before it is written.
  void beforeWrite(const ir::Value *tile);
  void lowerReduce(ir::Op &op);
  void reduceAlongRows(ir::Op &op, int axis);
  void reduceAcrossRows(ir::Op &op, int axis);
  void lowerArgReduce(ir::Op &op);
  void lowerTake(ir::Op &op);
  void lowerScan(ir::Op &op);
  void storeElements(ir::Value *tile, const View &view);
  void lowerLoad(ir::Op &op);
  void lowerStore(ir::Op &op);
  void lowerGather(ir::Op &op);
  void lowerScatter(ir::Op &op);
  /// Emits `body` for each element of the index tiles, one a dimension, with the elements of
  /// `values` (tiles or scalars) and the positions.
  using IndexedBody =
      llvm::function_ref<void(TileLoops &loops, llvm::ArrayRef<llvm::Value *> elements,
                              llvm::ArrayRef<llvm::Value *> positions)>;
  void eachIndexed(ir::Op &op, unsigned dims, llvm::ArrayRef<ir::Value *> values, IndexedBody body);

  // lower_dot.cpp
  void lowerDot(ir::Op &op);

  // lower_communication.cpp
  /// A dtile_region on the stack; each slot holds one at a time.
  enum class Slot : uint8_t { Source, Destination };
  [[nodiscard]] llvm::Value *region(Slot slot, const View &view);
  [[nodiscard]] llvm::Value *cellsRegion(const SignalCells &cells);
  /// A view of a tile in memory, of the same positions as `like`.
  [[nodiscard]] View tileView(ir::Type tile, llvm::Value *data);
  /// Emits a call with the regions of two views, unless they are empty single elements.
  void transfer(Runtime call, View source, View destination, const ir::Op *traced);
  // Nothing is emitted where bodies are not traced.
  /// Before an op moves what is as large as `local`; `remote` may be on another rank.
  void traceCopy(const ir::Op &op, llvm::Value *remote, llvm::Value *local);
  /// Before a notify, a wait or a barrier.
  void traceCells(const ir::Op &op, llvm::Value *cells, llvm::Value *count);
  /// After these.
  void traceEnd();
  void lowerSend(ir::Op &op, Runtime call);
  void lowerGet(ir::Op &op);
  void lowerAtomic(ir::Op &op);
  void lowerMemoryFence(ir::Op &op);
  [[nodiscard]] llvm::Value *updated(int kind, const View &cell,
                                     llvm::ArrayRef<llvm::Value *> values);
  /// Of the elements that index tiles name, one after the other.
  void lowerAtomicScatter(ir::Op &op);
  void lowerRemoteLoad(ir::Op &op);
  void lowerRemoteStore(ir::Op &op);
  /// Memory that holds a value: the tile itself, or a slot of the stack for a scalar.
  [[nodiscard]] llvm::Value *placeOf(ir::Value *value);
  void lowerRemoteGather(ir::Op &op);
  void lowerRemoteScatter(ir::Op &op);
  void lowerAssert(ir::Op &op);
  /// Stops the launch with a message, the values in its holes.
  void fail(ir::Op &op, llvm::StringRef message, llvm::ArrayRef<ir::Value *> values);
  void lowerPrint(ir::Op &op);
  void notify(ir::Op &op, ir::Value *signal);
  void lowerWait(ir::Op &op);
  /// Waits for what was sent when one of the operands from `first` on is a token.
  void awaitTokens(ir::Op &op, unsigned first);
  void call(Runtime call, llvm::ArrayRef<llvm::Value *> arguments = {});
  [[nodiscard]] llvm::Value *bitsOf(DType type, llvm::Value *value);
  [[nodiscard]] llvm::Value *valueOf(DType type, llvm::Value *bits);

  HostModule &host_;
  TilePlan plan_;
  llvm::Value *task_ = nullptr;
  llvm::Value *workspace_ = nullptr;
  llvm::Value *regionSlots_[2] = {};
  int64_t scratchUsed_ = 0;
  int64_t scratchBytes_ = 0;
  /// Bytes after the scratch memory: scalars on their way to another rank.
  int64_t parcels_ = 0;
  llvm::SmallVector<llvm::Instruction *> parcelAddresses_;
};

} // namespace dtile::backend::host
