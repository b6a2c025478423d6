// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Refutation of conjunctions of polynomial inequalities over the integers, in rounds: equalities
// are substituted; variables that occur only linearly are eliminated (Fourier and Motzkin, with
// each sum divided by the divisor of its coefficients and rounded); a sum that has a common factor
// of known sign is divided by it, which turns owner1 * S < owner2 * S + S into owner1 <= owner2;
// what was learnt starts the next round. Work is bounded; giving up is "not refuted".
#include "ir/analysis/inequalities.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

namespace dtile::ir {

using AtomKind = Polynomials::AtomKind;
using Monomial = Polynomial::Monomial;

namespace {

constexpr unsigned kSplits = 6;
constexpr unsigned kRounds = 6;
constexpr size_t kMaxRows = 160;
constexpr size_t kMaxExpansions = 64;
constexpr unsigned kMaxSubstitutions = 64;
constexpr int64_t kMaxCoefficient = int64_t(1) << 46;

int64_t floorDiv(int64_t a, int64_t b) {
  return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}

} // namespace

/// Rows over numbered monomials.
struct Refuter::System {
  struct Row {
    llvm::SmallVector<std::pair<uint32_t, int64_t>, 6> terms;
    int64_t constant = 0;
    auto operator<=>(const Row &other) const {
      if (const auto order = std::lexicographical_compare_three_way(
              terms.begin(), terms.end(), other.terms.begin(), other.terms.end());
          order != 0)
        return order;
      return constant <=> other.constant;
    }
    bool operator==(const Row &other) const = default;
  };
  struct Range {
    std::optional<int64_t> low, high;
    [[nodiscard]] int sign() const { return low && *low >= 0 ? 1 : high && *high <= 0 ? -1 : 0; }
    [[nodiscard]] bool isNotZero() const { return (low && *low > 0) || (high && *high < 0); }
  };

  struct MonomialHash {
    size_t operator()(const Monomial &monomial) const {
      return llvm::hash_combine_range(monomial.begin(), monomial.end());
    }
  };

  std::vector<Monomial> monomials;
  /// Of single atoms, which most are, and of products.
  llvm::SmallDenseMap<AtomId, uint32_t, 32> atomNumbers;
  std::unordered_map<Monomial, uint32_t, MonomialHash> productNumbers;
  llvm::DenseMap<AtomId, Range> ranges;
  std::vector<Row> rows;
  /// Rows that were found by dividing; facts of the next round.
  std::vector<Polynomial> learnt;
  bool isContradiction = false;
  bool gaveUp = false;
  RefutationBudget *budget = nullptr;

  uint32_t numberOf(const Monomial &monomial) {
    const auto next = uint32_t(monomials.size());
    uint32_t number = 0;
    if (monomial.size() == 1)
      number = atomNumbers.try_emplace(monomial[0], next).first->second;
    else
      number = productNumbers.try_emplace(monomial, next).first->second;
    if (number == next)
      monomials.push_back(monomial);
    return number;
  }
  Row rowOf(const Polynomial &p) {
    Row row;
    for (const auto &[monomial, coefficient] : p.terms())
      if (monomial.empty())
        row.constant = coefficient;
      else
        row.terms.emplace_back(numberOf(monomial), coefficient);
    llvm::sort(row.terms);
    return row;
  }
  [[nodiscard]] Polynomial polynomialOf(const Row &row) const {
    std::vector<Polynomial::Term> terms;
    terms.reserve(row.terms.size() + 1);
    terms.emplace_back(Monomial(), row.constant);
    for (const auto &[number, coefficient] : row.terms)
      terms.emplace_back(monomials[number], coefficient);
    return Polynomial::sumOf(std::move(terms));
  }

