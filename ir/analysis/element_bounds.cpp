// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Interval arithmetic on elements. Integers that may have come round have the bounds of their type.
#include "ir/analysis/element_bounds.h"

#include "ir/analysis/clauses.h"
#include "ir/analysis/communication.h"
#include "ir/core/op_classes.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace dtile::ir {

namespace {

constexpr unsigned kMaxDepth = 200;

ElementBounds hull(ElementBounds a, ElementBounds b) {
  return {std::min(a.least, b.least), std::max(a.largest, b.largest)};
}

/// Of a type that is no float: what its bits can say.
ElementBounds ofType(Type type) {
  const DType dtype = type.elementOrIndex();
  if (isFloat(dtype))
    return {};
  if (dtype == DType::Bool)
    return {0, 1};
  const int bits = int(dtypeBits(dtype));
  if (dtypeClass(dtype) == DTypeClass::UInt)
    return {0, std::ldexp(1, bits) - 1};
  return {-std::ldexp(1, bits - 1), std::ldexp(1, bits - 1) - 1};
}

/// What was computed, or anything where that may have come round.
ElementBounds inType(ElementBounds bounds, Type type) {
  const ElementBounds all = ofType(type);
  const bool fits = bounds.least >= all.least && bounds.largest <= all.largest;
  return fits ? bounds : all;
}

/// Without what infinities leave open: 0 * inf, inf - inf.
double orElse(double value, double otherwise) { return std::isnan(value) ? otherwise : value; }

ElementBounds ofConstant(const Op &op) {
  const Attr &value = op.get(attr::value);
  double number = 0;
  if (const auto *truth = std::get_if<bool>(&value))
    number = *truth ? 1 : 0;
  else if (const auto *integer = std::get_if<int64_t>(&value))
    number = double(*integer);
  else if (const auto *real = std::get_if<double>(&value))
    number = *real;
  else
    return {};
  return std::isnan(number) ? ElementBounds{} : ElementBounds{number, number};
}

/// Of a function that does not fall.
ElementBounds mapped(ElementBounds x, OpKind kind) {
  const UnaryOp function = *unaryOp(kind);
  return {orElse(computeReal(function, x.least), -HUGE_VAL),
          orElse(computeReal(function, x.largest), HUGE_VAL)};
}

ElementBounds ofMagnitude(ElementBounds x) {
  const double most = std::max(std::abs(x.least), std::abs(x.largest));
  const bool hasZero = x.least <= 0 && x.largest >= 0;
  return {hasZero ? 0 : std::min(std::abs(x.least), std::abs(x.largest)), most};
}

} // namespace

ElementBounds BoundsFinder::of(Value *value) {
  if (const auto found = known_.find(value); found != known_.end())
    return found->second;
  const Type type = value->type();
  if (!type.isTile() && !type.isScalar() && !type.isIndex())
    return {};
  if (depth_ == kMaxDepth)
    return ofType(type);
  ++depth_;
  const ElementBounds found = inType(compute(value), type);
  --depth_;
  return known_[value] = found;
}

ElementBounds BoundsFinder::compute(Value *value) {
  Op *op = value->definingOp();
  if (!op) {
    const Op *around = value->argumentOf()->parentOp();
    const bool isCarried = around && around->is(OpKind::For) && value->index() > 0;
    return isCarried ? ofCarried(value) : ofType(value->type());
  }
  if (isElementwise(op->kind()))
    return ofElementwise(*op);
  switch (op->kind()) {
  case OpKind::Const:
    return ofConstant(*op);
  case OpKind::Splat:
  case OpKind::Broadcast:
  case OpKind::Reshape:
  case OpKind::Trans:
  case OpKind::Convert:
    return of(op->operand(0));
  case OpKind::Take:
    return hull(of(op->operand(0)), {0, 0});
  case OpKind::Iota:
    return {0, double(value->type().elements() - 1)};
  case OpKind::Load:
  case OpKind::Gather:
    return ofInput(op->operand(0), ofType(value->type()));
  case OpKind::Reduce:
  case OpKind::Scan:
    return ofReduced(*op);
  case OpKind::ArgReduce:
    return {0, double(op->operand(0)->type().shape()[size_t(op->get(attr::axis))] - 1)};
  case OpKind::For:
    return ofCarried(op->body().argument(1 + value->index()));
  case OpKind::If:
    return hull(of(op->body(0).terminator()->operand(value->index())),
                of(op->body(1).terminator()->operand(value->index())));
  default:
    return ofType(value->type());
  }
}

