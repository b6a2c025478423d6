// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sizes of one launch, and what follows from them.
#pragma once

#include "ir/core/ir.h"
#include "ir/model/arithmetic.h"

#include "llvm/ADT/SmallVector.h"

#include <optional>

namespace dtile::model {

/// The sizes that arguments determine, in the order of the parameters and their dimensions; their
/// hints are the sizes' names. Of an argument of W * S rows that is S. Sizes that are only compared
/// with others are not among them.
[[nodiscard]] llvm::SmallVector<ir::Value *, 8> freeSizes(ir::Op &kernel);

/// Whether a space has a body, or several, for each single position below a size: of sequences or
/// heads there are tens, where there are thousands of what is cut into blocks. A space of nothing
/// else does not count: it may be one of tokens.
[[nodiscard]] bool isCounted(ir::Op &kernel, ir::Value &size);

/// What is known of a launch on rank 0, for a few questions; what is asked of thousands of launches
/// is recorded (arithmetic.h).
class LaunchSizes {
public:
  explicit LaunchSizes(int64_t ranks) : ranks_(ranks) {}

  /// Gives a value a number. All are set before anything is asked.
  void set(ir::Value &value, int64_t number) { arithmetic_.set(value, number); }
  /// A number that follows from what was set, integers as the IR computes them; what is read from
  /// memory is as large as the kernel says that it may be (promised_limit.h).
  [[nodiscard]] std::optional<int64_t> number(ir::Value &value);

private:
  int64_t ranks_;
  Arithmetic arithmetic_;
};

} // namespace dtile::model
