// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Begins and ends the trace of a team, and the calls of dtile.h for that.
#include "backend/runtime/trace/team_trace.h"

#include "backend/runtime/device/device_team.h"
#include "backend/runtime/host/team.h"
#include "backend/runtime/text/text_files.h"

#include <fstream>
#include <string>
#include <vector>

using namespace dtile::runtime;

namespace dtile::runtime {

namespace {

constexpr int64_t kDefaultEvents = 250'000;

HostTeam &hostOf(dtile_team &team) { return static_cast<HostTeam &>(team); }

/// Whether other processes have some of its ranks.
bool isPart(dtile_team &team) {
  return team.devices() ? team.localCount() < team.ranks() : hostOf(team).distributed();
}

TracePlace placeOf(dtile_team &team, TracePlace place, int64_t begin) {
  place.isPart = isPart(team);
  if (place.isPart)
    place.originNs = 0;
  else if (place.originNs < 0)
    place.originNs = begin;
  return place;
}

RecordedTrace recordedOf(dtile_team &team, const Trace &trace, const TracePlace &place) {
  const std::vector<const TraceRecord *> records = trace.records();
  return {.events = traceEvents(records, placeOf(team, place, trace.begin())),
          .dropped = trace.dropped(),
          .kept = int64_t(records.size())};
}

RecordedTrace recordedOf(dtile_team &team, const DeviceTrace &trace, const TracePlace &place) {
  const DeviceTrace::Reading reading = trace.read();
  std::vector<const TraceRecord *> records;
  for (const TraceRecord &record : reading.records)
    records.push_back(&record);
  return {.events = traceEvents(records, placeOf(team, place, trace.begin())),
          .dropped = reading.dropped,
          .kept = int64_t(records.size())};
}

Status noTrace() { return {DTILE_INVALID, "no trace of this team was begun"}; }

} // namespace

std::string tracePart(dtile_team &team) {
  if (!isPart(team))
    return {};
  // Processes that a kernel was booted with share a clock; each device has its own.
  std::string clock = "unknown";
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), clock);
  if (team.devices())
    clock += format(", the device of rank %d", team.firstLocal());
  return format(",\"ranks\":%d,\"clock\":", team.ranks()) + quoted(clock);
}

Status beginTrace(dtile_team &team, int64_t mostEvents) {
  if (mostEvents < 0)
    return {DTILE_INVALID, format("a trace of %lld events", static_cast<long long>(mostEvents))};
  const int64_t most = mostEvents == 0 ? kDefaultEvents : mostEvents;
  if (DeviceTeam *devices = team.devices())
    devices->beginTrace(most);
  else
    hostOf(team).beginTrace(most);
  return {};
}

Status endTrace(dtile_team &team, const TracePlace &place, RecordedTrace &out) {
  if (DeviceTeam *devices = team.devices()) {
    const std::unique_ptr<DeviceTrace> trace = devices->endTrace();
    if (trace)
      out = recordedOf(team, *trace, place);
    return trace ? Status() : noTrace();
  }
  const std::unique_ptr<Trace> trace = hostOf(team).takeTrace();
  if (trace)
    out = recordedOf(team, *trace, place);
  return trace ? Status() : noTrace();
}

Status stopTrace(dtile_team &team, const TracePlace &place, RecordedTrace &out) {
  if (const DeviceTeam *devices = team.devices()) {
    // What runs cannot be read: that is left out.
    const DeviceTrace *trace = devices->trace();
    if (trace)
      out = recordedOf(team, *trace, place);
    return trace ? Status() : noTrace();
  }
  Trace *trace = hostOf(team).trace();
  if (!trace)
    return noTrace();
  trace->stop();
  out = recordedOf(team, *trace, place);
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
