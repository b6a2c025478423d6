// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Variables are eliminated as by Fourier and Motzkin, with each sum divided by the divisor of its
// coefficients and rounded; a sum that has a common factor of known sign is divided by it, which
// turns owner1 * S < owner2 * S + S into owner1 <= owner2.
#include "ir/analysis/algebra/inequality_system.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <numeric>

namespace dtile::ir {

namespace {

constexpr int64_t kMaxCoefficient = int64_t(1) << 46;

int64_t floorDiv(int64_t a, int64_t b) {
  return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}

} // namespace

uint32_t InequalitySystem::numberOf(const Monomial &monomial) {
  const auto next = uint32_t(monomials_.size());
  uint32_t number = 0;
  if (monomial.size() == 1)
    number = atomNumbers_.try_emplace(monomial[0], next).first->second;
  else
    number = productNumbers_.try_emplace(monomial, next).first->second;
  if (number == next)
    monomials_.push_back(monomial);
  return number;
}

InequalitySystem::Row InequalitySystem::rowOf(const Polynomial &p) {
  Row row;
  for (const auto &[monomial, coefficient] : p.terms())
    if (monomial.empty())
      row.constant = coefficient;
    else
      row.terms.emplace_back(numberOf(monomial), coefficient);
  llvm::sort(row.terms);
  return row;
}

Polynomial InequalitySystem::polynomialOf(const Row &row) const {
  std::vector<Polynomial::Term> terms;
  terms.reserve(row.terms.size() + 1);
  terms.emplace_back(Monomial(), row.constant);
  for (const auto &[number, coefficient] : row.terms)
    terms.emplace_back(monomials_[number], coefficient);
  return Polynomial::sumOf(std::move(terms));
}

void InequalitySystem::learnRangeOf(const Polynomial &fact) {
  constexpr size_t kOneAtomAndNumber = 2;
  if (fact.terms().size() > kOneAtomAndNumber)
    return;
  if (Row row = rowOf(fact); normalize(row))
    learnRange(row);
}

/// Takes what a row of one atom says of its range; whether that is news.
bool InequalitySystem::learnRange(const Row &row) {
  if (row.terms.size() != 1 || !isLinear(row.terms[0].first))
    return false;
  const auto [number, coefficient] = row.terms[0];
  Range &range = ranges[monomials_[number][0]];
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
bool InequalitySystem::normalize(Row &row) {
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

void InequalitySystem::add(Row row) {
  if (isContradiction || !normalize(row))
    return;
  if (budget_ && budget_->left != 0 && --budget_->left == 0)
    gaveUp_ = true;
  for (Row &have : rows_)
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
  rows_.push_back(row);
  if (rows_.size() > kMaxRows)
    gaveUp_ = true;
  else
    divide(row);
}

/// m * q + c >= 0 with a monomial m of known sign says something about q alone.
void InequalitySystem::divide(const Row &row) {
  if (row.constant > 0)
    return;
  Monomial common = monomials_[row.terms[0].first];
  for (const auto &[number, coefficient] : row.terms) {
    Monomial both;
    std::set_intersection(common.begin(), common.end(), monomials_[number].begin(),
                          monomials_[number].end(), std::back_inserter(both));
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
    std::set_difference(monomials_[number].begin(), monomials_[number].end(), factor.begin(),
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
std::optional<uint32_t> InequalitySystem::nextToEliminate(bool onlyLinear) const {
  llvm::SmallVector<std::pair<size_t, size_t>, 64> counts(monomials_.size());
  llvm::SmallDenseSet<AtomId, 16> inProducts;
  for (const Row &row : rows_)
    for (const auto &[number, coefficient] : row.terms) {
      auto &count = counts[number];
      ++(coefficient > 0 ? count.first : count.second);
      if (!isLinear(number))
        inProducts.insert(monomials_[number].begin(), monomials_[number].end());
    }
  std::optional<uint32_t> best;
  size_t fewest = SIZE_MAX;
  for (uint32_t number = 0; number < counts.size(); ++number) {
    const auto &count = counts[number];
    if (count.first + count.second == 0)
      continue;
    if (onlyLinear && (!isLinear(number) || inProducts.contains(monomials_[number][0])))
      continue;
    const size_t made = count.first * count.second;
    if (made < fewest) {
      fewest = made;
      best = number;
    }
  }
  return best;
}

void InequalitySystem::eliminate(uint32_t number) {
  std::vector<Row> above, below;
  size_t others = 0;
  for (Row &row : rows_) {
    const auto it =
        llvm::find_if(row.terms, [&](const auto &term) { return term.first == number; });
    if (it != row.terms.end())
      (it->second > 0 ? above : below).push_back(std::move(row));
    else if (Row &to = rows_[others++]; &to != &row)
      to = std::move(row);
  }
  rows_.resize(others);
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
      if (isContradiction || gaveUp_)
        return;
    }
}

void InequalitySystem::eliminateAll(bool onlyLinear) {
  while (!isContradiction && !gaveUp_) {
    const auto number = nextToEliminate(onlyLinear);
    if (!number)
      return;
    eliminate(*number);
  }
}

/// Products of what is not negative are not negative, and at least each of their factors where the
/// others are at least one.
void InequalitySystem::addSigns() {
  const size_t count = monomials_.size();
  for (uint32_t number = 0; number < count; ++number) {
    const Monomial monomial = monomials_[number];
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
std::optional<Polynomial> InequalitySystem::equality() const {
  for (size_t i = 0; i < rows_.size(); ++i)
    for (size_t j = i + 1; j < rows_.size(); ++j) {
      if (rows_[i].terms.size() != rows_[j].terms.size() || rows_[i].constant != -rows_[j].constant)
        continue;
      const bool isOpposite =
          llvm::all_of(llvm::zip(rows_[i].terms, rows_[j].terms), [](const auto &pair) {
            const auto &[a, b] = pair;
            return a.first == b.first && a.second == -b.second;
          });
      if (isOpposite)
        return polynomialOf(rows_[i]);
    }
  return std::nullopt;
}

} // namespace dtile::ir
