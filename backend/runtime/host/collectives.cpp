// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Meetings of ranks. Between processes every meeting is made of notifies to cells in the control
// block and waits that give up after the team's budget, so that a missing process becomes a message
// and not a hang.
#include "backend/runtime/clock.h"
#include "backend/runtime/host/control.h"
#include "backend/runtime/host/team.h"

#include <algorithm>
#include <cstring>
#include <sched.h>

using namespace dtile::runtime;

namespace {

/// "rank 3", "ranks 1, 3 and 12 more".
std::string rankList(const std::vector<int32_t> &ranks) {
  constexpr size_t kShown = 8;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size() && i < kShown; ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  if (ranks.size() > kShown)
    text += format(" and %zu more", ranks.size() - kShown);
  return text;
}

uint32_t hashPlace(const std::string &kernel, const dtile_site &site) {
  uint32_t hash = 0x811c9dc5u;
  auto add = [&](const char *text) {
    for (; *text; ++text)
      hash = (hash ^ uint8_t(*text)) * 0x01000193u;
  };
  add(kernel.c_str());
  add(format(":%d:%d", site.line, site.column).c_str());
  return hash;
}

/// Says in the telemetry for whom a meeting waits, as long as it does.
struct ShownMeeting {
  telemetry::Writer &writer;
  int32_t own;
  const char *what;
  int32_t awaited = -1;

  void waitFor(int32_t rank) {
    if (awaited != rank)
      writer.openMeeting(own, what, rank);
    awaited = rank;
  }
  ~ShownMeeting() {
    if (awaited >= 0)
      writer.endMeeting();
  }
};

} // namespace

// ---- Of whole processes ----

Status HostTeam::meet(const char *what) {
  if (!distributed())
    return {};
  quiet();
  ++meetings_;
  ControlBlock control(heapOf(firstLocal()) + control_, control_, ranks());
  for (int32_t rank = 0; rank < ranks(); ++rank)
    notifyRemote(rank, control.meetingCell(firstLocal()));
  int64_t end = nowNs() + int64_t(timeoutMs_) * 1'000'000;
  ShownMeeting shown{*telemetry_, firstLocal(), what};
  for (int32_t rank = 0; rank < ranks(); ++rank) {
    while (readCell(control.meeting(rank)) < uint64_t(meetings_)) {
      shown.waitFor(rank);
      if (progress())
        return peerFailure();
      if (nowNs() > end)
        return giveUp({DTILE_TIMEOUT, format("rank %d waited %d ms for rank %d at %s", firstLocal(),
                                             timeoutMs_, rank, what)});
      sched_yield();
    }
  }
  return {};
}

Status HostTeam::agree(uint64_t value, const char *what) {
  if (!distributed())
    return {};
  ControlBlock control(heapOf(firstLocal()) + control_, control_, ranks());
  // Two rows in turn: who is one meeting ahead writes the other one.
  int32_t row = int32_t(meetings_ & 1);
  for (int32_t rank = 0; rank < ranks(); ++rank) {
    auto lock = lockShmem();
    shmem_->ops->put(shmem_, rank, control.agreementCell(row, firstLocal()), &value, sizeof value);
    noteSent();
  }
  if (Status status = meet(what); !status.ok())
    return status;
  for (int32_t rank = 0; rank < ranks(); ++rank)
    if (readCell(control.agreement(row, rank)) != value)
      return giveUp({DTILE_INVALID, format("ranks %d and %d differ in %s, which must be equal on "
                                           "all ranks and asked for in the same order",
                                           firstLocal(), rank, what)});
  return {};
}

Status HostTeam::barrier() { return broken_.ok() ? meet("dtile_team_barrier") : brokenStatus(); }

Status HostTeam::allGather(const void *const *in, int64_t bytes, void *out) {
  if (!broken_.ok())
    return brokenStatus();
  if (bytes < 0 || (bytes > 0 && (!in || !out)))
    return {DTILE_INVALID, "dtile_team_all_gather: null or negative arguments"};
  for (int32_t local = 0; bytes > 0 && local < localCount(); ++local)
    if (!in[local])
      return {DTILE_INVALID,
              format("dtile_team_all_gather: the data of rank %d is null", firstLocal() + local)};
  if (bytes == 0)
    return {};
  if (distributed())
    return gatherOfProcesses(static_cast<const char *>(in[0]), bytes, static_cast<char *>(out));
  shmem_->ops->all_gather(shmem_, in, size_t(bytes), out);
  return {};
}

