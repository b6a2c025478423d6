// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Polynomials over index values: arithmetic, simplification of division and remainder, solving,
// emission.
#include "ir/analysis/algebra/polynomial.h"

#include "frontend/base/check.h"
#include "ir/core/constants.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace dtile::ir {

using AtomKind = Polynomials::AtomKind;

std::optional<int64_t> Polynomial::constant() const {
  if (terms_.empty())
    return 0;
  if (terms_.size() == 1 && terms_.front().first.empty())
    return terms_.front().second;
  return std::nullopt;
}

std::optional<AtomId> Polynomial::asAtom() const {
  if (terms_.size() != 1)
    return std::nullopt;
  const auto &[monomial, coefficient] = terms_.front();
  if (monomial.size() != 1 || coefficient != 1)
    return std::nullopt;
  return monomial.front();
}

std::optional<int64_t> Polynomial::constantAbove(const Polynomial &other) const {
  // The product of nothing is the first one.
  const auto split = [](const Polynomial &p) {
    const bool hasConstant = !p.terms_.empty() && p.terms_.front().first.empty();
    return std::pair(hasConstant ? p.terms_.front().second : 0,
                     llvm::ArrayRef(p.terms_).drop_front(hasConstant ? 1 : 0));
  };
  const auto [constant, rest] = split(*this);
  const auto [otherConstant, otherRest] = split(other);
  if (rest != otherRest)
    return std::nullopt;
  return constant - otherConstant;
}

bool Polynomial::isOpposite(const Polynomial &other) const {
  return terms_.size() == other.terms_.size() &&
         llvm::equal(terms_, other.terms_, [](const Term &a, const Term &b) {
           return a.second == -b.second && a.first == b.first;
         });
}

bool Polynomial::hasFactor(AtomId id) const {
  return hasAtom([&](AtomId atom) { return atom == id; });
}

Polynomial Polynomial::replaced(AtomId id, const Polynomial &by) const {
  Polynomial kept, changed;
  kept.terms_.reserve(terms_.size());
  for (const auto &[monomial, coefficient] : terms_) {
    const auto times = size_t(llvm::count(monomial, id));
    if (times == 0) {
      kept.terms_.emplace_back(monomial, coefficient);
      continue;
    }
    Monomial others;
    llvm::copy_if(monomial, std::back_inserter(others), [&](AtomId atom) { return atom != id; });
    Polynomial product = term(std::move(others), coefficient);
    for (size_t i = 0; i < times; ++i)
      product = product * by;
    changed = changed.isZero() ? std::move(product) : changed + product;
  }
  return kept + changed;
}

Polynomial Polynomial::sumOf(std::vector<Term> terms) {
  llvm::sort(terms, [](const Term &a, const Term &b) { return a.first < b.first; });
  Polynomial sum;
  sum.terms_.reserve(terms.size());
  for (Term &term : terms) {
    if (!sum.terms_.empty() && sum.terms_.back().first == term.first)
      sum.terms_.back().second += term.second;
    else
      sum.terms_.push_back(std::move(term));
    if (sum.terms_.back().second == 0)
      sum.terms_.pop_back();
  }
  return sum;
}

void Polynomial::addTerm(const Monomial &monomial, int64_t coefficient) {
  // Mostly they come in order.
  auto it =
      terms_.empty() || terms_.back().first < monomial
          ? terms_.end()
          : llvm::partition_point(terms_, [&](const Term &term) { return term.first < monomial; });
  if (it == terms_.end() || it->first != monomial) {
    if (coefficient != 0)
      terms_.insert(it, Term(monomial, coefficient));
    return;
  }
  it->second += coefficient;
  if (it->second == 0)
    terms_.erase(it);
}

Polynomial Polynomial::plus(const Polynomial &other, int64_t factor) const {
  Polynomial sum;
  sum.terms_.reserve(terms_.size() + other.terms_.size());
  auto a = terms_.begin(), b = other.terms_.begin();
  while (a != terms_.end() || b != other.terms_.end()) {
    const bool isOne = a != terms_.end() && b != other.terms_.end() && a->first == b->first;
    if (isOne) {
      if (const int64_t coefficient = a->second + b->second * factor)
        sum.terms_.emplace_back(a->first, coefficient);
      ++a;
      ++b;
    } else if (b == other.terms_.end() || (a != terms_.end() && a->first < b->first)) {
      sum.terms_.push_back(*a++);
    } else {
      sum.terms_.emplace_back(b->first, b->second * factor);
      ++b;
    }
  }
  return sum;
}

