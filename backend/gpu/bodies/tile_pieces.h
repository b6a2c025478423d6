// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to backend/gpu: parts of a tile that go through shared memory one after the other where
// there is no room for all of it.
#pragma once

#include "backend/gpu/bodies/tile_info.h"

namespace dtile::backend::gpu {

/// Bits of a tile's positions, by dimension.
using PositionBits = ir::Layout::Position;

/// The elements of a tile at whose positions some bits have given values. They stand in a smaller
/// box: positions without those bits.
class TilePiece {
public:
  /// `at` has no bits but those of `fixed`, which are below the shape's next powers of two.
  TilePiece(const TileInfo &whole, const PositionBits &fixed, const PositionBits &at);

  /// The piece in the threads that have it; whole boxes, also where the tile ends before.
  TileInfo info;
  /// For each slot of `info`: the tile's slot, or -1 where the tile has no such element.
  llvm::SmallVector<int32_t, 16> slots;
  /// These bits of the numbers of threads that have the piece are those of `threads`; 0 where all
  /// threads have some of it.
  uint32_t threadMask = 0, threads = 0;
};

/// Calls `body` with each value of `fixed` that a tile of this shape has elements for.
void eachPiece(llvm::ArrayRef<int64_t> shape, const PositionBits &fixed,
               llvm::function_ref<void(const PositionBits &at)> body);

/// Bits to fix so that `bytesOf` what is left is `room` at most, as far as that goes: first those
/// that are bits of registers in both layouts of a tile, so that no thread has to be asked.
/// `fastest` is the dimension of which short runs are cut last.
[[nodiscard]] PositionBits
choosePieces(const TileInfo &from, const TileInfo &to, unsigned fastest, int64_t room,
             llvm::function_ref<int64_t(const PositionBits &fixed)> bytesOf);

/// A product in blocks, whose operands' parts are in shared memory at once. Powers of two.
struct ProductBlocks {
  int64_t rows, columns, depth;

  /// Of a product of this size as a whole.
  static ProductBlocks whole(llvm::ArrayRef<int64_t> sum, int64_t depth);
  /// What is fixed of an operand's positions (0: rows x depth, 1: depth x columns).
  [[nodiscard]] PositionBits fixed(unsigned operand, const ProductBlocks &whole) const;
  friend bool operator==(const ProductBlocks &, const ProductBlocks &) = default;
};

/// Blocks for which `bytesOf` is `room` at most, as far as that goes. `least` is the smallest block
/// that can be multiplied. Rows and columns are cut where registers of the sum are.
[[nodiscard]] ProductBlocks
chooseBlocks(const TileInfo &sum, const ProductBlocks &whole, const ProductBlocks &least,
             int64_t room, llvm::function_ref<int64_t(const ProductBlocks &)> bytesOf);

} // namespace dtile::backend::gpu
