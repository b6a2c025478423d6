// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Traces of teams, for dtile.h and for the driver.
#pragma once

#include "backend/runtime/errors.h"
#include "backend/runtime/trace/events.h"

#include <cstdint>
#include <string>

namespace dtile::runtime {

/// What was recorded of a team.
struct RecordedTrace {
  /// As traceEvents gives them.
  std::string events;
  int64_t dropped = 0;
  /// Slices that were kept.
  int64_t kept = 0;
};

/// Where the team is one process of several, what its file says of that; else "".
std::string tracePart(dtile_team &team);
/// What launches of the team do from now on is recorded, at most so many slices.
Status beginTrace(dtile_team &team, int64_t mostEvents);
/// Stops that. Of a part, times are those of the host's clock.
Status endTrace(dtile_team &team, const TracePlace &place, RecordedTrace &out);
/// The same in the midst of a launch, from another thread. The trace stays the team's.
Status stopTrace(dtile_team &team, const TracePlace &place, RecordedTrace &out);

} // namespace dtile::runtime