Polynomial Polynomial::operator+(const Polynomial &other) const { return plus(other, 1); }

Polynomial Polynomial::operator-(const Polynomial &other) const { return plus(other, -1); }

Polynomial Polynomial::operator*(const Polynomial &other) const {
  Polynomial product;
  for (const auto &[m1, c1] : terms_) {
    for (const auto &[m2, c2] : other.terms_) {
      Monomial both;
      std::merge(m1.begin(), m1.end(), m2.begin(), m2.end(), std::back_inserter(both));
      product.addTerm(both, c1 * c2);
    }
  }
  return product;
}

namespace {

/// Whether integer arithmetic of any width is that of whole numbers: quotients by positive
/// constants, and choices.
bool neverWraps(const Op &op) {
  if (op.is(OpKind::Min) || op.is(OpKind::Max))
    return true;
  if (!op.is(OpKind::Div) && !op.is(OpKind::Rem))
    return false;
  const std::optional<int64_t> by = constantOf(op.operand(1));
  return by && *by > 0;
}

} // namespace

Polynomials::Polynomials() {
  atoms_.push_back({.kind = AtomKind::Rank, .value = nullptr});
  atoms_.push_back({.kind = AtomKind::NumRanks, .value = nullptr});
  atoms_.push_back({.kind = AtomKind::Epoch, .value = nullptr});
  atoms_[kRank].extent = Polynomial::atom(kNumRanks);
}

AtomId Polynomials::intern(Atom atom) {
  const size_t hash =
      llvm::hash_combine(atom.kind, atom.a, atom.b, atom.value, atom.lhs, atom.rhs, atom.condition);
  const auto alike = interned_.equal_range(hash);
  for (auto it = alike.first; it != alike.second; ++it) {
    const Atom &known = atoms_[it->second];
    if (known.kind == atom.kind && known.a == atom.a && known.b == atom.b &&
        known.value == atom.value && known.lhs == atom.lhs && known.rhs == atom.rhs &&
        known.condition == atom.condition)
      return it->second;
  }
  const auto inParts = [&](auto &&mentionsIt) {
    return mentionsIt(atom.lhs) || mentionsIt(atom.rhs) || mentionsIt(atom.condition);
  };
  atom.hasChoice = atom.kind >= AtomKind::Min ||
                   inParts([&](const Polynomial &part) { return mentionsChoice(part); });
  atom.hasBits = atom.kind == AtomKind::Bits ||
                 inParts([&](const Polynomial &part) { return mentionsBits(part); });
  const auto id = AtomId(atoms_.size());
  atoms_.push_back(std::move(atom));
  interned_.emplace(hash, id);
  return id;
}

AtomId Polynomials::launchDim(int64_t param, int64_t dim) {
  return intern({.kind = AtomKind::LaunchDim, .a = param, .b = dim, .value = nullptr});
}

AtomId Polynomials::fresh(const Polynomial &extent) {
  const AtomId id = fresh();
  atoms_[id].extent = extent;
  return id;
}

AtomId Polynomials::fresh() {
  const int64_t number = int64_t(atoms_.size());
  atoms_.push_back({.kind = AtomKind::Variable, .a = number, .value = nullptr});
  return AtomId(number);
}

Polynomial Polynomials::opaque(Value *value, const Environment &environment) {
  const Op *op = value->definingOp();
  const bool isShared = !environment.hasOwnValues || (op && op->is(OpKind::ScalarParam));
  return Polynomial::atom(isShared ? intern({.kind = AtomKind::Value, .value = value}) : fresh());
}

Polynomial Polynomials::of(Value *value, Environment &environment) {
  auto it = environment.values.find(value);
  if (it != environment.values.end())
    return it->second;
  Op *op = value->definingOp();
  Polynomial result = op ? ofOp(*op, value, environment) : opaque(value, environment);
  environment.values[value] = result;
  return result;
}

