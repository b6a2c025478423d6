// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What bodies call. Where the target rank's memory is addressable, communication is copies and CPU
// atomics; elsewhere the provider sends.
#include "backend/runtime/arguments/regions.h"
#include "backend/runtime/clock.h"
#include "backend/runtime/dtile.h"
#include "backend/runtime/float_formats.h"
#include "backend/runtime/host/team.h"
#include "backend/runtime/text/print_text.h"
#include "backend/runtime/text/report.h"
#include "frontend/base/value_text.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <vector>

using namespace dtile::runtime;

namespace {

dtile_launch &launchOf(dtile_task *task) { return *task->space->launch; }
HostTeam &teamOf(dtile_task *task) { return *launchOf(task).team; }

/// Each call of a body ends it when the launch has failed elsewhere.
HostTeam &enter(dtile_task *task) {
  HostTeam &team = teamOf(task);
  if (team.scheduler().failed())
    team.scheduler().abandon(*task);
  return team;
}

void failAt(dtile_task *task, const dtile_site *site, std::string &&message) {
  const std::string text = std::move(message);
  std::string place = site ? siteText(*site) : std::string(launchOf(task).kernel->desc->file);
  teamOf(task).scheduler().fail({DTILE_TRAP, place + ": " + bodyText(*task) + ": " + text});
}

/// Stops the launch. What is alive on the task's stack is never destroyed, so callers must own
/// nothing.
[[noreturn]] void trap(dtile_task *task, const dtile_site *site, std::string &&message) {
  failAt(task, site, std::move(message));
  teamOf(task).scheduler().abandon(*task);
}

/// A place in some rank's memory: an address in this process, or the offset in the heap of a rank
/// out of reach.
struct Place {
  char *address = nullptr;
  int32_t rank = 0;
  int64_t offset = 0;
};

Place placeOf(dtile_task *task, const dtile_region &region) {
  dtile_launch &launch = launchOf(task);
  HostTeam &team = *launch.team;
  auto *data = static_cast<char *>(region.data);
  if (region.rank < 0 || region.rank == launch.rank)
    return {data, launch.rank, data - team.heapOf(launch.rank)};
  int64_t offset = data - team.heapOf(launch.rank);
  const bool isInHeap = offset >= 0 && offset < team.heapBytes();
  if (!isInHeap && region.rank < team.ranks())
    if (char *there = team.registeredAt(data, launch.rank, region.rank))
      return {there, region.rank, there - team.heapOf(region.rank)};
  if (region.rank >= team.ranks() || (!isInHeap && elementCount(region) != 0))
    trap(task, nullptr,
         format("a reference to rank %d of an object that is not symmetric", region.rank));
  char *base = team.heapOf(region.rank);
  return {base ? base + offset : nullptr, region.rank, offset};
}

void checkShapes(dtile_task *task, const dtile_region &a, const dtile_region &b) {
  if (!sameShape(a, b))
    trap(task, nullptr,
         format("a copy between the shapes %s and %s", shapeText(a.ndim, a.size).c_str(),
                shapeText(b.ndim, b.size).c_str()));
}

/// What this body has put has landed.
void settleSends(dtile_task *task) {
  teamOf(task).quiet();
  task->forgetSends();
}

/// Before something at `rank` is read or updated: what this body has put there has landed.
void settleSends(dtile_task *task, int32_t rank) {
  if (task->hasSentTo(rank))
    settleSends(task);
}

/// Local or remote source to local or remote destination; one of them is local.
void copy(dtile_task *task, const dtile_region &source, const dtile_region &destination) {
  HostTeam &team = enter(task);
  checkShapes(task, source, destination);
  if (elementCount(source) == 0)
    return;
  Place from = placeOf(task, source);
  Place to = placeOf(task, destination);
  if (from.address && to.address)
    return copyRegion(source, from.address, destination, to.address);
  if (!from.address && !to.address)
    trap(task, nullptr, "a copy between two remote ranks");
  dtile_shmem &shmem = team.shmem();
  RunPlan plan = planRuns(source, destination);
  auto bytes = size_t(plan.runBytes);
  if (to.address) {
    settleSends(task, from.rank);
    auto lock = team.lockShmem();
    return forEachRun(plan, [&](int64_t a, int64_t b) {
      shmem.ops->get(&shmem, from.rank, from.offset + a, to.address + b, bytes);
    });
  }
  if (task->isUnfenced && task->hasSentTo(to.rank)) {
    team.fence();
    task->isUnfenced = false;
  }
  auto lock = team.lockShmem();
  forEachRun(plan, [&](int64_t a, int64_t b) {
    shmem.ops->put(&shmem, to.rank, to.offset + b, from.address + a, bytes);
  });
  task->sendsTo(to.rank);
  team.noteSent();
}

/// Whether the provider has atomics for these elements. Ranks must not mix them with the update
/// lock.
bool hasRemoteAtomics(int32_t dtype) {
  return dtype == DTILE_I32 || dtype == DTILE_U32 || dtype == DTILE_I64 || dtype == DTILE_U64;
}

/// Reads, changes and writes back elements at a place of any rank under that rank's update lock.
template <typename Change>
void updateLocked(dtile_task *task, const Place &place, int64_t offset, void *buffer, size_t bytes,
                  Change change) {
  HostTeam &team = teamOf(task);
  auto lock = team.lockShmem();
  dtile_shmem &shmem = team.shmem();
  shmem.ops->get(&shmem, place.rank, place.offset + offset, buffer, bytes);
  change();
  shmem.ops->put(&shmem, place.rank, place.offset + offset, buffer, bytes);
}

void lockHeap(dtile_task *task, int32_t rank) {
  HostTeam &team = teamOf(task);
  if (team.lockHeapOf(rank))
    return;
  team.scheduler().fail(team.broken());
  team.scheduler().abandon(*task);
}

/// reduce_add in a job where some rank is out of reach.
void reduceAddRemote(dtile_task *task, const dtile_region &source, const char *from,
                     const dtile_region &destination, const Place &to) {
  HostTeam &team = teamOf(task);
  dtile_shmem &shmem = team.shmem();
  RunPlan plan = planRuns(source, destination);
  int64_t width = elementBytes(source.dtype);
  if (hasRemoteAtomics(source.dtype)) {
    auto lock = team.lockShmem();
    forEachRun(plan, [&](int64_t a, int64_t b) {
      for (int64_t i = 0; i < plan.runBytes; i += width) {
        uint64_t addend = 0;
        std::memcpy(&addend, from + a + i, size_t(width));
        shmem.ops->atomic(&shmem, DTILE_SHMEM_ADD, to.rank, to.offset + b + i, int32_t(width),
                          addend, 0);
      }
    });
    return;
  }
  lockHeap(task, to.rank);
  std::vector<char> row(static_cast<size_t>(plan.runBytes));
  forEachRun(plan, [&](int64_t a, int64_t b) {
    updateLocked(task, to, b, row.data(), row.size(),
                 [&] { addElements(source.dtype, row.data(), from + a, plan.runBytes / width); });
  });
  team.unlockHeapOf(to.rank);
}

uint64_t atomicRemote(dtile_task *task, int32_t kind, int32_t dtype, const Place &cell,
                      uint64_t operand, uint64_t expected) {
  HostTeam &team = teamOf(task);
  dtile_shmem &shmem = team.shmem();
  auto width = int32_t(elementBytes(dtype));
  auto call = [&](dtile_shmem_amo amo, uint64_t value, uint64_t ifEqual) {
    auto lock = team.lockShmem();
    return shmem.ops->atomic(&shmem, amo, cell.rank, cell.offset, width, value, ifEqual);
  };
  if (!hasRemoteAtomics(dtype)) {
    uint64_t old = 0;
    lockHeap(task, cell.rank);
    updateLocked(task, cell, 0, &old, size_t(width), [&] {
      uint64_t before = old;
      old = combineElement(kind, dtype, before, operand, expected);
      expected = before;
    });
    team.unlockHeapOf(cell.rank);
    return expected;
  }
  switch (kind) {
  case 0:
    return call(DTILE_SHMEM_ADD, operand, 0);
  case 5:
    return call(DTILE_SHMEM_EXCHANGE, operand, 0);
  case 6:
    return call(DTILE_SHMEM_COMPARE_EXCHANGE, operand, expected);
  default: {
    // min, max, and, or: as long as somebody else changes the element, again.
    uint64_t seen = call(DTILE_SHMEM_ADD, 0, 0);
    for (;;) {
      uint64_t wanted = combineElement(kind, dtype, seen, operand, 0);
      uint64_t old = call(DTILE_SHMEM_COMPARE_EXCHANGE, wanted, seen);
      if (old == seen)
        return old;
      seen = old;
    }
  }
  }
}

void reduceAdd(dtile_task *task, const dtile_region &source, const dtile_region &destination) {
  HostTeam &team = enter(task);
  checkShapes(task, source, destination);
  if (elementCount(source) == 0)
    return;
  Place from = placeOf(task, source);
  Place to = placeOf(task, destination);
  if (!from.address)
    trap(task, nullptr, "the source of a reduce_add is on another rank");
  // Outside the symmetric heap only this process can reach the elements.
  bool symmetric = to.offset >= 0 && to.offset < team.heapBytes();
  if (team.allDirect() || !symmetric) {
    reduceAddRegion(source, from.address, destination, to.address);
  } else {
    settleSends(task, to.rank);
    reduceAddRemote(task, source, from.address, destination, to);
  }
}

/// Begins a transfer, which lands at once, or, where a seeded schedule says so, when it is awaited.
void transfer(dtile_task *task, bool adds, const dtile_region &source,
              const dtile_region &destination) {
  Scheduler &scheduler = enter(task).scheduler();
  if (scheduler.landsLate(*task))
    task->late.push_back({adds, source, destination});
  else if (adds)
    reduceAdd(task, source, destination);
  else
    copy(task, source, destination);
  scheduler.perhapsYield(*task);
}

} // namespace

