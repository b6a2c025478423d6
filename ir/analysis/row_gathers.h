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

} // namespace dtile::ir
