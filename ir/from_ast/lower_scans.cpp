// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `scan(x, f, axis: k)`: running results of an associative function. In each of log2(n) steps every
// element takes what ends d before it, with d = 1, 2, 4 …, so that each has 2 d elements behind it.
#include "ir/from_ast/lowering.h"

namespace dtile::ir {

Lowering::Values Lowering::scanBy(const TExpr &expr) {
  Values running;
  for (const TExpr *operand : expr.operands)
    running.push_back(value(*operand));
  const llvm::ArrayRef<int64_t> shape = running.front()->type().shape();
  const auto axis = size_t(expr.ints.front());
  const int64_t length = shape[axis];
  const Type positions = builder_.types().tile(shape, DType::I32);
  const auto all = [&](Value *number) {
    return builder_.value(OpKind::Splat, {number}, positions);
  };
  Value *at = builder_.value(OpKind::Iota, {}, builder_.types().tile({length}, DType::I32));
  if (shape.size() > 1) {
    llvm::SmallVector<int64_t, 4> alone(shape.size(), 1);
    alone[axis] = length;
    at = builder_.value(OpKind::Reshape, {at}, builder_.types().tile(alone, DType::I32));
    at = builder_.value(OpKind::Broadcast, {at}, positions);
  }
  for (int64_t distance = 1; distance < length; distance *= 2) {
    Value *by = all(builder_.constInt(DType::I32, distance));
    Value *before = builder_.sub(at, by);
    Value *isThere = builder_.cmp("ge", at, by);
    Values operands;
    for (Value *one : running)
      operands.push_back(
          builder_.value(OpKind::Take, {one, before}, one->type(), {{attr::axis, int64_t(axis)}}));
    operands.append(running.begin(), running.end());
    const Values joined = callOf(*expr.callee, operands);
    for (auto [one, next] : llvm::zip_equal(running, joined))
      one = builder_.value(OpKind::Select, {isThere, next, one});
  }
  return running;
}

} // namespace dtile::ir
