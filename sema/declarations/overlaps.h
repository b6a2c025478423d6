// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Overlaps become kernels before anything is checked.
#pragma once

#include "sema/context.h"

namespace dtile::sema {

/// Joins every overlap of the program, and puts the kernels in their places among the declarations.
void joinOverlaps(Context &context);

/// A plan as a kernel, to check its bodies; null after reporting, and for a choice of plans.
const ast::KernelDecl *planToCheck(Context &context, ModuleInfo &home, const ast::PlanDecl *plan);

} // namespace dtile::sema
