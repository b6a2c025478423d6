// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Numbers of a body that roles of a program may not find alike, each by itself.
#pragma once

#include "ir/core/ir.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace dtile::passes {

class UnsureNumbers {
public:
  explicit UnsureNumbers(ir::Op &space) : space_(space) {}

  /// Whether the kernel writes what a view reads.
  [[nodiscard]] bool isWritten(ir::Value *view) const;
  /// Whether the body writes what a load reads, or the load is after more than waits.
  [[nodiscard]] bool isOrderedByWrites(ir::Op &load) const;
  /// Whether a number is not sure to be the same whoever computes it, whenever in the launch: it
  /// has effects, comes from another rank or by a message, or from what the kernel writes.
  [[nodiscard]] bool isUnsure(const ir::Value &number) const;
  /// Whether the warp that copies can read such a number before a loop, and pass it to the other
  /// roles: an integer of this rank's memory that a wait makes visible, and that the body does not
  /// write. What loops and conditions around it follow from is for the caller to judge.
  [[nodiscard]] bool canBePassed(const ir::Value &number, const ir::Op &loop) const;

private:
  ir::Op &space_;
};

/// Whether the warp that copies needs such values to walk a loop, the loops and conditions around
/// it, or to find what these loads read. A `while` around it is one.
[[nodiscard]] bool walksBy(ir::Op &loop, llvm::ArrayRef<ir::Op *> loads,
                           llvm::function_ref<bool(const ir::Value &)> isSuch);

} // namespace dtile::passes
