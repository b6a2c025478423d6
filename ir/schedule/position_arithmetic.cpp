// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Walks from a value to the position that it is computed from.
#include "ir/schedule/position_arithmetic.h"

namespace dtile::passes {

using ir::Op;
using ir::OpKind;

bool PositionArithmetic::isSimple(ir::Value *value) {
  const ir::Type type = value->type();
  if (type.isTile() || type.isToken() || type.isAcquire())
    return true;
  Op *op = value->definingOp();
  if (!op) {
    Op *owner = value->argumentOf()->parentOp();
    const bool counts = owner->is(OpKind::For) && value->index() == 0;
    return owner->is(OpKind::Space) ||
           (counts && areSimple(llvm::ArrayRef(owner->operands()).take_front(3)));
  }
  if (!op->enclosing(OpKind::Space) || !seen_.insert(op).second)
    return true;
  return isArithmetic(*op) && areSimple(op->operands());
}

} // namespace dtile::passes
