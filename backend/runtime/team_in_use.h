// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The team of this process that calls use which cannot name one (dtile_team_use).
#pragma once

#include "backend/runtime/dtile.h"

namespace dtile::runtime {

/// Null where there is none.
[[nodiscard]] dtile_team *teamInUse();
void useTeam(dtile_team *team);
/// The team ends: it is not in use any more.
void forgetTeam(const dtile_team *team);

} // namespace dtile::runtime