Polynomial Polynomials::ofOp(Op &op, Value *value, Environment &environment) {
  auto operand = [&](unsigned i) { return of(op.operand(i), environment); };
  auto opaque = [&] { return this->opaque(value, environment); };
  if (op.is(OpKind::Const) && isNumber(value->type()))
    return Polynomial(std::get<int64_t>(op.get(attr::value)));
  if (!value->type().isIndex())
    return isNumber(value->type()) && neverWraps(op) ? ofNarrow(op, environment) : opaque();
  // Other kinds stay opaque: they are computed from what a polynomial cannot say.
  switch (op.kind()) {
  case OpKind::Cast:
    return isNumber(op.operand(0)->type()) ? operand(0) : opaque();
  case OpKind::Rank:
    return environment.rank ? *environment.rank : Polynomial::atom(kRank);
  case OpKind::NumRanks:
    return environment.numRanks ? *environment.numRanks : Polynomial::atom(kNumRanks);
  case OpKind::Epoch:
    return Polynomial::atom(kEpoch);
  case OpKind::LaunchDim:
    return Polynomial::atom(launchDim(op.get(attr::param), op.get(attr::dim)));
  case OpKind::Add:
    return operand(0) + operand(1);
  case OpKind::Sub:
    return operand(0) - operand(1);
  case OpKind::Neg:
    return Polynomial(0) - operand(0);
  case OpKind::Mul:
    return operand(0) * operand(1);
  case OpKind::Div:
    return div(operand(0), operand(1));
  case OpKind::Rem:
    return rem(operand(0), operand(1));
  case OpKind::Min:
    return minMax(AtomKind::Min, operand(0), operand(1));
  case OpKind::Max:
    return minMax(AtomKind::Max, operand(0), operand(1));
  case OpKind::And:
  case OpKind::Or:
  case OpKind::Xor:
  case OpKind::Shl:
  case OpKind::Shr:
    return bits(op.kind(), operand(0), operand(1));
  case OpKind::Select:
  case OpKind::If:
    if (const auto chosen = ofChoice(op, value, environment))
      return *chosen;
    return opaque();
  case OpKind::ViewDim:
  case OpKind::SigDim: {
    // The size of a whole parameter is the operand that declares it.
    Op *object = op.operand(0)->definingOp();
    while (object && (object->is(OpKind::ViewAt) || object->is(OpKind::SigAt)))
      object = object->operand(0)->definingOp();
    if (object && (object->is(OpKind::Param) || object->is(OpKind::SignalParam)))
      return of(object->operand(op.get(attr::dim)), environment);
    return opaque();
  }
  default:
    return opaque();
  }
}

std::optional<Polynomial> Polynomials::ofChoice(Op &op, Value *value, Environment &environment) {
  constexpr unsigned kDepth = 4;
  const bool isSelect = op.is(OpKind::Select);
  Value *first = isSelect ? op.operand(1) : op.body(0).terminator()->operand(value->index());
  Value *second = isSelect ? op.operand(2) : op.body(1).terminator()->operand(value->index());
  std::optional<Polynomial> result =
      choose(op.operand(0), of(first, environment), of(second, environment), environment, kDepth);
  if (!result || isSelect)
    return result;
  // What an arm has read is not there outside of it.
  std::vector<AtomId> atoms;
  collectAtoms(*result, atoms);
  const bool isInArm = std::any_of(atoms.begin(), atoms.end(), [&](AtomId id) {
    const Value *of = atoms_[id].kind == AtomKind::Value ? atoms_[id].value : nullptr;
    const Op *around = !of                ? nullptr
                       : of->definingOp() ? of->definingOp()->parentOp()
                                          : of->argumentOf()->parentOp();
    while (around && around != &op)
      around = around->parentOp();
    return around == &op;
  });
  return isInArm ? std::nullopt : result;
}

