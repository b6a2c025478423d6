// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What values of a body depend on.
#pragma once

#include "ir/core/ir.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace dtile::ir {

/// Whether a value is, or depends on, one of those that `is` names: by operands, and by what loops
/// begin with, carry and run over. What is outside of spaces is not looked into; what conditions
/// give, and the like, is taken to depend.
[[nodiscard]] bool dependsOn(Value *value, llvm::function_ref<bool(const Value &)> is);

} // namespace dtile::ir
