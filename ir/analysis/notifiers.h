// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which signals a space's bodies notify, and how a cell says which rank notifies it.
#pragma once

#include "ir/core/ir.h"

namespace dtile::ir {

/// One `notify` or `put_signal` of a space.
struct Notifier {
  /// What the receiving rank knows of the sender.
  enum class From : uint8_t {
    /// Nothing.
    Anybody,
    /// A position of the cell is the sender: dimension `value`.
    Position,
    /// The sender is `value` ranks before it, modulo the number of ranks.
    Before,
  };
  Op *op;
  /// The `signal_param` op.
  Op *signal;
  From from = From::Anybody;
  int64_t value = 0;
};

/// In the order of the program; each signal, sender and place once. What may be one of several
/// signals is left out.
[[nodiscard]] llvm::SmallVector<Notifier> notifiersIn(Op &space);

} // namespace dtile::ir