std::optional<Polynomial> Polynomials::choose(Value *condition, const Polynomial &a,
                                              const Polynomial &b, Environment &environment,
                                              unsigned depth) {
  if (a == b)
    return a;
  const Op *op = condition->definingOp();
  if (!op || depth == 0)
    return std::nullopt;
  const auto inner = [&](Value *part, const Polynomial &x, const Polynomial &y) {
    return choose(part, x, y, environment, depth - 1);
  };
  switch (op->kind()) {
  case OpKind::Const: {
    const bool *holds = std::get_if<bool>(op->attr("value"));
    return holds ? std::optional(*holds ? a : b) : std::nullopt;
  }
  case OpKind::Not:
    return inner(op->operand(0), b, a);
  case OpKind::And:
    if (const auto both = inner(op->operand(1), a, b))
      return inner(op->operand(0), *both, b);
    return std::nullopt;
  case OpKind::Or:
    if (const auto other = inner(op->operand(1), a, b))
      return inner(op->operand(0), a, *other);
    return std::nullopt;
  case OpKind::Select: {
    const auto holds = inner(op->operand(1), a, b);
    const auto fails = inner(op->operand(2), a, b);
    return holds && fails ? inner(op->operand(0), *holds, *fails) : std::nullopt;
  }
  case OpKind::If: {
    // `x && y` with a y that is not free to compute.
    const auto holds = inner(op->body(0).terminator()->operand(condition->index()), a, b);
    const auto fails = inner(op->body(1).terminator()->operand(condition->index()), a, b);
    return holds && fails ? inner(op->operand(0), *holds, *fails) : std::nullopt;
  }
  case OpKind::Cmp:
    break;
  default:
    return std::nullopt;
  }
  if (!isNumber(op->operand(0)->type()))
    return std::nullopt;
  const Polynomial x = of(op->operand(0), environment);
  const Polynomial y = of(op->operand(1), environment);
  const Polynomial one(1);
  const llvm::StringRef pred = op->get(attr::pred);
  if (pred == "lt")
    return choice(y - x - one, a, b);
  if (pred == "le")
    return choice(y - x, a, b);
  if (pred == "gt")
    return choice(x - y - one, a, b);
  if (pred == "ge")
    return choice(x - y, a, b);
  const bool isEqual = pred == "eq";
  const Polynomial &same = isEqual ? a : b;
  const Polynomial &other = isEqual ? b : a;
  return choice(x - y, choice(y - x, same, other), other);
}

Polynomial Polynomials::choice(const Polynomial &condition, const Polynomial &a,
                               const Polynomial &b) {
  if (a == b)
    return a;
  if (const std::optional<int64_t> known = condition.constant())
    return *known >= 0 ? a : b;
  return Polynomial::atom(intern(
      {.kind = AtomKind::Choice, .value = nullptr, .lhs = a, .rhs = b, .condition = condition}));
}

std::optional<AtomId> Polynomials::choiceOf(const Polynomial &p,
                                            llvm::ArrayRef<AtomId> atoms) const {
  for (const auto &[monomial, coefficient] : p.terms())
    for (const AtomId id : monomial) {
      const Atom &atom = atoms_[id];
      if (atom.kind < AtomKind::Div)
        continue;
      for (const Polynomial *part : {&atom.condition, &atom.lhs, &atom.rhs})
        if (const auto inner = choiceOf(*part, atoms))
          return inner;
      const bool depends =
          std::any_of(atoms.begin(), atoms.end(), [&](AtomId other) { return isIn(other, id); });
      if (atom.kind == AtomKind::Choice && depends)
        return id;
    }
  return std::nullopt;
}

/// Of fewer bits: what gives no number that is further from zero than its operands.
Polynomial Polynomials::ofNarrow(Op &op, Environment &environment) {
  const Polynomial a = of(op.operand(0), environment), b = of(op.operand(1), environment);
  switch (op.kind()) {
  case OpKind::Div:
    return div(a, b);
  case OpKind::Rem:
    return rem(a, b);
  case OpKind::Min:
    return minMax(AtomKind::Min, a, b);
  default:
    return minMax(AtomKind::Max, a, b);
  }
}

bool Polynomials::splitBy(const Polynomial &p, const Polynomial &b, Polynomial &quotient,
                          Polynomial &rest) const {
  if (b.terms().size() != 1)
    return false;
  const auto &[divisor, factor] = b.terms().front();
  if (factor == 0)
    return false;
  for (const auto &[monomial, coefficient] : p.terms()) {
    Polynomial::Monomial left;
    bool divides = coefficient % factor == 0 &&
                   std::includes(monomial.begin(), monomial.end(), divisor.begin(), divisor.end());
    if (!divides) {
      rest.addTerm(monomial, coefficient);
      continue;
    }
    std::set_difference(monomial.begin(), monomial.end(), divisor.begin(), divisor.end(),
                        std::back_inserter(left));
    quotient.addTerm(left, coefficient / factor);
  }
  return true;
}

