// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What polynomials that are at least zero say beside themselves: atoms have a meaning. A part of
// inequalities.cpp.
#pragma once

#include "ir/analysis/algebra/inequalities.h"

#include <set>

namespace dtile::ir {

/// Facts, and what follows from the meaning of their atoms: sizes are not negative, there is at
/// least one rank, and what floor division and remainder give, where divisors are known to be
/// positive. Remainders are written as what is left of a quotient.
class AtomMeanings {
public:
  /// Where there are such that came before, their facts hold, too, and nothing of theirs is said
  /// again.
  explicit AtomMeanings(Polynomials &polys, const AtomMeanings *before = nullptr)
      : polys_(polys), before_(before) {}

  void add(llvm::ArrayRef<Polynomial> facts);
  /// Without those that came before.
  [[nodiscard]] const Facts &facts() const { return facts_; }
  /// Whether there would be more to say of some atom if more facts were known.
  [[nodiscard]] bool isOpen() const { return isOpen_; }

private:
  [[nodiscard]] bool isPositive(const Polynomial &p) const;
  /// Takes note that an atom has its facts; false where it had.
  bool isNew(AtomId id);
  void replaceRemainders(size_t i);
  void addMeaning(AtomId id);

  Polynomials &polys_;
  const AtomMeanings *before_;
  Facts facts_;
  std::set<AtomId> known_;
  bool isOpen_ = false;
};

} // namespace dtile::ir
