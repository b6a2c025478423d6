// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Follows numbers of rows to where they come from, and to where they go.
#include "ir/analysis/row_gathers.h"

namespace dtile::ir {

namespace {

bool isElementwise(const Op &op) { return OpKind::Add <= op.kind() && op.kind() <= OpKind::Cast; }

} // namespace

bool isFoundByElement(Value *tile, llvm::function_ref<bool(Value &)> sees) {
  Op *op = tile->definingOp();
  if (!op || tile->type().rank() != 1)
    return false;
  const bool isLoad = op->is(OpKind::Load) && op->numOperands() == 1 &&
                      !op->operand(0)->type().isRemote() && !op->boolAttrOr("flagged", false);
  const bool isMade = op->is(OpKind::Splat) || op->is(OpKind::Iota) || op->is(OpKind::Convert) ||
                      isElementwise(*op);
  if ((!isLoad && !isMade) || (isLoad && !sees(*tile)))
    return false;
  return llvm::all_of(op->operands(), [&](Value *operand) {
    return operand->type().isTile() ? isFoundByElement(operand, sees) : sees(*operand);
  });
}

bool isForStagedRows(const Op &op) {
  if (op.numResults() != 1 || !op.result()->type().isTile() || !op.result()->hasUses() ||
      op.numRegions() > 0)
    return false;
  return llvm::all_of(op.result()->uses(), [](const Use &use) {
    return gathersRows(*use.user) ? use.index == 1 && use.user->hasAttr("swizzle")
                                  : isForStagedRows(*use.user);
  });
}

} // namespace dtile::ir
