// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Algebra on size and index expressions.
#pragma once

#include "sema/tree/typed_ast.h"

#include <optional>

namespace dtile::sema {

/// Whether two index expressions always have the same value, as far as their form shows.
[[nodiscard]] bool sameIndex(const TExpr *a, const TExpr *b);

/// a - b when it is the same for all values of the variables in them: sums, differences and
/// products by constants are seen through.
[[nodiscard]] std::optional<int64_t> constantDifference(const TExpr *a, const TExpr *b);

} // namespace dtile::sema
