// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ir/model/promised_limit.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::model {

using ir::Op;
using ir::OpKind;
using ir::Use;
using ir::Value;

namespace {

bool isUpperBound(llvm::StringRef pred) { return pred == "le" || pred == "lt"; }

/// The parameter that an element is read from; or null.
Op *objectOfLoad(const Op &load) {
  Op *object = load.operand(0)->definingOp();
  while (object && (object->is(OpKind::ViewSlice) || object->is(OpKind::ViewTile)))
    object = object->operand(0)->definingOp();
  return object && object->is(OpKind::Param) ? object : nullptr;
}

/// The same of a number, whatever it is cast to.
Op *objectOf(const Value &value) {
  const Op *op = value.definingOp();
  while (op && op->is(OpKind::Cast))
    op = op->operand(0)->definingOp();
  return op && op->is(OpKind::Load) ? objectOfLoad(*op) : nullptr;
}

/// Whether another element of the object is subtracted from the value, or the value from it.
bool isOneOfDifference(const Value &value, const Op &object) {
  return llvm::any_of(value.uses(), [&](const Use &use) {
    if (use.user->is(OpKind::Cast))
      return isOneOfDifference(*use.user->result(), object);
    return use.user->is(OpKind::Sub) && objectOf(*use.user->operand(1 - use.index)) == &object;
  });
}

/// Of all elements of the parameter that a load reads.
Value *limitOfElements(Op &load) {
  Op *object = objectOfLoad(load);
  if (!object || isOneOfDifference(*load.result(), *object))
    return nullptr;
  for (const Use &use : object->result()->uses())
    if (use.user->is(OpKind::LaunchElements) && use.index == 0 &&
        use.user->get(ir::attr::kind) == "all" && !use.user->has(ir::attr::at) &&
        isUpperBound(use.user->get(ir::attr::pred)))
      return use.user->operand(use.user->numOperands() - 1);
  return nullptr;
}

/// `assume value <= limit because "…"`.
Value *assumedLimit(const Value &value) {
  for (const Use &use : value.uses()) {
    Op &comparison = *use.user;
    if (!comparison.is(OpKind::Cmp) || use.index != 0 ||
        !isUpperBound(comparison.get(ir::attr::pred)))
      continue;
    if (llvm::any_of(comparison.result()->uses(), [](const Use &asserted) {
          return asserted.user->is(OpKind::Assert) && asserted.user->has(ir::attr::because);
        }))
      return comparison.operand(1);
  }
  return nullptr;
}

} // namespace

Value *promisedLimit(Op &op) {
  if (op.numResults() != 1)
    return nullptr;
  const ir::Type type = op.result()->type();
  if ((!type.isIndex() && !type.isScalar()) || isFloat(type.elementOrIndex()))
    return nullptr;
  if (Value *limit = assumedLimit(*op.result()))
    return limit;
  return op.is(OpKind::Load) ? limitOfElements(op) : nullptr;
}

bool endsLoops(const ir::Op &number) {
  return !number.result()->uses().empty() &&
         llvm::all_of(number.result()->uses(), [](const ir::Use &use) {
           return use.user->is(ir::OpKind::For) && use.index == 1;
         });
}

} // namespace dtile::model
