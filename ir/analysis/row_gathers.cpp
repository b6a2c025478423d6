// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Follows numbers of rows to where they come from, and to where they go.
#include "ir/analysis/row_gathers.h"
#include "ir/core/op_classes.h"

#include "llvm/ADT/SmallPtrSet.h"

namespace dtile::ir {

namespace {

/// Ops that have been asked about, or are being: a no ends all questions.
using Seen = llvm::SmallPtrSet<const Op *, 16>;

bool isFoundByElement(Value *tile, llvm::function_ref<bool(Value &)> sees, Seen &seen) {
  Op *op = tile->definingOp();
  if (op && !seen.insert(op).second)
    return true;
  if (!op || tile->type().rank() != 1)
    return false;
  const bool isLoad = (op->is(OpKind::Load) || op->is(OpKind::Gather)) && !op->get(attr::ll) &&
                      !op->operand(0)->type().isRemote() &&
                      llvm::none_of(op->operands(), [](Value *v) { return v->type().isToken(); });
  const bool isMade = op->is(OpKind::Splat) || op->is(OpKind::Iota) || op->is(OpKind::Convert) ||
                      isElementwise(op->kind());
  if ((!isLoad && !isMade) || (isLoad && !sees(*tile)))
    return false;
  return llvm::all_of(op->operands(), [&](Value *operand) {
    return operand->type().isTile() ? isFoundByElement(operand, sees, seen) : sees(*operand);
  });
}

bool isForRows(const Op &op, std::optional<LoadPath> path, Seen &seen) {
  if (!seen.insert(&op).second)
    return true;
  if (op.numResults() != 1 || !op.result()->type().isTile() || !op.result()->hasUses() ||
      op.numRegions() > 0)
    return false;
  return llvm::all_of(op.result()->uses(), [&](const Use &use) {
    return gathersRows(*use.user) ? use.index == 1 && (!path || comesVia(*use.user, *path))
                                  : isForRows(*use.user, path, seen);
  });
}

} // namespace

bool isFoundByElement(Value *tile, llvm::function_ref<bool(Value &)> sees) {
  Seen seen;
  return isFoundByElement(tile, sees, seen);
}

bool isForRows(const Op &op, std::optional<LoadPath> path) {
  Seen seen;
  return isForRows(op, path, seen);
}

} // namespace dtile::ir
