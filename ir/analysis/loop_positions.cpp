// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Follows operands within one block.
#include "ir/analysis/loop_positions.h"

#include "ir/analysis/communication.h"

namespace dtile::ir {

llvm::SmallVector<Op *, 8> loopsOfSpaces(Module &module) {
  llvm::SmallVector<Op *, 8> loops;
  walk(module.body(), [&](Op &op) {
    if (op.is(OpKind::For) && op.enclosing(OpKind::Space))
      loops.push_back(&op);
  });
  return loops;
}

bool isLookup(const Op &op) { return isLoadOfInput(op) && op.result()->type().isIntLike(); }

bool followsFromPosition(Op &op, PositionChain &chain, bool &isVarying) {
  constexpr uint16_t kAnyEffect = 0xffff;
  const Block &body = *op.parentBlock();
  for (Value *operand : op.operands()) {
    Op *source = operand->definingOp();
    if (!source) {
      // Arguments of blocks around the loop do not change in it.
      if (operand->argumentOf() != &body)
        continue;
      if (operand != body.arguments().front())
        return false;
      isVarying = true;
      continue;
    }
    if (source->parentBlock() != &body || chain.contains(source))
      continue;
    // A rank that follows from the position may be none behind the last iteration.
    if (source->is(OpKind::ViewAt) || source->numRegions() > 0 ||
        (source->hasEffect(kAnyEffect) && !isLookup(*source)) ||
        !followsFromPosition(*source, chain, isVarying))
      return false;
  }
  chain.insert(&op);
  return true;
}

} // namespace dtile::ir
