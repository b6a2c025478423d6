// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How large a number that is read from memory can be, as the kernel says.
#pragma once

#include "ir/core/ir.h"

namespace dtile::model {

/// The model takes a number that follows from memory to be as large as it may be. Kernels say that
/// by `requires all(lens <= S)` of the elements that are read, and by `assume count <= MAX
/// because …` of what is computed from them. Null where neither is said. Elements whose differences
/// are computed, as where rows of experts begin, say nothing: each would be as large as the next.
[[nodiscard]] ir::Value *promisedLimit(ir::Op &op);

/// Whether a number says nothing but where loops end.
[[nodiscard]] bool endsLoops(const ir::Op &number);

} // namespace dtile::model
