// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Begins and ends the trace of a team, and the calls of dtile.h for that.
#include "backend/runtime/trace/team_trace.h"

#include "backend/runtime/clock.h"
#include "backend/runtime/host/team.h"
#include "backend/runtime/text/text_files.h"

#include <fstream>
#include <string>
#include <vector>

using namespace dtile::runtime;

namespace dtile::runtime {

namespace {

constexpr int64_t kDefaultEvents = 250'000;

/// The team, where it can be traced.
HostTeam *traceable(dtile_team &team) {
  return team.devices() ? nullptr : static_cast<HostTeam *>(&team);
}

Status refusal() {
  return {DTILE_UNAVAILABLE, "only teams whose ranks run on processors can be traced"};
}

RecordedTrace recordedOf(const HostTeam &team, const Trace &trace, TracePlace place) {
  place.isPart = team.distributed();
  if (place.isPart)
    place.originNs = 0;
  else if (place.originNs < 0)
    place.originNs = trace.begin();
  const std::vector<const TraceRecord *> records = trace.records();
  return {.events = traceEvents(records, place),
          .dropped = trace.dropped(),
          .kept = int64_t(records.size())};
}

} // namespace

std::string tracePart(dtile_team &team) {
  const HostTeam *host = traceable(team);
  if (!host || !host->distributed())
    return {};
  // Processes that a kernel was booted with share a clock.
  std::string boot = "unknown";
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  return format(",\"ranks\":%d,\"clock\":", host->ranks()) + quoted(boot);
}

Status beginTrace(dtile_team &team, int64_t mostEvents) {
  HostTeam *host = traceable(team);
  if (!host)
    return refusal();
  if (mostEvents < 0)
    return {DTILE_INVALID, format("a trace of %lld events", static_cast<long long>(mostEvents))};
  host->beginTrace(mostEvents == 0 ? kDefaultEvents : mostEvents);
  return {};
}

Status endTrace(dtile_team &team, const TracePlace &place, RecordedTrace &out) {
  HostTeam *host = traceable(team);
  if (!host)
    return refusal();
  const std::unique_ptr<Trace> trace = host->takeTrace();
  if (!trace)
    return {DTILE_INVALID, "no trace of this team was begun"};
  out = recordedOf(*host, *trace, place);
  return {};
}

Status stopTrace(dtile_team &team, const TracePlace &place, RecordedTrace &out) {
  HostTeam *host = traceable(team);
  if (!host)
    return refusal();
  Trace *trace = host->trace();
  if (!trace)
    return {DTILE_INVALID, "no trace of this team was begun"};
  trace->stop();
  out = recordedOf(*host, *trace, place);
  return {};
}

} // namespace dtile::runtime

dtile_status dtile_trace_begin(dtile_team *team, int64_t most_events) {
  return withTeam(team, [&] { return beginTrace(*team, most_events); });
}

dtile_status dtile_trace_end(dtile_team *team, const char *path, int64_t *dropped) {
  return withTeam(team, [&] {
    RecordedTrace recorded;
    Status status = endTrace(*team, {}, recorded);
    if (!status.ok())
      return status;
    if (dropped)
      *dropped = recorded.dropped;
    return path ? writeTextFile(path,
                                traceHead() + recorded.events +
                                    traceEnd(recorded.dropped, tracePart(*team)),
                                "trace")
                : Status();
  });
}
