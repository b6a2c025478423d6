// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// canonicalize, the rules for elementwise ops. Identities that hold for wrapping integers are used
// for all integers; those that need a value not to overflow ask rangeOf first.
#include "frontend/base/check.h"
#include "ir/core/op_classes.h"
#include "ir/transform/canonicalizer.h"
#include "ir/transform/ranges.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::passes {

using namespace dtile::ir;

namespace {

/// Const and the ops from Add to Cast stand together in ops.def.

bool isIntegral(Type type) { return isInteger(type.elementOrIndex()); }

bool isSplatOf(const Value *value, int64_t number) {
  const std::optional<Constant> constant = splatConstantIn(value);
  return constant && isConstant(*constant, number);
}

llvm::StringRef mirrored(llvm::StringRef predicate) {
  if (predicate == "lt")
    return "gt";
  if (predicate == "le")
    return "ge";
  if (predicate == "gt")
    return "lt";
  if (predicate == "ge")
    return "le";
  return predicate;
}

llvm::StringRef inverted(llvm::StringRef predicate) {
  if (predicate == "eq")
    return "ne";
  if (predicate == "ne")
    return "eq";
  if (predicate == "lt")
    return "ge";
  if (predicate == "le")
    return "gt";
  if (predicate == "gt")
    return "le";
  return "lt";
}

} // namespace

// Constants.

bool Canonicalizer::foldConstants(Op &op) {
  llvm::SmallVector<Constant, 3> values;
  for (Value *operand : op.operands()) {
    const std::optional<Constant> value = constantIn(operand);
    if (!value)
      return false;
    values.push_back(*value);
  }
  const DType type = op.operand(0)->type().elementOrIndex();
  std::optional<Constant> result;
  if (op.is(OpKind::Cmp)) {
    if (const std::optional<bool> holds =
            foldCompare(op.get(attr::pred), type, values[0], values[1]))
      result = *holds;
  } else if (op.is(OpKind::Cast)) {
    result = foldCast(type, op.result()->type().elementOrIndex(), values[0]);
  } else if (op.is(OpKind::Bitcast)) {
    result = foldBitcast(type, op.result()->type().elementOrIndex(), values[0]);
  } else if (op.numOperands() == 2) {
    result = foldBinary(op.kind(), type, values[0], values[1]);
  } else if (op.numOperands() == 1) {
    result = foldUnary(op.kind(), type, values[0]);
  }
  if (!result)
    return false;
  return replace(op, makeConst(op, op.result()->type(), *result));
}

/// An op on splats is the splat of the op.
bool Canonicalizer::scalarize(Op &op) {
  const Type type = op.result()->type();
  if (!type.isTile())
    return false;
  llvm::SmallVector<Value *, 3> scalars;
  for (Value *operand : op.operands()) {
    Op *splat = definedBy(operand, OpKind::Splat);
    if (!splat && operand->type().isTile())
      return false;
    scalars.push_back(splat ? splat->operand(0) : operand);
  }
  Value *scalar = make(op, op.kind(), scalars, builder_.types().scalar(type.dtype()));
  for (const NamedAttr &attr : op.attrs())
    scalar->definingOp()->setAttr(attr.name, attr.value);
  return replace(op, make(op, OpKind::Splat, {scalar}, type));
}

// Two operands.

bool Canonicalizer::simplifyAdd(Op &op) {
  Value *x = op.operand(0), *y = op.operand(1);
  const bool integral = isIntegral(x->type());
  const std::optional<Constant> c = splatConstantIn(y);
  if (c && (integral ? isConstant(*c, 0) : *c == Constant(-0.0) && !isConstant(*c, 0)))
    return replace(op, x);
  if (!integral)
    return false;
  // (x + c1) + c2
  Op *inner = definedBy(x, OpKind::Add);
  const std::optional<Constant> first = inner ? constantIn(inner->operand(1)) : std::nullopt;
  const std::optional<Constant> second = constantIn(y);
  if (first && second) {
    const DType type = x->type().elementOrIndex();
    Value *sum = makeConst(op, x->type(), *foldBinary(OpKind::Add, type, *first, *second));
    Value *base = inner->operand(0);
    setOperand(op, 0, base);
    setOperand(op, 1, sum);
    return true;
  }
  // (a - y) + y, and the reverse.
  for (const auto &[difference, other] : {std::pair(x, y), std::pair(y, x)})
    if (Op *sub = definedBy(difference, OpKind::Sub); sub && sub->operand(1) == other)
      return replace(op, sub->operand(0));
  return false;
}

