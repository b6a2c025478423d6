// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A wait that blocks costs two switches and a lock; saying what it is for costs a few stores and
// looking up what does not change from wait to wait.
#include "backend/runtime/telemetry/host_waits.h"

#include "backend/runtime/clock.h"
#include "backend/runtime/host/team.h"
#include "backend/runtime/telemetry/senders.h"
#include "backend/runtime/text/report.h"

#include <algorithm>
#include <atomic>
#include <string>

namespace dtile::runtime {

namespace {

using telemetry::Wait;

/// Strings of a wait at one place, in one role.
WaitNames namesOf(telemetry::Writer &writer, const SpaceRun &space, const dtile_site &site,
                  int32_t signal) {
  const KernelState &kernel = *space.launch->kernel;
  WaitNames names;
  names.kernel = writer.stringOf(kernel.name);
  names.role = writer.stringOf(space.desc->name);
  names.place = writer.stringOf(siteText(site));
  std::string dims;
  for (int32_t d = 0; d < space.desc->ndims; ++d)
    dims += (d == 0 ? "" : ",") + std::string(space.desc->vars[d]);
  names.dims = writer.stringOf(dims);
  if (signal < 0)
    return names;
  names.signal = writer.stringOf(kernel.desc->params[signal].name);
  const telemetry::Senders senders = telemetry::sendersOf(*kernel.desc, signal);
  names.roles = writer.stringOf(senders.roles);
  names.notifyPlace = writer.stringOf(senders.place);
  names.from = senders.from;
  names.fromValue = senders.value;
  return names;
}

/// The same, once looked up.
const WaitNames &knownNames(telemetry::Writer &writer, dtile_task &task, int32_t signal) {
  if (task.names && task.namesSite == task.site && task.namesSignal == signal)
    return *task.names;
  const SpaceRun &space = *task.space;
  KernelState &kernel = *space.launch->kernel;
  std::lock_guard lock(kernel.namesMutex);
  auto &known =
      kernel.waitNames[{space.index, task.site->file, task.site->line, task.site->column, signal}];
  if (!known)
    known = std::make_unique<WaitNames>(namesOf(writer, space, *task.site, signal));
  task.names = known.get();
  task.namesSite = task.site;
  task.namesSignal = signal;
  return *known;
}

/// The position of cell `number`, row-major.
void placeCell(const ObjectKey &key, int64_t number, Wait &wait) {
  wait.cellDims = key.ndim;
  for (int32_t d = key.ndim - 1; d >= 0; --d) {
    const int64_t size = std::max<int64_t>(key.size[size_t(d)], 1);
    wait.cell[d] = number % size;
    number /= size;
  }
}

} // namespace

void showWait(dtile_task &task) {
  const SpaceRun &space = *task.space;
  const dtile_launch &launch = *space.launch;
  HostTeam &team = *launch.team;
  telemetry::Writer &writer = team.telemetry();
  task.blockedNs = nowNs();
  Wait *wait = writer.openWait(task.number);
  task.shown = wait;
  if (!wait) {
    writer.leaveOut();
    return;
  }
  const bool isCell = task.outcome == Outcome::WaitsForCell;
  const LaunchObject *use = isCell ? launch.signalAt(task.cell) : nullptr;
  const WaitNames &names = knownNames(writer, task, use ? use->object->key.param : -1);
  wait->rank = launch.rank;
  wait->kernel = names.kernel;
  wait->role = names.role;
  wait->signal = names.signal;
  wait->dims = names.dims;
  wait->place = names.place;
  wait->fromRoles = names.roles;
  wait->fromPlace = names.notifyPlace;
  wait->ndims = std::min(space.desc->ndims, telemetry::kDims);
  if (wait->ndims > 0)
    space.desc->position(launch.frame, task.linear, wait->body);
  wait->sinceNs = task.blockedNs;
  wait->cellDims = 0;
  wait->wanted = wait->seen = 0;
  task.base = 0;
  if (use) {
    const auto number = int64_t(reinterpret_cast<const char *>(task.cell) - use->data) / 8;
    task.base = use->object->counts[size_t(launch.local)].base[size_t(number)];
    wait->wanted = task.wanted - task.base;
    wait->seen = team.readCell(task.cell) - task.base;
    placeCell(use->object->key, number, *wait);
  }
  telemetry::findSender(names.from, names.fromValue, launch.rank, launch.ranks, *wait);
  writer.closeWait(*wait, isCell ? telemetry::WaitState::Cell : telemetry::WaitState::Barrier);
}

void hideWait(dtile_task &task) {
  if (task.blockedNs == 0)
    return;
  const dtile_launch &launch = *task.space->launch;
  telemetry::Writer &writer = launch.team->telemetry();
  // Not the body's own time.
  task.ownFromNs += task.resumedNs - task.blockedNs;
  writer.woken(launch.local, task.resumedNs);
  task.blockedNs = 0;
  if (task.shown)
    writer.endWait(*task.shown);
  task.shown = nullptr;
}

void showSeen(dtile_task &task, uint64_t value) {
  if (task.shown)
    std::atomic_ref(task.shown->seen).store(value - task.base, std::memory_order_relaxed);
}

} // namespace dtile::runtime
