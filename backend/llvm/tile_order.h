// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ir::TileOrder::decode in LLVM IR: from a body's number to the block number of each dimension.
#pragma once

#include "ir/core/tile_order.h"

#include "llvm/IR/IRBuilder.h"

namespace dtile::backend {

/// `blocks` holds each dimension's number of blocks, `linear` is below their product; of `centers`,
/// those of rotated dimensions are read. `areFew`: the product is below 2^31. GPUs then divide in
/// 32 bits, which takes a fifth of the instructions.
[[nodiscard]] llvm::SmallVector<llvm::Value *, 4>
emitTileOrder(llvm::IRBuilder<> &builder, const ir::TileOrder &order,
              llvm::ArrayRef<llvm::Value *> blocks, llvm::ArrayRef<llvm::Value *> centers,
              llvm::Value *linear, bool areFew);

/// max(0, ceil((end - first) / step)) for a positive step.
[[nodiscard]] llvm::Value *emitBlockCount(llvm::IRBuilder<> &builder, llvm::Value *first,
                                          llvm::Value *end, llvm::Value *step);
/// The same from 0 on, for `end` and `step` below 2^31, divided in 32 bits.
[[nodiscard]] llvm::Value *emitFewBlocks(llvm::IRBuilder<> &builder, llvm::Value *end,
                                         llvm::Value *step);

} // namespace dtile::backend
