// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Staged tiles whose rows begin at no multiple of 16 bytes, which TMA wants. F elements have 16
// bytes, so rows r, r + F, r + 2 F, ... of a matrix lie multiples of 16 bytes apart. TMA can load
// those of one remainder in one copy, from the word of 16 bytes on in which they begin. Copy warps
// then shift the rows to where TMA would have put the tile (docs/decisions/folded_tiles.md).
#pragma once

#include "ir/core/ir.h"

namespace dtile::ir {

/// How a tile comes: in units, each of which has some rows of some of its boxes. All sizes are in
/// bytes.
struct FoldedTile {
  /// `swizzle`: bytes of a box's rows.
  FoldedTile(Type tile, int64_t swizzle);
  /// Whether a staged load may come so.
  [[nodiscard]] static bool isPossible(Op &load);

  /// F: places in a word where rows may begin; so many copies have the rows of a unit.
  int64_t fold;
  /// Of a unit, and rows of a copy.
  int64_t unitRows, unitBoxes, copyRows;
  /// Of a row as it is loaded: those of the boxes, and a word more.
  int64_t rowBytes;
  /// Room of a copy in a unit.
  int64_t copyBytes;
  /// Of the tile.
  int64_t units;
  [[nodiscard]] int64_t unitBytes() const { return fold * copyBytes; }
  /// What TMA loads of a unit.
  [[nodiscard]] int64_t loadedBytes() const { return unitRows * rowBytes; }
};

/// The ring of units in shared memory. It takes the place of a staged space's last stages in
/// launches that have folded tiles.
struct FoldedRing {
  /// Of units; 0: there is no room, and copy warps load such tiles by themselves.
  int64_t units = 0;
  int64_t unitBytes = 0;
  /// Stages whose place it takes.
  int64_t stages = 0;

  FoldedRing() = default;
  explicit FoldedRing(Op &space);
};

} // namespace dtile::ir
