// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What traced bodies call around what they do.
#include "backend/runtime/trace/trace_abi.h"

#include "backend/runtime/arguments/regions.h"
#include "backend/runtime/clock.h"
#include "backend/runtime/host/team.h"

#include <atomic>
#include <cstdint>
#include <iterator>
#include <mutex>

using namespace dtile::runtime;

static_assert(int(TraceKind::Put) == DTILE_TRACE_PUT &&
                  int(TraceKind::Barrier) == DTILE_TRACE_BARRIER,
              "kinds of slices begin with those of dtile_trace_op");

namespace {

/// The task's part of its team's trace; null: it is not being traced.
TaskTrace *traceOf(dtile_task *task) {
  Trace *trace = task->space->launch->team->trace();
  return trace ? &trace->of(*task) : nullptr;
}

/// Opens a slice of a part that is locked; null: there are two already, or the trace was stopped.
TraceRecord *open(dtile_task *task, TaskTrace &own, TraceKind kind, const dtile_site *site) {
  if (own.isOver || own.depth == int32_t(std::size(own.open)))
    return nullptr;
  const SpaceRun &space = *task->space;
  TraceRecord &record = own.open[own.depth++];
  record = {};
  record.kind = kind;
  record.site = site;
  record.kernel = space.launch->kernel->desc;
  record.epoch = space.launch->epoch;
  record.rank = space.launch->rank;
  record.space = space.index;
  record.task = own.number;
  return &record;
}

uint64_t load(const void *cell) {
  auto *address = static_cast<uint64_t *>(const_cast<void *>(cell));
  return std::atomic_ref(*address).load(std::memory_order_acquire);
}

/// The cells of a signal of this launch, as the task's rank or another one has them.
struct Cells {
  const LaunchObject *use;
  const CellCounts *counts;
  int32_t rank;
  /// From this rank's addresses to those of `rank`.
  int64_t distance;
  /// Of another process nothing is read: it may be on another host.
  bool isHere;

  /// The cell that this rank has at `address`; `count` as for dtile_rt_wait.
  TraceRecord::Cell describe(const char *address, TraceKind kind, int64_t count) const {
    TraceRecord::Cell cell{};
    cell.address = address + distance;
    if (use) {
      const ObjectKey &key = use->object->key;
      cell.number = (address - use->data) / 8;
      cell.ndim = key.ndim;
      for (int32_t d = 0; d < key.ndim; ++d)
        cell.size[d] = int32_t(key.size[size_t(d)]);
    }
    const uint64_t seen = isHere ? load(cell.address) : 0;
    cell.value = seen;
    cell.detail = rank;
    if (kind == TraceKind::Wait && counts) {
      const auto number = size_t(cell.number);
      cell.base = counts->base[number];
      cell.value = count < 0 ? counts->want[number] : cell.base + uint64_t(count);
      cell.detail = seen < cell.value ? 1 : 0;
    }
    return cell;
  }
};

Cells cellsOf(dtile_task *task, const dtile_region &cells) {
  const dtile_launch &launch = *task->space->launch;
  const HostTeam &team = *launch.team;
  const LaunchObject *use = launch.signalAt(cells.data);
  const int32_t rank = cells.rank < 0 ? launch.rank : cells.rank;
  const bool isHere = team.isLocal(rank);
  return {use, use ? &use->object->counts[size_t(launch.local)] : nullptr, rank,
          isHere ? team.heapOf(rank) - team.heapOf(launch.rank) : 0, isHere};
}

} // namespace

void dtile_rt_trace_body(dtile_task *task) {
  TaskTrace *own = traceOf(task);
  if (!own)
    return;
  const std::lock_guard lock(own->mutex);
  // What a failed launch has left open was closed.
  own->depth = 0;
  TraceRecord *record = open(task, *own, TraceKind::Body, nullptr);
  if (!record)
    return;
  const SpaceRun &space = *task->space;
  if (space.desc->ndims > 0)
    space.desc->position(space.launch->frame, task->linear, record->position);
  record->begin = nowNs();
}

void dtile_rt_trace_copy(dtile_task *task, int32_t op, const dtile_region *remote,
                         const dtile_region *local, const dtile_site *site) {
  TaskTrace *own = traceOf(task);
  if (!own)
    return;
  const std::lock_guard lock(own->mutex);
  TraceRecord *record = open(task, *own, TraceKind(op), site);
  if (!record)
    return;
  record->copy.bytes = elementCount(*local) * elementBytes(local->dtype);
  record->isEmpty = record->copy.bytes == 0;
  record->copy.peer = remote->rank < 0 ? record->rank : remote->rank;
  record->begin = nowNs();
}

void dtile_rt_trace_cells(dtile_task *task, int32_t op, const dtile_region *cells, int64_t count,
                          const dtile_site *site) {
  TaskTrace *own = traceOf(task);
  if (!own)
    return;
  const auto kind = TraceKind(op);
  const std::lock_guard lock(own->mutex);
  TraceRecord *record = open(task, *own, kind, site);
  if (!record)
    return;
  own->further.clear();
  record->isEmpty = cells && elementCount(*cells) == 0;
  if (cells && !record->isEmpty) {
    const Cells range = cellsOf(task, *cells);
    bool isFirst = true;
    forEachElement(*cells, cells->data, [&](const char *address) {
      const TraceRecord::Cell cell = range.describe(address, kind, count);
      if (isFirst) {
        record->cell = cell;
        isFirst = false;
      } else {
        record->cell.detail |= kind == TraceKind::Wait ? cell.detail : 0;
        own->further.push_back(cell);
      }
      return true;
    });
  }
  record->begin = nowNs();
}

void dtile_rt_trace_end(dtile_task *task) {
  TaskTrace *own = traceOf(task);
  if (!own)
    return;
  const std::lock_guard lock(own->mutex);
  if (own->depth == 0)
    return;
  TraceRecord &record = own->open[--own->depth];
  record.end = nowNs();
  if (record.isEmpty)
    return;
  Trace &trace = *task->space->launch->team->trace();
  trace.keep(*own, record);
  if (record.kind != TraceKind::Notify && record.kind != TraceKind::Wait)
    return;
  record.kind = TraceKind::FurtherCell;
  for (const TraceRecord::Cell &cell : own->further) {
    record.cell = cell;
    trace.keep(*own, record);
  }
}
