// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What facts say of operations on bits, as of the partner `rank ^ 1`. A part of inequalities.cpp.
#pragma once

#include "ir/analysis/algebra/inequalities.h"

namespace dtile::ir {

/// The facts, with what equalities give put in place inside of operations on bits, and the ranges
/// of these. `x ^ y == z` gives x, and numbers below a power of two stay below it.
[[nodiscard]] Facts withBitsResolved(Polynomials &polys, Facts facts);

} // namespace dtile::ir
