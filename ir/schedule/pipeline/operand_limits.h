// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where the operands of products end, beside their tensors: TMA gives zeros only past the edge of a
// tensor.
#pragma once

#include "ir/analysis/algebra/polynomial.h"
#include "ir/analysis/boxes/tensor_box.h"

#include "llvm/ADT/SmallPtrSet.h"

#include <array>

namespace dtile::passes {

/// What a loop makes of a tile that it carries: its argument, and its result.
[[nodiscard]] std::array<ir::Value *, 2> carriedAs(const ir::Use &use);

/// Answers for the boxes of one space.
class OperandLimits {
public:
  /// Whether a box's dimension ends where the tensor does: always, or where it is a window of a
  /// loop from 0 to the least of the tensor's size and a multiple of the window's length.
  [[nodiscard]] bool isExact(const ir::TensorBox &box, unsigned dim);
  /// Whether what lies past the box's limit along a dimension, which is dimension `productDim` of
  /// a product, reaches nothing: it may be stored nowhere.
  [[nodiscard]] bool isUnseen(const ir::TensorBox &box, unsigned dim, ir::Value &product,
                              unsigned productDim);

private:
  using Tiles = llvm::SmallPtrSet<const ir::Value *, 8>;
  /// Whether positions from `room` on along a dimension of the tile reach nothing: every use is
  /// elementwise, or stores no more than `room` of them. Loops carry them on.
  [[nodiscard]] bool staysApart(ir::Value *tile, unsigned dim, const ir::Polynomial &room,
                                Tiles &seen);
  [[nodiscard]] bool isStoredWithin(ir::Value *view, unsigned dim, const ir::Polynomial &room);
  ir::Polynomial polynomial(ir::Value *value) { return polys_.of(value, environment_); }

  ir::Polynomials polys_;
  ir::Polynomials::Environment environment_;
};

} // namespace dtile::passes
