// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is plain about index values while they are being lowered: enough to leave out run-time
// checks that cannot fail in well-formed kernels. "No" means not plain, never "false".
#pragma once

#include "ir/core/constants.h"
#include "ir/core/ir.h"

namespace dtile::ir {

/// Both are computed in the same way from the same values.
[[nodiscard]] bool sameValue(const Value *a, const Value *b);

/// Not below 0 in any run.
[[nodiscard]] bool isNonNegative(const Value *value);

/// `position` < `count` in any run, as for a loop's variable and its limit, or rank and num_ranks.
[[nodiscard]] bool isBelow(const Value *position, const Value *count);

/// `limit` <= `size` in any run, `size` being that of a tensor; sees that r * n + m ends inside w *
/// n where r < w and m <= n.
[[nodiscard]] bool endsInside(const Value *limit, const Value *size);

} // namespace dtile::ir
