// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Follows a position to what it is a sum of.
#include "ir/analysis/boxes/box_starts.h"

#include "ir/core/constants.h"

namespace dtile::ir {

namespace {

bool isArithmetic(const Op &op) {
  switch (op.kind()) {
  case OpKind::Add:
  case OpKind::Sub:
  case OpKind::Mul:
  case OpKind::Div:
  case OpKind::Rem:
  case OpKind::Neg:
  case OpKind::Min:
  case OpKind::Max:
    return true;
  default:
    return false;
  }
}

/// Whether the launch knows a number before its bodies run; it may differ from rank to rank.
bool isKnownAtLaunch(const Value &number) {
  const Op *op = number.definingOp();
  if (!op)
    return false;
  if (op->is(OpKind::LaunchDim) || op->is(OpKind::ScalarParam) || op->is(OpKind::Rank) ||
      op->is(OpKind::NumRanks) || op->is(OpKind::Const))
    return true;
  return isArithmetic(*op) &&
         llvm::all_of(op->operands(), [](const Value *from) { return isKnownAtLaunch(*from); });
}

/// One question: which numbers have to be multiples of `unit`.
class Start {
public:
  explicit Start(int64_t unit) : unit_(unit) {}

  [[nodiscard]] bool isWhole(Value &position) {
    if (const std::optional<int64_t> number = constantOf(&position))
      return *number % unit_ == 0;
    if (const Block *block = position.argumentOf())
      return isWholeStep(*block->parentOp(), position.index());
    const Op *op = position.definingOp();
    const size_t before = wholes.size();
    if (op->is(OpKind::Mul)) {
      for (Value *factor : op->operands())
        if (isWhole(*factor) && wholes.size() == before)
          return true;
        else
          wholes.resize(before);
    } else if (op->is(OpKind::Add) || op->is(OpKind::Sub) || op->is(OpKind::Min) ||
               op->is(OpKind::Max)) {
      if (llvm::all_of(op->operands(), [&](Value *part) { return isWhole(*part); }))
        return true;
      wholes.resize(before);
    }
    // The number itself asks less than its parts would.
    if (isKnownAtLaunch(position)) {
      if (!llvm::is_contained(wholes, &position))
        wholes.push_back(&position);
      return true;
    }
    return op->is(OpKind::Mul) &&
           llvm::any_of(op->operands(), [&](Value *factor) { return isWhole(*factor); });
  }

  llvm::SmallVector<Value *, 2> wholes;

private:
  /// A counter of a loop, or a position of a space: from where it begins by steps.
  [[nodiscard]] bool isWholeStep(Op &around, unsigned number) {
    if (around.is(OpKind::For) ? number != 0 : !around.is(OpKind::Space))
      return false;
    return isWhole(*around.operand(3 * number)) && isWhole(*around.operand(3 * number + 2));
  }

  int64_t unit_;
};

} // namespace

std::optional<llvm::SmallVector<Value *, 2>> wholesOfStart(const TensorBox &box, int64_t elements) {
  Start start(elements);
  for (Value *first : box.dims.back().firsts)
    if (!start.isWhole(*first))
      return std::nullopt;
  return std::move(start.wholes);
}

void moveToLaunch(Value &number) {
  Op *op = number.definingOp();
  Op *space = op->enclosing(OpKind::Space);
  if (!space)
    return;
  for (Value *from : op->operands())
    moveToLaunch(*from);
  op->moveBefore(space);
}

} // namespace dtile::ir
