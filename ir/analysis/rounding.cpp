// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ir/analysis/rounding.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace dtile::ir {

namespace {

using Seen = llvm::SmallPtrSet<const Value *, 16>;

bool isPositive(const Value &value, Seen &seen);

bool arePositive(llvm::ArrayRef<Value *> values, Seen &seen) {
  return llvm::all_of(values, [&](const Value *value) { return isPositive(*value, seen); });
}

/// Of what a loop carries: where it begins positive, and an iteration keeps it so.
bool isCarriedPositive(const Op &loop, unsigned number, Seen &seen) {
  return isPositive(*loop.operand(number + 3), seen) &&
         isPositive(*loop.body().terminator()->operand(number), seen);
}

/// Whether no element of a value is less than 0, as far as the ops say that it comes from. What is
/// in `seen` is taken to be so.
bool isPositive(const Value &value, Seen &seen) {
  if (!seen.insert(&value).second)
    return true;
  const Op *op = value.definingOp();
  if (!op) {
    const Block &block = *value.argumentOf();
    const Op *loop = block.parentOp();
    return loop->is(OpKind::For) && value.index() > 0 &&
           isCarriedPositive(*loop, value.index() - 1, seen);
  }
  switch (op->kind()) {
  case OpKind::Const: {
    const auto *number = std::get_if<double>(op->attr(attr::value.name));
    return number && *number >= 0;
  }
  case OpKind::Exp:
  case OpKind::Exp2:
  case OpKind::Abs:
  case OpKind::Sqrt:
    return true;
  case OpKind::Mul:
    return op->operand(0) == op->operand(1) || arePositive(op->operands(), seen);
  case OpKind::Select:
    return arePositive(op->operands().drop_front(), seen);
  case OpKind::Reduce:
    return op->get(attr::kind) != "any" && op->get(attr::kind) != "all" &&
           isPositive(*op->operand(0), seen);
  case OpKind::Add:
  case OpKind::Div:
  case OpKind::Min:
  case OpKind::Splat:
  case OpKind::Broadcast:
  case OpKind::Reshape:
  case OpKind::Trans:
  case OpKind::Convert:
    return arePositive(op->operands(), seen);
  case OpKind::For:
    return isCarriedPositive(*op, value.index(), seen);
  case OpKind::If:
    return isPositive(*op->body(0).terminator()->operand(value.index()), seen) &&
           isPositive(*op->body(1).terminator()->operand(value.index()), seen);
  default:
    return false;
  }
}

bool isRounded(const Value &tile, Seen &seen);

/// What is carried by a loop, or given by a branch, from an operand on.
bool isPassedOnRounded(const Op &op, unsigned number, Seen &seen) {
  if (op.is(OpKind::For) && !isRounded(*op.body().argument(number + 1), seen))
    return false;
  // Nobody has to use what a loop ends with.
  const Value &result = *op.result(number);
  return (op.is(OpKind::For) && !result.hasUses()) || isRounded(result, seen);
}

bool isSumOfPositive(const Op &op) {
  Seen seen;
  return arePositive(op.operands(), seen);
}

bool isRounded(const Value &tile, Seen &seen) {
  if (!seen.insert(&tile).second)
    return true;
  const auto uses = tile.uses();
  return !uses.empty() && llvm::all_of(uses, [&](const Use &use) {
    const Op &user = *use.user;
    switch (user.kind()) {
    case OpKind::Cast: {
      const DType to = user.result()->type().elementOrIndex();
      return isFloat(to) && dtypeBytes(to) <= 2;
    }
    case OpKind::Select:
      return use.index != 0 && isRounded(*user.result(), seen);
    case OpKind::Add:
      return isSumOfPositive(user) && isRounded(*user.result(), seen);
    case OpKind::Reduce:
      return (user.get(attr::kind) == "max" || user.get(attr::kind) == "min" ||
              (user.get(attr::kind) == "sum" && isSumOfPositive(user))) &&
             isRounded(*user.result(), seen);
    case OpKind::Yield: {
      const Op &around = *user.parentOp();
      return (around.is(OpKind::For) || around.is(OpKind::If)) &&
             isPassedOnRounded(around, use.index, seen);
    }
    case OpKind::For:
      return use.index >= 3 && isPassedOnRounded(user, use.index - 3, seen);
    case OpKind::Div:
    case OpKind::Mul:
    case OpKind::Neg:
    case OpKind::Abs:
    case OpKind::Sqrt:
    case OpKind::Min:
    case OpKind::Max:
    case OpKind::Splat:
    case OpKind::Broadcast:
    case OpKind::Reshape:
    case OpKind::Trans:
    case OpKind::Convert:
      return isRounded(*user.result(), seen);
    default:
      return false;
    }
  });
}

} // namespace

bool isRoundedToNarrow(const Value &tile) {
  Seen seen;
  return isRounded(tile, seen);
}

} // namespace dtile::ir
