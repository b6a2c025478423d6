// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Structural reasoning on index values, with a small bound on its depth.
#include "ir/from_ast/prove_sizes.h"

#include "ir/core/tile_order.h"
#include "llvm/ADT/STLExtras.h"

namespace dtile::ir {

namespace {

/// Deep enough for `(rank() + hop) % W * (M / W) + m`; keeps each question cheap.
constexpr unsigned kMaxDepth = 12;

bool sameAttrs(const Op &a, const Op &b) {
  return llvm::equal(a.attrs(), b.attrs(), [](const NamedAttr &x, const NamedAttr &y) {
    return x.name == y.name && x.value == y.value;
  });
}

bool sameValue(const Value *a, const Value *b, unsigned depth) {
  if (a == b)
    return true;
  const Op *x = a->definingOp();
  const Op *y = b->definingOp();
  if (!x || !y || depth == 0 || x->kind() != y->kind() || !x->isPure() ||
      x->numOperands() != y->numOperands() || a->type() != b->type() || !sameAttrs(*x, *y))
    return false;
  for (unsigned i = 0; i < x->numOperands(); ++i)
    if (!sameValue(x->operand(i), y->operand(i), depth - 1))
      return false;
  return true;
}

/// First and past-the-end of the loop or tile space whose position this is; null when it is none.
std::pair<const Value *, const Value *> boundsOf(const Value *position) {
  const Block *block = position->argumentOf();
  const Op *parent = block ? block->parentOp() : nullptr;
  const unsigned i = position->index();
  if (parent && parent->is(OpKind::For) && i == 0)
    return {parent->operand(0), parent->operand(1)};
  if (parent && parent->is(OpKind::Space) && i < ir::spaceDims(*parent))
    return {parent->operand(3 * i), parent->operand(3 * i + 1)};
  return {nullptr, nullptr};
}

bool isPositive(const Value *value) {
  const Op *op = value->definingOp();
  const std::optional<int64_t> constant = constantOf(value);
  return (op && op->is(OpKind::NumRanks)) || (constant && *constant > 0);
}

bool isNonNegative(const Value *value, unsigned depth) {
  if (depth == 0)
    return false;
  if (const std::optional<int64_t> constant = constantOf(value))
    return *constant >= 0;
  if (const Value *first = boundsOf(value).first)
    return isNonNegative(first, depth - 1);
  const Op *op = value->definingOp();
  if (!op)
    return false;
  // A few kinds only: "not plain" is right for all others.
  constexpr OpKind kSizes[] = {OpKind::Rank,      OpKind::NumRanks, OpKind::Epoch,
                               OpKind::LaunchDim, OpKind::ViewDim,  OpKind::SigDim};
  // Wrapping is no concern: these are positions in memory.
  constexpr OpKind kMonotone[] = {OpKind::Add, OpKind::Mul, OpKind::Div, OpKind::Min};
  if (llvm::is_contained(kSizes, op->kind()))
    return true;
  if (op->is(OpKind::Rem))
    return isPositive(op->operand(1));
  if (llvm::is_contained(kMonotone, op->kind()))
    return isNonNegative(op->operand(0), depth - 1) && isNonNegative(op->operand(1), depth - 1);
  if (op->is(OpKind::Max))
    return isNonNegative(op->operand(0), depth - 1) || isNonNegative(op->operand(1), depth - 1);
  if (op->is(OpKind::Sub))
    return constantOf(op->operand(1)) == 0 && isNonNegative(op->operand(0), depth - 1);
  if (!op->is(OpKind::Neg))
    return false;
  // Rounding up, -(-a / b).
  const Op *quotient = op->operand(0)->definingOp();
  if (!quotient || !quotient->is(OpKind::Div))
    return false;
  const Op *negated = quotient->operand(0)->definingOp();
  return negated && negated->is(OpKind::Neg) && isNonNegative(negated->operand(0), depth - 1) &&
         isNonNegative(quotient->operand(1), depth - 1);
}

/// The other factor of a product with `factor`, or null.
const Value *cofactor(const Value *product, const Value *factor) {
  const Op *op = product->definingOp();
  if (!op || !op->is(OpKind::Mul))
    return nullptr;
  for (unsigned i : {0u, 1u})
    if (sameValue(op->operand(i), factor))
      return op->operand(1 - i);
  return nullptr;
}

/// (block + 1) * length <= size: the size is count times the length, or the length is the size
/// divided by count, and block < count.
bool blockIsInside(const Value *block, const Value *length, const Value *size) {
  if (const Value *count = cofactor(size, length); count && isBelow(block, count))
    return true;
  const Op *quotient = length->definingOp();
  return quotient && quotient->is(OpKind::Div) && sameValue(quotient->operand(0), size) &&
         isBelow(block, quotient->operand(1));
}

bool endsInside(const Value *limit, const Value *size, unsigned depth) {
  if (depth == 0)
    return false;
  if (sameValue(limit, size))
    return true;
  const std::optional<int64_t> a = constantOf(limit);
  const std::optional<int64_t> b = constantOf(size);
  if (a && b)
    return *a <= *b;
  const Op *op = limit->definingOp();
  if (op && op->is(OpKind::Min))
    return llvm::any_of(op->operands(),
                        [&](const Value *one) { return endsInside(one, size, depth - 1); });
  if (!op || !op->is(OpKind::Add))
    return false;
  // limit = block * length + rest with rest <= length, and block + 1 times the length is inside.
  for (unsigned i : {0u, 1u}) {
    const Op *product = op->operand(i)->definingOp();
    if (!product || !product->is(OpKind::Mul))
      continue;
    for (unsigned j : {0u, 1u}) {
      const Value *length = product->operand(j);
      if (blockIsInside(product->operand(1 - j), length, size) &&
          endsInside(op->operand(1 - i), length, depth - 1))
        return true;
    }
  }
  return false;
}

} // namespace

bool sameValue(const Value *a, const Value *b) { return sameValue(a, b, kMaxDepth); }

bool isNonNegative(const Value *value) { return isNonNegative(value, kMaxDepth); }

bool isBelow(const Value *position, const Value *count) {
  if (const auto [first, end] = boundsOf(position); end)
    return sameValue(end, count);
  const Op *op = position->definingOp();
  const Op *countOp = count->definingOp();
  if (op && op->is(OpKind::Rank))
    return countOp && countOp->is(OpKind::NumRanks);
  if (op && op->is(OpKind::Rem))
    return sameValue(op->operand(1), count) && isPositive(count);
  const std::optional<int64_t> a = constantOf(position);
  const std::optional<int64_t> b = constantOf(count);
  return a && b && *a < *b;
}

bool endsInside(const Value *limit, const Value *size) {
  return endsInside(limit, size, kMaxDepth);
}

} // namespace dtile::ir
