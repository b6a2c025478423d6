// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A team of ranks that this machine's processors run: their symmetric memory, and what is known of
// each kernel.
#pragma once

#include "backend/runtime/arguments/tensor_span.h"
#include "backend/runtime/device/epoch_buffers.h"
#include "backend/runtime/dtile.h"
#include "backend/runtime/errors.h"
#include "backend/runtime/host/kernel_state.h"
#include "backend/runtime/host/launch.h"
#include "backend/runtime/host/scheduler.h"
#include "backend/runtime/job/rendezvous.h"
#include "backend/runtime/shmem/shmem.h"
#include "backend/runtime/symmetric_heap.h"
#include "backend/runtime/team_interface.h"
#include "backend/runtime/telemetry/writer.h"
#include "backend/runtime/trace/trace.h"

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace dtile::runtime {

/// Memory of others, at its place on each rank (foreign.cpp).
struct RegisteredRange {
  std::vector<char *> pointers;
  int64_t bytes = 0;
};

struct HostTeam final : public dtile_team {
  /// The provider's heap holds leastHeapBytes.
  HostTeam(dtile_shmem *shmem, const dtile_team_options &options, int32_t workers);
  ~HostTeam() override;
  HostTeam(const HostTeam &) = delete;
  HostTeam &operator=(const HostTeam &) = delete;

  Status recover() override;
  Status trim(uint32_t flags) override;

  /// What a team of that provider keeps in each heap itself.
  static int64_t leastHeapBytes(const dtile_shmem &shmem);

  // ---- Ranks and memory ----
  int32_t ranks() const override { return shmem_->npes; }
  int32_t firstLocal() const override { return shmem_->first; }
  int32_t localCount() const override { return shmem_->local; }
  bool isLocal(int32_t rank) const {
    return rank >= shmem_->first && rank < shmem_->first + shmem_->local;
  }
  /// One process a rank, or at least more than one process.
  bool distributed() const { return distributed_; }
  /// Whether all ranks' memory can be addressed, so that CPU atomics serve everywhere.
  bool allDirect() const { return allDirect_; }
  char *heapOf(int32_t rank) const { return peers_[size_t(rank)]; }
  int64_t heapBytes() const { return shmem_->heap_bytes; }
  int32_t timeoutMs() const { return timeoutMs_; }

  Status symmAlloc(int64_t bytes, void **out) override;
  Status symmFree(void *address) override;
  Status symmRegister(void *const *pointers, int64_t bytes) override;
  Status symmUnregister(void *address) override;
  void *symmAddress(const void *address, int32_t local) const override;
  /// Where `other` has what is at `address` in memory that was registered, as `rank` has it; null:
  /// it is in none.
  char *registeredAt(const void *address, int32_t rank, int32_t other) const;

  // ---- Launches ----
  Status launch(const dtile_kernel_desc *desc, const dtile_arg *const *arguments, int32_t nargs,
                int32_t count) override;
  Status supports(int32_t local, const dtile_kernel_desc &desc, const dtile_arg *arguments,
                  int32_t nargs, Status *refusal) override;
  Status sizes(int32_t local, const dtile_kernel_desc &desc, const dtile_arg *arguments,
               int32_t nargs, int32_t argument, int64_t *size) override;
  Status scratch(int32_t local, const dtile_kernel_desc &desc, const char *name,
                 dtile_tensor *out) override;
  /// Runs the prologue of a rank's launch and everything else before its bodies. False:
  /// launch.error says why.
  bool prepare(dtile_launch &launch);
  /// Which of several kernels of one name a launch runs: the first, as nothing is estimated of code
  /// for processors, or what was measured for arguments of such sizes, which may be null.
  [[nodiscard]] const dtile_kernel_desc &
  alternativeOf(const dtile_kernel_desc &family, const dtile_arg *arguments, int32_t nargs) const;
  /// Which code of its kernel a launch runs. Needs its arguments, which must have been checked.
  static void takeCode(dtile_launch &launch);
  /// What a call to launch writes of callers' objects; whether the ranks meet before its first.
  Status enterTurns(const KernelState &kernel, const dtile_arg *const *arguments, int32_t nargs,
                    bool *meets);
  /// The bodies may begin, now or when all ranks have come so far.
  void enter(dtile_launch &launch);
  /// All bodies of the launch have ended: counts for the next.
  void settle(dtile_launch &launch);
  /// A scratch object or signal of this launch; null records the error in the launch.
  void *object(dtile_launch &launch, int32_t param, int32_t ndim, const int64_t *size);

  // ---- Meetings ----
  Status barrier() override;
  Status allGather(const void *const *in, int64_t bytes, void *out) override;
  /// A body arrives at a `barrier`.
  void barrierOf(dtile_task &task, const dtile_site *site);
  /// Whether the barrier's generation is complete, as far as this process can see.
  bool barrierComplete(const BarrierSite &barrier, int64_t generation);
  /// Which ranks have not yet arrived, as text.
  std::string missingAt(const BarrierSite &barrier, int64_t generation);
  bool parkAtBarrier(dtile_task &task);

  // ---- Processes ----
  /// Another process of the job has died, or is out of reach.
  bool hasLostProcess() const { return job_ && job_->watch().hasFailed(); }
  /// Of a job: who notices that a process has died.
  void watchJob(std::unique_ptr<Rendezvous> job);
  /// Why this process should wait no longer in an operation of the provider, after so many ms: the
  /// job has failed, or somebody does not answer.
  Status endOf(const char *operation, int64_t ms);
  /// Lets the network move. True when another process has stopped the job.
  bool progress();
  /// Reads a cell of a local rank.
  uint64_t readCell(uint64_t *cell);
  /// Everything sent by this process has landed.
  void quiet();
  /// What is sent to a rank after this lands after what was sent to it before.
  void fence();
  /// Something has been sent that quiet has not yet covered.
  void noteSent() { sent_.store(true, std::memory_order_relaxed); }
  Status peerFailure();
  /// The job has failed: the team refuses what comes, and the process leaves without the others.
  Status breakTeam(Status why);
  Status brokenStatus() const;
  const Status &broken() const { return broken_; }
  dtile_shmem &shmem() { return *shmem_; }
  std::unique_lock<std::mutex> lockShmem();
  /// Serializes updates of memory for which the provider has no atomics.
  /// False: the job has been stopped meanwhile, and broken() says why.
  bool lockHeapOf(int32_t rank);
  void unlockHeapOf(int32_t rank);
  /// Adds 1 to the cell at `offset` of a rank of another process, or of any where not all are
  /// addressable.
  void notifyRemote(int32_t rank, int64_t offset);

  // ---- Traces ----
  /// What is being recorded, or null.
  Trace *trace() const { return trace_.get(); }
  void beginTrace(int64_t mostRecords);
  /// Stops recording; null where nothing was.
  std::unique_ptr<Trace> takeTrace();

  // ---- Telemetry ----
  telemetry::Writer &telemetry() { return *telemetry_; }
  /// Bodies cannot go on: writes who waits for whom, where a file was asked for, once a launch.
  /// Adds to `failure` what went wrong with that.
  void keepWaitGraph(Status &failure);

  Scheduler &scheduler() { return *scheduler_; }
  /// Who waits for what; no worker may run.
  std::string deadlockReport();

private:
  KernelState &kernelState(const dtile_kernel_desc &desc);
  Status checkDescriptor(const dtile_kernel_desc *desc) const;
  Status checkArguments(const KernelState &kernel, const dtile_arg *const *arguments,
                        int32_t nargs) const;
  Status checkOverlap(const KernelState &kernel, const std::vector<TensorSpan> &spans,
                      int32_t local) const;
  /// What is wrong with a symmetric tensor that is not in the heap; "" where it was registered.
  std::string checkRegistered(int32_t rank, const TensorSpan &span,
                              const dtile_tensor *first) const;
  Status checkTensor(const KernelState &kernel, int32_t param, int32_t local,
                     const dtile_tensor *tensor, const dtile_tensor *first, TensorSpan *span) const;
  Status ask(KernelState &kernel, int32_t local, LaunchQuery &query, void *frame) const;
  Status afterFailure(KernelState &kernel, Status failure);
  void beginTelemetry();
  bool countExpected(dtile_launch &launch);
  KernelObject *allocateObject(dtile_launch &launch, const ObjectKey &key,
                               const dtile_param_desc &param);
  int64_t allocateEvicting(int64_t bytes);
  bool evictOldest();
  void forget(KernelState &kernel);
  void releaseHeap(int64_t offset);
  void zeroHeap(int64_t offset, int64_t bytes, bool giveBack);
  /// Breaks the team, names the processes that do not answer where a wait was too long, and tells
  /// the others. Gives what is told.
  Status giveUp(Status why);
  /// Tells the other processes by the provider why this one stops.
  void tellFailure(const Status &status);
  Status agree(uint64_t value, const char *what);
  Status meet(const char *what);
  Status gatherOfProcesses(const char *in, int64_t bytes, char *out);
  Status meetToRecover();
  void forgetLaunches();

  std::unique_ptr<Rendezvous> job_;
  dtile_shmem *shmem_;
  std::vector<char *> peers_;
  bool distributed_ = false;
  bool allDirect_ = true;
  int32_t timeoutMs_;
  SymmetricHeap heap_;
  CallersObjects callers_;
  std::vector<RegisteredRange> registered_;
  /// By local rank.
  std::vector<TurnedMemory> turned_;
  std::unique_ptr<Trace> trace_;
  std::unique_ptr<telemetry::Writer> telemetry_;
  std::string waitGraph_;
  bool isGraphKept_ = false;
  std::unique_ptr<Scheduler> scheduler_;
  std::map<std::pair<const dtile_kernel_desc *, std::string>, std::unique_ptr<KernelState>>
      kernels_;
  std::vector<dtile_launch> launches_;
  /// The heap and the kernels' objects: prologues of repeated launches run at once.
  std::mutex memory_;
  std::mutex shmemMutex_;
  uint64_t callNumber_ = 0;
  bool firstLaunches_ = false;
  Status broken_;

  // Processes: where the control block is in the heap, and how often this rank has met the others.
  int64_t control_ = 0;
  int64_t meetings_ = 0;
  /// Parts that were gathered, of processes.
  uint64_t gathers_ = 0;
  int64_t recoveries_ = 0;
  /// Executions of kernels' barriers, by slot.
  std::vector<int64_t> barrierArrivals_;
  std::atomic<bool> sent_{false};
  std::mutex updateMutex_;
};

} // namespace dtile::runtime
