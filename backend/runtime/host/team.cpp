// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Making and ending a team, and what its ranks need of the provider.
#include "backend/runtime/host/team.h"

#include "backend/runtime/clock.h"
#include "backend/runtime/host/control.h"
#include "backend/runtime/telemetry/wait_graph.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sched.h>
#include <unistd.h>

using namespace dtile::runtime;

namespace {
constexpr int64_t kDefaultStackBytes = 64 * 1024;
constexpr int32_t kDefaultTimeoutMs = 60'000;
// While a process writes why it stops the job.
constexpr uint64_t kStopClaimed = 0xffff;
/// An operation of a job that has failed may end by itself within this time.
constexpr int64_t kLastMs = 2000;
} // namespace

int64_t HostTeam::leastHeapBytes(const dtile_shmem &shmem) {
  return shmem.local < shmem.npes ? ControlBlock::bytes(shmem.npes) + SymmetricHeap::kAlignment : 0;
}

HostTeam::HostTeam(dtile_shmem *shmem, const dtile_team_options &options, int32_t workers)
    : shmem_(shmem),
      timeoutMs_(options.wait_timeout_ms > 0 ? options.wait_timeout_ms : kDefaultTimeoutMs),
      heap_(0, shmem->heap_bytes), turned_(size_t(shmem->local)), launches_(size_t(shmem->local)) {
  distributed_ = shmem->local < shmem->npes;
  for (int32_t rank = 0; rank < ranks(); ++rank) {
    peers_.push_back(static_cast<char *>(shmem->ops->peer(shmem, rank)));
    allDirect_ &= peers_.back() != nullptr;
  }
  for (int32_t local = 0; local < localCount(); ++local) {
    launches_[size_t(local)].team = this;
    launches_[size_t(local)].rank = firstLocal() + local;
    launches_[size_t(local)].ranks = ranks();
    launches_[size_t(local)].local = local;
  }
  if (distributed_) {
    control_ = heap_.allocate(ControlBlock::bytes(ranks()));
    barrierArrivals_.assign(ControlBlock::kBarriers, 0);
    std::memset(heapOf(firstLocal()) + control_, 0, size_t(ControlBlock::bytes(ranks())));
    shmem->ops->barrier(shmem);
  }
  beginTelemetry();
  const char *graph = options.wait_graph ? options.wait_graph : std::getenv("DTILE_WAIT_GRAPH");
  waitGraph_ = graph ? graph : "";
  int64_t stackBytes = options.stack_bytes > 0 ? options.stack_bytes : kDefaultStackBytes;
  scheduler_ =
      std::make_unique<Scheduler>(*this, workers, size_t(stackBytes), options.schedule_seed);
}

HostTeam::~HostTeam() {
  scheduler_.reset();
  for (dtile_launch &launch : launches_)
    std::free(launch.frame);
  // Leaving in order is collective, and after a failure the others do not come: then the provider
  // sees to it that the process's exit waits for nobody.
  if (!distributed_ || (broken_.ok() && meet("the end of the team").ok()))
    shmem_->ops->close(shmem_);
  else
    shmem_->ops->set_monitor(shmem_, nullptr);
}

void HostTeam::watchJob(std::unique_ptr<Rendezvous> job) {
  job_ = std::move(job);
  if (!job_)
    return;
  const auto goesOn = [](void *team, const char *operation, int64_t ms, char *words, size_t bytes) {
    const Status why = static_cast<HostTeam *>(team)->endOf(operation, ms);
    std::snprintf(words, bytes, "%s", why.message.c_str());
    return int32_t(why.ok());
  };
  const dtile_shmem_monitor monitor = {this, goesOn};
  shmem_->ops->set_monitor(shmem_, &monitor);
}

Status HostTeam::endOf(const char *operation, int64_t ms) {
  Watch &watch = job_->watch();
  if (watch.hasFailed())
    return ms < kLastMs ? Status() : watch.failure();
  const std::string silent = ms > timeoutMs_ ? watch.silentRanks() : std::string();
  if (silent.empty())
    return {};
  const std::string words =
      format("waited %lld ms in %s; ", static_cast<long long>(ms), operation) + silent;
  watch.fail({DTILE_TIMEOUT, format("rank %d ", firstLocal()) + words});
  return {DTILE_TIMEOUT, words};
}

void HostTeam::beginTelemetry() {
  telemetry::TeamFacts facts = {.ranks = ranks(),
                                .firstLocal = firstLocal(),
                                .localCount = localCount(),
                                .timeoutMs = timeoutMs_,
                                .isDirect = allDirect_,
                                .job = uint64_t(nowNs()) ^ (uint64_t(getpid()) << 40)};
  if (distributed_) {
    // Rank 0's number is the job's.
    std::vector<uint64_t> all(size_t(ranks()), facts.job);
    const std::vector<const void *> in(size_t(localCount()), &facts.job);
    shmem_->ops->all_gather(shmem_, in.data(), sizeof facts.job, all.data());
    facts.job = all.front();
  }
  telemetry_ = std::make_unique<telemetry::Writer>(facts);
}

void HostTeam::keepWaitGraph(Status &failure) {
  if (waitGraph_.empty() || isGraphKept_)
    return;
  isGraphKept_ = true;
  telemetry_->fail(failure.code, failure.message);
  if (Status status = telemetry::keepWaitGraph(waitGraph_, *telemetry_, distributed_); !status.ok())
    failure.message += "\n" + status.message;
}

void HostTeam::beginTrace(int64_t mostRecords) {
  scheduler_->forgetTraces();
  trace_ = std::make_unique<Trace>(mostRecords);
}

