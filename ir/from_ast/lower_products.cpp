// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matrix products. Those of two stacks of matrices are a loop with a product of two matrices, which
// is what the matrix units of every target multiply.
#include "ir/from_ast/lowering.h"

namespace dtile::ir {

namespace {

/// i32: a matrix's number, at each place of a tile of one matrix or of a stack of them.
Value *numbersIn(Builder &builder, Value *number, llvm::ArrayRef<int64_t> shape) {
  return builder.value(OpKind::Splat, {number}, builder.types().tile(shape, DType::I32));
}

/// One matrix of a stack.
Value *matrixOf(Builder &builder, Value *stack, Value *number) {
  const Type type = stack->type();
  const llvm::ArrayRef<int64_t> sizes = type.shape().drop_front();
  llvm::SmallVector<int64_t, 3> alone{1};
  alone.append(sizes.begin(), sizes.end());
  Value *taken =
      builder.value(OpKind::Take, {stack, numbersIn(builder, number, alone)},
                    builder.types().tile(alone, type.dtype()), {{attr::axis, int64_t(0)}});
  return builder.value(OpKind::Reshape, {taken}, builder.types().tile(sizes, type.dtype()));
}

/// A stack with one matrix exchanged.
Value *withMatrix(Builder &builder, Value *stack, Value *number, Value *matrix) {
  const Type type = stack->type();
  llvm::SmallVector<int64_t, 3> alone{1};
  alone.append(matrix->type().shape().begin(), matrix->type().shape().end());
  matrix = builder.value(OpKind::Reshape, {matrix}, builder.types().tile(alone, type.dtype()));
  if (matrix->type() != type)
    matrix = builder.value(OpKind::Broadcast, {matrix}, type);
  const int64_t count = type.shape().front();
  Value *each = builder.value(OpKind::Iota, {}, builder.types().tile({count}, DType::I32));
  llvm::SmallVector<int64_t, 3> line(type.shape().size(), 1);
  line.front() = count;
  const Type numbers = builder.types().tile(type.shape(), DType::I32);
  each = builder.value(OpKind::Reshape, {each}, builder.types().tile(line, DType::I32));
  if (each->type() != numbers)
    each = builder.value(OpKind::Broadcast, {each}, numbers);
  Value *isIt = builder.cmp("eq", each, numbersIn(builder, number, type.shape()));
  return builder.value(OpKind::Select, {isIt, matrix, stack});
}

} // namespace

Value *Lowering::dot(const TExpr &expr, Value *accumulator) {
  Value *a = value(*expr.operands[0]);
  Value *b = value(*expr.operands[1]);
  const Type type = typeOf(expr.type);
  if (!accumulator)
    accumulator = zero(type);
  const auto product = [&](Value *left, Value *right, Value *sum) {
    Value *result = builder_.value(OpKind::Dot, {left, right, sum}, sum->type());
    if (!expr.ints.empty())
      result->definingOp()->set(attr::precision, std::string("tf32"));
    return result;
  };
  if (type.rank() == 2)
    return product(a, b, accumulator);
  const Values bounds = {builder_.constIndex(0), builder_.constIndex(type.shape().front()),
                         builder_.constIndex(1), accumulator};
  Op *loop = builder_.op(OpKind::For, bounds, {type});
  const InsertionGuard guard(builder_);
  Block &body = loop->body();
  builder_.setInsertionPointToEnd(body);
  Value *position = body.addArgument(builder_.types().index(), "matrix");
  Value *sums = body.addArgument(type, "sums");
  Value *number = builder_.value(OpKind::Cast, {position}, builder_.types().scalar(DType::I32));
  Value *sum = product(matrixOf(builder_, a, number), matrixOf(builder_, b, number),
                       matrixOf(builder_, sums, number));
  builder_.op(OpKind::Yield, {withMatrix(builder_, sums, number, sum)});
  return loop->result();
}

} // namespace dtile::ir
