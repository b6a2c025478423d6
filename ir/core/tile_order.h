// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The order in which a tile space's bodies start: schedule attributes of a `space` op, and their
// one meaning. Pure data and arithmetic; the interpreter evaluates it, back ends emit the same
// arithmetic.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <optional>

namespace dtile::ir {

class Op;
class Value;

/// Body number `linear` (from 0) is decoded in mixed radix over the dimensions in `order`,
/// outermost first; a grouped dimension and the next one in the order are decoded together; then
/// rotated dimensions are turned.
struct TileOrder {
  /// Attribute `order`: dimension numbers, outermost first; a permutation. Default 0, 1, 2 …
  llvm::SmallVector<unsigned, 4> order;
  /// Attribute `group`, one a dimension: > 0 on dimension A, followed in the order by B, visits
  /// columns of up to `group` blocks of A before it moves to the next block of B (with nA, nB
  /// blocks, g = group):
  ///   span = g * nB; first = linear / span * g; size = min(nA - first, g)
  ///   a = first + linear % span % size; b = linear % span / size
  llvm::SmallVector<int64_t, 4> group;
  /// Attribute `rotate`, one a dimension: 0 leaves the block number; +1 or -1 turn it about a
  /// number, which is the rank unless the space names another one (`rotationCenter`):
  ///   block = (center + start + rotate * block) mod n, with n the dimension's number of blocks.
  llvm::SmallVector<int64_t, 4> rotate;
  /// Attribute `start`, one a dimension, for rotated ones.
  llvm::SmallVector<int64_t, 4> start;

  /// Reads the attributes of a space with `dims` dimensions; absent ones get their defaults.
  static TileOrder fromSpace(const Op &space);
  /// Writes attributes that differ from the defaults and removes the others.
  void toSpace(Op &space) const;
  /// The block number of each dimension for body `linear`; `blocks` holds the number of blocks of
  /// each, `centers` what each is turned about if it is rotated. The position of a dimension is
  /// first + block * step.
  [[nodiscard]] llvm::SmallVector<int64_t, 4>
  decode(llvm::ArrayRef<int64_t> blocks, llvm::ArrayRef<int64_t> centers, int64_t linear) const;
  /// The dimension in which bodies 2 n and 2 n + 1 differ, and no other, where its number of blocks
  /// is even; none where an order has no such one.
  [[nodiscard]] std::optional<unsigned> pairedDimension() const;
};

/// Number of dimensions of a space op.
[[nodiscard]] unsigned spaceDims(const Op &space);
/// What a rotated dimension is turned about, where the space has an operand for it: a quotient of
/// the rank, for ranks along an axis of a mesh. Null for the rank itself.
[[nodiscard]] Value *rotationCenter(const Op &space, unsigned dim);
/// Gives each dimension such an operand, after all bounds.
void setRotationCenters(Op &space, llvm::ArrayRef<Value *> centers);

} // namespace dtile::ir
