// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arguments that all ranks must pass alike, as the rank that waits counts what others notify.
#pragma once

#include "ir/core/ir.h"

#include "llvm/ADT/SmallPtrSet.h"

#include <vector>

namespace dtile::ir {

/// The integer scalar_param and launch_dim ops that derived counts are computed from, of signals
/// that peers notify. A kernel of whose launch they differ hangs, or begins too early.
[[nodiscard]] std::vector<const Op *> agreedArguments(Op &kernel);

/// The launch_dim ops whose sizes launches compare between ranks, or callers promise: those that
/// follow from the sizes of symmetric arguments, scratch objects and signals, and from
/// `replicated`.
[[nodiscard]] llvm::SmallPtrSet<const Op *, 8> comparedDims(Op &kernel);

/// The other launch_dim ops that decide what ranks see of each other: which memory and cells of
/// another rank this one reaches, and how often ranks meet. Proofs take them to be the same on all
/// ranks. What a rank does with its own memory does not count.
[[nodiscard]] std::vector<const Op *> dimsSeenByPeers(Op &kernel);

/// Whether an op of the kernel's body is a scalar parameter that is the size of an axis of its
/// mesh. Launches with other values of it have other scratch objects and signals.
[[nodiscard]] bool isAxisSize(const Op &kernel, const Op &op);

} // namespace dtile::ir
