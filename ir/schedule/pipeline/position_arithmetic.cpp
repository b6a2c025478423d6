// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Walks from a value to the position that it is computed from.
#include "ir/schedule/pipeline/position_arithmetic.h"

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
  if (!op->enclosing(OpKind::Space))
    return true;
  if (const auto found = known_.find(op); found != known_.end())
    return found->second;
  const bool simple = isArithmetic(*op) && areSimple(op->operands());
  known_[op] = simple;
  return simple;
}

} // namespace dtile::passes
