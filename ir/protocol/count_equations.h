// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to derive-counts: a notify as an equation system, and its solution.
#pragma once

#include "ir/analysis/algebra/polynomial.h"

#include <optional>
#include <vector>

namespace dtile::passes {

/// One unknown of a notify site: values 0 … extent - 1.
struct Unknown {
  ir::AtomId atom;
  ir::Polynomial extent;
  /// Set once an equation gives its value.
  std::optional<ir::Polynomial> solution = {};
};

/// `value == target`, or, where `below` is set, target in [value, below).
struct Equation {
  ir::Polynomial value;
  ir::Polynomial target;
  std::optional<ir::Polynomial> below = {};
};

/// A condition around the notify: the bool value, and whether it must be true.
struct Guard {
  ir::Value *condition;
  bool wanted;
};

/// Everything about one notify site, in polynomials.
struct CountSite {
  std::vector<Unknown> unknowns;
  std::vector<Equation> equations;
  std::vector<Guard> guards;
  /// At least zero in this site: comparisons around the notify, and how what its equations choose
  /// between came out.
  std::vector<ir::Polynomial> conditions;
  /// Scalars that launches require to be more than zero.
  llvm::SmallVector<ir::AtomId, 2> positive;
  /// What makes the solutions right.
  std::vector<ir::Polynomial> mustBeZero;
  ir::Polynomials::Environment environment;
};

/// Takes values of unknowns from equations until no equation gives another one. Positions that are
/// written as the digits of a number, `m / n` and `m % n`, or the other way round, become unknowns
/// of their own.
void solveSite(ir::Polynomials &polys, CountSite &site);

/// Values of an unknown for which the site's inequalities hold: from the largest of `low` up to the
/// smallest of `high`, both included.
struct CountInterval {
  std::vector<ir::Polynomial> low, high;
};
/// Of an unknown that no equation determines, where that is all that depends on it; else nothing.
std::optional<CountInterval> intervalOf(ir::Polynomials &polys, const CountSite &site,
                                        const Unknown &unknown);
/// What must be at least zero for the site's solutions to be positions of their loops, and for
/// equations over ranges to hold.
std::vector<ir::Polynomial> inequalitiesOf(const ir::Polynomials &polys, const CountSite &site);

} // namespace dtile::passes
