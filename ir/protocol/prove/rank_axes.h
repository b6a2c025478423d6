// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How a kernel divides its ranks: `rank() / L` and `rank() % L` make nodes of L ranks, and further
// divisions more axes. Ranks are then numerals with a digit for each axis, so that quotients and
// remainders of them are digits, and "of the same node" is an equation between two digits.
#pragma once

#include "ir/analysis/algebra/inequalities.h"
#include "ir/core/ir.h"

namespace dtile::protocol::prove {

/// The axes of a kernel's ranks, the one whose digit changes from rank to rank first. A rank is the
/// sum of its digits, each times the stride of its axis. A kernel that does not divide its ranks
/// has one axis.
struct RankAxes {
  struct Axis {
    ir::Polynomial stride;
    /// How many digits there are; nothing of the last axis where the stride need not divide W.
    std::optional<ir::Polynomial> extent;
  };
  llvm::SmallVector<Axis, 3> axes;
  /// W: the product of the extents where they are all known.
  ir::Polynomial numRanks;

  /// The digits of a polynomial that is a numeral as it stands: no digit is a quotient or remainder
  /// of a sum.
  [[nodiscard]] std::optional<llvm::SmallVector<ir::Polynomial, 3>>
  digitsOf(ir::Polynomials &polys, const ir::Polynomial &rank) const;
  /// One axis.
  static RankAxes line(const ir::Polynomials &polys);
  /// A digit of a rank that is known as a polynomial.
  [[nodiscard]] ir::Polynomial digitOf(ir::Polynomials &polys, const ir::Polynomial &rank,
                                       size_t axis) const;
};

/// The axes by which a kernel divides its ranks, as far as each stride divides the next and is the
/// same in all bodies. `launch` is what clauses say of launches.
RankAxes findRankAxes(ir::Op &kernel, ir::Polynomials &polys, ir::Refuter &refuter,
                      const ir::Facts &launch);

} // namespace dtile::protocol::prove
