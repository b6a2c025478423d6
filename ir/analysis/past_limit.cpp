// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An abstract execution of one element, at a position past a limit: a zero where it was loaded,
// then the number that each op makes of it, as long as that is known.
#include "ir/analysis/past_limit.h"
#include "ir/core/op_classes.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

namespace dtile::ir {

namespace {

using Kind = PastElement::Kind;
using Number = std::optional<double>;

/// What is computed from farther away counts as plain.
constexpr unsigned kMaxDepth = 1000;

/// Of several elements that an op computes from: a mask hides zeros.
PastElement together(const PastElement &a, const PastElement &b) {
  return a.kind >= b.kind ? a : b;
}

/// One element or another, as control flow decides: zeros stay visible.
PastElement either(const PastElement &a, const PastElement &b) {
  PastElement result = a.kind == Kind::FromZeros   ? a
                       : b.kind == Kind::FromZeros ? b
                                                   : together(a, b);
  result.number = a.number == b.number ? a.number : std::nullopt;
  return result;
}

/// Past a limit along one of two dimensions, of which only zeros' is known to be passed.
PastElement alsoPast(const PastElement &a, const PastElement &b) {
  const bool isOfA = a.kind == Kind::FromZeros, isOfB = b.kind == Kind::FromZeros;
  return isOfA && isOfB ? either(a, b) : isOfA ? a : isOfB ? b : together(b, a);
}

Number constantNumber(const Op &op) {
  const Attr *value = op.attr("value");
  if (!value)
    return std::nullopt;
  if (const auto *truth = std::get_if<bool>(value))
    return *truth ? 1 : 0;
  if (const auto *integer = std::get_if<int64_t>(value))
    return double(*integer);
  if (const auto *real = std::get_if<double>(value))
    return *real;
  return std::nullopt;
}

Number foldUnary(const Op &op, double x) {
  if (op.is(OpKind::Cast))
    return x;
  const std::optional<UnaryOp> unary = unaryOp(op.kind());
  if (!unary || (op.is(OpKind::Not) && op.result()->type().elementOrIndex() != DType::Bool))
    return std::nullopt;
  return computeReal(*unary, x);
}

Number foldComparison(llvm::StringRef predicate, double x, double y) {
  return predicate == "eq"   ? x == y
         : predicate == "ne" ? x != y
         : predicate == "lt" ? x < y
         : predicate == "le" ? x <= y
         : predicate == "gt" ? x > y
                             : x >= y;
}

/// Where one operand decides: 0 * x and 0 / x, and infinities.
Number foldOneKnown(const Op &op, const Number &a, const Number &b) {
  const auto is = [](const Number &number, double wanted) { return number && *number == wanted; };
  const double infinity = HUGE_VAL;
  switch (op.kind()) {
  case OpKind::Mul:
  case OpKind::And:
    return is(a, 0) || is(b, 0) ? Number(0) : std::nullopt;
  case OpKind::Or:
    return op.result()->type().elementOrIndex() == DType::Bool && (is(a, 1) || is(b, 1))
               ? Number(1)
               : std::nullopt;
  case OpKind::Div:
  case OpKind::Rem:
  case OpKind::Shl:
  case OpKind::Shr:
  case OpKind::Pow:
    return is(a, 0) ? Number(0) : std::nullopt;
  case OpKind::Add:
    return a && std::isinf(*a) ? a : b && std::isinf(*b) ? b : std::nullopt;
  case OpKind::Sub:
    return a && std::isinf(*a) ? a : b && std::isinf(*b) ? Number(-*b) : std::nullopt;
  case OpKind::Max:
    return is(a, infinity) || is(b, infinity) ? Number(infinity) : std::nullopt;
  case OpKind::Min:
    return is(a, -infinity) || is(b, -infinity) ? Number(-infinity) : std::nullopt;
  default:
    return std::nullopt;
  }
}

Number foldBinary(const Op &op, double x, double y) {
  const bool isBool = op.result()->type().elementOrIndex() == DType::Bool;
  switch (op.kind()) {
  case OpKind::Add:
    return x + y;
  case OpKind::Sub:
    return x - y;
  case OpKind::Mul:
    return x * y;
  case OpKind::Div:
    return !isFloat(op.result()->type().elementOrIndex())
               ? y == 0 ? Number(0) : Number(std::floor(x / y))
               : Number(x / y);
  case OpKind::Min:
    return std::min(x, y);
  case OpKind::Max:
    return std::max(x, y);
  case OpKind::Pow:
    return std::pow(x, y);
  case OpKind::And:
    return isBool ? Number(x != 0 && y != 0) : std::nullopt;
  case OpKind::Or:
    return isBool ? Number(x != 0 || y != 0) : x == 0 ? Number(y) : y == 0 ? Number(x) : Number();
  case OpKind::Xor:
    return isBool ? Number((x != 0) != (y != 0)) : std::nullopt;
  case OpKind::Cmp:
    return foldComparison(op.get(attr::pred), x, y);
  default:
    return std::nullopt;
  }
}

Number fold(const Op &op, llvm::ArrayRef<PastElement> parts) {
  Number result;
  if (parts.size() == 1 && parts[0].number) {
    result = foldUnary(op, *parts[0].number);
  } else if (parts.size() == 2) {
    const Number &a = parts[0].number, &b = parts[1].number;
    if (a && b)
      result = foldBinary(op, *a, *b);
    if (!result)
      result = foldOneKnown(op, a, b);
  }
  return result && std::isnan(*result) ? std::nullopt : result;
}

/// The dimension of a reduction's operand that dimension `dim` of its result is.
unsigned beforeReduction(const Op &reduce, unsigned dim) {
  const auto axis = unsigned(reduce.get(attr::axis));
  return dim < axis ? dim : dim + 1;
}

} // namespace

PastElement PastLimit::of(Value *value, std::optional<unsigned> dim) {
  if (dim && !value->type().isTile())
    dim.reset();
  const Key key{value, dim ? int(*dim) : -1};
  if (const auto found = known_.find(key); found != known_.end())
    return found->second;
  if (depth_ == kMaxDepth)
    return {};
  ++depth_;
  const PastElement result = compute(value, dim);
  --depth_;
  known_[key] = result;
  return result;
}

PastElement PastLimit::compute(Value *value, std::optional<unsigned> dim) {
  Op *op = value->definingOp();
  if (!op)
    return ofArgument(value, dim);
  if (isElementwise(op->kind()))
    return ofElementwise(*op, dim);
  switch (op->kind()) {
  case OpKind::Const:
    return {.number = constantNumber(*op)};
  case OpKind::Splat:
    return of(op->operand(0), std::nullopt);
  case OpKind::Convert:
    return of(op->operand(0), dim);
  case OpKind::For:
    return ofCarried(op->body().argument(1 + value->index()), dim);
  case OpKind::If:
    return either(of(op->body(0).terminator()->operand(value->index()), dim),
                  of(op->body(1).terminator()->operand(value->index()), dim));
  case OpKind::Reduce:
  case OpKind::ArgReduce:
    return ofReduced(*op, dim);
  default:
    break;
  }
  if (!dim)
    return {};
  switch (op->kind()) {
  case OpKind::Load:
    return ofLoad(*op, *dim);
  case OpKind::Gather:
    return ofGather(*op, *dim);
  case OpKind::Iota:
    return {.kind = Kind::Position};
  case OpKind::Broadcast: {
    const bool isRepeated =
        op->operand(0)->type().shape()[*dim] != op->result()->type().shape()[*dim];
    return of(op->operand(0), isRepeated ? std::nullopt : dim);
  }
  case OpKind::Trans:
    return of(op->operand(0), unsigned(op->get(attr::perm)[*dim]));
  case OpKind::Reshape:
    return ofReshape(*op, *dim);
  case OpKind::Scan:
    // What runs along the dimension has passed the elements that exist.
    return unsigned(op->get(attr::axis)) == *dim ? PastElement{} : of(op->operand(0), dim);
  case OpKind::Dot:
    return ofProduct(*op, *dim);
  default:
    return {};
  }
}

PastElement PastLimit::ofArgument(Value *argument, std::optional<unsigned> dim) {
  const Op *around = argument->argumentOf()->parentOp();
  if (!around || !around->is(OpKind::For) || argument->index() == 0)
    return {};
  return ofCarried(argument, dim);
}

/// What a loop carries: what it begins with, or what an iteration leaves. Each round takes what the
/// last one found, until that stays.
PastElement PastLimit::ofCarried(Value *argument, std::optional<unsigned> dim) {
  const Key key{argument, dim ? int(*dim) : -1};
  if (const auto found = assumed_.find(key); found != assumed_.end())
    return found->second;
  Op &loop = *argument->argumentOf()->parentOp();
  const unsigned carried = argument->index() - 1;
  PastElement element = of(loop.operand(3 + carried), dim);
  const Known outer = assumed_;
  const Known before = known_;
  while (true) {
    assumed_ = outer;
    assumed_[key] = element;
    known_ = before;
    const PastElement next = either(element, of(loop.body().terminator()->operand(carried), dim));
    if (next == element)
      break;
    element = next;
  }
  // What was found beside it rests on what is assumed of loops further out.
  assumed_ = outer;
  known_ = before;
  return element;
}

PastElement PastLimit::ofLoad(Op &load, unsigned dim) {
  if (!mayPass_(load, dim))
    return {};
  return {.kind = Kind::FromZeros, .number = 0, .load = &load, .dim = dim};
}

/// A position that was read past a limit is 0, and so is there an element.
PastElement PastLimit::ofGather(Op &gather, unsigned dim) {
  PastElement element;
  const auto tokens = size_t(gather.get(attr::ntok));
  for (Value *index : gather.operands().drop_front().drop_back(tokens))
    if (index->type().isTile() && dim < index->type().rank())
      element = together(element, of(index, dim));
  if (element.kind != Kind::FromZeros)
    return element.kind == Kind::Masked ? element : PastElement{};
  element.number.reset();
  return element;
}

PastElement PastLimit::ofElementwise(Op &op, std::optional<unsigned> dim) {
  if (op.is(OpKind::Select))
    return ofSelect(op, dim);
  llvm::SmallVector<PastElement, 2> parts;
  for (Value *operand : op.operands())
    parts.push_back(of(operand, dim));
  PastElement result;
  bool comparesPositions = false;
  for (const PastElement &part : parts) {
    result = together(result, part);
    comparesPositions |= op.is(OpKind::Cmp) && part.kind == Kind::Position;
  }
  if (comparesPositions)
    result = {.kind = Kind::Masked};
  result.number = fold(op, parts);
  return result;
}

PastElement PastLimit::ofSelect(Op &select, std::optional<unsigned> dim) {
  const PastElement condition = of(select.operand(0), dim);
  if (condition.kind == Kind::Masked)
    return condition;
  if (condition.number)
    return of(select.operand(*condition.number != 0 ? 1 : 2), dim);
  PastElement chosen = either(of(select.operand(1), dim), of(select.operand(2), dim));
  const Number number = chosen.number;
  if (condition.kind == Kind::FromZeros)
    chosen = together(condition, chosen);
  chosen.number = number;
  return chosen;
}

/// A dimension of the result goes with those of the operand that have their elements in common.
PastElement PastLimit::ofReshape(Op &reshape, unsigned dim) {
  const llvm::ArrayRef<int64_t> from = reshape.operand(0)->type().shape();
  const llvm::ArrayRef<int64_t> to = reshape.result()->type().shape();
  PastElement result = of(reshape.operand(0), std::nullopt);
  unsigned i = 0, j = 0;
  while (i < from.size() && j < to.size()) {
    const unsigned firstFrom = i, firstTo = j;
    int64_t left = from[i++], right = to[j++];
    while (left != right) {
      if (left < right)
        left *= from[i++];
      else
        right *= to[j++];
    }
    if (dim < firstTo || dim >= j)
      continue;
    for (unsigned d = firstFrom; d < i; ++d)
      if (from[d] != 1)
        result = alsoPast(result, of(reshape.operand(0), d));
  }
  return result;
}

PastElement PastLimit::ofReduced(Op &reduce, std::optional<unsigned> dim) {
  if (!dim)
    return {};
  PastElement element = of(reduce.operand(0), beforeReduction(reduce, *dim));
  // Every reduction of zeros is 0, and of equal elements the first is the largest.
  const bool isZero = element.number && (reduce.is(OpKind::ArgReduce) || *element.number == 0);
  element.number = isZero ? Number(0) : std::nullopt;
  if (element.kind == Kind::Position)
    element.kind = Kind::Plain;
  return element;
}

PastElement PastLimit::ofProduct(Op &dot, unsigned dim) {
  const PastElement added = of(dot.operand(2), dim);
  const PastElement operand = of(dot.operand(dim), dim);
  PastElement result = together(operand, added);
  result.number = operand.number == 0.0 ? added.number : std::nullopt;
  return result;
}

} // namespace dtile::ir
