// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `scan(x, f, axis: k)` and `reduce(x, f, axis: k)`: what an associative function makes of elements
// in their order, in log2(n) steps.
#include "ir/from_ast/lowering.h"

namespace dtile::ir {

Value *Lowering::placesAlong(llvm::ArrayRef<int64_t> shape, size_t axis, int64_t factor,
                             int64_t offset) {
  const Type line = builder_.types().tile({shape[axis]}, DType::I32);
  const auto all = [&](int64_t number) {
    return builder_.value(OpKind::Splat, {builder_.constInt(DType::I32, number)}, line);
  };
  Value *at = builder_.value(OpKind::Iota, {}, line);
  if (factor != 1)
    at = builder_.mul(at, all(factor));
  if (offset != 0)
    at = builder_.add(at, all(offset));
  if (shape.size() == 1)
    return at;
  llvm::SmallVector<int64_t, 4> alone(shape.size(), 1);
  alone[axis] = shape[axis];
  at = builder_.value(OpKind::Reshape, {at}, builder_.types().tile(alone, DType::I32));
  return builder_.value(OpKind::Broadcast, {at}, builder_.types().tile(shape, DType::I32));
}

// In each step every element takes what ends d before it, with d = 1, 2, 4 …, and is then the
// result of 2 d elements.
Lowering::Values Lowering::scanBy(const TExpr &expr) {
  Values running;
  for (const TExpr *operand : expr.operands)
    running.push_back(value(*operand));
  const llvm::ArrayRef<int64_t> shape = running.front()->type().shape();
  const auto axis = size_t(expr.ints.front());
  const int64_t length = shape[axis];
  const Type positions = builder_.types().tile(shape, DType::I32);
  Value *at = placesAlong(shape, axis, 1, 0);
  for (int64_t distance = 1; distance < length; distance *= 2) {
    Value *by = builder_.value(OpKind::Splat, {builder_.constInt(DType::I32, distance)}, positions);
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

Value *Lowering::withoutAxis(Value *tile, size_t axis) {
  const Type type = tile->type();
  llvm::SmallVector<int64_t, 4> shape(type.shape());
  shape.erase(shape.begin() + axis);
  if (!shape.empty())
    return builder_.value(OpKind::Reshape, {tile}, builder_.types().tile(shape, type.dtype()));
  const std::string kind = type.dtype() == DType::Bool ? "any" : "sum";
  return builder_.value(OpKind::Reduce, {tile}, builder_.types().scalar(type.dtype()),
                        {{attr::axis, 0}, {attr::kind, kind}});
}

// In each step neighbours are joined, so that half of the elements are left. Of an odd number the
// last has no neighbour, and stays as it is.
Lowering::Values Lowering::reduceBy(const TExpr &expr) {
  Values left;
  for (const TExpr *operand : expr.operands)
    left.push_back(value(*operand));
  const auto axis = size_t(expr.ints.front());
  llvm::SmallVector<int64_t, 4> shape(left.front()->type().shape());
  if (shape[axis] == 1) {
    for (Value *&one : left)
      one = withoutAxis(one, axis);
    return left;
  }
  for (const sema::FnInstance *step : expr.steps) {
    const int64_t length = shape[axis];
    shape[axis] = (length + 1) / 2;
    const bool isLast = shape[axis] == 1;
    Value *second = placesAlong(shape, axis, 2, 1);
    Values operands;
    for (Value *places : {placesAlong(shape, axis, 2, 0), second})
      for (Value *one : left) {
        Value *half = builder_.value(OpKind::Take, {one, places},
                                     builder_.types().tile(shape, one->type().dtype()),
                                     {{attr::axis, int64_t(axis)}});
        operands.push_back(isLast ? withoutAxis(half, axis) : half);
      }
    left = callOf(*step, operands);
    if (length % 2 == 0)
      continue;
    Value *end = builder_.value(OpKind::Splat, {builder_.constInt(DType::I32, length)},
                                builder_.types().tile(shape, DType::I32));
    Value *isThere = builder_.cmp("lt", second, end);
    for (auto [i, one] : llvm::enumerate(left))
      one = builder_.value(OpKind::Select, {isThere, one, operands[i]});
  }
  return left;
}

} // namespace dtile::ir
