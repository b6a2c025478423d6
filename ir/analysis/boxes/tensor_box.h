// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Views as boxes of a whole object: what TMA can be told to move.
#pragma once

#include "ir/core/ir.h"

#include <optional>

namespace dtile::ir {

/// A window of static size of one parameter's object on this rank.
struct TensorBox {
  struct Dim {
    /// The box begins at the sum of these positions (`index` values); 0 without any.
    llvm::SmallVector<Value *, 2> firsts;
    int64_t length = 1;
    /// Positions from here on read as zeros; null: only those past the object's edge do.
    Value *limit = nullptr;
    /// Which dimension of the view it is; none for one position that the view drops.
    std::optional<unsigned> viewDim;
  };
  /// The `param` op.
  Op *object = nullptr;
  /// One a dimension of the object, outermost first.
  llvm::SmallVector<Dim, 4> dims;
};

/// One box, or one of two.
struct TensorBoxes {
  /// A bool: whether it is the first of two.
  Value *isFirst = nullptr;
  llvm::SmallVector<TensorBox, 2> boxes;
};

/// The box of a view; none where the view is another rank's, comes from elsewhere than a parameter,
/// or is cut twice along one dimension.
[[nodiscard]] std::optional<TensorBox> tensorBox(Value *view);
/// The same of a view that may be chosen from two.
[[nodiscard]] std::optional<TensorBoxes> tensorBoxes(Value *view);

} // namespace dtile::ir
