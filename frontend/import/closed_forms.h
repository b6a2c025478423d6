// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Expressions in `r`, the rank, and `i`, the turn of a loop, that have given values.
#pragma once

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dtile::imported {

/// What an expression is for one rank and turn.
struct Point {
  int64_t rank;
  int64_t turn;
  int64_t value;
};

/// A sum of multiples of r and i, such a sum modulo one of `moduli`, or one within r's group of so
/// many ranks; each may be scaled and shifted. Nothing where none of these has all values.
[[nodiscard]] std::optional<std::string> closedForm(llvm::ArrayRef<Point> points,
                                                    llvm::ArrayRef<int64_t> moduli);

/// A value for each of the ranks given, of `all`, by comparisons: a point a rank, in their order.
[[nodiscard]] std::string tableForm(llvm::ArrayRef<Point> points, int64_t all);

/// What is true of these of `all` ranks only. Both are sorted.
[[nodiscard]] std::string rankCondition(llvm::ArrayRef<int64_t> ranks, int64_t all);

} // namespace dtile::imported