std::optional<Polynomial> Polynomials::extentOf(Polynomial p) const {
  Polynomial extent(1);
  while (!p.isZero()) {
    std::optional<AtomId> digit;
    for (const auto &[monomial, coefficient] : p.terms())
      if (monomial.size() == 1 && coefficient == 1 && atoms_[monomial[0]].extent)
        digit = digit ? std::nullopt : std::optional(monomial[0]);
    // The digits above it are multiples of its extent.
    Polynomial above, rest;
    if (!digit)
      return std::nullopt;
    const Polynomial &values = *atoms_[*digit].extent;
    p = p - Polynomial::atom(*digit);
    if (!p.isZero() && (!splitBy(p, values, above, rest) || !rest.isZero()))
      return std::nullopt;
    extent = extent * values;
    p = above;
  }
  return extent;
}

Polynomial Polynomials::div(const Polynomial &a, const Polynomial &b) {
  std::optional<int64_t> ca = a.constant(), cb = b.constant();
  if (cb && *cb == 0)
    return Polynomial(0);
  if (ca && cb) {
    int64_t q = *ca / *cb;
    return Polynomial(q - ((*ca % *cb != 0 && (*ca < 0) != (*cb < 0)) ? 1 : 0));
  }
  Polynomial quotient, rest;
  // Sizes are positive wherever something is computed at all, so (n * q) / n is q.
  if (splitBy(a, b, quotient, rest)) {
    if (rest.isZero())
      return quotient;
    if (extentOf(rest) == b)
      return quotient;
    return quotient + Polynomial::atom(
                          intern({.kind = AtomKind::Div, .value = nullptr, .lhs = rest, .rhs = b}));
  }
  return Polynomial::atom(intern({.kind = AtomKind::Div, .value = nullptr, .lhs = a, .rhs = b}));
}

Polynomial Polynomials::rem(const Polynomial &a, const Polynomial &b) {
  std::optional<int64_t> ca = a.constant(), cb = b.constant();
  if (cb && *cb == 0)
    return Polynomial(0);
  if (ca && cb) {
    int64_t r = *ca % *cb;
    return Polynomial(r != 0 && (r < 0) != (*cb < 0) ? r + *cb : r);
  }
  Polynomial quotient, rest;
  if (!splitBy(a, b, quotient, rest))
    rest = a;
  if (rest.isZero())
    return rest;
  // (x mod n + y) mod n is (x + y) mod n.
  Polynomial flat;
  bool flattened = false;
  for (const auto &[monomial, coefficient] : rest.terms()) {
    const Atom *inner = monomial.size() == 1 ? &atoms_[monomial[0]] : nullptr;
    if (inner && inner->kind == AtomKind::Rem && inner->rhs == b && rest.terms().size() > 1) {
      flat = flat + Polynomial(coefficient) * inner->lhs;
      flattened = true;
    } else {
      flat.addTerm(monomial, coefficient);
    }
  }
  if (flattened)
    return rem(flat, b);
  if (extentOf(rest) == b)
    return rest;
  AtomId id = intern({.kind = AtomKind::Rem, .value = nullptr, .lhs = rest, .rhs = b});
  atoms_[id].extent = b;
  return Polynomial::atom(id);
}

Polynomial Polynomials::minMax(AtomKind kind, const Polynomial &a, const Polynomial &b) {
  if (a == b)
    return a;
  if (const std::optional<int64_t> difference = a.constantAbove(b))
    return (*difference < 0) == (kind == AtomKind::Min) ? a : b;
  bool swap = b < a;
  return Polynomial::atom(
      intern({.kind = kind, .value = nullptr, .lhs = swap ? b : a, .rhs = swap ? a : b}));
}

bool Polynomials::isIn(AtomId id, AtomId whole) const {
  // What is older than an atom has no part that is it.
  if (whole <= id)
    return whole == id;
  const Atom &atom = atoms_[whole];
  return atom.kind >= AtomKind::Div &&
         (mentions(atom.lhs, id) || mentions(atom.rhs, id) || mentions(atom.condition, id));
}

bool Polynomials::mentions(const Polynomial &p, AtomId id) const {
  return p.hasAtom([&](AtomId atom) { return isIn(id, atom); });
}

