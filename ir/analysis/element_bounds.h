// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Between which numbers all elements of a value lie, by the ops that compute it.
#pragma once

#include "ir/core/ir.h"

#include "llvm/ADT/DenseMap.h"

#include <cmath>

namespace dtile::ir {

/// Both ends included. NaN is left out: no order finds a place for it.
struct ElementBounds {
  double least = -HUGE_VAL;
  double largest = HUGE_VAL;
};

/// Finds the bounds of values of one kernel, which does not change.
class BoundsFinder {
public:
  ElementBounds of(Value *value);

private:
  ElementBounds compute(Value *value);
  ElementBounds ofElementwise(Op &op);
  ElementBounds ofProduct(Op &op);
  ElementBounds ofReduced(Op &op);
  ElementBounds ofCarried(Value *argument);
  ElementBounds ofInput(Value *view, ElementBounds bounds);

  llvm::DenseMap<Value *, ElementBounds> known_;
  /// How many ops the value that is asked for is away.
  unsigned depth_ = 0;
};

} // namespace dtile::ir