bool Canonicalizer::simplifySub(Op &op) {
  Value *x = op.operand(0), *y = op.operand(1);
  if (isSplatOf(y, 0))
    return replace(op, x);
  if (!isIntegral(x->type()))
    return false;
  if (x == y)
    return replace(op, makeConst(op, x->type(), constantOf(x->type().elementOrIndex(), 0)));
  if (const std::optional<Constant> c = constantIn(y)) {
    const DType type = x->type().elementOrIndex();
    Value *negative = makeConst(op, y->type(), *foldUnary(OpKind::Neg, type, *c));
    return replace(op, make(op, OpKind::Add, {x, negative}));
  }
  if (isSplatOf(x, 0))
    return replace(op, make(op, OpKind::Neg, {y}));
  // (a + b) - a, (a + b) - b
  if (Op *sum = definedBy(x, OpKind::Add)) {
    if (sum->operand(0) == y)
      return replace(op, sum->operand(1));
    if (sum->operand(1) == y)
      return replace(op, sum->operand(0));
  }
  // (a + c) - (a + d) and the like are left to the analyses, which work on polynomials.
  return false;
}

bool Canonicalizer::simplifyMul(Op &op) {
  Value *x = op.operand(0), *y = op.operand(1);
  if (isSplatOf(y, 1))
    return replace(op, x);
  if (!isIntegral(x->type()))
    return false;
  if (isSplatOf(y, 0))
    return replace(op, y);
  Op *inner = definedBy(x, OpKind::Mul);
  const std::optional<Constant> first = inner ? constantIn(inner->operand(1)) : std::nullopt;
  const std::optional<Constant> second = constantIn(y);
  if (!first || !second)
    return false;
  const DType type = x->type().elementOrIndex();
  Value *product = makeConst(op, x->type(), *foldBinary(OpKind::Mul, type, *first, *second));
  Value *base = inner->operand(0);
  setOperand(op, 0, base);
  setOperand(op, 1, product);
  return true;
}

/// (a * d + b) / d is a + b / d, and its remainder that of b, when nothing overflows.
bool Canonicalizer::simplifyDivRemOfSum(Op &op, int64_t divisor) {
  Value *x = op.operand(0);
  if (!rangeOf(x))
    return false;
  auto multipleOf = [&](Value *value) -> std::optional<std::pair<Value *, int64_t>> {
    Op *product = definedBy(value, OpKind::Mul);
    const std::optional<Constant> factor = product ? constantIn(product->operand(1)) : std::nullopt;
    if (!factor || std::get<int64_t>(*factor) % divisor != 0)
      return std::nullopt;
    return std::pair(product->operand(0), std::get<int64_t>(*factor) / divisor);
  };
  // The factor itself may overflow where the sum happens not to.
  auto quotientOf = [&](Value *value, std::pair<Value *, int64_t> parts) -> Value * {
    if (!rangeOf(value))
      return nullptr;
    Value *factor = makeConst(op, x->type(), parts.second);
    return make(op, OpKind::Mul, {parts.first, factor});
  };
  const bool isDiv = op.is(OpKind::Div);
  if (const auto parts = multipleOf(x)) {
    Value *result = isDiv ? quotientOf(x, *parts) : makeConst(op, x->type(), int64_t(0));
    return result && replace(op, result);
  }
  Op *sum = definedBy(x, OpKind::Add);
  if (!sum)
    return false;
  for (const unsigned i : {0u, 1u}) {
    const auto parts = multipleOf(sum->operand(i));
    if (!parts || !rangeOf(sum->operand(i)) || !rangeOf(sum->operand(1 - i)))
      continue;
    Value *rest = make(op, op.kind(), {sum->operand(1 - i), op.operand(1)});
    if (!isDiv)
      return replace(op, rest);
    return replace(op, make(op, OpKind::Add, {quotientOf(sum->operand(i), *parts), rest}));
  }
  return false;
}

bool Canonicalizer::simplifyDivRem(Op &op) {
  Value *x = op.operand(0), *y = op.operand(1);
  const Type type = x->type();
  const bool isDiv = op.is(OpKind::Div);
  if (isSplatOf(y, 1) && isDiv)
    return replace(op, x);
  if (!isIntegral(type))
    return false;
  const Constant zero = constantOf(type.elementOrIndex(), 0);
  // x / 0 and x % 0 are 0.
  if (isSplatOf(y, 0) || isSplatOf(x, 0) || (!isDiv && (isSplatOf(y, 1) || x == y)))
    return replace(op, makeConst(op, type, zero));
  if (!type.isIndex())
    return false;
  // 0 <= x < y, also where y is not constant.
  const std::optional<Range> value = rangeOf(x), by = rangeOf(y);
  if (isPositionBelow(x, y) || (value && by && value->lo >= 0 && value->hi < by->lo))
    return replace(op, isDiv ? makeConst(op, type, zero) : x);
  const std::optional<Constant> divisor = constantIn(y);
  if (!divisor || std::get<int64_t>(*divisor) <= 0)
    return false;
  // (x % y) % y
  if (Op *inner = definedBy(x, OpKind::Rem); inner && !isDiv && inner->operand(1) == y)
    return replace(op, x);
  return simplifyDivRemOfSum(op, std::get<int64_t>(*divisor));
}

