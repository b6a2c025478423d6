// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Executions of ops and the regions that they touch. Everything assumed of an execution follows
// from its taking place: bounds of loops and spaces, conditions around it. What polynomials cannot
// say becomes a variable of the instance.
#include "ir/protocol/prove/model.h"

#include "frontend/base/check.h"
#include "ir/analysis/clauses.h"
#include "ir/analysis/communication.h"
#include "ir/core/tile_order.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::protocol::prove {

Op *spaceOf(Op *op) { return op->enclosing(OpKind::Space); }

std::string nameOf(const Op &param) {
  return param.has(ir::attr::name) ? "`" + param.get(ir::attr::name).str() + "`" : "memory";
}

void Scene::addCoordinate(Instance &instance, Op *of, unsigned dim, Value *position, Value *lo,
                          Value *hi, Value *step) {
  auto &environment = instance.environment;
  const Polynomial first = polys.of(lo, environment);
  const Polynomial end = polys.of(hi, environment);
  const Polynomial stride = polys.of(step, environment);
  const bool isUnit = stride == Polynomial(1);
  const AtomId number =
      polys.fresh(isUnit ? end - first : polys.div(end - first + stride - Polynomial(1), stride));
  instance.coordinates.push_back({of, dim, number});
  instance.unknowns.push_back(number);
  const Polynomial at = first + stride * var(number);
  environment.values[position] = at;
  instance.bounds.push_back(var(number));
  instance.bounds.push_back(end - at - Polynomial(1));
  if (!stride.constant())
    instance.bounds.push_back(stride - Polynomial(1));
}

const RankAxes &Scene::axesOf(Op &kernel) {
  if (!axes_ && ranks_ == Ranks::Plain)
    axes_ = RankAxes::line(polys);
  if (!axes_) {
    Instance launch;
    launch.environment.hasOwnValues = true;
    Facts facts;
    assumeLaunch(facts, kernel, launch);
    axes_ = findRankAxes(kernel, polys, refuter, facts);
  }
  return *axes_;
}

Polynomials::Environment Scene::environmentOf(Op &kernel, const Polynomial &rank) {
  Polynomials::Environment environment;
  environment.hasOwnValues = true;
  environment.rank = rank;
  environment.numRanks = axesOf(kernel).numRanks;
  return environment;
}

void Scene::addEqualRanks(Facts &facts, const Polynomial &a, const Polynomial &b) {
  const auto digitsOfA = axes_ ? axes_->digitsOf(polys, a) : std::nullopt;
  const auto digitsOfB = axes_ ? axes_->digitsOf(polys, b) : std::nullopt;
  if (!digitsOfA || !digitsOfB) {
    ir::addEqual(facts, a, b);
    return;
  }
  for (const auto &[x, y] : llvm::zip_equal(*digitsOfA, *digitsOfB))
    ir::addEqual(facts, x, y);
}

Polynomial Scene::ownPlace(Op &kernel, const Polynomial &rank, std::optional<size_t> axis) {
  return axis ? axesOf(kernel).digitOf(polys, rank, *axis) : rank;
}

Polynomial Scene::unknownRank(Op &kernel, Facts &bounds, llvm::SmallVectorImpl<AtomId> &digits) {
  const RankAxes &axes = axesOf(kernel);
  const Polynomial one(1);
  Polynomial rank;
  for (const RankAxes::Axis &axis : axes.axes) {
    const AtomId digit = axis.extent ? polys.fresh(*axis.extent) : polys.fresh();
    digits.push_back(digit);
    rank = rank + axis.stride * var(digit);
    bounds.push_back(var(digit));
    if (axis.extent)
      ir::addLess(bounds, var(digit), *axis.extent);
  }
  if (axes.axes.size() == 1)
    return rank;
  // There is a rank, so there are digits; strides are divisors, which are shown to be positive.
  for (const RankAxes::Axis &axis : axes.axes)
    if (axis.extent && !axis.extent->constant())
      bounds.push_back(*axis.extent - one);
  const Polynomial numRanks = var(polys.numRanks());
  if (axes.numRanks == numRanks)
    ir::addLess(bounds, rank, numRanks);
  else
    ir::addEqual(bounds, numRanks, axes.numRanks);
  return rank;
}

