// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which elements of a loaded tile matter: where all that is made of it, element by element, goes to
// views that end somewhere, what the tile holds past that end is never used.
#pragma once

#include "ir/core/ir.h"

#include <optional>
#include <vector>

namespace dtile::ir {

/// An op that keeps elements of a tile: those for which its view has a place.
struct KeptBy {
  /// A store, put or reduce_add, in the block of the load or in one around it.
  Op *op = nullptr;
  /// Of each dimension of the loaded tile, the dimension of the view; nothing where any position
  /// may matter.
  llvm::SmallVector<std::optional<unsigned>, 4> dims;

  [[nodiscard]] Value *view() const { return op->operand(1); }
};

/// All that keeps elements of what an op loads; nothing where something wants all of them, or may.
[[nodiscard]] std::optional<std::vector<KeptBy>> keptElements(Op &load);

} // namespace dtile::ir