bool Canonicalizer::simplifyMinMax(Op &op) {
  Value *x = op.operand(0), *y = op.operand(1);
  if (x == y)
    return replace(op, x);
  // min(min(a, b), b), and the same for max.
  for (const auto &[outer, other] : {std::pair(x, y), std::pair(y, x)})
    if (Op *inner = definedBy(outer, op.kind()); inner && isIntegral(x->type()))
      if (inner->operand(0) == other || inner->operand(1) == other)
        return replace(op, outer);
  const std::optional<Range> a = rangeOf(x), b = rangeOf(y);
  if (!a || !b)
    return false;
  if (a->hi <= b->lo)
    return replace(op, op.is(OpKind::Min) ? x : y);
  if (b->hi <= a->lo)
    return replace(op, op.is(OpKind::Min) ? y : x);
  return false;
}

bool Canonicalizer::simplifyLogic(Op &op) {
  Value *x = op.operand(0), *y = op.operand(1);
  const Type type = x->type();
  const DType dtype = type.elementOrIndex();
  const std::optional<Constant> c = splatConstantIn(y);
  const bool isZero = c && isConstant(*c, 0);
  const bool isOnes = c && *c == *foldUnary(OpKind::Not, dtype, constantOf(dtype, 0));
  switch (op.kind()) {
  case OpKind::And:
    if (x == y || isOnes)
      return replace(op, x);
    return isZero && replace(op, y);
  case OpKind::Or:
    if (x == y || isZero)
      return replace(op, x);
    return isOnes && replace(op, y);
  case OpKind::Xor:
    if (isZero)
      return replace(op, x);
    if (x == y)
      return replace(op, makeConst(op, type, constantOf(dtype, 0)));
    return isOnes && replace(op, make(op, OpKind::Not, {x}));
  case OpKind::Shl:
  case OpKind::Shr:
    return isZero && replace(op, x);
  default:
    return false;
  }
}

bool Canonicalizer::simplifyBinary(Op &op) {
  Value *x = op.operand(0), *y = op.operand(1);
  if (isCommutative(op.kind()) && splatConstantIn(x) && !splatConstantIn(y)) {
    setOperands(op, {y, x});
    return true;
  }
  switch (op.kind()) {
  case OpKind::Add:
    return simplifyAdd(op);
  case OpKind::Sub:
    return simplifySub(op);
  case OpKind::Mul:
    return simplifyMul(op);
  case OpKind::Div:
  case OpKind::Rem:
    return simplifyDivRem(op);
  case OpKind::Min:
  case OpKind::Max:
    return simplifyMinMax(op);
  case OpKind::And:
  case OpKind::Or:
  case OpKind::Xor:
  case OpKind::Shl:
  case OpKind::Shr:
    return simplifyLogic(op);
  default:
    return false;
  }
}

// The rest.

/// -(-x / c), which never overflows, is (x + c - 1) / c, when that does not overflow either.
bool Canonicalizer::simplifyCeilDiv(Op &op, Op &quotient) {
  Op *negative = definedBy(quotient.operand(0), OpKind::Neg);
  const std::optional<Constant> divisor = constantIn(quotient.operand(1));
  if (!negative || !divisor || !op.result()->type().isIndex())
    return false;
  const int64_t c = std::get<int64_t>(*divisor);
  Value *x = negative->operand(0);
  const std::optional<Range> range = rangeOf(x);
  int64_t most = 0;
  if (c <= 0 || !range || __builtin_add_overflow(range->hi, c - 1, &most))
    return false;
  Value *sum = make(op, OpKind::Add, {x, makeConst(op, x->type(), c - 1)});
  return replace(op, make(op, OpKind::Div, {sum, quotient.operand(1)}));
}