bool Polynomials::mentionsChoice(const Polynomial &p) const {
  return p.hasAtom([&](AtomId id) { return atoms_[id].hasChoice; });
}

bool Polynomials::mentionsBits(const Polynomial &p) const {
  return p.hasAtom([&](AtomId id) { return atoms_[id].hasBits; });
}

std::optional<Polynomial> Polynomials::solve(const Polynomial &p, const Polynomial &target,
                                             AtomId variable, std::vector<Polynomial> &mustBeZero) {
  Polynomial factor, rest;
  for (const auto &[monomial, coefficient] : p.terms()) {
    auto count = std::count(monomial.begin(), monomial.end(), variable);
    if (count == 0) {
      rest.addTerm(monomial, coefficient);
      continue;
    }
    if (count > 1)
      return std::nullopt;
    Polynomial::Monomial others;
    std::copy_if(monomial.begin(), monomial.end(), std::back_inserter(others),
                 [&](AtomId id) { return id != variable; });
    factor.addTerm(others, coefficient);
  }
  if (!factor.isZero()) {
    if (mentions(rest, variable) || mentions(factor, variable))
      return std::nullopt;
    Polynomial numerator = target - rest;
    std::optional<int64_t> c = factor.constant();
    if (c && *c == 1)
      return numerator;
    if (c && *c == -1)
      return Polynomial(0) - numerator;
    // factor * variable == numerator has one integer solution, or none, where factor is not zero.
    Polynomial remainder = rem(numerator, factor);
    if (!remainder.isZero())
      mustBeZero.push_back(remainder);
    return div(numerator, factor);
  }
  // rem(±variable + others, n) == target, with the variable taking each residue of n once at most.
  std::optional<AtomId> single = p.asAtom();
  if (!single)
    return std::nullopt;
  const Atom &a = atoms_[*single];
  if (a.kind == AtomKind::Bits && OpKind(a.a) == OpKind::Xor) {
    const bool isLeft = mentions(a.lhs, variable);
    if (isLeft == mentions(a.rhs, variable))
      return std::nullopt;
    const Polynomial side = isLeft ? a.lhs : a.rhs, other = isLeft ? a.rhs : a.lhs;
    return solve(side, bits(OpKind::Xor, target, other), variable, mustBeZero);
  }
  if (a.kind != AtomKind::Rem || mentions(a.rhs, variable) || !atoms_[variable].extent ||
      a.rhs.constantAbove(*atoms_[variable].extent).value_or(-1) < 0)
    return std::nullopt;
  std::vector<Polynomial> inner;
  std::optional<Polynomial> unreduced = solve(a.lhs, target, variable, inner);
  if (!unreduced || !inner.empty())
    return std::nullopt;
  // The target itself must be a residue; it is when its extent says so.
  std::optional<AtomId> targetAtom = target.asAtom();
  bool isResidue = targetAtom && atoms_[*targetAtom].extent && *atoms_[*targetAtom].extent == a.rhs;
  if (!isResidue)
    mustBeZero.push_back(div(target, a.rhs));
  return rem(*unreduced, a.rhs);
}

void Polynomials::collectAtoms(const Polynomial &p, std::vector<AtomId> &out) const {
  for (const auto &[monomial, coefficient] : p.terms()) {
    for (AtomId id : monomial) {
      const Atom &a = atoms_[id];
      if (a.kind >= AtomKind::Div) {
        collectAtoms(a.lhs, out);
        collectAtoms(a.rhs, out);
        collectAtoms(a.condition, out);
      } else {
        out.push_back(id);
      }
    }
  }
}

