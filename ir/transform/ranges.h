// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Bounds of index values, found from what they are computed from. Private to ir/transform.
#pragma once

#include "ir/core/ir.h"

#include <optional>

namespace dtile::passes {

/// Both ends included.
struct Range {
  int64_t lo = 0;
  int64_t hi = 0;
};

/// The bounds of an index value, where nothing on the way to it can overflow; looks at a bounded
/// number of ops.
[[nodiscard]] std::optional<Range> rangeOf(const ir::Value *value);

/// Whether 0 <= x < limit follows from what x is: the rank, or a position that counts up to
/// `limit`.
[[nodiscard]] bool isPositionBelow(const ir::Value *x, const ir::Value *limit);

} // namespace dtile::passes
