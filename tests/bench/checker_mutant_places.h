// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Neighbours of an operation that a mistake takes instead. Private to the mutants.
#pragma once

#include "ir/core/ir.h"

namespace dtile::bench {

[[nodiscard]] bool isToken(const ir::Value *value);
/// The next operation of the block, or null.
[[nodiscard]] ir::Op *following(ir::Op &op);
/// The next operation behind one in its block that others can see, and that does not use what it
/// gives; null where there is none.
[[nodiscard]] ir::Op *nextVisible(ir::Op &op);
/// The last operation before one in its block that others can see, or null.
[[nodiscard]] ir::Op *lastVisible(ir::Op &op);
/// Another token of the block, of the same type as an operand and made before; or null.
[[nodiscard]] ir::Value *tokenBeside(ir::Op &op, unsigned operand);
/// Another parameter or signal of the same type; or null.
[[nodiscard]] ir::Op *objectBeside(ir::Op &object);

} // namespace dtile::bench
