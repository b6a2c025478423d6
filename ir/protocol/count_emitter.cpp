// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Emits the count of a notify: conditions, products, and loops over what no equation determines.
#include "ir/protocol/count_emitter.h"

#include "frontend/base/check.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::passes {

using namespace dtile::ir;

/// The guard's value where unknowns have the values in `bound`; pure ops are copied.
Value *CountEmitter::emitGuard(Value *condition, CountSite &site, const Bound &bound,
                               llvm::DenseMap<Value *, Value *> &done) {
  if (condition->type().isIndex())
    return polys_.emit(builder_, polys_.of(condition, site.environment), bound);
  auto it = done.find(condition);
  if (it != done.end())
    return it->second;
  Op *op = condition->definingOp();
  llvm::SmallVector<Value *, 4> operands;
  for (Value *operand : op->operands())
    operands.push_back(emitGuard(operand, site, bound, done));
  Op *copy = builder_.op(op->kind(), operands, condition->type());
  for (const NamedAttr &attr : op->attrs())
    copy->setAttr(attr.name, attr.value);
  return done[condition] = copy->result(condition->index());
}

Value *CountEmitter::emitAtLeastZero(const Polynomial &p, const Bound &bound) {
  // What is subtracted stands on the other side; 1 of it makes it less.
  std::vector<Polynomial::Term> added, subtracted;
  bool isLess = false;
  for (const auto &[monomial, coefficient] : p.terms()) {
    isLess |= monomial.empty() && coefficient < 0;
    if (coefficient > 0)
      added.emplace_back(monomial, coefficient);
    else
      subtracted.emplace_back(monomial, -coefficient - (monomial.empty() ? 1 : 0));
  }
  Value *large = polys_.emit(builder_, Polynomial::sumOf(std::move(added)), bound);
  Value *small = polys_.emit(builder_, Polynomial::sumOf(std::move(subtracted)), bound);
  return isLess ? builder_.cmp("lt", small, large) : builder_.cmp("ge", large, small);
}

/// A bool: solutions lie in their extents, remaining equations hold, guards are as wanted; but for
/// what `counted` has a part in.
Value *CountEmitter::emitMatches(CountSite &site, Bound bound, std::optional<AtomId> counted) {
  Value *matches = builder_.constBool(true);
  for (const Polynomial &inequality : inequalitiesOf(polys_, site))
    if (!counted || !polys_.mentions(inequality, *counted))
      matches = both(matches, emitAtLeastZero(inequality, bound));
  for (const Polynomial &condition : site.mustBeZero)
    matches = both(matches, builder_.cmp("eq", polys_.emit(builder_, condition, bound),
                                         builder_.constIndex(0)));
  for (const Equation &equation : site.equations)
    if (!equation.below && !(equation.value == equation.target))
      matches = both(matches, builder_.cmp("eq", polys_.emit(builder_, equation.value, bound),
                                           polys_.emit(builder_, equation.target, bound)));
  if (site.guards.empty())
    return matches;
  for (const Unknown &unknown : site.unknowns)
    if (unknown.solution)
      bound[unknown.atom] = polys_.emit(builder_, *unknown.solution, bound);
  llvm::DenseMap<Value *, Value *> done;
  for (const Guard &guard : site.guards) {
    Value *value = emitGuard(guard.condition, site, bound, done);
    if (!guard.wanted)
      value = builder_.value(OpKind::Not, {value});
    matches = both(matches, value);
  }
  return matches;
}

