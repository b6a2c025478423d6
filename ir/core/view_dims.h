// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a slice, a window or a choice of cells does with each dimension of what it is taken from:
// the letters of attribute `dims`, and the operands that belong to them.
#pragma once

#include "ir/core/ir.h"

namespace dtile::ir {

/// One dimension of the view, in order.
struct ViewDim {
  /// `a`: all of it; `i`: one position; `r`: a range, or a block of a window.
  enum class Kind : uint8_t { All, Position, Range };

  Kind kind = Kind::All;
  /// The view's dimension; the result's, which a position has none of.
  unsigned from = 0, to = 0;
  /// The first operand that belongs to it: the position, or where the range begins. A range's end,
  /// and a window's limit, is the operand after it.
  unsigned operand = 0;
  /// Ranges before this dimension; of a window the place of its length in `lens`.
  unsigned range = 0;

  [[nodiscard]] bool isAll() const { return kind == Kind::All; }
  [[nodiscard]] bool isPosition() const { return kind == Kind::Position; }
  [[nodiscard]] bool isRange() const { return kind == Kind::Range; }
};

/// Of an op with attribute `dims`.
[[nodiscard]] llvm::SmallVector<ViewDim, 6> viewDims(const Op &op);

} // namespace dtile::ir
