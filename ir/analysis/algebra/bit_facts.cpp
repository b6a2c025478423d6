// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Inequalities say nothing of bits, and put values in place outside of atoms only. So equalities
// are used up here where an operand rests on them; what is left of an operation is its range.
#include "ir/analysis/algebra/bit_facts.h"

#include "llvm/ADT/STLExtras.h"

#include <bit>

namespace dtile::ir {

using AtomKind = Polynomials::AtomKind;

namespace {

/// Equalities that are put in place: each takes a variable out of the facts.
constexpr unsigned kMostReplaced = 16;
/// Operations of which more is said.
constexpr size_t kMostOperations = 8;
/// Numbers up to which ranges are followed.
constexpr int64_t kLargest = int64_t(1) << 46;

class BitFacts {
public:
  BitFacts(Polynomials &polys, Facts facts) : polys_(polys), facts_(std::move(facts)) {}

  Facts run();

private:
  [[nodiscard]] std::vector<AtomId> operations() const;
  void collect(const Polynomial &p, std::vector<AtomId> &found) const;
  std::optional<Polynomial> valueOf(AtomId id, const Polynomial &p, const Polynomial &target);
  bool replaceOne(llvm::ArrayRef<AtomId> operations);
  bool replaceBy(const Polynomial &zero, llvm::ArrayRef<AtomId> operations);
  void put(AtomId id, const Polynomial &by);
  [[nodiscard]] std::optional<int64_t> leastOf(const Polynomial &p) const;
  [[nodiscard]] std::optional<int64_t> mostOf(const Polynomial &p) const;
  [[nodiscard]] bool isLess(const Polynomial &p, const Polynomial &than) const;
  void addRange(AtomId id);
  void addBlock(const Polynomial &result, const Polynomial &whole, const Polynomial &last);
  void addBelowPowers(const Polynomial &result, const Polynomial &a, const Polynomial &b);

