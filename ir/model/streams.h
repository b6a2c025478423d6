// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What loads of bodies bring from memory, rather than from the caches.
#pragma once

#include "ir/core/ir.h"

#include "llvm/ADT/SmallVector.h"

namespace dtile::model {

/// Where what a load reads comes from.
struct Stream {
  /// Of its bytes, those that no other body reads, nor another round of its loops: 0 to 1.
  double share = 0;
  /// An earlier loop of the body has read the same: the caches have it, if they have room for what
  /// all bodies read that run at once.
  bool isReread = false;
};

[[nodiscard]] Stream streamOf(ir::Op &load);

/// The loads of a space that bring something from memory for the first time in a body, and are not
/// staged.
[[nodiscard]] llvm::SmallVector<ir::Op *, 4> firstReads(ir::Op &space);

} // namespace dtile::model
