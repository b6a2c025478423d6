// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arguments that all ranks must pass alike, as the rank that waits counts what others notify.
#pragma once

#include "ir/core/ir.h"

#include <vector>

namespace dtile::ir {

/// The integer scalar_param and launch_dim ops that derived counts are computed from, of signals
/// that peers notify. A kernel of whose launch they differ hangs, or begins too early.
[[nodiscard]] std::vector<const Op *> agreedArguments(Op &kernel);

/// Whether an op of the kernel's body is a scalar parameter that is the size of an axis of its
/// mesh. Launches with other values of it have other scratch objects and signals.
[[nodiscard]] bool isAxisSize(const Op &kernel, const Op &op);

} // namespace dtile::ir
