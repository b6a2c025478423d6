// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checked programs to IR, before any pass: structured SSA that says what was written, no more.
#pragma once

#include "ir/core/ir.h"
#include "sema/tree/typed_ast.h"

namespace dtile::ir {

/// Appends `kernel` to the module as one kernel op. The functions that it calls are lowered by
/// lowerFunction and found by name.
void lowerKernel(const sema::KernelInstance &kernel, Module &module);

/// Appends `function` to the module as one func op that asks for inlining.
void lowerFunction(const sema::FnInstance &function, Module &module);

} // namespace dtile::ir
