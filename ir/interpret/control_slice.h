// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What of a kernel must run so that its control, its communication and the places that it touches
// are as they are, when nobody looks at the elements of tiles.
#pragma once

#include "ir/core/ir.h"

#include "llvm/ADT/DenseSet.h"

#include <vector>

namespace dtile::interpret {

/// The part of a kernel that its control depends on.
struct ControlSlice {
  /// Operations to execute. What is not here has no effect but on tile data.
  llvm::DenseSet<const ir::Op *> runs;
  /// Values that must be right.
  llvm::DenseSet<const ir::Value *> needed;
  /// Reads of memory whose value decides where or whether something happens.
  std::vector<const ir::Op *> data;
  /// Scalar parameters that do.
  std::vector<const ir::Op *> scalars;
  /// Gathers and scatters whose positions come from data: which elements they touch is not known.
  std::vector<const ir::Op *> indexed;
  /// Everything runs and is needed: somebody looks at the elements of tiles, too.
  bool isWhole = false;

  [[nodiscard]] bool doesRun(const ir::Op &op) const { return isWhole || runs.contains(&op); }
  [[nodiscard]] bool isNeeded(const ir::Value *value) const {
    return isWhole || needed.contains(value);
  }
};

/// The slice of an inlined kernel.
[[nodiscard]] ControlSlice sliceControl(ir::Op &kernel);

/// All of it, with its scalar parameters: for who asks which launches are worth a look, of tile
/// data as well.
[[nodiscard]] ControlSlice wholeKernel(const ir::Op &kernel);

/// The parameter that a view or a signal is cut from; null where a region passes it on.
[[nodiscard]] const ir::Op *rootParam(const ir::Value *view);

} // namespace dtile::interpret
