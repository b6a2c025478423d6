// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ir/core/view_dims.h"

namespace dtile::ir {

llvm::SmallVector<ViewDim, 6> viewDims(const Op &op) {
  llvm::SmallVector<ViewDim, 6> dims;
  ViewDim next{.operand = 1};
  for (const char letter : op.get(attr::dims)) {
    next.kind = letter == 'r'   ? ViewDim::Kind::Range
                : letter == 'i' ? ViewDim::Kind::Position
                                : ViewDim::Kind::All;
    dims.push_back(next);
    ++next.from;
    next.to += next.isPosition() ? 0 : 1;
    next.operand += next.isRange() ? 2 : next.isPosition() ? 1 : 0;
    next.range += next.isRange() ? 1 : 0;
  }
  return dims;
}

} // namespace dtile::ir
