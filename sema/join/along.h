// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A plan that is written for all ranks, for the ranks along one axis of a mesh.
#pragma once

#include "frontend/base/diagnostics.h"
#include "sema/join/join.h"

namespace dtile::join {

/// What the call of a plan says by `along: local`.
struct Along {
  llvm::StringRef axis;
  SourceRange range;
};

/// The plan in which `rank()` is the place on the axis, `W` how many it has, `x@p` is x of the rank
/// at place p of it, and collectives of `ensures` are those along it; null after reporting.
[[nodiscard]] const ast::PlanDecl *planAlong(const PlanSource &source, const Along &along,
                                             ast::Arena &arena, Diagnostics &diags);

} // namespace dtile::join