void dtile::runtime::landTransfers(dtile_task &task) {
  for (const dtile_task::Transfer &late : task.late)
    if (late.adds)
      reduceAdd(&task, late.source, late.destination);
    else
      copy(&task, late.source, late.destination);
  task.late.clear();
}

void dtile_rt_put(dtile_task *task, const dtile_region *src, const dtile_region *dst) {
  transfer(task, /*adds=*/false, *src, *dst);
}

void dtile_rt_get(dtile_task *task, const dtile_region *src, const dtile_region *dst) {
  transfer(task, /*adds=*/false, *src, *dst);
}

void dtile_rt_reduce_add(dtile_task *task, const dtile_region *src, const dtile_region *dst) {
  transfer(task, /*adds=*/true, *src, *dst);
}

void dtile_rt_load(dtile_task *task, const dtile_region *src, const dtile_region *dst) {
  copy(task, *src, *dst);
}

void dtile_rt_store(dtile_task *task, const dtile_region *src, const dtile_region *dst) {
  copy(task, *src, *dst);
  task->awaitsSends();
}

uint64_t dtile_rt_atomic(dtile_task *task, int32_t kind, const dtile_region *cell, uint64_t operand,
                         uint64_t expected) {
  HostTeam &team = enter(task);
  team.scheduler().perhapsYield(*task);
  Place place = placeOf(task, *cell);
  bool symmetric = place.offset >= 0 && place.offset < team.heapBytes();
  if (team.allDirect() || !symmetric)
    return atomicElement(kind, cell->dtype, place.address, operand, expected);
  settleSends(task, place.rank);
  return atomicRemote(task, kind, cell->dtype, place, operand, expected);
}

