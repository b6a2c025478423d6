// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ir/protocol/check/sum_types.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::protocol {

using ir::Op;
using ir::OpKind;
using ir::Value;

namespace {

bool hasElements(ir::Type type) { return type.isView() || type.isTile() || type.isScalar(); }

void widen(ir::TypeContext &types, Op &kernel, llvm::function_ref<bool(DType)> isSum) {
  const auto widened = [&](ir::Type type) {
    if (!hasElements(type) || !isSum(type.dtype()))
      return type;
    return type.isView() ? types.view(DType::F64, type.rank(), type.isRemote())
                         : types.withDType(type, DType::F64);
  };
  walk(kernel, [&](Op &op) {
    for (Value *result : op.results())
      result->setType(widened(result->type()));
    for (unsigned i = 0; i < op.numRegions(); ++i)
      for (Value *argument : op.body(i).arguments())
        argument->setType(widened(argument->type()));
  });
}

bool isOf(const Value *value, DType dtype) {
  return hasElements(value->type()) && value->type().dtype() == dtype;
}

/// Operands that must not be sums: positions, and what orders.
bool indexesWith(const Op &op, unsigned first, DType dtype) {
  for (unsigned i = first; i < op.numOperands(); ++i)
    if (isOf(op.operand(i), dtype))
      return true;
  return false;
}

/// Whether the interpreter has an operation on sums that means the same of integers.
bool isOfSums(const Op &op, DType dtype) {
  switch (op.kind()) {
  case OpKind::Const:
  case OpKind::Add:
  case OpKind::Sub:
  case OpKind::Mul:
  case OpKind::Neg:
  case OpKind::Min:
  case OpKind::Max:
  case OpKind::Cmp:
  case OpKind::Select:
  case OpKind::Splat:
  case OpKind::Broadcast:
  case OpKind::Reshape:
  case OpKind::Trans:
  case OpKind::Convert:
  case OpKind::Load:
  case OpKind::Store:
  case OpKind::Put:
  case OpKind::PutSignal:
  case OpKind::Get:
  case OpKind::ReduceAdd:
  case OpKind::For:
  case OpKind::While:
  case OpKind::If:
  case OpKind::Yield:
  case OpKind::Condition:
  case OpKind::Return:
  case OpKind::Param:
  case OpKind::ScalarParam:
  case OpKind::ViewSelect:
    return true;
  case OpKind::Gather:
  case OpKind::Take:
    return !indexesWith(op, 1, dtype);
  case OpKind::Scatter:
  case OpKind::ReduceAddScatter:
    return !indexesWith(op, 2, dtype);
  case OpKind::ViewSlice:
  case OpKind::ViewTile:
  case OpKind::ViewAt:
  case OpKind::ViewDim:
  case OpKind::ViewReshape:
    return !indexesWith(op, 1, dtype);
  // A float that becomes an integer is cut off, and a wider integer may be.
  case OpKind::Cast:
    return !hasElements(op.operand(0)->type()) || isOf(op.operand(0), dtype) ||
           dtypeBytes(op.operand(0)->type().dtype()) < dtypeBytes(dtype);
  case OpKind::Reduce:
    return op.get(ir::attr::kind) == "sum";
  case OpKind::Dot:
    return isOf(op.operand(0), dtype) && isOf(op.operand(1), dtype);
  case OpKind::LaunchElements:
    return op.get(ir::attr::kind) == "replicated";
  default:
    return false;
  }
}

} // namespace

void widenFloats(ir::TypeContext &types, Op &kernel) { widen(types, kernel, isFloat); }

bool widenIntegers(ir::TypeContext &types, Op &kernel, DType dtype) {
  bool isFine = true;
  walk(kernel, [&](const Op &op) {
    const auto isOne = [&](const Value *value) { return isOf(value, dtype); };
    const bool takesPart = llvm::any_of(op.operands(), isOne) || llvm::any_of(op.results(), isOne);
    // Floats keep what follows from them: `cast<i32>(x)` is no sum.
    const bool isCut = op.is(OpKind::Cast) && isOne(op.result()) &&
                       hasElements(op.operand(0)->type()) && isFloat(op.operand(0)->type().dtype());
    isFine &= !takesPart || (isOfSums(op, dtype) && !isCut);
  });
  if (!isFine)
    return false;
  walk(kernel, [&](Op &op) {
    if (!op.is(OpKind::Const) || !isOf(op.result(), dtype))
      return;
    if (const int64_t *integer = std::get_if<int64_t>(op.attr("value")))
      op.setAttr("value", double(*integer));
  });
  widen(types, kernel, [&](DType one) { return one == dtype; });
  return true;
}

} // namespace dtile::protocol
