// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs the bodies of all local ranks as fibers on a few workers.
#pragma once

#include "backend/runtime/errors.h"
#include "backend/runtime/host/fiber.h"
#include "backend/runtime/host/launch.h"
#include "backend/runtime/host/task.h"
#include "backend/runtime/host/wait_queues.h"

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <vector>

namespace dtile::runtime {

/// One lock and three queues: launches to start, tasks that can go on, spaces with bodies that
/// nobody runs. A worker takes tasks that can go on first, so that what has begun ends and stacks
/// stay few, then the next space in turn. A task keeps its worker from body to body until it blocks
/// or others could go on, so the lock is taken once a block and not once a body.
///
/// Bound: a body that is not blocked shares one of `workers` stacks and workspaces; each blocked
/// body keeps its own. So memory is at most (workers + bodies blocked at once) x (stack_bytes +
/// workspace_bytes). When the machine gives no more, no further body is started until a blocked one
/// has gone on; only if none can, the launch fails.
class Scheduler {
public:
  Scheduler(HostTeam &team, int32_t workers, size_t stackBytes, uint64_t seed);
  ~Scheduler();
  Scheduler(const Scheduler &) = delete;
  Scheduler &operator=(const Scheduler &) = delete;

  /// Runs `launches` local ranks, whose first launches have been queued by begin or start, until
  /// all have ended or one has failed. The calling thread is one of the workers.
  Status run(int32_t launches);

  /// Its prologue has run: its spaces may start.
  void begin(dtile_launch &launch);
  /// The rank's next launch is to be started by whoever is free.
  void start(dtile_launch &launch);
  /// Stops everything: the first failure is kept. Running bodies stop at their next call.
  void fail(Status status);
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  uint64_t seed() const { return seed_; }

  /// Called by tasks: stop until the cell has reached `wanted` (or the barrier's generation is
  /// complete).
  void waitForCell(dtile_task &task, uint64_t *cell, uint64_t wanted, const dtile_site *site);
  void waitAtBarrier(dtile_task &task, BarrierSite &barrier, int64_t generation);
  /// Called by tasks: in a seeded schedule, perhaps let others go first.
  void perhapsYield(dtile_task &task);
  /// Called by tasks: whether a seeded schedule wants this transfer to land as late as it may.
  bool landsLate(dtile_task &task);
  /// Called by tasks, when the launch has failed. Does not return.
  [[noreturn]] void abandon(dtile_task &task);
  /// Whether a task that has ended a body should let others go first. Lets the network move, where
  /// there is one.
  bool othersWait();

  /// Lists of tasks linked by nextWaiter that can go on.
  void makeReady(dtile_task *tasks);
  WaitQueues &waits() { return waits_; }
  /// All tasks there are; looked at by reports, when no worker runs.
  const std::deque<dtile_task> &tasks() const { return tasks_; }
  /// The trace that tasks write to ends. No worker may run.
  void forgetTraces();

private:
  struct Item {
    dtile_launch *start = nullptr;
    dtile_task *task = nullptr;
  };

  static void *workerMain(void *scheduler);
  static void taskMain(void *task);
  void work(bool isCaller);
  Item pick();
  Item pickAny();
  void park(std::unique_lock<std::mutex> &lock, bool isCaller);
  bool settled() const { return failed() || ended_ == launches_; }
  bool queuesEmpty() const { return starts_.empty() && ready_.empty() && sources_.empty(); }
  void wakeSomebody();
  void countQueued();

  void runTask(dtile_task &task);
  bool parkTask(dtile_task &task);
  void release(dtile_task &task);
  dtile_task *bindTask(SpaceRun &space);
  void queueSource(SpaceRun &space);
  void beginSpaces(dtile_launch &launch);
  void endLaunch(dtile_launch &launch);
  void failLocked(Status status);
  void stuck();
  void poll(std::unique_lock<std::mutex> &lock);
  bool wakeArrived();
  void forgetEverything();
  void *takeWorkspace(int64_t bytes);
  void giveWorkspace(int64_t bytes, void *workspace);
  template <typename T> T takeFrom(std::deque<T> &queue);
  uint64_t random();

  HostTeam &team_;
  uint64_t seed_;
  uint64_t random_;
  StackPool stacks_;
  WaitQueues waits_;

  std::mutex mutex_;
  std::condition_variable helpers_, caller_;
  std::deque<dtile_launch *> starts_;
  std::deque<dtile_task *> ready_;
  std::deque<SpaceRun *> sources_;
  std::deque<dtile_task> tasks_;
  std::vector<dtile_task *> freeTasks_;
  /// Processes: tasks that wait for what other processes do.
  std::vector<dtile_task *> remoteWaiters_;
  std::map<int64_t, std::vector<void *>> workspaces_;
  std::vector<pthread_t> threads_;
  Status failure_;
  /// The space for which there was no stack or workspace, since somebody last blocked.
  SpaceRun *starved_ = nullptr;
  int32_t launches_ = 0;
  int32_t ended_ = 0;
  int32_t busy_ = 0;
  int32_t parkedHelpers_ = 0;
  bool callerParked_ = false;
  bool active_ = false;
  bool stopping_ = false;
  bool polling_ = false;
  int64_t lastProgress_ = 0;
  std::atomic<int64_t> lastPoll_{0};
  std::atomic<bool> failed_{false};
  /// Entries in the queues, for looking without the lock.
  std::atomic<int32_t> queued_{0};
  std::atomic<int32_t> readyCount_{0};
};

} // namespace dtile::runtime