void dtile_rt_notify(dtile_task *task, const dtile_region *cells, const dtile_site *site) {
  HostTeam &team = enter(task);
  team.scheduler().perhapsYield(*task);
  if (elementCount(*cells) == 0)
    return;
  Place place = placeOf(task, *cells);
  // Whoever notifies last wakes all others: that is not its own work. 0: nobody was woken.
  int64_t now = 0;
  const auto show = [&] {
    if (now == 0)
      now = nowNs();
    team.telemetry().notified(launchOf(task).local, place.rank, elementCount(*cells),
                              now - task->ownFromNs, now);
    task->ownFromNs = now;
  };
  if (!team.distributed()) {
    forEachElement(*cells, place.address, [&](char *cell) {
      dtile_task *ready = team.scheduler().waits().notify(reinterpret_cast<uint64_t *>(cell));
      if (!ready)
        return true;
      const int64_t begin = nowNs();
      team.scheduler().makeReady(ready);
      now = nowNs();
      task->ownFromNs += now - begin;
      task->wakingNs += now - begin;
      return true;
    });
    return show();
  }
  // It publishes what has been awaited, and what it is told to come after, which goes to its rank.
  if (task->awaitedTo != dtile_task::kNobody && task->awaitedTo != place.rank)
    settleSends(task);
  if (task->hasSentTo(place.rank)) {
    team.fence();
    task->isUnfenced = false;
  }
  char *none = nullptr;
  forEachElement(*cells, none, [&](char *cell) {
    team.notifyRemote(place.rank, place.offset + (cell - none));
    return true;
  });
  show();
}