Instance Scene::instance(Op *op, const Instance *anchor, Shares shares) {
  Instance made;
  made.op = op;
  made.space = spaceOf(op);
  Op *kernel = op->enclosing(OpKind::Kernel);
  llvm::SmallVector<std::pair<Op *, Op *>, 8> around;
  for (Op *inner = op; Op *outer = inner->parentOp(); inner = outer) {
    around.push_back({outer, inner});
    if (outer == made.space)
      break;
  }
  const bool sharesBody = anchor && shares == Shares::Body;
  const bool sharesSpace = sharesBody || (anchor && shares == Shares::Space);
  DTILE_CHECK(!sharesSpace || anchor->space == made.space, "a body of two spaces");
  if (anchor && shares != Shares::Nothing) {
    made.rank = anchor->rank;
    made.digits = anchor->digits;
  } else {
    made.rank = unknownRank(*kernel, made.bounds, made.digits);
    made.unknowns.assign(made.digits.begin(), made.digits.end());
  }
  if (sharesBody) {
    made.environment = anchor->environment;
  } else {
    made.environment = environmentOf(*kernel, made.rank);
  }
  bool isShared = sharesBody;
  for (auto [outer, inner] : llvm::reverse(around)) {
    if (isShared) {
      // Common loops and spaces are in the same iteration; a common `if` holds already.
      const auto isOf = [&, at = outer](const Instance::Coordinate &c) { return c.of == at; };
      bool isCommon = false;
      for (Op *up = anchor->op; up && !isCommon; up = up == made.space ? nullptr : up->parentOp())
        isCommon = up->parentOp() == outer;
      if (isCommon) {
        for (const Instance::Coordinate &c : anchor->coordinates)
          if (isOf(c))
            made.coordinates.push_back(c);
        if (!outer->is(OpKind::If))
          continue;
        // Common only where both are in the same arm.
        Op *up = anchor->op;
        while (up->parentOp() != outer)
          up = up->parentOp();
        if (up->parentBlock() == inner->parentBlock())
          continue;
      }
      isShared = false;
    }
    switch (outer->kind()) {
    case OpKind::Space:
      if (sharesSpace) {
        for (const Instance::Coordinate &c : anchor->coordinates)
          if (c.of == outer)
            made.coordinates.push_back(c);
        for (const Value *position : outer->body().arguments())
          if (const auto it = anchor->environment.values.find(position);
              it != anchor->environment.values.end())
            made.environment.values[position] = it->second;
        break;
      }
      for (unsigned d = 0; d < ir::spaceDims(*outer); ++d)
        addCoordinate(made, outer, d, outer->body().argument(d), outer->operand(3 * d),
                      outer->operand(3 * d + 1), outer->operand(3 * d + 2));
      break;
    case OpKind::For:
      addCoordinate(made, outer, 0, outer->body().argument(0), outer->operand(0), outer->operand(1),
                    outer->operand(2));
      break;
    case OpKind::If:
      made.guards.push_back(
          formula(outer->operand(0), inner->parentBlock() == &outer->body(0), made));
      break;
    default: {
      // A loop of which nothing is known, as `while`.
      const AtomId number = polys.fresh();
      made.coordinates.push_back({outer, 0, number});
      made.unknowns.push_back(number);
      made.bounds.push_back(var(number));
      made.guards.push_back(Formula::unknown());
      break;
    }
    }
  }
  findClauses(op);
  for (auto [outer, inner] : around)
    for (Op &before : inner->parentBlock()->ops()) {
      if (&before == inner)
        break;
      addDivisor(made, before);
      if (before.is(OpKind::Assert))
        (ir::isAssumption(before) ? made.assumed : made.asserted)
            .push_back(formula(before.operand(0), true, made));
      else
        findReads(made, &before);
    }
  return made;
}

