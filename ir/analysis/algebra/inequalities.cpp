// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Refutation of conjunctions of polynomial inequalities over the integers, in rounds: equalities
// are substituted; a system of inequalities (inequality_system.h) looks for a contradiction; what
// it has learnt starts the next round. Work is bounded; giving up is "not refuted".
#include "ir/analysis/algebra/inequalities.h"

#include "ir/analysis/algebra/atom_meanings.h"
#include "ir/analysis/algebra/bit_facts.h"
#include "ir/analysis/algebra/inequality_system.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

namespace dtile::ir {

using AtomKind = Polynomials::AtomKind;

namespace {

constexpr unsigned kSplits = 6;
constexpr unsigned kRounds = 6;
constexpr unsigned kMaxSubstitutions = 64;

/// Atoms that are factors of products in facts.
using InProducts = llvm::SmallDenseSet<AtomId, 16>;

InProducts atomsInProducts(const Facts &facts) {
  InProducts atoms;
  for (const Polynomial &fact : facts)
    for (const auto &[monomial, coefficient] : fact.terms())
      if (monomial.size() > 1)
        atoms.insert(monomial.begin(), monomial.end());
  return atoms;
}

/// An atom that an equality gives the value of, and that value; only atoms outside of products in
/// it, and where there are such, outside of products in all facts: a bound of `c` is worth more in
/// `c * x` than one of `b - a` in `b * x - a * x`.
std::optional<std::pair<AtomId, Polynomial>> solvedFrom(const Polynomial &zero,
                                                        const InProducts &inProducts) {
  std::optional<AtomId> best;
  int64_t sign = 0;
  for (const auto &[monomial, coefficient] : zero.terms()) {
    if (monomial.size() != 1 || (coefficient != 1 && coefficient != -1))
      continue;
    const AtomId atom = monomial[0];
    const bool isAlone = llvm::none_of(zero.terms(), [&](const auto &term) {
      return term.first.size() > 1 && llvm::is_contained(term.first, atom);
    });
    // The newest: what was made to be eliminated.
    const auto worth = [&](AtomId id) { return std::pair(!inProducts.contains(id), id); };
    if (!isAlone || (best && worth(*best) > worth(atom)))
      continue;
    best = atom;
    sign = coefficient;
  }
  if (!best)
    return std::nullopt;
  Polynomial rest = zero - Polynomial(sign) * Polynomial::atom(*best);
  return std::pair(*best, Polynomial(-sign) * rest);
}

/// Facts multiplied by atoms with which their variables occur: x < y gives x * s <= y * s - s.
void addProducts(Facts &facts, const std::map<AtomId, int> &signs) {
  std::set<std::pair<AtomId, AtomId>> pairs;
  for (const Polynomial &fact : facts)
    for (const auto &[monomial, coefficient] : fact.terms())
      if (monomial.size() == 2)
        pairs.insert({monomial[0], monomial[1]});
  Facts products;
  for (const auto &[a, b] : pairs)
    for (const auto &[x, s] : {std::pair(a, b), std::pair(b, a)}) {
      const auto sign = signs.find(s);
      if (sign == signs.end() || sign->second == 0)
        continue;
      for (const Polynomial &fact : facts) {
        const bool isSmall =
            fact.terms().size() <= 4 &&
            llvm::all_of(fact.terms(), [](const auto &term) { return term.first.size() <= 1; });
        if (isSmall && fact.hasFactor(x) && products.size() < 40)
          products.push_back(Polynomial(sign->second) * Polynomial::atom(s) * fact);
      }
    }
  facts.insert(facts.end(), products.begin(), products.end());
}

/// What is at least zero where a minimum, maximum or choice is its first operand; else it is the
/// second.
Polynomial conditionOf(const Polynomials::Atom &atom) {
  return atom.kind == AtomKind::Choice ? atom.condition
         : atom.kind == AtomKind::Min  ? atom.rhs - atom.lhs
                                       : atom.lhs - atom.rhs;
}

} // namespace

/// The minima, maxima and choices that occur somewhere, also inside of other atoms: what one is of
/// comes before it.
std::vector<AtomId> Refuter::choicesIn(llvm::ArrayRef<Polynomial> facts) const {
  llvm::SmallDenseSet<AtomId, 16> seen;
  std::vector<AtomId> choices;
  const std::function<void(const Polynomial &)> visit = [&](const Polynomial &p) {
    for (const auto &[monomial, coefficient] : p.terms())
      for (const AtomId id : monomial) {
        const Polynomials::Atom &atom = polys_.atom(id);
        if (!atom.hasChoice || !seen.insert(id).second)
          continue;
        visit(atom.condition);
        visit(atom.lhs);
        visit(atom.rhs);
        if (atom.kind >= AtomKind::Min)
          choices.push_back(id);
      }
  };
  for (const Polynomial &fact : facts)
    visit(fact);
  return choices;
}

bool Refuter::mentionsBits(const Facts &facts) const {
  return llvm::any_of(facts, [&](const Polynomial &fact) { return polys_.mentionsBits(fact); });
}

/// The first of them.
std::optional<AtomId> Refuter::choiceIn(llvm::ArrayRef<Polynomial> facts) const {
  llvm::SmallDenseSet<AtomId, 16> seen;
  return firstChoice(facts, seen);
}

std::optional<AtomId> Refuter::firstChoice(llvm::ArrayRef<Polynomial> facts,
                                           llvm::SmallDenseSet<AtomId, 16> &seen) const {
  for (const Polynomial &fact : facts)
    for (const auto &[monomial, coefficient] : fact.terms())
      for (const AtomId id : monomial) {
        const Polynomials::Atom &atom = polys_.atom(id);
        if (!atom.hasChoice || !seen.insert(id).second)
          continue;
        for (const Polynomial *part : {&atom.condition, &atom.lhs, &atom.rhs})
          if (const auto inner = firstChoice(*part, seen))
            return inner;
        if (atom.kind >= AtomKind::Min)
          return id;
      }
  return std::nullopt;
}

/// What a minimum, maximum or choice is, where a fact says so by itself.
std::optional<Refuter::Operand> Refuter::decided(AtomId id, const Facts &facts) const {
  const Polynomials::Atom &atom = polys_.atom(id);
  const Polynomial condition = conditionOf(atom);
  const auto isSaid = [&](const Polynomial &p) {
    return llvm::any_of(facts, [&](const Polynomial &fact) {
      const auto rest = p.constantAbove(fact);
      return rest && *rest >= 0;
    });
  };
  if (isSaid(condition))
    return Operand::First;
  if (isSaid(Polynomial(-1) - condition))
    return Operand::Second;
  return std::nullopt;
}

/// The polynomial with an operand of an atom in place of it.
Polynomial Refuter::chosen(const Polynomial &p, AtomId id, Operand operand) {
  const Polynomials::Atom &atom = polys_.atom(id);
  const Polynomial &value = operand == Operand::First ? atom.lhs : atom.rhs;
  return substitutions_.try_emplace({id, operand}, polys_, id, value).first->second.of(p);
}

/// The polynomial with what facts decide by themselves put in place.
Polynomial Refuter::settled(Polynomial p, const Facts &facts) {
  for (bool isNew = polys_.mentionsChoice(p); isNew;) {
    isNew = false;
    for (const AtomId id : choicesIn(p))
      if (const auto operand = decided(id, facts)) {
        p = chosen(p, id, *operand);
        isNew = true;
        break;
      }
  }
  return p;
}

std::optional<Polynomial> Refuter::openChoice(const Facts &facts) {
  for (const Polynomial &fact : facts)
    if (const auto id = choiceIn(settled(fact, facts)))
      return conditionOf(polys_.atom(*id));
  return std::nullopt;
}

bool Refuter::isImpossibleFrom(const Facts &facts, unsigned splits) {
  const auto id = choiceIn(facts);
  if (!id) {
    AtomMeanings meanings(polys_);
    meanings.add(mentionsBits(facts) ? withBitsResolved(polys_, facts) : facts);
    return isImpossibleInRounds(meanings.facts(), 0);
  }
  // Facts are made anew for each case: two take as long as a row.
  if (budget_) {
    budget_->left -= std::min<uint64_t>(budget_->left, facts.size() / 2);
    if (budget_->isSpent())
      return false;
  }
  const Polynomials::Atom &atom = polys_.atom(*id);
  // Where there are too many, what it is stays open.
  std::optional<Substitution> open;
  if (splits == 0)
    open.emplace(polys_, *id, Polynomial::atom(polys_.fresh()));
  const auto as = [&](const Polynomial &p, Operand operand) {
    return open ? open->of(p) : chosen(p, *id, operand);
  };
  if (atom.kind == AtomKind::Choice) {
    const auto with = [&](Operand operand, const Facts &more) {
      Facts some = more;
      for (const Polynomial &fact : facts)
        some.push_back(settled(as(fact, operand), more));
      return some;
    };
    if (open)
      return isImpossibleFrom(with(Operand::First, {}), 0);
    return isImpossibleFrom(with(Operand::First, {atom.condition}), splits - 1) &&
           isImpossibleFrom(with(Operand::Second, {Polynomial(-1) - atom.condition}), splits - 1);
  }
  const bool isMinimum = atom.kind == AtomKind::Min;
  const auto with = [&](Operand operand, std::initializer_list<Polynomial> others) {
    const Polynomial value = as(Polynomial::atom(*id), operand);
    Facts some;
    for (const Polynomial &fact : facts)
      some.push_back(as(fact, operand));
    for (const Polynomial &other : others)
      some.push_back(isMinimum ? other - value : value - other);
    return some;
  };
  if (open)
    return isImpossibleFrom(with(Operand::First, {atom.lhs, atom.rhs}), 0);
  return isImpossibleFrom(with(Operand::First, {atom.rhs}), splits - 1) &&
         isImpossibleFrom(with(Operand::Second, {atom.lhs}), splits - 1);
}

namespace {

int64_t largestCoefficient(const Polynomial &p) {
  int64_t largest = 0;
  for (const auto &[monomial, coefficient] : p.terms())
    largest = std::max(largest, coefficient < 0 ? -coefficient : coefficient);
  return largest;
}

/// Whether a fact with something else in place of an atom is of a size that is worth its time, and
/// has coefficients that fit: definitions in terms of each other may grow without end.
bool canReplace(const Polynomial &fact, AtomId id, const Polynomial &by) {
  constexpr int64_t kMostTimes = 2;
  constexpr size_t kMostAtoms = 6, kMostTerms = 64;
  constexpr double kMostCoefficient = 0x1p46;
  size_t atomsOf = 0;
  for (const auto &[monomial, coefficient] : by.terms())
    atomsOf = std::max(atomsOf, monomial.size());
  size_t terms = 0;
  double sum = 0;
  for (const auto &[monomial, coefficient] : fact.terms()) {
    const int64_t times = llvm::count(monomial, id);
    if (times > kMostTimes ||
        monomial.size() + size_t(times) * atomsOf > kMostAtoms + size_t(times))
      return false;
    terms += times == 0   ? 1
             : times == 1 ? by.terms().size()
                          : by.terms().size() * by.terms().size();
    const double factor = double(by.terms().size()) * double(largestCoefficient(by));
    sum += std::abs(double(coefficient)) * (times == 0 ? 1 : times == 1 ? factor : factor * factor);
  }
  return terms <= kMostTerms && sum <= kMostCoefficient;
}

/// Facts that this would make too large are left out: fewer facts refute less.
void substituteIn(Facts &facts, AtomId id, const Polynomial &by) {
  for (Polynomial &fact : facts)
    if (fact.hasFactor(id))
      fact = canReplace(fact, id, by) ? fact.replaced(id, by) : Polynomial();
}

/// Puts an atom's value in place of it everywhere, where the equality gives one.
bool substituteIn(Facts &facts, const Polynomial &zero) {
  const auto solved = solvedFrom(zero, atomsInProducts(facts));
  if (!solved)
    return false;
  substituteIn(facts, solved->first, solved->second);
  llvm::erase_if(facts, [](const Polynomial &fact) { return fact.isZero(); });
  return true;
}

/// The same for a polynomial and its opposite, and for few others.
uint64_t keyOf(const Polynomial &p) {
  uint64_t key = p.terms().size();
  for (const auto &[monomial, coefficient] : p.terms()) {
    uint64_t product = uint64_t(coefficient < 0 ? -coefficient : coefficient);
    for (const AtomId atom : monomial)
      product = (product + atom + 1) * 0x9e3779b97f4a7c15;
    key += product ^ product >> 32;
  }
  return key;
}

/// Takes what two facts together say is zero out of the facts.
Facts takeOpposites(Facts &facts) {
  llvm::SmallVector<std::pair<uint64_t, uint32_t>, 64> keys;
  for (uint32_t i = 0; i < facts.size(); ++i)
    keys.emplace_back(keyOf(facts[i]), i);
  llvm::sort(keys);
  std::vector<uint32_t> found;
  for (size_t i = 0; i < keys.size(); ++i)
    for (size_t j = i + 1; j < keys.size() && keys[j].first == keys[i].first; ++j) {
      Polynomial &one = facts[keys[i].second], &other = facts[keys[j].second];
      if (one.isZero() || !one.isOpposite(other))
        continue;
      found.push_back(keys[i].second);
      other = Polynomial();
      break;
    }
  // In the order of the facts, whatever their keys are.
  llvm::sort(found);
  Facts zeros;
  for (const uint32_t i : found)
    zeros.push_back(std::exchange(facts[i], Polynomial()));
  llvm::erase_if(facts, [](const Polynomial &fact) { return fact.isZero(); });
  return zeros;
}

/// An atom, and what it is.
using Definition = std::pair<AtomId, Polynomial>;

/// Puts values in place of atoms for which two facts together give one, while there are such, for
/// `most` of them; which ones, in their order. Most facts of a proof are definitions: what is left
/// of them is worth a system.
std::vector<Definition> substituteOpposites(Facts &facts, size_t most) {
  std::vector<Definition> definitions;
  for (bool hasMore = true; hasMore;) {
    hasMore = false;
    Facts zeros = takeOpposites(facts);
    const InProducts inProducts = atomsInProducts(facts);
    for (size_t i = 0; i < zeros.size(); ++i) {
      const Polynomial zero = std::exchange(zeros[i], Polynomial());
      if (auto solved = definitions.size() < most ? solvedFrom(zero, inProducts) : std::nullopt) {
        substituteIn(facts, solved->first, solved->second);
        substituteIn(zeros, solved->first, solved->second);
        definitions.push_back(std::move(*solved));
        hasMore = true;
      } else if (!zero.isZero()) {
        facts.push_back(zero);
        facts.push_back(Polynomial(0) - zero);
      }
    }
  }
  return definitions;
}

} // namespace

/// What one round makes of the facts.
Refuter::Outcome Refuter::refuteOnce(Facts &facts, std::map<AtomId, int> &signs) {
  InequalitySystem system(budget_);
  for (const Polynomial &fact : facts)
    system.learnRangeOf(fact);
  for (const Polynomial &fact : facts)
    system.add(fact);
  if (system.isContradiction)
    return Outcome::Refuted;
  // Equalities that are there, or that dividing has shown.
  facts.insert(facts.end(), system.learnt.begin(), system.learnt.end());
  system.learnt.clear();
  if (const auto zero = system.equality(); zero && substituteIn(facts, *zero))
    return Outcome::Substituted;
  system.addSigns();
  system.eliminateAll(/*onlyLinear=*/true);
  if (system.isContradiction)
    return Outcome::Refuted;
  if (const auto zero = system.equality()) {
    facts.insert(facts.end(), system.learnt.begin(), system.learnt.end());
    facts.push_back(*zero);
    facts.push_back(Polynomial(0) - *zero);
    if (substituteIn(facts, *zero))
      return Outcome::Learnt;
  }
  for (const auto &[atom, range] : system.ranges)
    signs[atom] = range.sign();
  system.eliminateAll(/*onlyLinear=*/false);
  if (system.isContradiction)
    return Outcome::Refuted;
  const size_t before = facts.size();
  for (Polynomial &fact : system.learnt)
    if (!llvm::is_contained(facts, fact))
      facts.push_back(std::move(fact));
  return facts.size() != before ? Outcome::Learnt : Outcome::Nothing;
}

/// `substitutions`: how many have led to these facts.
bool Refuter::isImpossibleInRounds(Facts facts, size_t substitutions) {
  bool usesProducts = false;
  for (unsigned round = 0; round < kRounds;) {
    std::map<AtomId, int> signs;
    substitutions += substituteOpposites(facts, kMaxSubstitutions - substitutions).size();
    switch (refuteOnce(facts, signs)) {
    case Outcome::Refuted:
      return true;
    case Outcome::Substituted:
      // Progress by itself.
      if (++substitutions >= kMaxSubstitutions || facts.size() > 2 * kMaxRows)
        return false;
      break;
    case Outcome::Learnt:
      ++round;
      break;
    case Outcome::Nothing: {
      const size_t before = facts.size();
      if (!usesProducts)
        addProducts(facts, signs);
      if (facts.size() == before)
        return false;
      usesProducts = true;
      ++round;
      break;
    }
    }
  }
  return false;
}

/// Facts that many questions share, as far as they can be gone through without knowing these.
struct Refuter::Base {
  explicit Base(Polynomials &polys) : meanings(polys) {}
  /// Whether a question can go on from here.
  bool isPlain = false;
  /// The facts, with what they decide by themselves put in place.
  Facts asked;
  AtomMeanings meanings;
  /// What is left of them, with definitions put in place.
  Facts facts;
  std::vector<Definition> definitions;
  /// What was asked before: proofs ask much again. All questions of one refuter are remembered, so
  /// what a budget is enough for is the same each time.
  std::map<Polynomial, bool> answers;
};

Refuter::Refuter(Polynomials &polys, RefutationBudget *budget) : polys_(polys), budget_(budget) {}
Refuter::~Refuter() = default;

Refuter::Base &Refuter::baseOf(const Facts &facts) {
  auto [it, isNew] = bases_.try_emplace(facts);
  if (!isNew)
    return *it->second;
  it->second = std::make_unique<Base>(polys_);
  Base &base = *it->second;
  base.asked = facts;
  for (Polynomial &fact : base.asked)
    fact = settled(std::move(fact), facts);
  if (choiceIn(base.asked))
    return base;
  base.meanings.add(base.asked);
  base.isPlain = !base.meanings.isOpen() && !mentionsBits(base.asked);
  base.facts = base.meanings.facts();
  base.definitions = substituteOpposites(base.facts, kMaxSubstitutions);
  return base;
}

bool Refuter::isImpossibleWith(const Base &base, const Facts &facts, const Polynomial &question) {
  const Polynomial more = polys_.mentionsChoice(question) ? settled(question, facts) : question;
  if (!base.isPlain || polys_.mentionsChoice(more) || polys_.mentionsBits(more)) {
    Facts all = base.asked;
    all.push_back(more);
    return isImpossibleFrom(all, kSplits);
  }
  AtomMeanings meanings(polys_, &base.meanings);
  meanings.add(more);
  Facts own = meanings.facts();
  for (const auto &[id, value] : base.definitions)
    substituteIn(own, id, value);
  Facts all = base.facts;
  all.insert(all.end(), own.begin(), own.end());
  return isImpossibleInRounds(std::move(all), base.definitions.size());
}

bool Refuter::isImpossible(const Facts &facts, const Polynomial &more) {
  RefutationBudget own;
  RefutationBudget &budget = budget_ ? *budget_ : own;
  if (budget.isSpent())
    return false;
  Base &base = baseOf(facts);
  if (const auto known = base.answers.find(more); known != base.answers.end()) {
    --budget.left;
    return known->second && !budget.isSpent();
  }
  const bool isImpossible = isImpossibleWith(base, facts, more);
  // An answer that the budget was not enough for is none.
  if (budget.isSpent())
    return false;
  base.answers.try_emplace(more, isImpossible);
  return isImpossible;
}

bool Refuter::isImpossible(const Facts &facts) { return isImpossible(facts, Polynomial(0)); }

bool Refuter::implies(const Facts &facts, const Polynomial &p) {
  if (const auto constant = p.constant(); constant && *constant >= 0)
    return true;
  // Some fact says so itself, or more.
  if (llvm::any_of(facts, [&](const Polynomial &fact) {
        const auto rest = p.constantAbove(fact);
        return rest && *rest >= 0;
      }))
    return true;
  return isImpossible(facts, Polynomial(-1) - p);
}

bool Refuter::impliesEqual(const Facts &facts, const Polynomial &a, const Polynomial &b) {
  return a == b || (implies(facts, a - b) && implies(facts, b - a));
}

} // namespace dtile::ir
