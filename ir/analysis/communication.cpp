// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Follows views and signals to their parameters.
#include "ir/analysis/communication.h"

namespace dtile::ir {

Op *objectOf(Value *viewOrSignal) {
  Op *op = viewOrSignal->definingOp();
  while (op && !op->is(OpKind::Param) && !op->is(OpKind::SignalParam)) {
    bool isStep = op->is(OpKind::ViewSlice) || op->is(OpKind::ViewTile) || op->is(OpKind::ViewAt) ||
                  op->is(OpKind::ViewReshape) || op->is(OpKind::SigSlice) || op->is(OpKind::SigAt);
    if (!isStep)
      return nullptr;
    op = op->operand(0)->definingOp();
  }
  return op;
}

Op *rankSelectionOf(Value *viewOrSignal) {
  Op *op = viewOrSignal->definingOp();
  while (op && op->numOperands() != 0) {
    if (op->is(OpKind::ViewAt) || op->is(OpKind::SigAt))
      return op;
    op = op->operand(0)->definingOp();
  }
  return nullptr;
}

bool mayAlias(Value *a, Value *b) {
  Op *objectA = objectOf(a), *objectB = objectOf(b);
  if (!objectA || !objectB)
    return true;
  return objectA == objectB;
}

Value *writtenView(const Op &op) {
  switch (op.kind()) {
  case OpKind::Store:
  case OpKind::Scatter:
  case OpKind::Put:
  case OpKind::PutSignal:
  case OpKind::Get:
  case OpKind::ReduceAdd:
    return op.operand(1);
  case OpKind::Atomic:
    return op.operand(0);
  default:
    return nullptr;
  }
}

llvm::SmallVector<Value *, 2> readViews(const Op &op) {
  switch (op.kind()) {
  case OpKind::Load:
  case OpKind::Gather:
  case OpKind::Get:
  case OpKind::Atomic:
    return {op.operand(0)};
  case OpKind::Put:
  case OpKind::PutSignal:
    if (op.operand(0)->type().isView())
      return {op.operand(0)};
    return {};
  default:
    return {};
  }
}

Value *cellsOf(const Op &op) {
  if (op.is(OpKind::Notify) || op.is(OpKind::Wait))
    return op.operand(0);
  return op.is(OpKind::PutSignal) ? op.operand(2) : nullptr;
}

} // namespace dtile::ir
