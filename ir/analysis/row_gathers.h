// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Gathers of rows (pass gather-rows), whose rows threads can fetch by themselves (passes
// stage-loads and multistage-copies): they find their numbers element by element, without the tiles
// that they stand in.
#pragma once

#include "ir/core/ir.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace dtile::ir {

/// Whether each element of a tile of one dimension follows from its position alone: loaded from a
/// view of this rank, looked up there, counted, the same everywhere, or computed from such
/// elements. `sees` is asked of the loads and gathers among its ops, and of what else they and it
/// need (scalars, views): false ends it.
[[nodiscard]] bool isFoundByElement(Value *tile, llvm::function_ref<bool(Value &)> sees);

/// Whether a tile is nothing but the row indices of gathers, all of which come via `path` where one
/// is given. Via `rows` (pass stage-loads) and `threads` (multistage-copies) threads compute the
/// indices by themselves.
[[nodiscard]] bool isForRows(const Op &op, std::optional<LoadPath> path = std::nullopt);

/// The rows that an index tile picks: of a parameter's innermost dimensions, and of these a block
/// of columns.
struct PickedRows {
  /// The parameter's number of columns; where the block begins, and its limit.
  Value *columns = nullptr, *column = nullptr, *columnLimit = nullptr;
  /// Slices between the parameter and the block.
  llvm::SmallVector<Op *, 2> slices;
  /// Which rows may be picked, where not all may: a range of them.
  llvm::SmallVector<Value *, 2> bounds;
};

/// Nothing where the rows of a gather are something else.
[[nodiscard]] std::optional<PickedRows> matchPickedRows(const Op &gather);

} // namespace dtile::ir
