// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Moves arithmetic to where it is used.
#pragma once

#include "llvm/IR/BasicBlock.h"

namespace dtile::backend {

/// Moves what the stores at the end of a block use, from the first after `last` on, to right
/// before each of them, as far as it is arithmetic of this block: tiles are computed op by op, each
/// for all of its elements, and so many would not be left in registers. `last` may be null.
void sinkToStores(llvm::BasicBlock &block, llvm::Instruction *last);

/// The same for what inline assembly takes.
void sinkToAssembly(llvm::BasicBlock &block, llvm::Instruction *last);

/// Reorders the arithmetic of a block that has no terminator yet depth-first by final use: one
/// element is finished before the next begins. Lowered op by op, every intermediate of a tile would
/// be live at once.
void orderByUse(llvm::BasicBlock &block);

} // namespace dtile::backend