  bool learnRange(const Row &row);
  bool normalize(Row &row);
  void add(Row row);
  void divide(const Row &row);
  [[nodiscard]] bool isLinear(uint32_t number) const { return monomials[number].size() == 1; }
  [[nodiscard]] std::optional<uint32_t> nextToEliminate(bool onlyLinear) const;
  void eliminate(uint32_t number);
  void eliminateAll(bool onlyLinear);
  void addSigns();
  [[nodiscard]] std::optional<Polynomial> equality() const;
};

/// Takes what a row of one atom says of its range; whether that is news.
bool Refuter::System::learnRange(const Row &row) {
  if (row.terms.size() != 1 || !isLinear(row.terms[0].first))
    return false;
  const auto [number, coefficient] = row.terms[0];
  Range &range = ranges[monomials[number][0]];
  if (coefficient > 0) {
    const int64_t low = -floorDiv(row.constant, coefficient);
    if (range.low && *range.low >= low)
      return false;
    range.low = low;
  } else {
    const int64_t high = floorDiv(row.constant, -coefficient);
    if (range.high && *range.high <= high)
      return false;
    range.high = high;
  }
  isContradiction |= range.low && range.high && *range.low > *range.high;
  return true;
}

/// Divides by the coefficients' divisor; false where the row says nothing.
bool Refuter::System::normalize(Row &row) {
  if (row.terms.empty()) {
    isContradiction |= row.constant < 0;
    return false;
  }
  int64_t divisor = 0;
  for (const auto &[number, coefficient] : row.terms) {
    if (coefficient > kMaxCoefficient || coefficient < -kMaxCoefficient)
      return false;
    divisor = std::gcd(divisor, coefficient);
  }
  if (row.constant > kMaxCoefficient * 4 || row.constant < -kMaxCoefficient * 4)
    return false;
  if (divisor > 1) {
    for (auto &[number, coefficient] : row.terms)
      coefficient /= divisor;
    row.constant = floorDiv(row.constant, divisor);
  }
  return true;
}

void Refuter::System::add(Row row) {
  if (isContradiction || !normalize(row))
    return;
  if (budget && budget->left != 0 && --budget->left == 0)
    gaveUp = true;
  for (Row &have : rows)
    if (have.terms == row.terms) {
      // The smaller constant says more.
      if (have.constant <= row.constant)
        return;
      have.constant = row.constant;
      learnRange(have);
      divide(Row(have));
      return;
    }
  learnRange(row);
  rows.push_back(row);
  if (rows.size() > kMaxRows)
    gaveUp = true;
  else
    divide(row);
}

/// m * q + c >= 0 with a monomial m of known sign says something about q alone.
void Refuter::System::divide(const Row &row) {
  if (row.constant > 0)
    return;
  Monomial common = monomials[row.terms[0].first];
  for (const auto &[number, coefficient] : row.terms) {
    Monomial both;
    std::set_intersection(common.begin(), common.end(), monomials[number].begin(),
                          monomials[number].end(), std::back_inserter(both));
    common = std::move(both);
    if (common.empty())
      return;
  }
  int sign = 1;
  Monomial factor;
  bool isNotZero = true;
  for (const AtomId atom : common) {
    const Range range = ranges.lookup(atom);
    if (range.sign() == 0)
      continue;
    sign *= range.sign();
    isNotZero &= range.isNotZero();
    factor.push_back(atom);
  }
  if (factor.empty() || (row.constant == 0 && !isNotZero))
    return;
  std::vector<Polynomial::Term> terms;
  for (const auto &[number, coefficient] : row.terms) {
    Monomial left;
    std::set_difference(monomials[number].begin(), monomials[number].end(), factor.begin(),
                        factor.end(), std::back_inserter(left));
    terms.emplace_back(std::move(left), coefficient * sign);
  }
  Polynomial quotient = Polynomial::sumOf(std::move(terms));
  // Where m * q > 0 neither is zero; where m is not zero and m * q >= 0, q has m's sign or is zero.
  if (row.constant < 0) {
    quotient = quotient - Polynomial(1);
    for (const AtomId atom : factor) {
      const bool isPositive = ranges.lookup(atom).sign() > 0;
      if (!ranges.lookup(atom).isNotZero()) {
        Row one;
        one.terms.emplace_back(numberOf({atom}), isPositive ? 1 : -1);
        one.constant = -1;
        learnt.push_back(polynomialOf(one));
        add(std::move(one));
      }
    }
  }
  Row divided = rowOf(quotient);
  learnt.push_back(std::move(quotient));
  add(std::move(divided));
}

/// The monomial whose elimination makes the fewest rows.
std::optional<uint32_t> Refuter::System::nextToEliminate(bool onlyLinear) const {
  llvm::SmallVector<std::pair<size_t, size_t>, 64> counts(monomials.size());
  llvm::SmallDenseSet<AtomId, 16> inProducts;
  for (const Row &row : rows)
    for (const auto &[number, coefficient] : row.terms) {
      auto &count = counts[number];
      ++(coefficient > 0 ? count.first : count.second);
      if (!isLinear(number))
        inProducts.insert(monomials[number].begin(), monomials[number].end());
    }
  std::optional<uint32_t> best;
  size_t fewest = SIZE_MAX;
  for (uint32_t number = 0; number < counts.size(); ++number) {
    const auto &count = counts[number];
    if (count.first + count.second == 0)
      continue;
    if (onlyLinear && (!isLinear(number) || inProducts.contains(monomials[number][0])))
      continue;
    const size_t made = count.first * count.second;
    if (made < fewest) {
      fewest = made;
      best = number;
    }
  }
  return best;
}

void Refuter::System::eliminate(uint32_t number) {
  std::vector<Row> above, below;
  size_t others = 0;
  for (Row &row : rows) {
    const auto it =
        llvm::find_if(row.terms, [&](const auto &term) { return term.first == number; });
    if (it != row.terms.end())
      (it->second > 0 ? above : below).push_back(std::move(row));
    else if (Row &to = rows[others++]; &to != &row)
      to = std::move(row);
  }
  rows.resize(others);
  const auto coefficientOf = [&](const Row &row) {
    return llvm::find_if(row.terms, [&](const auto &term) { return term.first == number; })->second;
  };
  for (const Row &a : above)
    for (const Row &b : below) {
      const int64_t ca = coefficientOf(a), cb = -coefficientOf(b);
      const int64_t divisor = std::gcd(ca, cb);
      const int64_t fa = cb / divisor, fb = ca / divisor;
      Row sum;
      __int128 constant = __int128(a.constant) * fa + __int128(b.constant) * fb;
      bool fits = constant < (__int128(1) << 60) && constant > -(__int128(1) << 60);
      sum.constant = int64_t(constant);
      size_t i = 0, j = 0;
      while (i < a.terms.size() || j < b.terms.size()) {
        const bool takesA =
            j == b.terms.size() || (i < a.terms.size() && a.terms[i].first <= b.terms[j].first);
        const bool takesB =
            i == a.terms.size() || (j < b.terms.size() && b.terms[j].first <= a.terms[i].first);
        const uint32_t at = takesA ? a.terms[i].first : b.terms[j].first;
        __int128 coefficient = 0;
        if (takesA)
          coefficient += __int128(a.terms[i++].second) * fa;
        if (takesB)
          coefficient += __int128(b.terms[j++].second) * fb;
        fits &= coefficient < kMaxCoefficient && coefficient > -kMaxCoefficient;
        if (coefficient != 0)
          sum.terms.emplace_back(at, int64_t(coefficient));
      }
      // A row that does not fit is left out: fewer facts refute less.
      if (fits)
        add(std::move(sum));
      if (isContradiction || gaveUp)
        return;
    }
}

void Refuter::System::eliminateAll(bool onlyLinear) {
  while (!isContradiction && !gaveUp) {
    const auto number = nextToEliminate(onlyLinear);
    if (!number)
      return;
    eliminate(*number);
  }
}

/// Products of what is not negative are not negative, and at least each of their factors where the
/// others are at least one.
void Refuter::System::addSigns() {
  const size_t count = monomials.size();
  for (uint32_t number = 0; number < count; ++number) {
    const Monomial monomial = monomials[number];
    if (monomial.size() < 2)
      continue;
    int sign = 1;
    bool isNotZero = true;
    for (const AtomId atom : monomial) {
      sign *= ranges.lookup(atom).sign();
      isNotZero &= ranges.lookup(atom).isNotZero();
    }
    if (sign == 0)
      continue;
    Row row;
    row.terms.emplace_back(number, sign);
    row.constant = isNotZero ? -1 : 0;
    add(std::move(row));
    if (monomial.size() != 2)
      continue;
    for (unsigned i = 0; i < 2; ++i) {
      const Range one = ranges.lookup(monomial[i]);
      const Range other = ranges.lookup(monomial[1 - i]);
      if (!one.low || *one.low < 1 || other.sign() == 0)
        continue;
      // one >= 1: |one * other| >= |other|.
      Row atLeast;
      atLeast.terms.emplace_back(number, other.sign());
      atLeast.terms.emplace_back(numberOf({monomial[1 - i]}), -other.sign());
      llvm::sort(atLeast.terms);
      add(std::move(atLeast));
    }
  }
}

/// Two rows that together say that something is zero.
std::optional<Polynomial> Refuter::System::equality() const {
  for (size_t i = 0; i < rows.size(); ++i)
    for (size_t j = i + 1; j < rows.size(); ++j) {
      if (rows[i].terms.size() != rows[j].terms.size() || rows[i].constant != -rows[j].constant)
        continue;
      const bool isOpposite =
          llvm::all_of(llvm::zip(rows[i].terms, rows[j].terms), [](const auto &pair) {
            const auto &[a, b] = pair;
            return a.first == b.first && a.second == -b.second;
          });
      if (isOpposite)
        return polynomialOf(rows[i]);
    }
  return std::nullopt;
}

namespace {

/// An atom that an equality gives the value of, and that value; atoms outside of products first.
std::optional<std::pair<AtomId, Polynomial>> solvedFrom(const Polynomial &zero) {
  std::optional<AtomId> best;
  bool isBestAlone = false;
  int64_t sign = 0;
  for (const auto &[monomial, coefficient] : zero.terms()) {
    if (monomial.size() != 1 || (coefficient != 1 && coefficient != -1))
      continue;
    const AtomId atom = monomial[0];
    const bool isAlone = llvm::none_of(zero.terms(), [&](const auto &term) {
      return term.first.size() > 1 && llvm::is_contained(term.first, atom);
    });
    // The newest: what was made to be eliminated.
    if (!isAlone || (best && isBestAlone && *best > atom))
      continue;
    best = atom;
    isBestAlone = true;
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

} // namespace

/// A minimum or maximum that occurs somewhere, also inside of other atoms.
std::optional<AtomId> Refuter::choiceIn(const Facts &facts) const {
  llvm::SmallDenseSet<AtomId, 16> seen;
  std::optional<AtomId> choice;
  const std::function<void(const Polynomial &)> visit = [&](const Polynomial &p) {
    for (const auto &[monomial, coefficient] : p.terms())
      for (const AtomId id : monomial) {
        const Polynomials::Atom &atom = polys_.atom(id);
        if (atom.kind < AtomKind::Div || !seen.insert(id).second)
          continue;
        visit(atom.lhs);
        visit(atom.rhs);
        // What it is of comes first.
        if (!choice && (atom.kind == AtomKind::Min || atom.kind == AtomKind::Max))
          choice = id;
      }
  };
  for (const Polynomial &fact : facts)
    visit(fact);
  return choice;
}

bool Refuter::isImpossibleFrom(const Facts &facts, unsigned splits) {
  const auto id = choiceIn(facts);
  if (!id)
    return isImpossibleInRounds(withMeanings(facts));
  const Polynomials::Atom &atom = polys_.atom(*id);
  const bool isMinimum = atom.kind == AtomKind::Min;
  const auto with = [&](const Polynomial &value, std::initializer_list<Polynomial> others) {
    Facts chosen;
    for (const Polynomial &fact : facts)
      chosen.push_back(polys_.substitute(fact, *id, value));
    for (const Polynomial &other : others)
      chosen.push_back(isMinimum ? other - value : value - other);
    return chosen;
  };
  // Where there are too many, what it is stays open.
  if (splits == 0)
    return isImpossibleFrom(with(Polynomial::atom(polys_.fresh()), {atom.lhs, atom.rhs}), 0);
  return isImpossibleFrom(with(atom.lhs, {atom.rhs}), splits - 1) &&
         isImpossibleFrom(with(atom.rhs, {atom.lhs}), splits - 1);
}

bool Refuter::isPositive(const Facts &facts, const Polynomial &p) const {
  if (const auto constant = p.constant())
    return *constant > 0;
  if (p == Polynomial::atom(polys_.numRanks()))
    return true;
  // Some fact says so itself.
  return llvm::any_of(facts, [&](const Polynomial &fact) {
    const auto rest = p.constantAbove(fact);
    return rest && *rest >= 1;
  });
}

/// Puts what remainders are in place of them in a fact; `known` are those that have their bounds.
void Refuter::replaceRemainders(Facts &facts, size_t i, std::set<AtomId> &known) {
  const auto remainder = [&]() -> std::optional<AtomId> {
    for (const auto &[monomial, coefficient] : facts[i].terms())
      for (const AtomId id : monomial)
        if (polys_.atom(id).kind == AtomKind::Rem && isPositive(facts, polys_.atom(id).rhs))
          return id;
    return std::nullopt;
  };
  while (const auto id = remainder()) {
    const Polynomials::Atom &atom = polys_.atom(*id);
    const Polynomial value = atom.lhs - atom.rhs * polys_.div(atom.lhs, atom.rhs);
    facts[i] = facts[i].replaced(*id, value);
    if (known.insert(*id).second) {
      facts.push_back(value);
      facts.push_back(atom.rhs - Polynomial(1) - value);
    }
  }
}

/// The facts and what follows from the meaning of their atoms.
Facts Refuter::withMeanings(Facts facts) {
  const Polynomial ranks = Polynomial::atom(polys_.numRanks());
  const Polynomial one(1);
  std::set<AtomId> known;
  for (size_t i = 0; i < facts.size() && known.size() < kMaxExpansions; ++i) {
    replaceRemainders(facts, i, known);
    std::vector<AtomId> atoms;
    for (const auto &[monomial, coefficient] : facts[i].terms())
      atoms.insert(atoms.end(), monomial.begin(), monomial.end());
    for (const AtomId id : atoms) {
      if (!known.insert(id).second)
        continue;
      const Polynomials::Atom &atom = polys_.atom(id);
      const Polynomial self = Polynomial::atom(id);
      switch (atom.kind) {
      case AtomKind::NumRanks:
        facts.push_back(self - one);
        break;
      case AtomKind::Rank:
        facts.insert(facts.end(), {ranks - self - one, self, ranks - one});
        break;
      case AtomKind::Epoch:
      case AtomKind::LaunchDim:
        facts.push_back(self);
        break;
      case AtomKind::Div:
        if (isPositive(facts, atom.rhs)) {
          const Polynomial rest = atom.lhs - atom.rhs * self;
          facts.insert(facts.end(), {rest, atom.rhs - one - rest});
        }
        break;
      case AtomKind::Variable:
      case AtomKind::Value:
      case AtomKind::Rem:
      case AtomKind::Min:
      case AtomKind::Max:
        break;
      }
    }
  }
  return facts;
}

namespace {

void substituteIn(Facts &facts, AtomId id, const Polynomial &by) {
  for (Polynomial &fact : facts)
    if (fact.hasFactor(id))
      fact = fact.replaced(id, by);
}

/// Puts an atom's value in place of it everywhere, where the equality gives one.
bool substituteIn(Facts &facts, const Polynomial &zero) {
  const auto solved = solvedFrom(zero);
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

/// Puts values in place of atoms for which two facts together give one, while there are such, for
/// `most` of them; for how many it did. Most facts of a proof are definitions: what is left of them
/// is worth a system.
unsigned substituteOpposites(Facts &facts, unsigned most) {
  unsigned times = 0;
  for (bool hasMore = true; hasMore;) {
    hasMore = false;
    Facts zeros = takeOpposites(facts);
    for (size_t i = 0; i < zeros.size(); ++i) {
      const Polynomial zero = std::exchange(zeros[i], Polynomial());
      if (const auto solved = times < most ? solvedFrom(zero) : std::nullopt) {
        substituteIn(facts, solved->first, solved->second);
        substituteIn(zeros, solved->first, solved->second);
        ++times;
        hasMore = true;
      } else if (!zero.isZero()) {
        facts.push_back(zero);
        facts.push_back(Polynomial(0) - zero);
      }
    }
  }
  return times;
}

} // namespace

/// What one round makes of the facts.
Refuter::Outcome Refuter::refuteOnce(Facts &facts, std::map<AtomId, int> &signs) {
  System system;
  system.budget = budget_;
  system.rows.reserve(kMaxRows);
  for (const Polynomial &fact : facts)
    if (fact.terms().size() <= 2)
      if (System::Row row = system.rowOf(fact); system.normalize(row))
        system.learnRange(row);
  for (const Polynomial &fact : facts)
    system.add(system.rowOf(fact));
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

bool Refuter::isImpossibleInRounds(Facts facts) {
  bool usesProducts = false;
  unsigned substitutions = 0;
  for (unsigned round = 0; round < kRounds;) {
    std::map<AtomId, int> signs;
    substitutions += substituteOpposites(facts, kMaxSubstitutions - substitutions);
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

bool Refuter::isImpossible(const Facts &facts) {
  RefutationBudget own;
  RefutationBudget &budget = budget_ ? *budget_ : own;
  if (budget.isSpent())
    return false;
  if (const auto known = answers_.find(facts); known != answers_.end()) {
    const auto [isImpossible, work] = known->second;
    budget.left -= std::min(budget.left, work);
    return isImpossible && !budget.isSpent();
  }
  const uint64_t before = budget.left;
  const bool isImpossible = isImpossibleFrom(facts, kSplits);
  // An answer that the budget was not enough for is none.
  if (budget.isSpent())
    return false;
  answers_.try_emplace(facts, isImpossible, before - budget.left);
  return isImpossible;
}

bool Refuter::implies(const Facts &facts, const Polynomial &p) {
  if (const auto constant = p.constant(); constant && *constant >= 0)
    return true;
  // Some fact says so itself, or more.
  if (llvm::any_of(facts, [&](const Polynomial &fact) {
        const auto rest = p.constantAbove(fact);
        return rest && *rest >= 0;
      }))
    return true;
  Facts contrary = facts;
  contrary.push_back(Polynomial(-1) - p);
  return isImpossible(contrary);
}

bool Refuter::impliesEqual(const Facts &facts, const Polynomial &a, const Polynomial &b) {
  return a == b || (implies(facts, a - b) && implies(facts, b - a));
}

} // namespace dtile::ir
