// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Functions over tensors and signals: what several kernels do with their memory, written once.
#pragma once

#include "sema/context.h"

namespace dtile::sema {

/// Whether a function has tensors or signals among its parameters.
[[nodiscard]] bool isTensorFunction(const ast::FnDecl &fn);

/// Puts the bodies of such functions in place of their calls, in all kernels and plans.
void expandTensorFunctions(Context &context);

/// Such a function as a kernel, to check it by itself; null after reporting.
const ast::KernelDecl *functionToCheck(Context &context, ModuleInfo &home, const ast::FnDecl *fn);

} // namespace dtile::sema
