// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Hashed lists of waiters. A notify of a cell that nobody waits for takes no lock.
#include "backend/runtime/host/wait_queues.h"

#include "backend/runtime/telemetry/host_waits.h"

namespace dtile::runtime {

WaitQueues::Bucket &WaitQueues::bucketOf(const uint64_t *cell) {
  // Fibonacci hashing: neighbouring cells go to different buckets.
  uint64_t hash = (reinterpret_cast<uintptr_t>(cell) >> 3) * 0x9e3779b97f4a7c15u;
  return buckets_[hash >> 55];
}

bool WaitQueues::park(dtile_task &task) {
  Bucket &bucket = bucketOf(task.cell);
  std::lock_guard lock(bucket.mutex);
  bucket.waiters.fetch_add(1);
  if (std::atomic_ref(*task.cell).load() >= task.wanted) {
    bucket.waiters.fetch_sub(1);
    return false;
  }
  task.state = TaskState::Blocked;
  task.nextWaiter = bucket.first;
  bucket.first = &task;
  return true;
}

dtile_task *WaitQueues::notify(uint64_t *cell) {
  static_assert(kBuckets == size_t(1) << (64 - 55));
  std::atomic_ref(*cell).fetch_add(1);
  Bucket &bucket = bucketOf(cell);
  if (bucket.waiters.load() == 0)
    return nullptr;
  std::lock_guard lock(bucket.mutex);
  uint64_t value = std::atomic_ref(*cell).load();
  dtile_task *woken = nullptr;
  for (dtile_task **link = &bucket.first; *link;) {
    dtile_task *task = *link;
    if (task->cell != cell || task->wanted > value) {
      if (task->cell == cell)
        showSeen(*task, value);
      link = &task->nextWaiter;
      continue;
    }
    *link = task->nextWaiter;
    task->nextWaiter = woken;
    task->state = TaskState::Ready;
    woken = task;
    bucket.waiters.fetch_sub(1);
  }
  return woken;
}

void WaitQueues::clear() {
  for (Bucket &bucket : buckets_) {
    bucket.first = nullptr;
    bucket.waiters.store(0);
  }
}

} // namespace dtile::runtime
