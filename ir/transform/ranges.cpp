// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Interval arithmetic on index values: sizes are small, positions lie between their bounds.
#include "ir/transform/ranges.h"

#include "ir/core/tile_order.h"

#include <algorithm>
#include <limits>

namespace dtile::passes {

using namespace dtile::ir;

namespace {

/// No object has more elements, and no dimension a larger size: addresses have 47 bits.
constexpr int64_t kMaxSize = int64_t(1) << 47;
constexpr int64_t kMaxRanks = int64_t(1) << 20;
constexpr unsigned kMaxDepth = 6;

std::optional<Range> visit(const Value *value, unsigned depth);

/// The range of the four combinations of two ranges' ends; nothing when one overflows.
template <typename Fn> std::optional<Range> ofEnds(Range a, Range b, Fn &&overflows) {
  Range result{std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()};
  for (const int64_t x : {a.lo, a.hi})
    for (const int64_t y : {b.lo, b.hi}) {
      int64_t out = 0;
      if (overflows(x, y, &out))
        return std::nullopt;
      result = {std::min(result.lo, out), std::max(result.hi, out)};
    }
  return result;
}

bool divideFloor(int64_t x, int64_t y, int64_t *out) {
  *out = x / y - (x % y != 0 && (x < 0) != (y < 0));
  return false;
}

/// The bounds between which a position counts, as operands of the op whose region has it; `first`
/// is null for 0.
struct PositionBounds {
  const Value *first = nullptr;
  const Value *end = nullptr;
};

std::optional<PositionBounds> boundsOf(const Value *argument) {
  const Op *op = argument->argumentOf()->parentOp();
  const unsigned i = argument->index();
  if (!op)
    return std::nullopt;
  if (op->is(OpKind::For) && i == 0)
    return PositionBounds{op->operand(0), op->operand(1)};
  if (op->is(OpKind::Space) && i < spaceDims(*op))
    return PositionBounds{op->operand(3 * i), op->operand(3 * i + 1)};
  // The position of a cell.
  if (op->is(OpKind::SignalParam) && i < op->numOperands())
    return PositionBounds{nullptr, op->operand(i)};
  return std::nullopt;
}

std::optional<Range> ofPositions(const Value *argument, unsigned depth) {
  const std::optional<PositionBounds> bounds = boundsOf(argument);
  if (!bounds)
    return std::nullopt;
  const std::optional<Range> lo =
      bounds->first ? visit(bounds->first, depth + 1) : std::optional<Range>({0, 0});
  const std::optional<Range> hi = visit(bounds->end, depth + 1);
  if (!lo || !hi || hi->hi <= lo->lo)
    return std::nullopt;
  return Range{lo->lo, hi->hi - 1};
}

std::optional<Range> ofBinary(const Op &op, unsigned depth) {
  const std::optional<Range> a = visit(op.operand(0), depth + 1);
  const std::optional<Range> b = visit(op.operand(1), depth + 1);
  switch (op.kind()) {
  case OpKind::Add:
    if (a && b)
      return ofEnds(*a, *b, [](auto... x) { return __builtin_add_overflow(x...); });
    return std::nullopt;
  case OpKind::Sub:
    if (a && b)
      return ofEnds(*a, *b, [](auto... x) { return __builtin_sub_overflow(x...); });
    return std::nullopt;
  case OpKind::Mul:
    if (a && b)
      return ofEnds(*a, *b, [](auto... x) { return __builtin_mul_overflow(x...); });
    return std::nullopt;
  case OpKind::Div:
    if (a && b && b->lo > 0)
      return ofEnds(*a, *b, divideFloor);
    return std::nullopt;
  case OpKind::Rem:
    if (!b || b->lo <= 0)
      return std::nullopt;
    if (a && a->lo >= 0)
      return Range{0, std::min(a->hi, b->hi - 1)};
    return Range{0, b->hi - 1};
  case OpKind::Min:
    if (a && b)
      return Range{std::min(a->lo, b->lo), std::min(a->hi, b->hi)};
    return std::nullopt;
  case OpKind::Max:
    if (a && b)
      return Range{std::max(a->lo, b->lo), std::max(a->hi, b->hi)};
    return std::nullopt;
  default:
    return std::nullopt;
  }
}

std::optional<Range> ofCast(const Op &op) {
  const Type from = op.operand(0)->type();
  if (!from.isScalar() || !isInteger(from.dtype()) || dtypeBits(from.dtype()) > 32)
    return std::nullopt;
  const int64_t values = int64_t(1) << dtypeBits(from.dtype());
  if (dtypeClass(from.dtype()) == DTypeClass::UInt)
    return Range{0, values - 1};
  return Range{-values / 2, values / 2 - 1};
}

Range onlyValue(int64_t value) { return {value, value}; }

std::optional<Range> visit(const Value *value, unsigned depth) {
  if (!value->type().isIndex() || depth > kMaxDepth)
    return std::nullopt;
  if (value->argumentOf())
    return ofPositions(value, depth);
  const Op &op = *value->definingOp();
  switch (op.kind()) {
  case OpKind::Const:
    return onlyValue(std::get<int64_t>(op.get(attr::value)));
  case OpKind::Rank:
    return Range{0, kMaxRanks - 1};
  case OpKind::NumRanks:
    return Range{1, kMaxRanks};
  case OpKind::Epoch:
  case OpKind::LaunchDim:
  case OpKind::ViewDim:
  case OpKind::SigDim:
    return Range{0, kMaxSize};
  case OpKind::Cast:
    return ofCast(op);
  default:
    return op.numOperands() == 2 ? ofBinary(op, depth) : std::nullopt;
  }
}

} // namespace

std::optional<Range> rangeOf(const Value *value) { return visit(value, 0); }

bool isPositionBelow(const Value *x, const Value *limit) {
  const auto isNumRanks = [](const Value *value) {
    return value->definingOp() && value->definingOp()->is(OpKind::NumRanks);
  };
  if (x->definingOp())
    return x->definingOp()->is(OpKind::Rank) && isNumRanks(limit);
  const std::optional<PositionBounds> bounds = boundsOf(x);
  const std::optional<Range> range = visit(x, 0);
  if (!bounds || !range || range->lo < 0)
    return false;
  return bounds->end == limit || (isNumRanks(bounds->end) && isNumRanks(limit));
}

} // namespace dtile::passes