/// matches ? product of free extents and values of `counted` : 0.
Value *CountEmitter::emitProduct(CountSite &site, const Bound &bound, const Unknown *counted,
                                 const std::vector<size_t> &free) {
  Value *zero = builder_.constIndex(0);
  Value *count = builder_.constIndex(1);
  std::optional<AtomId> atom;
  if (counted) {
    const std::optional<CountInterval> interval = intervalOf(polys_, site, *counted);
    DTILE_CHECK(interval, "what is counted has an interval");
    Value *low = nullptr, *high = nullptr;
    for (const Polynomial &p : interval->low) {
      Value *bottom = polys_.emit(builder_, p, bound);
      low = low ? builder_.max(low, bottom) : bottom;
    }
    for (const Polynomial &p : interval->high) {
      Value *top = polys_.emit(builder_, p, bound);
      high = high ? builder_.min(high, top) : top;
    }
    Value *values = builder_.add(builder_.sub(high, low), count);
    count = builder_.max(values, zero);
    atom = counted->atom;
  }
  for (size_t i : free) {
    Value *extent = polys_.emit(builder_, site.unknowns[i].extent, bound);
    count = builder_.mul(count, builder_.max(extent, zero));
  }
  Value *matches = emitMatches(site, bound, atom);
  return builder_.value(OpKind::Select, {matches, count, zero}, count->type());
}

/// Loops over the unknowns that are left, around the product.
Value *CountEmitter::emitCount(CountSite &site, Bound bound, size_t next,
                               const std::vector<size_t> &enumerated, const Unknown *counted,
                               const std::vector<size_t> &free) {
  if (next == enumerated.size())
    return emitProduct(site, bound, counted, free);
  Value *zero = builder_.constIndex(0);
  Unknown &unknown = site.unknowns[enumerated[next]];
  Value *extent = polys_.emit(builder_, unknown.extent, bound);
  Op *loop = builder_.op(OpKind::For, {zero, extent, builder_.constIndex(1), zero},
                         builder_.types().index());
  InsertionGuard guard(builder_);
  Value *position = loop->body().addArgument(builder_.types().index(), "i");
  Value *sum = loop->body().addArgument(builder_.types().index(), "count");
  builder_.setInsertionPointToEnd(loop->body());
  bound[unknown.atom] = position;
  Value *inner = emitCount(site, bound, next + 1, enumerated, counted, free);
  builder_.op(OpKind::Yield, {builder_.add(sum, inner)});
  return loop->result();
}

Value *CountEmitter::emit(CountSite &site) {
  solveSite(polys_, site);
  // An unknown matters where an equation, a guard, or the extent of another unknown depends on it.
  std::vector<size_t> enumerated, free;
  for (size_t i = 0; i < site.unknowns.size(); ++i) {
    Unknown &unknown = site.unknowns[i];
    if (unknown.solution)
      continue;
    bool matters = !site.guards.empty();
    for (const Equation &equation : site.equations)
      matters |= polys_.mentions(equation.value, unknown.atom) ||
                 (equation.below && polys_.mentions(*equation.below, unknown.atom));
    for (const Unknown &other : site.unknowns)
      matters |= polys_.mentions(other.extent, unknown.atom) ||
                 (other.solution && polys_.mentions(*other.solution, unknown.atom));
    for (const std::vector<Polynomial> *conditions : {&site.mustBeZero, &site.conditions})
      for (const Polynomial &condition : *conditions)
        matters |= polys_.mentions(condition, unknown.atom);
    (matters ? enumerated : free).push_back(i);
  }
  // One whose values are an interval needs no loop. It is the innermost: others may bound it.
  const Unknown *counted = nullptr;
  for (size_t i = enumerated.size(); i-- > 0 && !counted;)
    if (intervalOf(polys_, site, site.unknowns[enumerated[i]])) {
      counted = &site.unknowns[enumerated[i]];
      enumerated.erase(enumerated.begin() + ptrdiff_t(i));
    }
  const Polynomial ranks = Polynomial::atom(polys_.numRanks());
  for (size_t i : enumerated) {
    const Polynomial &extent = site.unknowns[i].extent;
    isLong_ |= !extent.constant() && !extent.constantAbove(ranks);
  }
  return emitCount(site, given_, 0, enumerated, counted, free);
}

} // namespace dtile::passes