/// What an op divides by, where that is no number and not W.
void Scene::addDivisor(Instance &instance, Op &op) {
  if ((!op.is(OpKind::Div) && !op.is(OpKind::Rem)) || !op.result()->type().isIndex())
    return;
  const Polynomial divisor = polys.of(op.operand(1), instance.environment);
  const Polynomial fact = divisor - Polynomial(1);
  if (!divisor.constant() && !(divisor == var(polys.numRanks())) &&
      !llvm::is_contained(instance.divisors, fact))
    instance.divisors.push_back(fact);
}

void Scene::assume(Facts &facts, Instance &instance) {
  facts.insert(facts.end(), instance.bounds.begin(), instance.bounds.end());
  for (const Polynomial &fact : instance.divisors)
    if (!llvm::is_contained(facts, fact))
      facts.push_back(fact);
  for (const Formula &guard : instance.guards)
    assume(facts, guard);
  assumeClauses(facts, instance);
}

void Scene::assumeAsserted(Facts &facts, const Instance &instance) {
  for (const Formula &assertion : instance.asserted)
    assume(facts, assertion);
}

void Scene::assume(Facts &facts, const Formula &formula) {
  switch (formula.kind) {
  case Formula::Kind::AtLeastZero:
    facts.push_back(formula.p);
    return;
  case Formula::Kind::And:
    for (const Formula &part : formula.parts)
      assume(facts, part);
    return;
  case Formula::Kind::Or: {
    // What is left when all others are impossible.
    const Formula *only = nullptr;
    for (const Formula &part : formula.parts) {
      Facts with = facts;
      assume(with, part);
      if (part.kind != Formula::Kind::Unknown && refuter.isImpossible(with))
        continue;
      if (only)
        return;
      only = &part;
    }
    if (only && only->kind != Formula::Kind::Unknown)
      assume(facts, *only);
    return;
  }
  case Formula::Kind::Unknown:
    return;
  }
}

namespace {

std::optional<bool> boolConstant(Value *value) {
  const Op *op = value->definingOp();
  const ir::Attr *constant = op && op->is(OpKind::Const) ? op->attr("value") : nullptr;
  if (!constant || !std::holds_alternative<bool>(*constant))
    return std::nullopt;
  return std::get<bool>(*constant);
}

} // namespace

/// `c ? a : b` of bools, as the two things that it says: `a` where `c` holds, `b` where it does
/// not. `a && b` and `a || b` are such, where `b` is only computed after `a`.
Formula Scene::chosen(Value *condition, Value *first, Value *second, bool wanted,
                      Instance &instance) {
  std::vector<Formula> parts;
  // An arm that cannot give what is wanted is not taken.
  for (const bool isFirst : {true, false})
    if (boolConstant(isFirst ? first : second) == !wanted)
      parts.push_back(formula(condition, !isFirst, instance));
  const bool isDecided = !parts.empty();
  for (const bool isFirst : {true, false}) {
    Value *value = isFirst ? first : second;
    if (boolConstant(value))
      continue;
    Formula given = formula(value, wanted, instance);
    if (isDecided)
      parts.push_back(std::move(given));
    else
      parts.push_back(
          {Formula::Kind::Or, {}, {formula(condition, !isFirst, instance), std::move(given)}});
  }
  if (parts.size() == 1)
    return std::move(parts.front());
  return {Formula::Kind::And, {}, std::move(parts)};
}