std::unique_ptr<Trace> HostTeam::takeTrace() {
  scheduler_->forgetTraces();
  return std::move(trace_);
}

std::unique_lock<std::mutex> HostTeam::lockShmem() { return std::unique_lock(shmemMutex_); }

uint64_t HostTeam::readCell(uint64_t *cell) {
  return std::atomic_ref(*cell).load(std::memory_order_acquire);
}

void HostTeam::notifyRemote(int32_t rank, int64_t offset) {
  // Where some rank is out of reach, all updates of cells go through the provider: its atomics and
  // the CPU's need not be atomic to each other.
  if (allDirect_) {
    std::atomic_ref(*reinterpret_cast<uint64_t *>(heapOf(rank) + offset)).fetch_add(1);
    return;
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
  auto lock = lockShmem();
  shmem_->ops->notify(shmem_, rank, offset);
  noteSent();
}

void HostTeam::quiet() {
  if (!distributed_)
    return;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  auto lock = lockShmem();
  if (sent_.exchange(false, std::memory_order_relaxed))
    shmem_->ops->quiet(shmem_);
}

void HostTeam::fence() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!distributed_)
    return;
  auto lock = lockShmem();
  if (sent_.load(std::memory_order_relaxed))
    shmem_->ops->fence(shmem_);
}

bool HostTeam::progress() {
  if (!distributed_)
    return false;
  if (hasLostProcess())
    return true;
  ControlBlock control(heapOf(firstLocal()) + control_, control_, ranks());
  uint64_t stop;
  if (allDirect_) {
    stop = readCell(control.stop());
  } else {
    auto lock = lockShmem();
    stop = shmem_->ops->cell_read(shmem_, control.stopCell());
  }
  return stop != 0 && stop != kStopClaimed;
}

Status HostTeam::giveUp(Status why) {
  // Those who have told this process of the failure have named them.
  const std::string silent =
      job_ && !hasLostProcess() ? job_->watch().silentRanks() : std::string();
  if (!silent.empty() && why.code == DTILE_TIMEOUT)
    why.message += "; " + silent;
  breakTeam(std::move(why));
  // The provider's calls wait for a process that is stopped, maybe for ever; the watch does not.
  if (silent.empty())
    tellFailure(broken_);
  else
    job_->watch().fail(broken_);
  return broken_;
}

void HostTeam::tellFailure(const Status &status) {
  // Of a process that is gone all have been told, and it would not answer.
  if (hasLostProcess())
    return;
  ControlBlock control(heapOf(firstLocal()) + control_, control_, ranks());
  std::string words = status.message.substr(0, ControlBlock::kMessageBytes - 1);
  auto lock = lockShmem();
  const dtile_shmem_ops &ops = *shmem_->ops;
  std::vector<int32_t> claimed;
  for (int32_t rank = 0; rank < ranks(); ++rank) {
    if (rank == firstLocal() || ops.atomic(shmem_, DTILE_SHMEM_COMPARE_EXCHANGE, rank,
                                           control.stopCell(), 8, kStopClaimed, 0) != 0)
      continue;
    ops.put(shmem_, rank, control.messageOffset(), words.c_str(), words.size() + 1);
    claimed.push_back(rank);
  }
  ops.quiet(shmem_);
  for (int32_t rank : claimed)
    ops.atomic(shmem_, DTILE_SHMEM_EXCHANGE, rank, control.stopCell(), 8, uint64_t(status.code), 0);
  ops.quiet(shmem_);
}

Status HostTeam::peerFailure() {
  if (hasLostProcess())
    return breakTeam(job_->watch().failure());
  ControlBlock control(heapOf(firstLocal()) + control_, control_, ranks());
  return breakTeam({dtile_status(readCell(control.stop())),
                    std::string("another rank stopped the job: ") + control.message()});
}

Status HostTeam::breakTeam(Status why) {
  keepWaitGraph(why);
  broken_ = std::move(why);
  shmem_->ops->leave_alone(shmem_, broken_.message.c_str());
  return broken_;
}

Status HostTeam::brokenStatus() const {
  return {broken_.code,
          "the team has failed before and cannot be used any more: " + broken_.message};
}

bool HostTeam::lockHeapOf(int32_t rank) {
  updateMutex_.lock();
  ControlBlock control(heapOf(firstLocal()) + control_, control_, ranks());
  const int64_t end = nowNs() + int64_t(timeoutMs_) * 1'000'000;
  for (;;) {
    {
      auto lock = lockShmem();
      if (shmem_->ops->atomic(shmem_, DTILE_SHMEM_COMPARE_EXCHANGE, rank, control.updateLock(), 8,
                              1, 0) == 0)
        return true;
    }
    const bool isLate = nowNs() > end;
    if (isLate || progress()) {
      updateMutex_.unlock();
      if (isLate)
        breakTeam({DTILE_TIMEOUT, format("rank %d waited %d ms for whoever updates an object of "
                                         "rank %d",
                                         firstLocal(), timeoutMs_, rank)});
      else
        peerFailure();
      return false;
    }
    sched_yield();
  }
}

void HostTeam::unlockHeapOf(int32_t rank) {
  ControlBlock control(heapOf(firstLocal()) + control_, control_, ranks());
  {
    auto lock = lockShmem();
    shmem_->ops->quiet(shmem_);
    shmem_->ops->atomic(shmem_, DTILE_SHMEM_EXCHANGE, rank, control.updateLock(), 8, 0, 0);
  }
  updateMutex_.unlock();
}
