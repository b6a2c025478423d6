// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Values that are the same on all ranks and in all bodies of a launch, known before it starts.
#pragma once

#include "ir/core/ir.h"

namespace dtile::ir {

/// Whether a value is computed from the number of ranks and the sizes of the launch alone.
[[nodiscard]] bool isOfLaunch(const Value *value);

/// Whether an op is an assertion about the launch alone: which launches a kernel takes. Neither
/// whether it holds nor whether it is reached depends on anything else.
[[nodiscard]] bool isPrecondition(const Op &op);

} // namespace dtile::ir