Formula Scene::formula(Value *condition, bool wanted, Instance &instance) {
  Op *op = condition->definingOp();
  if (!op)
    return Formula::unknown();
  const auto both = [&](Formula::Kind kind) {
    return Formula{
        kind,
        {},
        {formula(op->operand(0), wanted, instance), formula(op->operand(1), wanted, instance)}};
  };
  switch (op->kind()) {
  case OpKind::Const: {
    const std::optional<bool> value = boolConstant(condition);
    return value ? Formula::atLeastZero(Polynomial(*value == wanted ? 0 : -1)) : Formula::unknown();
  }
  case OpKind::Not:
    return formula(op->operand(0), !wanted, instance);
  case OpKind::And:
    return both(wanted ? Formula::Kind::And : Formula::Kind::Or);
  case OpKind::Or:
    return both(wanted ? Formula::Kind::Or : Formula::Kind::And);
  case OpKind::Select:
    return chosen(op->operand(0), op->operand(1), op->operand(2), wanted, instance);
  case OpKind::If: {
    const auto given = [&](unsigned arm) {
      return op->body(arm).terminator()->operand(condition->index());
    };
    return chosen(op->operand(0), given(0), given(1), wanted, instance);
  }
  case OpKind::Cmp:
    if (op->operand(0)->type() == condition->type()) {
      // One is what the other is, or is not.
      const bool isEqual = (op->get(ir::attr::pred) == llvm::StringRef("eq")) == wanted;
      Formula same;
      for (const bool holds : {true, false})
        same.parts.push_back({Formula::Kind::Or,
                              {},
                              {formula(op->operand(0), !holds, instance),
                               formula(op->operand(1), holds == isEqual, instance)}});
      return same;
    }
    break;
  default:
    return Formula::unknown();
  }
  if (!Polynomials::isNumber(op->operand(0)->type()))
    return Formula::unknown();
  const Polynomial a = polys.of(op->operand(0), instance.environment);
  const Polynomial b = polys.of(op->operand(1), instance.environment);
  const Polynomial one(1);
  const llvm::StringRef pred = op->get(ir::attr::pred);
  if (pred == "lt")
    return Formula::atLeastZero(wanted ? b - a - one : a - b);
  if (pred == "le")
    return Formula::atLeastZero(wanted ? b - a : a - b - one);
  if (pred == "gt")
    return Formula::atLeastZero(wanted ? a - b - one : b - a);
  if (pred == "ge")
    return Formula::atLeastZero(wanted ? a - b : b - a - one);
  if ((pred == "eq") == wanted)
    return {Formula::Kind::And, {}, {Formula::atLeastZero(a - b), Formula::atLeastZero(b - a)}};
  return {Formula::Kind::Or,
          {},
          {Formula::atLeastZero(a - b - one), Formula::atLeastZero(b - a - one)}};
}

Formula negated(const Formula &formula) {
  using Kind = Formula::Kind;
  switch (formula.kind) {
  case Kind::AtLeastZero:
    return Formula::atLeastZero(Polynomial(-1) - formula.p);
  case Kind::And:
  case Kind::Or: {
    Formula result{formula.kind == Kind::And ? Kind::Or : Kind::And, {}, {}};
    for (const Formula &part : formula.parts)
      result.parts.push_back(negated(part));
    return result;
  }
  case Kind::Unknown:
    return Formula::unknown();
  }
  DTILE_UNREACHABLE("formula");
}

Formula Scene::substituted(const Formula &formula, AtomId id, const Polynomial &by) {
  Formula result{formula.kind, polys.substitute(formula.p, id, by), {}};
  for (const Formula &part : formula.parts)
    result.parts.push_back(substituted(part, id, by));
  return result;
}