Value *Polynomials::emitAtom(Builder &builder, AtomId id,
                             const llvm::DenseMap<AtomId, Value *> &bound) const {
  auto it = bound.find(id);
  if (it != bound.end())
    return it->second;
  const Atom &a = atoms_[id];
  switch (a.kind) {
  case AtomKind::Rank:
    return builder.value(OpKind::Rank, {}, builder.types().index());
  case AtomKind::NumRanks:
    return builder.value(OpKind::NumRanks, {}, builder.types().index());
  case AtomKind::Epoch:
    return builder.value(OpKind::Epoch, {}, builder.types().index());
  case AtomKind::LaunchDim:
    return builder.value(OpKind::LaunchDim, {}, builder.types().index(),
                         {{attr::dim, a.b}, {attr::param, a.a}});
  case AtomKind::Variable:
    DTILE_UNREACHABLE("a variable without a value is emitted");
  case AtomKind::Value:
    return a.value->type().isIndex()
               ? a.value
               : builder.value(OpKind::Cast, {a.value}, builder.types().index());
  case AtomKind::Div:
    return builder.div(emit(builder, a.lhs, bound), emit(builder, a.rhs, bound));
  case AtomKind::Rem:
    return builder.rem(emit(builder, a.lhs, bound), emit(builder, a.rhs, bound));
  case AtomKind::Bits:
    return builder.value(OpKind(a.a), {emit(builder, a.lhs, bound), emit(builder, a.rhs, bound)},
                         builder.types().index());
  case AtomKind::Min:
    return builder.min(emit(builder, a.lhs, bound), emit(builder, a.rhs, bound));
  case AtomKind::Max:
    return builder.max(emit(builder, a.lhs, bound), emit(builder, a.rhs, bound));
  case AtomKind::Choice: {
    Value *holds = builder.cmp("ge", emit(builder, a.condition, bound), builder.constIndex(0));
    return builder.value(OpKind::Select,
                         {holds, emit(builder, a.lhs, bound), emit(builder, a.rhs, bound)},
                         builder.types().index());
  }
  }
  DTILE_UNREACHABLE("atom kind");
}

Value *Polynomials::emit(Builder &builder, const Polynomial &p,
                         const llvm::DenseMap<AtomId, Value *> &bound) const {
  Value *sum = nullptr;
  for (const auto &[monomial, coefficient] : p.terms()) {
    Value *product = nullptr;
    for (AtomId id : monomial) {
      Value *factor = emitAtom(builder, id, bound);
      product = product ? builder.mul(product, factor) : factor;
    }
    bool subtract = sum && coefficient < 0 && product;
    int64_t scale = subtract ? -coefficient : coefficient;
    if (!product)
      product = builder.constIndex(scale);
    else if (scale != 1)
      product = builder.mul(product, builder.constIndex(scale));
    if (!sum)
      sum = product;
    else
      sum = subtract ? builder.sub(sum, product) : builder.add(sum, product);
  }
  return sum ? sum : builder.constIndex(0);
}

std::string Polynomials::str(const Polynomial &p) const {
  if (p.isZero())
    return "0";
  std::string text;
  auto atomName = [&](AtomId id) -> std::string {
    const Atom &a = atoms_[id];
    auto pair = [&](const char *name) {
      return name + std::string("(") + str(a.lhs) + ", " + str(a.rhs) + ")";
    };
    switch (a.kind) {
    case AtomKind::Rank:
      return "rank";
    case AtomKind::NumRanks:
      return "W";
    case AtomKind::Epoch:
      return "epoch";
    case AtomKind::LaunchDim:
      return "dim" + std::to_string(a.a) + "." + std::to_string(a.b);
    case AtomKind::Variable:
      return "v" + std::to_string(a.a);
    case AtomKind::Value:
      return a.value->nameHint().empty() ? "x" + std::to_string(id) : a.value->nameHint().str();
    case AtomKind::Div:
      return pair("div");
    case AtomKind::Rem:
      return pair("mod");
    case AtomKind::Bits:
      return pair(opInfo(OpKind(a.a)).text.data());
    case AtomKind::Min:
      return pair("min");
    case AtomKind::Max:
      return pair("max");
    case AtomKind::Choice:
      return "(" + str(a.condition) + " >= 0 ? " + str(a.lhs) + " : " + str(a.rhs) + ")";
    }
    DTILE_UNREACHABLE("atom kind");
  };
  for (const auto &[monomial, coefficient] : p.terms()) {
    if (!text.empty())
      text += coefficient < 0 ? " - " : " + ";
    else if (coefficient < 0)
      text += "-";
    int64_t magnitude = coefficient < 0 ? -coefficient : coefficient;
    if (monomial.empty() || magnitude != 1)
      text += std::to_string(magnitude) + (monomial.empty() ? "" : "*");
    for (size_t i = 0; i < monomial.size(); ++i)
      text += (i ? "*" : "") + atomName(monomial[i]);
  }
  return text;
}

} // namespace dtile::ir
