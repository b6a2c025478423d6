// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Something in place of an atom, in many polynomials.
#pragma once

#include "ir/analysis/algebra/polynomial.h"

#include <optional>
#include <unordered_map>
#include <utility>

namespace dtile::ir {

/// Puts something in place of an atom, also inside of other atoms. What becomes of these is found
/// once, however many polynomials have them.
class Substitution {
public:
  Substitution(Polynomials &polys, AtomId id, Polynomial by)
      : polys_(polys), id_(id), by_(std::move(by)) {}
  [[nodiscard]] Polynomial of(const Polynomial &p);

private:
  /// Null where it stays as it is.
  const Polynomial *ofAtom(AtomId atom);
  [[nodiscard]] Polynomial ofParts(const Polynomials::Atom &atom);

  Polynomials &polys_;
  AtomId id_;
  Polynomial by_;
  /// Of atoms that are younger; nothing for those that stay.
  std::unordered_map<AtomId, std::optional<Polynomial>> known_;
};

} // namespace dtile::ir
