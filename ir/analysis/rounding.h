// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How exactly a value has to be computed.
#pragma once

#include "ir/core/ir.h"

namespace dtile::ir {

/// Whether everything that a tile is used for becomes floats of 16 bits or fewer, by products,
/// quotients, choices, and sums of what is not negative, also over the iterations of loops. These
/// keep relative errors as they are: beside that rounding, some units in the last place of f32 do
/// not count.
[[nodiscard]] bool isRoundedToNarrow(const Value &tile);

} // namespace dtile::ir