ElementBounds BoundsFinder::ofElementwise(Op &op) {
  if (op.is(OpKind::Select))
    return hull(of(op.operand(1)), of(op.operand(2)));
  const ElementBounds all = ofType(op.result()->type());
  if (op.numOperands() == 0 || op.is(OpKind::Cmp) || op.is(OpKind::Extern) || op.is(OpKind::Asm))
    return all;
  const ElementBounds x = of(op.operand(0));
  const ElementBounds y = op.numOperands() > 1 ? of(op.operand(1)) : x;
  const bool areNotNegative = x.least >= 0 && y.least >= 0;
  switch (op.kind()) {
  case OpKind::Add:
    return {orElse(x.least + y.least, -HUGE_VAL), orElse(x.largest + y.largest, HUGE_VAL)};
  case OpKind::Sub:
    return {orElse(x.least - y.largest, -HUGE_VAL), orElse(x.largest - y.least, HUGE_VAL)};
  case OpKind::Mul:
    return ofProduct(op);
  case OpKind::Div:
  case OpKind::Pow:
    return areNotNegative ? ElementBounds{0, HUGE_VAL} : all;
  case OpKind::Rem:
    return y.least > 0 ? ElementBounds{0, y.largest} : all;
  case OpKind::Min:
    return {std::min(x.least, y.least), std::min(x.largest, y.largest)};
  case OpKind::Max:
    return {std::max(x.least, y.least), std::max(x.largest, y.largest)};
  case OpKind::And:
  case OpKind::Shr:
    return areNotNegative ? ElementBounds{0, x.largest} : all;
  case OpKind::Neg:
    return {-x.largest, -x.least};
  case OpKind::Abs:
    return ofMagnitude(x);
  case OpKind::Exp:
  case OpKind::Exp2:
  case OpKind::Log:
  case OpKind::Log2:
  case OpKind::Tanh:
  case OpKind::Erf:
  case OpKind::Floor:
  case OpKind::Ceil:
    return mapped(x, op.kind());
  case OpKind::Sqrt:
    return {0, x.largest};
  case OpKind::Sin:
  case OpKind::Cos:
    return {-1, 1};
  case OpKind::Cast:
    // Floats are cut at the ends of the type.
    if (isFloat(op.operand(0)->type().elementOrIndex()) &&
        !isFloat(op.result()->type().elementOrIndex()))
      return {std::clamp(x.least, all.least, all.largest),
              std::clamp(x.largest, all.least, all.largest)};
    return x;
  default:
    return all;
  }
}

ElementBounds BoundsFinder::ofProduct(Op &op) {
  const ElementBounds x = of(op.operand(0)), y = of(op.operand(1));
  if (op.operand(0) == op.operand(1)) {
    const ElementBounds magnitude = ofMagnitude(x);
    return {magnitude.least * magnitude.least, magnitude.largest * magnitude.largest};
  }
  ElementBounds result{HUGE_VAL, -HUGE_VAL};
  for (const double a : {x.least, x.largest})
    for (const double b : {y.least, y.largest}) {
      const double corner = orElse(a * b, 0);
      result = hull(result, {corner, corner});
    }
  return result;
}

ElementBounds BoundsFinder::ofReduced(Op &op) {
  const llvm::StringRef kind = op.get(attr::kind);
  const ElementBounds x = of(op.operand(0));
  if (kind == "sum")
    return {x.least >= 0 ? 0 : -HUGE_VAL, x.largest <= 0 ? 0 : HUGE_VAL};
  if (kind == "prod")
    return {x.least >= 0 ? 0 : -HUGE_VAL, HUGE_VAL};
  return x;
}

/// What a loop begins with, as far as no iteration goes beyond.
ElementBounds BoundsFinder::ofCarried(Value *argument) {
  Op &loop = *argument->argumentOf()->parentOp();
  const unsigned carried = argument->index() - 1;
  const auto before = known_;
  ElementBounds bounds = of(loop.operand(3 + carried));
  for (bool isStable = false; !isStable;) {
    known_ = before;
    known_[argument] = bounds;
    const ElementBounds next = of(loop.body().terminator()->operand(carried));
    isStable = next.least >= bounds.least && next.largest <= bounds.largest;
    if (next.least < bounds.least)
      bounds.least = ofType(argument->type()).least;
    if (next.largest > bounds.largest)
      bounds.largest = ofType(argument->type()).largest;
  }
  known_ = before;
  return bounds;
}

/// What callers owe of all elements of an input.
ElementBounds BoundsFinder::ofInput(Value *view, ElementBounds bounds) {
  Op *object = objectOf(view);
  Op *kernel = object ? object->enclosing(OpKind::Kernel) : nullptr;
  if (!kernel)
    return bounds;
  for (Op *clause : clausesOf(*kernel)) {
    ElementClause said;
    if (!clause->is(OpKind::LaunchElements) || objectOf(clause->operand(0)) != object ||
        !decode(*clause, said) || said.kind != clauses::Kind::All)
      continue;
    const ElementBounds end = of(clause->operands().back());
    using enum clauses::Predicate;
    if (said.predicate == Ge || said.predicate == Gt || said.predicate == Eq)
      bounds.least = std::max(bounds.least, end.least);
    if (said.predicate == Le || said.predicate == Lt || said.predicate == Eq)
      bounds.largest = std::min(bounds.largest, end.largest);
  }
  // Past a limit there are zeros.
  return hull(bounds, {0, 0});
}

} // namespace dtile::ir