bool Scene::implies(const Facts &facts, const Formula &formula) {
  const auto holds = [&](const Formula &part) { return implies(facts, part); };
  switch (formula.kind) {
  case Formula::Kind::AtLeastZero:
    return refuter.implies(facts, formula.p);
  case Formula::Kind::And:
    return llvm::all_of(formula.parts, holds);
  case Formula::Kind::Or: {
    if (llvm::any_of(formula.parts, holds))
      return true;
    // Where all others fail the last one must hold.
    Facts others = facts;
    for (const Formula &part : llvm::ArrayRef(formula.parts).drop_back())
      assume(others, negated(part));
    return others.size() > facts.size() && implies(others, formula.parts.back());
  }
  case Formula::Kind::Unknown:
    return false;
  }
  DTILE_UNREACHABLE("formula");
}

namespace {

/// Of a lower bound that is a minimum with what positions are below anyway, the other one: `p` is
/// at least `min(a, N)` and below N exactly where it is at least `a` and below N.
Polynomial leastBelow(const Polynomials &polys, const Polynomial &low,
                      llvm::ArrayRef<Polynomial> below) {
  const auto id = low.asAtom();
  if (!id || polys.atom(*id).kind != Polynomials::AtomKind::Min)
    return low;
  const Polynomials::Atom &atom = polys.atom(*id);
  if (llvm::is_contained(below, atom.rhs))
    return atom.lhs;
  return llvm::is_contained(below, atom.lhs) ? atom.rhs : low;
}

/// Below a minimum is below both; bounds that are there already say nothing.
void addBelow(const Polynomials &polys, const Polynomial &high,
              llvm::SmallVectorImpl<Polynomial> &below) {
  const auto id = high.asAtom();
  if (id && polys.atom(*id).kind == Polynomials::AtomKind::Min) {
    const Polynomials::Atom &atom = polys.atom(*id);
    addBelow(polys, atom.lhs, below);
    addBelow(polys, atom.rhs, below);
    return;
  }
  if (!llvm::is_contained(below, high))
    below.push_back(high);
}

} // namespace

Region Scene::region(Value *viewOrCells, Instance &instance, const Facts &facts) {
  Region region;
  region.rank = instance.rank;
  llvm::SmallVector<Op *, 4> chain;
  Value *value = viewOrCells;
  while (Op *op = value->definingOp()) {
    if (op->is(OpKind::Param) || op->is(OpKind::SignalParam)) {
      region.object = op;
      break;
    }
    const bool isKnown = op->is(OpKind::ViewSlice) || op->is(OpKind::ViewTile) ||
                         op->is(OpKind::ViewAt) || op->is(OpKind::ViewReshape) ||
                         op->is(OpKind::SigSlice) || op->is(OpKind::SigAt);
    if (!isKnown)
      break;
    chain.push_back(op);
    value = op->operand(0);
  }
  if (!region.object)
    return region;
  auto &environment = instance.environment;
  const auto operand = [&](Op *op, unsigned i) { return polys.of(op->operand(i), environment); };
  for (unsigned d = 0; d < region.object->numOperands(); ++d) {
    region.dims.push_back(
        {.at = {}, .atLeast = {Polynomial(0)}, .below = {operand(region.object, d)}});
    region.live.push_back({d, Polynomial(0)});
  }
  // Whether the dimension's first position may be cut away, so that what is counted from it is not
  // known.
  llvm::SmallVector<bool, 4> isMoved(region.dims.size(), false);
  bool isReshaped = false;
  for (Op *op : llvm::reverse(chain)) {
    if (op->is(OpKind::ViewAt) || op->is(OpKind::SigAt)) {
      region.rank = operand(op, 1);
      continue;
    }
    if (op->is(OpKind::ViewReshape) || isReshaped) {
      isReshaped = true;
      region.isExact = false;
      region.live.clear();
      continue;
    }
    const bool isWindow = op->is(OpKind::ViewTile);
    llvm::SmallVector<std::pair<unsigned, Polynomial>, 4> left;
    const llvm::StringRef letters = op->get(ir::attr::dims);
    unsigned next = 1;
    unsigned window = 0;
    for (unsigned i = 0; i < letters.size(); ++i) {
      auto [number, origin] = region.live[i];
      DimRegion &dim = region.dims[number];
      if (letters[i] == 'a') {
        left.push_back(region.live[i]);
        continue;
      }
      const Polynomial first = origin + operand(op, next);
      if (isMoved[number])
        region.isExact = false;
      if (letters[i] == 'i') {
        ++next;
        const Polynomial no(-1);
        for (const Polynomial &low : dim.atLeast)
          region.inside.push_back({op, isMoved[number] ? no : first - low});
        for (const Polynomial &high : dim.below)
          region.inside.push_back({op, isMoved[number] ? no : high - first - Polynomial(1)});
        if (!isMoved[number])
          dim.at = first;
        continue;
      }
      const Polynomial end = origin + operand(op, next + 1);
      next += 2;
      // A range is cut to what there is, and counts from where it was cut.
      const bool isCut = !isWindow && llvm::any_of(dim.atLeast, [&](const Polynomial &low) {
        return !refuter.implies(facts, first - low);
      });
      if (!isMoved[number]) {
        dim.atLeast.push_back(isWindow ? first : leastBelow(polys, first, dim.below));
        if (isWindow)
          dim.below.push_back(end);
        else
          addBelow(polys, end, dim.below);
        if (isWindow)
          dim.below.push_back(first + Polynomial(op->get(ir::attr::lens)[window]));
      }
      isMoved[number] = isMoved[number] || isCut;
      ++window;
      left.push_back({number, first});
    }
    region.live = std::move(left);
  }
  const Op &by = *instance.op;
  if (!isReshaped && ir::isIndexed(by) && by.operand(ir::indexedView(by)) == viewOrCells)
    cutByIndexTiles(region, isMoved, instance, facts);
  return region;
}

