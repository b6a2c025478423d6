// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tasks that wait for a cell of a rank of this process, found by the cell's address.
#pragma once

#include "backend/runtime/host/task.h"

#include <array>
#include <atomic>
#include <mutex>

namespace dtile::runtime {

/// Why no wakeup is lost: a waiter first counts itself, then reads the cell; a notifier first adds
/// to the cell, then reads the count; all four sequentially consistent. So either the waiter sees
/// the new value, or the notifier sees the waiter and takes the lock that the waiter holds until it
/// is in the list.
class WaitQueues {
public:
  /// Called on the worker, when the task's stack is no longer in use. False: the cell has reached
  /// what is wanted.
  bool park(dtile_task &task);
  /// Adds one to the cell; gives the tasks that this wakes, linked by nextWaiter.
  dtile_task *notify(uint64_t *cell);
  /// Forgets all waiters.
  void clear();

private:
  struct alignas(64) Bucket {
    std::atomic<int32_t> waiters{0};
    std::mutex mutex;
    dtile_task *first = nullptr;
  };
  static constexpr size_t kBuckets = 512;
  Bucket &bucketOf(const uint64_t *cell);

  std::array<Bucket, kBuckets> buckets_;
};

} // namespace dtile::runtime
