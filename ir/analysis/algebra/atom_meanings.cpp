// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Facts are gone through one by one; those that this adds come last and are gone through, too.
#include "ir/analysis/algebra/atom_meanings.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::ir {

using AtomKind = Polynomials::AtomKind;

namespace {

/// Atoms of which so many are known get no more facts.
constexpr size_t kMaxExpansions = 64;

} // namespace

bool AtomMeanings::isPositive(const Polynomial &p) const {
  if (const auto constant = p.constant())
    return *constant > 0;
  if (p == Polynomial::atom(polys_.numRanks()))
    return true;
  // Some fact says so itself.
  const auto saysSo = [&](const Polynomial &fact) {
    const auto rest = p.constantAbove(fact);
    return rest && *rest >= 1;
  };
  return llvm::any_of(facts_, saysSo) || (before_ && llvm::any_of(before_->facts_, saysSo));
}

bool AtomMeanings::isNew(AtomId id) {
  return !(before_ && before_->known_.contains(id)) && known_.insert(id).second;
}

/// Puts what remainders are in place of them in a fact.
void AtomMeanings::replaceRemainders(size_t i) {
  const auto remainder = [&]() -> std::optional<AtomId> {
    for (const auto &[monomial, coefficient] : facts_[i].terms())
      for (const AtomId id : monomial) {
        if (polys_.atom(id).kind != AtomKind::Rem)
          continue;
        if (isPositive(polys_.atom(id).rhs))
          return id;
        isOpen_ = true;
      }
    return std::nullopt;
  };
  while (const auto id = remainder()) {
    const Polynomials::Atom &atom = polys_.atom(*id);
    const Polynomial value = atom.lhs - atom.rhs * polys_.div(atom.lhs, atom.rhs);
    facts_[i] = facts_[i].replaced(*id, value);
    if (isNew(*id)) {
      facts_.push_back(value);
      facts_.push_back(atom.rhs - Polynomial(1) - value);
    }
  }
}

void AtomMeanings::addMeaning(AtomId id) {
  const Polynomials::Atom &atom = polys_.atom(id);
  const Polynomial ranks = Polynomial::atom(polys_.numRanks()), self = Polynomial::atom(id), one(1);
  switch (atom.kind) {
  case AtomKind::NumRanks:
    facts_.push_back(self - one);
    break;
  case AtomKind::Rank:
    facts_.insert(facts_.end(), {ranks - self - one, self, ranks - one});
    break;
  case AtomKind::Epoch:
  case AtomKind::LaunchDim:
    facts_.push_back(self);
    break;
  case AtomKind::Div:
    if (isPositive(atom.rhs)) {
      const Polynomial rest = atom.lhs - atom.rhs * self;
      facts_.insert(facts_.end(), {rest, atom.rhs - one - rest});
    } else {
      isOpen_ = true;
    }
    break;
  case AtomKind::Variable:
  case AtomKind::Value:
  case AtomKind::Rem:
  case AtomKind::Bits:
  case AtomKind::Min:
  case AtomKind::Max:
  case AtomKind::Choice:
    break;
  }
}

void AtomMeanings::add(llvm::ArrayRef<Polynomial> facts) {
  const auto known = [&] { return known_.size() + (before_ ? before_->known_.size() : 0); };
  size_t i = facts_.size();
  facts_.insert(facts_.end(), facts.begin(), facts.end());
  for (; i < facts_.size() && known() < kMaxExpansions; ++i) {
    replaceRemainders(i);
    llvm::SmallVector<AtomId, 16> atoms;
    for (const auto &[monomial, coefficient] : facts_[i].terms())
      atoms.append(monomial.begin(), monomial.end());
    for (const AtomId id : atoms)
      if (isNew(id))
        addMeaning(id);
  }
  isOpen_ |= i < facts_.size();
}

} // namespace dtile::ir
