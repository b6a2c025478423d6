// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to ir/schedule: what another warp can compute again of a body, knowing its position.
#pragma once

#include "ir/core/ir.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

namespace dtile::passes {

/// Computes a value, and at most checks that it exists.
[[nodiscard]] inline bool isArithmetic(const ir::Op &op) {
  return op.numRegions() == 0 && (op.isPure() || op.is(ir::OpKind::SigSlice));
}

/// Values that are arithmetic on the position of a body, and of loops that count.
class PositionArithmetic {
public:
  /// Tiles, tokens and acquires are no concern of it, and give true.
  [[nodiscard]] bool isSimple(ir::Value *value);
  [[nodiscard]] bool areSimple(llvm::ArrayRef<ir::Value *> values) {
    return llvm::all_of(values, [&](ir::Value *value) { return isSimple(value); });
  }

private:
  /// What was answered before.
  llvm::SmallDenseMap<const ir::Op *, bool, 16> known_;
};

} // namespace dtile::passes
