// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to backend/gpu and the vendors' folders: lowers the body of a space for one program of
// threads. Tiles are spread over the threads' registers as their layouts say (ir/core/layout.h), or
// stand in shared memory; what leaves the program is plain accesses to peers' memory and calls of
// the device library (device_calls.def).
#pragma once

#include "backend/gpu/kernel_function.h"

#include "llvm/ADT/DenseMap.h"

namespace dtile::backend::gpu {

/// A tile's elements in this thread: one value a register of the layout, in computing form
/// (backend/llvm/arith.h). Registers whose elements lie outside the tile are null.
using Registers = llvm::SmallVector<llvm::Value *, 16>;

/// Lowers bodies into the kernel's function.
class BodyLowering : public KernelFunction {
public:
  using KernelFunction::KernelFunction;

  /// Emits all bodies of a space that this program runs, one after the other.
  virtual void lowerBodies(ir::Op &space, const BodyRange &range);
  /// Emits the body of a space at `b`; the positions are set already.
  void lower(ir::Op &space);
  [[nodiscard]] llvm::ArrayRef<llvm::Value *> registers(ir::Value *tile);
  void setRegisters(ir::Value *tile, Registers registers);

protected:
  /// Emits the loop of a program over bodies; `body` is emitted with their positions set. May be
  /// called more than once, for groups of threads that do different things.
  void forEachBody(ir::Op &space, const BodyRange &range, llvm::function_ref<void()> body);
  void lowerTargetOp(ir::Op &op) override;
  void checkCell(ir::Op &op, llvm::Value *position, llvm::Value *size) override;
  void checkRank(ir::Op &op, llvm::Value *rank) override;

private:
  // lower_tiles.cpp: elementwise, splat, iota, broadcast, reshape, trans, convert.
  void lowerTileOp(ir::Op &op);
  // lower_reductions.cpp: reduce, arg_reduce, scan.
  void lowerReduction(ir::Op &op);
  // lower_memory.cpp: load, store, gather, scatter, atomic of tiles and scalars; remote views are
  // addresses of peers' memory here as well.
  void lowerMemoryOp(ir::Op &op);
  // lower_dot.cpp
  void lowerDot(ir::Op &op);
  // lower_communication.cpp: put, get, reduce_add, notify, wait, tokens, fences, barrier, assert.
  void lowerCommunication(ir::Op &op);
};

} // namespace dtile::backend::gpu
