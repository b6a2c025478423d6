// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which ops of a body may change places: effects and tokens, not values.
#pragma once

#include "ir/core/ir.h"

namespace dtile::ir {

/// Whether a loop of a body is around both.
[[nodiscard]] bool areInOneLoop(const Op &a, const Op &b);

/// put, put_signal, get, reduce_add: asynchronous, with a completion token.
[[nodiscard]] bool isTransfer(const Op &op);

/// The ops with effects in an op and its regions; for an op without regions, itself or nothing.
using Effectful = llvm::SmallVector<Op *, 2>;
[[nodiscard]] Effectful effectsOf(Op &op);

/// Whether `later` must stay after `earlier` for what they do to memory and signals. Values and
/// tokens are not considered: a user stays after its definition anyway.
[[nodiscard]] bool mustStayBehind(const Op &earlier, const Op &later);
/// The same for all of two ops.
[[nodiscard]] bool mustStayBehind(const Effectful &earlier, const Effectful &later);

} // namespace dtile::ir
