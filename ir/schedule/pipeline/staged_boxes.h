// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Boxes of staged tiles: what TMA moves at once, and what else becomes of it in its stage.
#pragma once

#include "ir/core/ir.h"

namespace dtile::passes {

/// The narrowest box along its innermost dimension, in bytes.
inline constexpr int64_t kFewestSwizzleBytes = 32;
/// Most rows, and columns, of a box (PTX ISA, "Tensors").
inline constexpr int64_t kMostBoxRows = 256;

/// Bytes of a box of a tile along its innermost dimension; 128 at most.
[[nodiscard]] int64_t swizzleOf(ir::Type tile);

/// Whether such a tile can come by TMA for the groups to read it into registers: rows of whole
/// words, in groups of as many as the swizzle has, which warps copy where TMA does not.
[[nodiscard]] bool canBeRead(ir::Type tile);

/// Whether copy warps can transpose a tile in its stage: its boxes are squares, as wide as the
/// swizzle, of elements that are a register each.
[[nodiscard]] bool canBeTransposed(const ir::Op &load);

} // namespace dtile::passes