bool Canonicalizer::simplifyUnary(Op &op) {
  Value *x = op.operand(0);
  Op *inner = x->definingOp();
  if (!inner)
    return false;
  switch (op.kind()) {
  case OpKind::Neg:
    if (inner->is(OpKind::Neg))
      return replace(op, inner->operand(0));
    return inner->is(OpKind::Div) && simplifyCeilDiv(op, *inner);
  case OpKind::Not: {
    if (inner->is(OpKind::Not))
      return replace(op, inner->operand(0));
    // Floats compare false with NaN both ways; only (in)equality has an opposite.
    if (!inner->is(OpKind::Cmp))
      return false;
    const llvm::StringRef predicate = inner->get(attr::pred);
    const bool hasOpposite = predicate == "eq" || predicate == "ne" ||
                             !isFloat(inner->operand(0)->type().elementOrIndex());
    if (!hasOpposite)
      return false;
    Value *opposite = make(op, OpKind::Cmp, {inner->operand(0), inner->operand(1)});
    opposite->definingOp()->set(attr::pred, inverted(predicate).str());
    return replace(op, opposite);
  }
  case OpKind::Abs:
  case OpKind::Floor:
  case OpKind::Ceil:
    return inner->is(op.kind()) && replace(op, x);
  default:
    return false;
  }
}

bool Canonicalizer::simplifyCmp(Op &op) {
  Value *x = op.operand(0), *y = op.operand(1);
  const std::string predicate = op.get(attr::pred).str();
  if (splatConstantIn(x) && !splatConstantIn(y)) {
    setOperands(op, {y, x});
    op.set(attr::pred, mirrored(predicate).str());
    return true;
  }
  const Type result = op.result()->type();
  if (x == y && !isFloat(x->type().elementOrIndex())) {
    const bool holds = predicate == "eq" || predicate == "le" || predicate == "ge";
    return replace(op, makeConst(op, result, holds));
  }
  if ((predicate == "lt" || predicate == "ge") && x->type().isIndex() && isPositionBelow(x, y))
    return replace(op, makeConst(op, result, predicate == "lt"));
  const std::optional<Range> a = rangeOf(x), b = rangeOf(y);
  if (!a || !b)
    return false;
  const bool isLess = a->hi < b->lo, isGreater = b->hi < a->lo;
  const bool isLessOrEqual = a->hi <= b->lo, isGreaterOrEqual = b->hi <= a->lo;
  std::optional<bool> holds;
  if (predicate == "eq" || predicate == "ne") {
    if (isLess || isGreater)
      holds = predicate == "ne";
  } else if (predicate == "lt" || predicate == "ge") {
    if (isLess || isGreaterOrEqual)
      holds = isLess == (predicate == "lt");
  } else if (isLessOrEqual || isGreater) {
    holds = isLessOrEqual == (predicate == "le");
  }
  return holds && replace(op, makeConst(op, result, *holds));
}

bool Canonicalizer::simplifySelect(Op &op) {
  Value *condition = op.operand(0), *x = op.operand(1), *y = op.operand(2);
  if (x == y)
    return replace(op, x);
  if (const std::optional<Constant> c = splatConstantIn(condition))
    return replace(op, std::get<bool>(*c) ? x : y);
  if (Op *inner = definedBy(condition, OpKind::Not)) {
    setOperands(op, {inner->operand(0), y, x});
    return true;
  }
  if (condition->type() == x->type()) {
    if (isSplatOf(x, 1) && isSplatOf(y, 0))
      return replace(op, condition);
    if (isSplatOf(x, 0) && isSplatOf(y, 1))
      return replace(op, make(op, OpKind::Not, {condition}));
  }
  // One condition for all elements needs no tile.
  if (Op *splat = definedBy(condition, OpKind::Splat)) {
    setOperand(op, 0, splat->operand(0));
    return true;
  }
  return false;
}

bool Canonicalizer::simplifyCast(Op &op) {
  Value *x = op.operand(0);
  const Type to = op.result()->type();
  if (x->type() == to)
    return replace(op, x);
  Op *inner = definedBy(x, OpKind::Cast);
  if (!inner)
    return false;
  Value *source = inner->operand(0);
  if (!isLossless(source->type().elementOrIndex(), x->type().elementOrIndex()))
    return false;
  setOperand(op, 0, source);
  return true;
}

bool Canonicalizer::simplifyBitcast(Op &op) {
  Value *x = op.operand(0);
  return x->type() == op.result()->type() && replace(op, x);
}

bool Canonicalizer::simplifyArithmetic(Op &op) {
  // What an `extern fn` computes is its own, whatever it is given.
  if (!isElementwise(op.kind()) || op.is(OpKind::Extern) || op.is(OpKind::Asm))
    return false;
  if (!op.is(OpKind::Select) && foldConstants(op))
    return true;
  switch (op.kind()) {
  case OpKind::Cmp:
    return simplifyCmp(op) || scalarize(op);
  case OpKind::Select:
    return simplifySelect(op) || scalarize(op);
  case OpKind::Cast:
    return simplifyCast(op) || scalarize(op);
  case OpKind::Bitcast:
    return simplifyBitcast(op) || scalarize(op);
  default:
    if (op.numOperands() == 2 ? simplifyBinary(op) : simplifyUnary(op))
      return true;
    return scalarize(op);
  }
}

} // namespace dtile::passes
