// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Says in a team's telemetry what its bodies wait for.
#pragma once

#include "backend/runtime/host/task.h"

#include <cstdint>

namespace dtile::runtime {

/// The task is about to wait, for its cell or at its barrier. Called by the task.
void showWait(dtile_task &task);
/// It goes on, or never will.
void hideWait(dtile_task &task);
/// Its cell has another value, which is not enough.
void showSeen(dtile_task &task, uint64_t value);

} // namespace dtile::runtime
