// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels that are names for several others: `kernel all_reduce(…) = one_shot | two_shot;`. Each
// launch runs one of them.
#pragma once

#include "sema/context.h"

namespace dtile::sema {

/// The kernels that `kernel` is a name for, in order; names that are no such kernels are left out.
[[nodiscard]] llvm::SmallVector<const ast::KernelDecl *, 4>
alternativesOf(const ModuleInfo &home, const ast::KernelDecl &kernel);

/// Checks that every alternative is a kernel of the file with the same parameters for its callers,
/// and promises something.
void checkAlternatives(Context &context, const ModuleInfo &home, const ast::KernelDecl &kernel);

} // namespace dtile::sema
