// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Atoms that change are made anew from their parts, so that what can be simplified then is.
#include "ir/analysis/algebra/substitution.h"

#include "frontend/base/check.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::ir {

using AtomKind = Polynomials::AtomKind;

Polynomial Polynomials::substitute(const Polynomial &p, AtomId id, const Polynomial &by) {
  return Substitution(*this, id, by).of(p);
}

Polynomial Substitution::ofParts(const Polynomials::Atom &atom) {
  const Polynomial lhs = of(atom.lhs), rhs = of(atom.rhs);
  switch (atom.kind) {
  case AtomKind::Div:
    return polys_.div(lhs, rhs);
  case AtomKind::Rem:
    return polys_.rem(lhs, rhs);
  case AtomKind::Bits:
    return polys_.bits(OpKind(atom.a), lhs, rhs);
  case AtomKind::Min:
  case AtomKind::Max:
    return polys_.minMax(atom.kind, lhs, rhs);
  case AtomKind::Choice:
    return polys_.choice(of(atom.condition), lhs, rhs);
  case AtomKind::Rank:
  case AtomKind::NumRanks:
  case AtomKind::Epoch:
  case AtomKind::LaunchDim:
  case AtomKind::Variable:
  case AtomKind::Value:
    break;
  }
  DTILE_UNREACHABLE("an atom that has no parts");
}

const Polynomial *Substitution::ofAtom(AtomId atom) {
  if (atom <= id_)
    return atom == id_ ? &by_ : nullptr;
  if (const auto known = known_.find(atom); known != known_.end())
    return known->second ? &*known->second : nullptr;
  std::optional<Polynomial> value;
  if (polys_.isIn(id_, atom))
    value = ofParts(polys_.atom(atom));
  const auto &kept = known_.emplace(atom, std::move(value)).first->second;
  return kept ? &*kept : nullptr;
}

Polynomial Substitution::of(const Polynomial &p) {
  const auto isChanged = [&](AtomId atom) { return ofAtom(atom) != nullptr; };
  if (!p.hasAtom(isChanged))
    return p;
  Polynomial kept, changed;
  for (const auto &[monomial, coefficient] : p.terms()) {
    if (llvm::none_of(monomial, isChanged)) {
      kept.terms_.emplace_back(monomial, coefficient);
      continue;
    }
    Polynomial::Monomial others;
    llvm::copy_if(monomial, std::back_inserter(others),
                  [&](AtomId atom) { return !isChanged(atom); });
    Polynomial term = Polynomial::term(std::move(others), coefficient);
    for (const AtomId atom : monomial)
      if (const Polynomial *value = ofAtom(atom))
        term = term * *value;
    changed = changed.isZero() ? std::move(term) : changed + term;
  }
  return kept + changed;
}

} // namespace dtile::ir