void dtile_rt_wait(dtile_task *task, const dtile_region *cells, int64_t count,
                   const dtile_site *site) {
  HostTeam &team = enter(task);
  team.scheduler().perhapsYield(*task);
  if (elementCount(*cells) == 0)
    return;
  dtile_launch &launch = launchOf(task);
  const LaunchObject *use = launch.signalAt(cells->data);
  if (!use)
    trap(task, site, format("`%s` is not a signal of this launch", site->what));
  CellCounts &counts = use->object->counts[size_t(launch.local)];
  bool derived = use->object->signal->expected != nullptr;
  if (count < 0 && !derived)
    trap(task, site,
         format("the count of notifies to `%s` is not known: give it by `count:`", site->what));
  forEachElement(*cells, cells->data, [&](char *address) {
    auto *cell = reinterpret_cast<uint64_t *>(address);
    auto number = size_t((address - use->data) / 8);
    uint64_t wanted = count < 0 ? counts.want[number] : counts.base[number] + uint64_t(count);
    if (count >= 0 && !derived) {
      uint64_t asked = counts.asked[number].load(std::memory_order_relaxed);
      while (asked < uint64_t(count) &&
             !counts.asked[number].compare_exchange_weak(asked, uint64_t(count))) {
      }
    }
    if (team.readCell(cell) < wanted)
      team.scheduler().waitForCell(*task, cell, wanted, site);
    return true;
  });
}

void dtile_rt_issue(dtile_task *task) {
  enter(task);
  landTransfers(*task);
}

void dtile_rt_await(dtile_task *task) {
  enter(task);
  landTransfers(*task);
  task->awaitsSends();
}

void dtile_rt_quiet(dtile_task *task) {
  enter(task);
  landTransfers(*task);
  settleSends(task);
}

void dtile_rt_fence(dtile_task *task) {
  HostTeam &team = enter(task);
  landTransfers(*task);
  team.fence();
  task->isUnfenced = false;
}

void dtile_rt_barrier(dtile_task *task, const dtile_site *site) {
  HostTeam &team = enter(task);
  landTransfers(*task);
  team.barrierOf(*task, site);
}

void dtile_rt_print(dtile_task *task, const dtile_site *, const dtile_region *value,
                    const char *message) {
  std::string text = bodyText(*task) + ": " + message;
  if (value != nullptr) {
    const auto *data = static_cast<const char *>(value->data);
    const auto element = [&](int64_t i) {
      return elementText(value->dtype, data + size_t(i) * elementBytes(value->dtype));
    };
    text += " = " + dtile::arrayText(value->size, value->ndim, element);
  }
  text += "\n";
  // One write a line, so that lines of ranks do not mix.
  std::fputs(text.c_str(), stderr);
}

void dtile_rt_fail(dtile_task *task, const dtile_site *site, const char *message, int32_t nargs,
                   const int64_t *args) {
  trap(task, site, fillHoles(message, nargs, args));
}

void dtile_rt_check_rank(dtile_task *task, int64_t rank, const dtile_site *site) {
  int32_t ranks = teamOf(task).ranks();
  if (rank < 0 || rank >= ranks)
    trap(task, site,
         format("rank %lld of `%s` is not one of the %d ranks", static_cast<long long>(rank),
                site->what, ranks));
}

void dtile_rt_check_cell(dtile_task *task, int64_t index, int64_t size, const dtile_site *site) {
  if (index < 0 || index >= size)
    trap(task, site,
         format("position %lld of signal `%s` is outside [0, %lld)", static_cast<long long>(index),
                site->what, static_cast<long long>(size)));
}

float dtile_rt_f8e4m3_to_f32(uint8_t bits) { return f8e4m3ToF32(bits); }
uint8_t dtile_rt_f32_to_f8e4m3(float value) { return f32ToF8e4m3(value); }
float dtile_rt_f8e5m2_to_f32(uint8_t bits) { return f8e5m2ToF32(bits); }
uint8_t dtile_rt_f32_to_f8e5m2(float value) { return f32ToF8e5m2(value); }
