// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The workers' loop, the queues, and what happens when a task gives its worker back. See
// scheduler.h for the policy.
#include "backend/runtime/host/scheduler.h"

#include "backend/runtime/clock.h"
#include "backend/runtime/host/team.h"
#include "backend/runtime/telemetry/host_waits.h"

#include <algorithm>
#include <cstdlib>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

namespace dtile::runtime {

namespace {

constexpr int64_t kPollNs = 20'000;
constexpr int kSpins = 1000;

void pauseCpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

uint64_t nextRandom(uint64_t &state) {
  // splitmix64
  uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

/// Small workspaces come from the heap; large ones are mappings, which take memory where they are
/// touched.
constexpr int64_t kMappedBytes = 128 * 1024;

void *allocateWorkspace(int64_t bytes) {
  if (bytes < kMappedBytes)
    return std::aligned_alloc(64, size_t(bytes + 63) / 64 * 64);
  void *memory = mmap(nullptr, size_t(bytes), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

void freeWorkspace(void *workspace, int64_t bytes) {
  if (bytes < kMappedBytes)
    std::free(workspace);
  else
    munmap(workspace, size_t(bytes));
}

} // namespace

Scheduler::Scheduler(HostTeam &team, int32_t workers, size_t stackBytes, uint64_t seed)
    : team_(team), seed_(seed), random_(seed), stacks_(stackBytes) {
  // With fewer threads than asked for, the work still gets done.
  for (int32_t i = 1; i < workers; ++i) {
    pthread_t thread;
    if (pthread_create(&thread, nullptr, workerMain, this) != 0)
      break;
    threads_.push_back(thread);
  }
}

Scheduler::~Scheduler() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    helpers_.notify_all();
  }
  for (pthread_t thread : threads_)
    pthread_join(thread, nullptr);
  for (auto &[bytes, free] : workspaces_)
    for (void *workspace : free)
      freeWorkspace(workspace, bytes);
}

void *Scheduler::workerMain(void *scheduler) {
  static_cast<Scheduler *>(scheduler)->work(/*isCaller=*/false);
  return nullptr;
}

Status Scheduler::run(int32_t launches) {
  {
    std::lock_guard lock(mutex_);
    launches_ = launches;
    active_ = true;
    lastProgress_ = nowNs();
    if (!queuesEmpty())
      wakeSomebody();
  }
  work(/*isCaller=*/true);
  std::lock_guard lock(mutex_);
  active_ = false;
  Status result = std::move(failure_);
  if (failed())
    forgetEverything();
  failure_ = {};
  starved_ = nullptr;
  launches_ = ended_ = 0;
  failed_.store(false, std::memory_order_release);
  return result;
}

void Scheduler::work(bool isCaller) {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (stopping_ && !isCaller)
      return;
    if (Item item = pick(); item.start || item.task) {
      ++busy_;
      lastProgress_ = team_.distributed() ? nowNs() : 0;
      lock.unlock();
      if (item.task)
        runTask(*item.task);
      else if (team_.prepare(*item.start))
        team_.enter(*item.start);
      else
        fail(item.start->error);
      lock.lock();
      if (--busy_ == 0 && settled() && callerParked_)
        caller_.notify_one();
      continue;
    }
    if (settled()) {
      if (isCaller && busy_ == 0)
        return;
    } else if (active_ && team_.distributed() && !polling_) {
      poll(lock);
      continue;
    } else if (active_ && busy_ == 0 && !polling_) {
      stuck();
      continue;
    }
    park(lock, isCaller);
  }
}

void Scheduler::park(std::unique_lock<std::mutex> &lock, bool isCaller) {
  // Most waits are short: look for a while before asking the kernel to sleep.
  lock.unlock();
  for (int i = 0; i < kSpins && queued_.load(std::memory_order_relaxed) == 0; ++i)
    pauseCpu();
  lock.lock();
  bool found = active_ && !failed() && !queuesEmpty() && !starved_;
  if (found || (stopping_ && !isCaller))
    return;
  if (isCaller) {
    if (busy_ == 0)
      return;
    callerParked_ = true;
    caller_.wait(lock);
    callerParked_ = false;
  } else {
    ++parkedHelpers_;
    helpers_.wait(lock);
    --parkedHelpers_;
  }
}

void Scheduler::wakeSomebody() {
  if (parkedHelpers_ > 0)
    helpers_.notify_one();
  else if (callerParked_)
    caller_.notify_one();
}

void Scheduler::countQueued() {
  queued_.store(int32_t(starts_.size() + ready_.size() + sources_.size()),
                std::memory_order_relaxed);
  readyCount_.store(int32_t(ready_.size()), std::memory_order_relaxed);
}

uint64_t Scheduler::random() { return nextRandom(random_); }

template <typename T> T Scheduler::takeFrom(std::deque<T> &queue) {
  if (seed_ != 0)
    std::swap(queue.front(), queue[random() % queue.size()]);
  T entry = queue.front();
  queue.pop_front();
  return entry;
}

Scheduler::Item Scheduler::pick() {
  if (!active_ || failed() || queuesEmpty())
    return {};
  Item item = pickAny();
  countQueued();
  if ((item.start || item.task) && !queuesEmpty() && !starved_)
    wakeSomebody();
  return item;
}

Scheduler::Item Scheduler::pickAny() {
  size_t all = ready_.size() + starts_.size() + sources_.size();
  size_t chosen = seed_ != 0 ? random() % all : 0;
  bool sourceFirst = chosen >= ready_.size() + starts_.size();
  if (!ready_.empty() && !sourceFirst)
    return {.task = takeFrom(ready_)};
  if (!starts_.empty() && !sourceFirst)
    return {.start = takeFrom(starts_)};
  SpaceRun *space = takeFrom(sources_);
  dtile_task *task = bindTask(*space);
  if (task) {
    starved_ = nullptr;
    space->queued = false;
    ++space->active;
    if (space->hasMore())
      queueSource(*space);
    return {.task = task};
  }
  // No memory for another body: those that have begun go first.
  sources_.push_front(space);
  starved_ = space;
  if (!ready_.empty())
    return {.task = takeFrom(ready_)};
  if (!starts_.empty())
    return {.start = takeFrom(starts_)};
  return {};
}

void Scheduler::queueSource(SpaceRun &space) {
  if (space.queued || (space.limit != 0 && space.active >= space.limit))
    return;
  space.queued = true;
  sources_.push_back(&space);
}

dtile_task *Scheduler::bindTask(SpaceRun &space) {
  int64_t bytes = space.desc->workspace_bytes;
  void *workspace = bytes > 0 ? takeWorkspace(bytes) : nullptr;
  if (bytes > 0 && !workspace)
    return nullptr;
  if (freeTasks_.empty()) {
    Stack stack = stacks_.allocate();
    if (!stack.base) {
      giveWorkspace(bytes, workspace);
      return nullptr;
    }
    tasks_.emplace_back().fiber.giveStack(stack);
    tasks_.back().number = tasks_.size() - 1;
    freeTasks_.push_back(&tasks_.back());
  }
  dtile_task *task = freeTasks_.back();
  freeTasks_.pop_back();
  if (!task->looping)
    task->fiber.reset(taskMain, task);
  task->space = &space;
  task->workspace = workspace;
  task->state = TaskState::Ready;
  task->late.clear();
  task->names = nullptr;
  task->random = seed_ ^ (uint64_t(tasks_.size()) << 32) ^ random_;
  return task;
}

void *Scheduler::takeWorkspace(int64_t bytes) {
  std::vector<void *> &free = workspaces_[bytes];
  if (free.empty())
    return allocateWorkspace(bytes);
  void *workspace = free.back();
  free.pop_back();
  return workspace;
}

void Scheduler::giveWorkspace(int64_t bytes, void *workspace) {
  if (workspace)
    workspaces_[bytes].push_back(workspace);
}

void Scheduler::taskMain(void *argument) {
  auto *task = static_cast<dtile_task *>(argument);
  for (;;) {
    SpaceRun &space = *task->space;
    Scheduler &scheduler = space.launch->team->scheduler();
    bool isFirst = true;
    while (!scheduler.failed()) {
      int64_t linear = space.take();
      if (linear < 0)
        break;
      task->linear = linear;
      task->forgetSends();
      // Bodies that notify nobody need not know when they began.
      if (isFirst || space.desc->nnotifies > 0)
        task->ownFromNs = isFirst ? task->resumedNs : nowNs();
      isFirst = false;
      space.desc->body(task, space.launch->frame, task->workspace, linear);
      landTransfers(*task);
      space.left.fetch_sub(1, std::memory_order_acq_rel);
      if (scheduler.othersWait())
        break;
    }
    task->outcome = Outcome::Done;
    task->fiber.suspend();
  }
}

void Scheduler::runTask(dtile_task &task) {
  do {
    task.state = TaskState::Running;
    task.looping = false;
    task.resumedNs = nowNs();
    task.wakingNs = 0;
    task.fiber.resume();
    const int64_t end = task.blockedNs != 0 ? task.blockedNs : nowNs();
    team_.telemetry().ran(task.space->launch->local, end - task.resumedNs - task.wakingNs);
    if (task.outcome == Outcome::Done || task.outcome == Outcome::Abandoned) {
      release(task);
      return;
    }
    if (task.outcome == Outcome::Yields) {
      task.nextWaiter = nullptr;
      makeReady(&task);
      return;
    }
  } while (!parkTask(task));
}

bool Scheduler::parkTask(dtile_task &task) {
  if (!team_.distributed())
    return task.outcome == Outcome::WaitsForCell ? waits_.park(task) : team_.parkAtBarrier(task);
  std::lock_guard lock(mutex_);
  bool arrived = task.outcome == Outcome::WaitsForCell
                     ? team_.readCell(task.cell) >= task.wanted
                     : team_.barrierComplete(*task.barrier, task.generation);
  if (arrived)
    return false;
  task.state = TaskState::Blocked;
  remoteWaiters_.push_back(&task);
  return true;
}

void Scheduler::release(dtile_task &task) {
  SpaceRun &space = *task.space;
  dtile_launch &launch = *space.launch;
  std::unique_lock lock(mutex_);
  task.looping = task.outcome == Outcome::Done;
  task.state = TaskState::Free;
  task.space = nullptr;
  giveWorkspace(space.desc->workspace_bytes, task.workspace);
  freeTasks_.push_back(&task);
  --space.active;
  starved_ = nullptr;
  if (failed())
    return;
  if (space.hasMore())
    queueSource(space);
  // Only when no task looks at the space any more may the next launch use it again.
  if (space.active == 0 && space.left.load(std::memory_order_acquire) == 0) {
    if (space.queued)
      std::erase(sources_, &space);
    space.queued = false;
    space.ended = true;
    --launch.spacesLeft;
    beginSpaces(launch);
  }
  countQueued();
  if (!queuesEmpty())
    wakeSomebody();
  bool over = space.ended && launch.spacesLeft == 0;
  lock.unlock();
  if (over)
    endLaunch(launch);
}

void Scheduler::begin(dtile_launch &launch) {
  team_.telemetry().bodiesBegin(launch.local);
  if (Trace *trace = team_.trace())
    trace->launchBodies(launch);
  std::unique_lock lock(mutex_);
  launch.spacesLeft = launch.kernel->desc->nspaces;
  beginSpaces(launch);
  countQueued();
  if (active_ && !queuesEmpty())
    wakeSomebody();
  bool over = launch.spacesLeft == 0;
  lock.unlock();
  if (over)
    endLaunch(launch);
}

void Scheduler::beginSpaces(dtile_launch &launch) {
  // A space may follow any other, and empty ones end at once: repeat until nothing changes.
  for (bool changed = true; changed;) {
    changed = false;
    for (int32_t i = 0; i < launch.kernel->desc->nspaces; ++i) {
      SpaceRun &space = launch.spaces[i];
      int32_t first = space.desc->after_all;
      if (space.begun || (first >= 0 && !launch.spaces[first].ended))
        continue;
      space.begun = true;
      // Its bodies may tell others that those of the first have ended.
      if (first >= 0)
        team_.quiet();
      if (space.count > 0) {
        queueSource(space);
        continue;
      }
      space.ended = true;
      --launch.spacesLeft;
      changed = true;
    }
  }
}

void Scheduler::endLaunch(dtile_launch &launch) {
  team_.settle(launch);
  if (launch.remaining > 0) {
    --launch.remaining;
    start(launch);
    return;
  }
  std::lock_guard lock(mutex_);
  ++ended_;
  if (settled() && callerParked_)
    caller_.notify_one();
}

void Scheduler::start(dtile_launch &launch) {
  std::lock_guard lock(mutex_);
  starts_.push_back(&launch);
  countQueued();
  if (active_)
    wakeSomebody();
}

void Scheduler::makeReady(dtile_task *tasks) {
  if (!tasks)
    return;
  std::lock_guard lock(mutex_);
  for (dtile_task *task = tasks; task;) {
    dtile_task *next = task->nextWaiter;
    task->state = TaskState::Ready;
    ready_.push_back(task);
    task = next;
  }
  countQueued();
  wakeSomebody();
}

void Scheduler::fail(Status status) {
  std::lock_guard lock(mutex_);
  failLocked(std::move(status));
}

void Scheduler::failLocked(Status status) {
  if (failed())
    return;
  failure_ = std::move(status);
  failed_.store(true, std::memory_order_release);
  if (callerParked_)
    caller_.notify_one();
}

void Scheduler::stuck() {
  if (!starved_) {
    Status failure = {DTILE_DEADLOCK, team_.deadlockReport()};
    team_.keepWaitGraph(failure);
    return failLocked(std::move(failure));
  }
  const dtile_launch &launch = *starved_->launch;
  size_t blocked = tasks_.size() - freeTasks_.size();
  failLocked({DTILE_OUT_OF_MEMORY,
              format("%s: rank %d, kernel `%s`%s%s%s: no memory for the stack (%zu bytes) and "
                     "workspace (%lld bytes) of another body: %zu bodies wait already, and none "
                     "can go on before another starts",
                     launch.kernel->desc->file, launch.rank, launch.kernel->name.c_str(),
                     *starved_->desc->name ? ", role `" : "", starved_->desc->name,
                     *starved_->desc->name ? "`" : "", stacks_.stackBytes(),
                     static_cast<long long>(starved_->desc->workspace_bytes), blocked)});
}

void Scheduler::forgetEverything() {
  starts_.clear();
  ready_.clear();
  sources_.clear();
  remoteWaiters_.clear();
  waits_.clear();
  freeTasks_.clear();
  for (dtile_task &task : tasks_) {
    if (task.state != TaskState::Free) {
      hideWait(task);
      giveWorkspace(task.space->desc->workspace_bytes, task.workspace);
      task.looping = false;
      task.state = TaskState::Free;
      task.space = nullptr;
    }
    freeTasks_.push_back(&task);
  }
  countQueued();
}

void Scheduler::forgetTraces() {
  for (dtile_task &task : tasks_)
    task.trace = nullptr;
}

void Scheduler::waitForCell(dtile_task &task, uint64_t *cell, uint64_t wanted,
                            const dtile_site *site) {
  task.cell = cell;
  task.wanted = wanted;
  task.site = site;
  task.outcome = Outcome::WaitsForCell;
  showWait(task);
  task.fiber.suspend();
  if (failed())
    abandon(task);
  hideWait(task);
}

void Scheduler::waitAtBarrier(dtile_task &task, BarrierSite &barrier, int64_t generation) {
  task.barrier = &barrier;
  task.generation = generation;
  task.site = barrier.site;
  task.outcome = Outcome::WaitsAtBarrier;
  showWait(task);
  task.fiber.suspend();
  if (failed())
    abandon(task);
  hideWait(task);
}

void Scheduler::perhapsYield(dtile_task &task) {
  if (seed_ == 0 || (nextRandom(task.random) & 7) != 0)
    return;
  task.outcome = Outcome::Yields;
  task.fiber.suspend();
  if (failed())
    abandon(task);
}

bool Scheduler::landsLate(dtile_task &task) {
  return seed_ != 0 && (nextRandom(task.random) & 1) != 0;
}

void Scheduler::abandon(dtile_task &task) {
  task.outcome = Outcome::Abandoned;
  task.fiber.suspend();
  std::abort();
}

bool Scheduler::othersWait() {
  if (team_.distributed()) {
    int64_t now = nowNs();
    if (now - lastPoll_.load(std::memory_order_relaxed) > kPollNs) {
      lastPoll_.store(now, std::memory_order_relaxed);
      if (team_.progress())
        fail(team_.peerFailure());
      std::lock_guard lock(mutex_);
      if (wakeArrived())
        wakeSomebody();
    }
  }
  return readyCount_.load(std::memory_order_relaxed) > 0;
}

bool Scheduler::wakeArrived() {
  auto arrived = [&](dtile_task *task) {
    const bool isCell = task->outcome == Outcome::WaitsForCell;
    const uint64_t value = isCell ? team_.readCell(task->cell) : 0;
    const bool yes =
        isCell ? value >= task->wanted : team_.barrierComplete(*task->barrier, task->generation);
    if (isCell)
      showSeen(*task, value);
    if (yes) {
      task->state = TaskState::Ready;
      ready_.push_back(task);
    }
    return yes;
  };
  if (std::erase_if(remoteWaiters_, arrived) == 0)
    return false;
  countQueued();
  return true;
}

void Scheduler::poll(std::unique_lock<std::mutex> &lock) {
  polling_ = true;
  lock.unlock();
  bool stopped = team_.progress();
  Status why = stopped ? team_.peerFailure() : Status();
  int64_t now = nowNs();
  lock.lock();
  polling_ = false;
  if (stopped) {
    // Who waits for a process that is gone waits in vain, and not for too long.
    if (why.code == DTILE_TIMEOUT && !remoteWaiters_.empty() && !team_.hasLostProcess())
      why.message += "\n" + team_.deadlockReport();
    return failLocked(std::move(why));
  }
  if (wakeArrived())
    return;
  int64_t idle = now - lastProgress_;
  if (busy_ == 0 && idle > int64_t(team_.timeoutMs()) * 1'000'000) {
    dtile_status code = starved_ ? DTILE_OUT_OF_MEMORY : DTILE_TIMEOUT;
    Status failure = {code, team_.deadlockReport()};
    team_.keepWaitGraph(failure);
    return failLocked(std::move(failure));
  }
  // Other ranks may need this core.
  lock.unlock();
  if (idle > 2'000'000)
    usleep(50);
  else if (idle > 5'000)
    sched_yield();
  lock.lock();
}

} // namespace dtile::runtime