// The provider's own collective would wait for ever for a process that dies or is stopped in it.
// Who has met others after a part has copied the part before that one, so two halves suffice.
Status HostTeam::gatherOfProcesses(const char *in, int64_t bytes, char *out) {
  ControlBlock control(heapOf(firstLocal()) + control_, control_, ranks());
  for (int64_t from = 0; from < bytes; from += ControlBlock::kGatherBytes) {
    const auto part = size_t(std::min(bytes - from, ControlBlock::kGatherBytes));
    const auto half = int32_t(gathers_++ & 1);
    for (int32_t rank = 0; rank < ranks(); ++rank) {
      auto lock = lockShmem();
      shmem_->ops->put(shmem_, rank, control.gatherOffset(half, firstLocal()), in + from, part);
      noteSent();
    }
    if (Status status = meet("dtile_team_all_gather"); !status.ok())
      return status;
    for (int32_t rank = 0; rank < ranks(); ++rank)
      std::memcpy(out + rank * bytes + from, control.gathered(half, rank), part);
  }
  return {};
}

// ---- Of bodies ----

void HostTeam::barrierOf(dtile_task &task, const dtile_site *site) {
  dtile_launch &launch = *task.space->launch;
  KernelState &kernel = *launch.kernel;
  quiet();
  task.forgetSends();
  std::unique_lock lock(kernel.barrierMutex);
  BarrierSite &barrier = kernel.barriers[{site->file, site->line, site->column}];
  if (barrier.arrived.empty()) {
    barrier.site = site;
    barrier.arrived.assign(size_t(localCount()), 0);
    barrier.slot = int32_t(hashPlace(kernel.name, *site) % ControlBlock::kBarriers);
  }
  // Between processes, places that share a slot are one barrier, so that counts stay in step.
  int64_t &count = distributed() ? barrierArrivals_[size_t(barrier.slot)]
                                 : barrier.arrived[size_t(launch.local)];
  int64_t generation = ++count;
  if (distributed()) {
    lock.unlock();
    ControlBlock control(heapOf(firstLocal()) + control_, control_, ranks());
    for (int32_t rank = 0; rank < ranks(); ++rank)
      notifyRemote(rank, control.barrierCell(barrier.slot, firstLocal()));
    return scheduler_->waitAtBarrier(task, barrier, generation);
  }
  int64_t complete = *std::min_element(barrier.arrived.begin(), barrier.arrived.end());
  if (complete <= barrier.completed) {
    lock.unlock();
    return scheduler_->waitAtBarrier(task, barrier, generation);
  }
  barrier.completed = complete;
  dtile_task *woken = nullptr;
  std::erase_if(barrier.waiting, [&](dtile_task *waiter) {
    if (waiter->generation > complete)
      return false;
    waiter->nextWaiter = woken;
    woken = waiter;
    return true;
  });
  lock.unlock();
  scheduler_->makeReady(woken);
  if (generation > complete)
    scheduler_->waitAtBarrier(task, barrier, generation);
}

bool HostTeam::parkAtBarrier(dtile_task &task) {
  KernelState &kernel = *task.space->launch->kernel;
  std::lock_guard lock(kernel.barrierMutex);
  if (task.generation <= task.barrier->completed)
    return false;
  task.state = TaskState::Blocked;
  task.barrier->waiting.push_back(&task);
  return true;
}

bool HostTeam::barrierComplete(const BarrierSite &barrier, int64_t generation) {
  ControlBlock control(heapOf(firstLocal()) + control_, control_, ranks());
  for (int32_t rank = 0; rank < ranks(); ++rank)
    if (readCell(control.barrier(barrier.slot, rank)) < uint64_t(generation))
      return false;
  return true;
}

std::string HostTeam::missingAt(const BarrierSite &barrier, int64_t generation) {
  ControlBlock control(heapOf(firstLocal()) + control_, control_, ranks());
  std::vector<int32_t> missing;
  for (int32_t rank = 0; rank < ranks(); ++rank) {
    int64_t arrived = distributed() ? int64_t(readCell(control.barrier(barrier.slot, rank)))
                                    : barrier.arrived[size_t(rank)];
    if (arrived < generation)
      missing.push_back(rank);
  }
  return missing.empty() ? "nobody" : rankList(missing);
}
