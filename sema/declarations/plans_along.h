// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Plans that a join calls along one axis of its mesh: `plans.all_gather(x, along: local)`.
#pragma once

#include "sema/context.h"
#include "sema/join/join.h"

namespace dtile::sema {

/// What the call of a plan or kernel of `home` joins: `source`, or that along the axis that the
/// call says. No plan after reporting.
[[nodiscard]] join::PlanSource sourceAlong(Context &context, ModuleInfo &home,
                                           const join::PlanSource &source,
                                           const ast::CallExpr &call);

} // namespace dtile::sema
