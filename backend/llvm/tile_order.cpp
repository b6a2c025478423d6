// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The same arithmetic as ir/core/tile_order.cpp, step by step.
#include "backend/llvm/tile_order.h"

#include "llvm/IR/Intrinsics.h"

namespace dtile::backend {

llvm::SmallVector<llvm::Value *, 4> emitTileOrder(llvm::IRBuilder<> &b, const ir::TileOrder &order,
                                                  llvm::ArrayRef<llvm::Value *> blocks,
                                                  llvm::ArrayRef<llvm::Value *> centers,
                                                  llvm::Value *linear, bool areFew) {
  llvm::Type *type = areFew ? b.getInt32Ty() : b.getInt64Ty();
  llvm::SmallVector<llvm::Value *, 4> sizes;
  for (llvm::Value *size : blocks)
    sizes.push_back(b.CreateTrunc(size, type));
  linear = b.CreateTrunc(linear, type);
  llvm::SmallVector<llvm::Value *, 4> block(blocks.size(), nullptr);
  for (size_t i = order.order.size(); i-- > 0;) {
    const unsigned inner = order.order[i];
    const bool grouped = i > 0 && order.group[order.order[i - 1]] > 0;
    if (!grouped) {
      // The outermost digit is what is left.
      block[inner] = i == 0 ? linear : b.CreateURem(linear, sizes[inner]);
      if (i > 0)
        linear = b.CreateUDiv(linear, sizes[inner]);
      continue;
    }
    const unsigned outer = order.order[--i];
    llvm::Value *group = llvm::ConstantInt::get(type, uint64_t(order.group[outer]));
    llvm::Value *pair = linear;
    if (i > 0) {
      llvm::Value *both = b.CreateMul(sizes[outer], sizes[inner]);
      pair = b.CreateURem(linear, both);
      linear = b.CreateUDiv(linear, both);
    }
    llvm::Value *span = b.CreateMul(group, sizes[inner]);
    llvm::Value *first = b.CreateMul(b.CreateUDiv(pair, span), group);
    llvm::Value *size =
        b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b.CreateSub(sizes[outer], first), group);
    llvm::Value *within = b.CreateURem(pair, span);
    block[outer] = b.CreateAdd(first, b.CreateURem(within, size));
    block[inner] = b.CreateUDiv(within, size);
  }
  for (llvm::Value *&number : block)
    number = b.CreateZExt(number, b.getInt64Ty());
  for (size_t d = 0; d < block.size(); ++d) {
    if (order.rotate[d] == 0)
      continue;
    llvm::Value *turned = b.CreateAdd(centers[d], b.getInt64(order.start[d]));
    turned = b.CreateAdd(turned, b.CreateMul(b.getInt64(order.rotate[d]), block[d]));
    llvm::Value *rest = b.CreateSRem(turned, blocks[d]);
    llvm::Value *isNegative = b.CreateICmpSLT(rest, b.getInt64(0));
    block[d] = b.CreateSelect(isNegative, b.CreateAdd(rest, blocks[d]), rest);
  }
  return block;
}

llvm::Value *emitBlockCount(llvm::IRBuilder<> &b, llvm::Value *first, llvm::Value *end,
                            llvm::Value *step) {
  llvm::Value *span = b.CreateSub(end, first);
  llvm::Value *safeStep = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, step, b.getInt64(1));
  llvm::Value *up = b.CreateAdd(span, b.CreateSub(safeStep, b.getInt64(1)));
  llvm::Value *count = b.CreateSDiv(up, safeStep);
  return b.CreateSelect(b.CreateICmpSGT(span, b.getInt64(0)), count, b.getInt64(0));
}

llvm::Value *emitFewBlocks(llvm::IRBuilder<> &b, llvm::Value *end, llvm::Value *step) {
  llvm::Value *up = b.CreateAdd(end, b.CreateSub(step, b.getInt64(1)));
  const auto narrow = [&](llvm::Value *value) { return b.CreateTrunc(value, b.getInt32Ty()); };
  llvm::Value *count = b.CreateZExt(b.CreateUDiv(narrow(up), narrow(step)), b.getInt64Ty());
  return b.CreateSelect(b.CreateICmpSGT(end, b.getInt64(0)), count, b.getInt64(0));
}

} // namespace dtile::backend