  Polynomials &polys_;
  Facts facts_;
  /// Facts in front of those about operations.
  size_t given_ = 0;
};

/// Operations on bits that the polynomial rests on: operands come before what is made of them.
void BitFacts::collect(const Polynomial &p, std::vector<AtomId> &found) const {
  for (const auto &[monomial, coefficient] : p.terms())
    for (const AtomId id : monomial) {
      const Polynomials::Atom &atom = polys_.atom(id);
      if (atom.kind < AtomKind::Div || llvm::is_contained(found, id))
        continue;
      collect(atom.lhs, found);
      collect(atom.rhs, found);
      collect(atom.condition, found);
      if (atom.kind == AtomKind::Bits && !llvm::is_contained(found, id))
        found.push_back(id);
    }
}

std::vector<AtomId> BitFacts::operations() const {
  std::vector<AtomId> found;
  for (const Polynomial &fact : facts_)
    collect(fact, found);
  return found;
}

void BitFacts::put(AtomId id, const Polynomial &by) {
  for (Polynomial &fact : facts_)
    fact = polys_.substitute(fact, id, by);
  llvm::erase_if(facts_, [](const Polynomial &fact) {
    const auto constant = fact.constant();
    return constant && *constant >= 0;
  });
}

/// What an atom is where p is `target`, by its term or through operands of `^` alone: a factor that
/// may be zero says nothing.
std::optional<Polynomial> BitFacts::valueOf(AtomId id, const Polynomial &p,
                                            const Polynomial &target) {
  const Polynomial self = Polynomial::atom(id);
  for (const int64_t sign : {1, -1}) {
    const Polynomial rest = p - Polynomial(sign) * self;
    if (!polys_.mentions(rest, id))
      return Polynomial(sign) * (target - rest);
  }
  const auto single = p.asAtom();
  if (!single || polys_.atom(*single).kind != AtomKind::Bits ||
      OpKind(polys_.atom(*single).a) != OpKind::Xor)
    return std::nullopt;
  // A copy: atoms are made meanwhile.
  const Polynomials::Atom atom = polys_.atom(*single);
  const bool isLeft = polys_.mentions(atom.lhs, id);
  if (isLeft == polys_.mentions(atom.rhs, id))
    return std::nullopt;
  return valueOf(id, isLeft ? atom.lhs : atom.rhs,
                 polys_.bits(OpKind::Xor, target, isLeft ? atom.rhs : atom.lhs));
}

/// Takes an atom that operands rest on from what is zero.
bool BitFacts::replaceBy(const Polynomial &zero, llvm::ArrayRef<AtomId> operations) {
  const auto isOperand = [&](AtomId id) {
    return llvm::any_of(operations, [&](AtomId operation) {
      return polys_.mentions(Polynomial::atom(operation), id);
    });
  };
  std::vector<AtomId> atoms;
  polys_.collectAtoms(zero, atoms);
  for (const AtomId id : atoms) {
    // Ranges are numbers: `W == 4` is put in place wherever it stands.
    const auto value = valueOf(id, zero, Polynomial());
    if (value && (value->constant() || isOperand(id))) {
      put(id, *value);
      return true;
    }
    if (!isOperand(id))
      continue;
    // `x ^ y - z == 0`, which is no single atom.
    for (const auto &[monomial, coefficient] : zero.terms()) {
      if (monomial.size() != 1 || (coefficient != 1 && coefficient != -1))
        continue;
      const Polynomial operation = Polynomial::atom(monomial[0]);
      const Polynomial rest = operation - Polynomial(coefficient) * zero;
      if (polys_.mentions(rest, id))
        continue;
      if (const auto operand = valueOf(id, operation, rest)) {
        put(id, *operand);
        return true;
      }
    }
  }
  return false;
}

bool BitFacts::replaceOne(llvm::ArrayRef<AtomId> operations) {
  for (size_t i = 0; i < facts_.size(); ++i)
    for (size_t j = i + 1; j < facts_.size(); ++j)
      if (facts_[i].isOpposite(facts_[j]) && replaceBy(Polynomial(facts_[i]), operations))
        return true;
  return false;
}

/// At least this, as a fact says by itself.
std::optional<int64_t> BitFacts::leastOf(const Polynomial &p) const {
  std::optional<int64_t> least = p.constant();
  for (const Polynomial &fact : facts_)
    if (const auto rest = p.constantAbove(fact); rest && (!least || *rest > *least))
      least = rest;
  const auto atom = p.asAtom();
  const bool isSize = atom && (polys_.atom(*atom).kind == AtomKind::Rank ||
                               polys_.atom(*atom).kind == AtomKind::LaunchDim ||
                               polys_.atom(*atom).kind == AtomKind::Epoch);
  if (isSize && (!least || *least < 0))
    least = 0;
  if (atom == polys_.numRanks() && (!least || *least < 1))
    least = 1;
  return least;
}

std::optional<int64_t> BitFacts::mostOf(const Polynomial &p) const {
  std::optional<int64_t> most = p.constant();
  for (const Polynomial &fact : facts_)
    if (const auto sum = (p + fact).constant(); sum && (!most || *sum < *most))
      most = sum;
  return most;
}

bool BitFacts::isLess(const Polynomial &p, const Polynomial &than) const {
  return leastOf(than - p - Polynomial(1)).value_or(-1) >= 0;
}

/// Below what numbers of a few bits are, and below each power of two that both are below: V is one,
/// or zero, where `V & (V - 1)` is zero.
void BitFacts::addBelowPowers(const Polynomial &result, const Polynomial &a, const Polynomial &b) {
  const auto mostA = mostOf(a), mostB = mostOf(b);
  if (mostA && mostB && std::max(*mostA, *mostB) < kLargest) {
    const auto power = int64_t(std::bit_ceil(uint64_t(std::max(*mostA, *mostB) + 1)));
    facts_.push_back(Polynomial(power - 1) - result);
  }
  for (const AtomId id : operations()) {
    const Polynomials::Atom &atom = polys_.atom(id);
    if (OpKind(atom.a) != OpKind::And ||
        leastOf(Polynomial() - Polynomial::atom(id)).value_or(-1) < 0)
      continue;
    for (const auto &[v, less] : {std::pair(atom.lhs, atom.rhs), std::pair(atom.rhs, atom.lhs)})
      if (v - less == Polynomial(1) && isLess(a, v) && isLess(b, v))
        facts_.push_back(v - result - Polynomial(1));
  }
}

/// What one operand changes are the last bits of the other, so the number stays in a block of as
/// many numbers as these bits have. Bounds of the other between which blocks are whole are its own.
void BitFacts::addBlock(const Polynomial &result, const Polynomial &whole, const Polynomial &last) {
  const auto most = mostOf(last);
  if (!most || *most >= kLargest || leastOf(last).value_or(-1) < 0)
    return;
  const Polynomial size(int64_t(std::bit_ceil(uint64_t(*most + 1)))), one(1);
  const auto isWhole = [&](const Polynomial &bound) {
    return leastOf(Polynomial() - polys_.rem(bound, size)).value_or(-1) >= 0;
  };
  for (size_t i = 0; i < given_; ++i) {
    // The fact says that whole < end, and that whole >= first.
    const Polynomial fact = facts_[i];
    const Polynomial end = whole + fact + one, first = whole - fact;
    if (isWhole(end))
      facts_.push_back(end - one - result);
    if (isWhole(first))
      facts_.push_back(result - first);
  }
}

void BitFacts::addRange(AtomId id) {
  // A copy: atoms are made meanwhile.
  const Polynomials::Atom atom = polys_.atom(id);
  const Polynomial result = Polynomial::atom(id), &a = atom.lhs, &b = atom.rhs;
  const auto leastA = leastOf(a), leastB = leastOf(b);
  const bool isA = leastA && *leastA >= 0, isB = leastB && *leastB >= 0;
  switch (OpKind(atom.a)) {
  case OpKind::And:
    if (isA || isB)
      facts_.push_back(result);
    if (isA)
      facts_.push_back(a - result);
    if (isB)
      facts_.push_back(b - result);
    return;
  case OpKind::Xor:
    addBlock(result, a, b);
    addBlock(result, b, a);
    if (!isA || !isB)
      return;
    facts_.insert(facts_.end(), {result, a + b - result, result - a + b, result - b + a});
    return addBelowPowers(result, a, b);
  case OpKind::Or:
    if (!isA || !isB)
      return;
    facts_.insert(facts_.end(), {result - a, result - b, a + b - result});
    return addBelowPowers(result, a, b);
  case OpKind::Shr:
    if (isA && isB)
      facts_.insert(facts_.end(), {result, a - result});
    return;
  case OpKind::Shl:
    if (const auto mostA = mostOf(a), mostB = mostOf(b);
        isA && isB && mostA && mostB && *mostB < 46 && *mostA <= (kLargest >> *mostB))
      facts_.insert(facts_.end(), {result - a, Polynomial(*mostA << *mostB) - result});
    return;
  default:
    return;
  }
}

Facts BitFacts::run() {
  for (unsigned i = 0; i < kMostReplaced; ++i)
    if (!replaceOne(operations()))
      break;
  std::vector<AtomId> found = operations();
  found.resize(std::min(found.size(), kMostOperations));
  given_ = facts_.size();
  for (const AtomId id : found)
    addRange(id);
  return std::move(facts_);
}

} // namespace

Facts withBitsResolved(Polynomials &polys, Facts facts) {
  return BitFacts(polys, std::move(facts)).run();
}

} // namespace dtile::ir