void Scene::assumeInside(Facts &facts, const Region &region, llvm::ArrayRef<Polynomial> point) {
  for (const auto &[dim, p] : llvm::zip(region.dims, point)) {
    if (dim.at)
      ir::addEqual(facts, p, *dim.at);
    for (const Polynomial &low : dim.atLeast)
      ir::addLessEqual(facts, low, p);
    for (const Polynomial &high : dim.below)
      ir::addLess(facts, p, high);
  }
  facts.insert(facts.end(), region.facts.begin(), region.facts.end());
}

llvm::SmallVector<Polynomial, 4> Scene::assumeMeeting(Facts &facts, const Region &a,
                                                      const Region &b) {
  llvm::SmallVector<Polynomial, 4> point;
  for (size_t d = 0; d < a.dims.size(); ++d)
    point.push_back(var(polys.fresh()));
  assumeInside(facts, a, point);
  assumeInside(facts, b, point);
  addEqualRanks(facts, a.rank, b.rank);
  return point;
}

/// The value, with choices made as the facts decide them.
Polynomial Scene::decided(Value *value, Instance &instance, const Facts &facts) {
  Op *op = value->definingOp();
  if (op && op->is(OpKind::Add))
    return decided(op->operand(0), instance, facts) + decided(op->operand(1), instance, facts);
  if (op && op->is(OpKind::Select))
    for (const bool isFirst : {true, false})
      if (implies(facts, formula(op->operand(0), isFirst, instance)))
        return decided(op->operand(isFirst ? 1 : 2), instance, facts);
  return polys.of(value, instance.environment);
}

std::optional<Polynomial> Scene::derivedCount(Op &signal, llvm::ArrayRef<Polynomial> cell,
                                              const Polynomial &rank, const Facts &facts) {
  if (signal.body().empty())
    return std::nullopt;
  Instance instance;
  instance.environment = environmentOf(*signal.enclosing(OpKind::Kernel), rank);
  for (unsigned d = 0; d < cell.size(); ++d)
    instance.environment.values[signal.body().argument(d)] = cell[d];
  return decided(signal.body().terminator()->operand(0), instance, facts);
}

} // namespace dtile::protocol::prove
