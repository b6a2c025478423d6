// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which elements of a tile stand for something in memory.
#pragma once

#include "ir/core/builder.h"

namespace dtile::ir {

/// Where each element of a tile exists: false for those that were read from a window past its limit
/// or an edge, as zeros, or that follow from such an element at their place. A reduced row is there
/// where its positions along the other dimensions are. A tile of bools of its shape, made at the
/// insertion point, which the tile is before; null where all of them exist, or nothing is known
/// (products, and what `while` and `if` give).
[[nodiscard]] Value *existingElements(Builder &builder, Value *tile);

} // namespace dtile::ir
