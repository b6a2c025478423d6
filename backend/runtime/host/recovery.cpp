// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A job of processes after a failure: all of them come here, and the team is as it was at first,
// but for the objects of callers. Nothing less would do: when a launch fails on one rank, others
// may be in it, before it, or in the launch of another kernel, and are stopped where they are. So
// epochs, counts, turns and the objects of all kernels are forgotten, as whoever has not seen a
// kernel yet knows nothing of it.
//
// Each process has stopped its bodies, and what it has sent has landed, before it comes to the
// first meeting; so after that nobody writes into another's memory, and each puts its own in
// order. After the second one all are in order.
#include "backend/runtime/clock.h"
#include "backend/runtime/host/control.h"
#include "backend/runtime/host/team.h"

#include <algorithm>
#include <sched.h>

using namespace dtile::runtime;

Status HostTeam::meetToRecover() {
  ++recoveries_;
  ControlBlock control(heapOf(firstLocal()) + control_, control_, ranks());
  for (int32_t rank = 0; rank < ranks(); ++rank)
    notifyRemote(rank, control.recoveryCell(firstLocal()));
  // Others may only now find out, by a wait of theirs that takes too long.
  const int64_t end = nowNs() + 2 * int64_t(timeoutMs_) * 1'000'000;
  for (int32_t rank = 0; rank < ranks(); ++rank)
    while (readCell(control.recovery(rank)) < uint64_t(recoveries_)) {
      // Moves the network; that the job was stopped is known.
      (void)progress();
      if (hasLostProcess())
        return job_->watch().failure();
      if (nowNs() > end)
        return {DTILE_TIMEOUT, format("rank %d waited %d ms for rank %d at dtile_team_recover",
                                      firstLocal(), 2 * timeoutMs_, rank)};
      sched_yield();
    }
  return {};
}

void HostTeam::forgetLaunches() {
  for (auto &[key, kernel] : kernels_) {
    for (TurnedMemory &turned : turned_)
      turned.forget(*kernel);
    for (auto &[objectKey, object] : kernel->objects)
      releaseHeap(object->offset);
  }
  kernels_.clear();
  for (dtile_launch &launch : launches_) {
    launch.kernel = nullptr;
    launch.objects.clear();
  }
}

Status HostTeam::recover() {
  // Ranks of one process have recovered when the call that failed returns.
  if (!distributed())
    return {};
  quiet();
  ControlBlock control(heapOf(firstLocal()) + control_, control_, ranks());
  const uint64_t own = callers_.hash();
  for (int32_t rank = 0; rank < ranks(); ++rank) {
    auto lock = lockShmem();
    shmem_->ops->put(shmem_, rank, control.recoveryValueCell(firstLocal()), &own, sizeof own);
    noteSent();
  }
  quiet();
  if (Status status = meetToRecover(); !status.ok())
    return breakTeam(status);
  for (int32_t rank = 0; rank < ranks(); ++rank)
    for (int32_t other = 0; other < rank; ++other)
      if (readCell(control.recoveryValue(rank)) != readCell(control.recoveryValue(other)))
        return breakTeam(
            {DTILE_INVALID, format("ranks %d and %d have different symmetric objects since the "
                                   "failure, so that the job cannot recover",
                                   other, rank)});
  forgetLaunches();
  control.reset();
  meetings_ = 0;
  gathers_ = 0;
  std::fill(barrierArrivals_.begin(), barrierArrivals_.end(), 0);
  broken_ = {};
  // All count launches from one number again.
  telemetry_->restart(uint64_t(recoveries_) << 32);
  if (Status status = meetToRecover(); !status.ok())
    return breakTeam(status);
  shmem_->ops->leave_alone(shmem_, nullptr);
  return {};
}

Status HostTeam::trim(uint32_t) {
  if (!broken_.ok())
    return brokenStatus();
  // Nobody sends to what goes any more. No graph holds anything here.
  if (Status status = meet("dtile_team_trim"); !status.ok())
    return status;
  std::lock_guard lock(memory_);
  for (auto &[key, kernel] : kernels_) {
    for (auto &[objectKey, object] : kernel->objects)
      releaseHeap(object->offset);
    kernel->objects.clear();
  }
  return {};
}
