// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Vector clocks over bodies and asynchronous operations: what is known to have happened before.
// Private to ir/protocol.
#pragma once

#include "llvm/ADT/IntrusiveRefCntPtr.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace dtile::protocol {

/// A thread of execution: a body, one asynchronous operation, or a rank's caller.
using ThreadId = uint32_t;

/// A set of events, closed under happens-before. Never changed once it is shared.
class Clock : public llvm::RefCountedBase<Clock> {
public:
  /// Launches of each rank that have ended: all of their threads are in the clock.
  llvm::SmallVector<int32_t, 8> done;
  /// Other threads, by id, each up to an event of that number.
  std::vector<std::pair<ThreadId, uint32_t>> at;
};
using ClockRef = llvm::IntrusiveRefCntPtr<const Clock>;

/// Makes and compares clocks of one machine.
class ClockSet {
public:
  explicit ClockSet(int ranks);

  /// A new thread of a launch; `rank` -1 is for one that no launch ends.
  ThreadId newThread(int rank, int32_t launch);
  [[nodiscard]] const ClockRef &empty() const { return empty_; }

  /// Whether the clock has event `time` of a thread.
  [[nodiscard]] bool includes(const Clock &clock, ThreadId thread, uint32_t time) const;
  /// Both; one of the two where it has the other.
  [[nodiscard]] ClockRef join(const ClockRef &a, const ClockRef &b) const;
  void joinTo(ClockRef &a, const ClockRef &b) const { a = join(a, b); }
  [[nodiscard]] ClockRef with(const ClockRef &clock, ThreadId thread, uint32_t time) const;
  /// With all threads of the rank's launches below `launches`.
  [[nodiscard]] ClockRef withLaunches(const ClockRef &clock, int rank, int32_t launches) const;

private:
  struct Thread {
    int32_t rank;
    int32_t launch;
  };
  [[nodiscard]] bool isDone(const Clock &clock, ThreadId thread) const {
    const Thread &t = threads_[thread];
    return t.rank >= 0 && t.launch < clock.done[t.rank];
  }
  [[nodiscard]] bool includesAll(const Clock &a, const Clock &b) const;
  ClockRef empty_;
  std::vector<Thread> threads_;
};

} // namespace dtile::protocol
