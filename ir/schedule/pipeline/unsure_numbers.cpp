// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ir/schedule/pipeline/unsure_numbers.h"

#include "ir/analysis/communication.h"
#include "ir/analysis/dependence.h"
#include "ir/core/op_classes.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::passes {

using namespace dtile::ir;

bool UnsureNumbers::isWritten(Value *view) const {
  bool isWritten = false;
  walk(*space_.enclosing(OpKind::Kernel), [&](Op &other) {
    Value *written = writtenView(other);
    isWritten |= written && mayAlias(written, view);
  });
  return isWritten;
}

bool UnsureNumbers::isOrderedByWrites(Op &load) const {
  bool isOrdered = false;
  walk(space_.body(), [&](Op &op) {
    if (Value *written = writtenView(op))
      isOrdered |= mayAlias(written, load.operand(0));
  });
  for (Value *after : load.operands().drop_front())
    isOrdered |= !after->type().isAcquire() && !after->type().isTile();
  return isOrdered;
}

bool UnsureNumbers::isUnsure(const Value &number) const {
  const Op *op = number.definingOp();
  if (!op || number.type().isTile() || !(number.type().isScalar() || number.type().isIndex()) ||
      op->isPure() || op->hasEffect(Control))
    return false;
  if (!op->is(OpKind::Load) || op->numOperands() != 1 || op->operand(0)->type().isRemote())
    return true;
  return isWritten(op->operand(0));
}

bool UnsureNumbers::canBePassed(const Value &number, const Op &loop) const {
  Op *load = number.definingOp();
  if (!load || !load->is(OpKind::Load) || !isInteger(number.type().elementOrIndex()) ||
      load->operand(0)->type().isRemote() || isOrderedByWrites(*load))
    return false;
  const bool isAwaited = llvm::any_of(load->operands().drop_front(),
                                      [](const Value *after) { return after->type().isAcquire(); });
  // Once for the loop, and as often in each role.
  bool isAround = false;
  for (const Op *around = loop.parentOp(); around; around = around->parentOp())
    isAround |= around == load->parentOp();
  return isAwaited && isAround;
}

bool walksBy(Op &loop, llvm::ArrayRef<Op *> loads, llvm::function_ref<bool(const Value &)> isSuch) {
  const auto follows = [&](Value *value) {
    return !value->type().isTile() && dependsOn(value, isSuch);
  };
  for (Op *load : loads)
    if (llvm::any_of(load->operands(), follows))
      return true;
  for (Op *around = &loop; !around->is(OpKind::Space); around = around->parentOp()) {
    if (around->is(OpKind::While) || llvm::any_of(around->operands(), follows))
      return true;
    // Where a condition gives numbers, that warp would have to compute them, too.
    if (around->is(OpKind::If) && llvm::any_of(around->results(), [](const Value *result) {
          const Type type = result->type();
          return !type.isTile() && !type.isToken() && !type.isAcquire();
        }))
      return true;
    if (around->is(OpKind::For) && llvm::any_of(around->body().terminator()->operands(), follows))
      return true;
  }
  return false;
}

} // namespace dtile::passes
