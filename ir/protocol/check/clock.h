// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Vector clocks over bodies and asynchronous operations: what is known to have happened before.
// Private to ir/protocol.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/IntrusiveRefCntPtr.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace dtile::protocol {

/// A thread of execution: a body, one asynchronous operation, or a rank's caller.
using ThreadId = uint32_t;

/// The events of some threads, each up to one of that number; ascending by thread.
using Events = std::vector<std::pair<ThreadId, uint32_t>>;

/// Launches of each rank that have ended: all of their threads are in a clock that has it.
struct DoneLaunches : llvm::RefCountedBase<DoneLaunches> {
  llvm::SmallVector<int32_t, 8> ofRank;
};
using DoneRef = llvm::IntrusiveRefCntPtr<const DoneLaunches>;

/// What a launch begins with on a rank: the clocks of its bodies share it.
struct ClockBase : llvm::RefCountedBase<ClockBase> {
  Events at;
};
using ClockBaseRef = llvm::IntrusiveRefCntPtr<const ClockBase>;

/// A set of events, closed under happens-before. Never changed once it is shared.
struct Clock : llvm::RefCountedBase<Clock> {
  explicit Clock(size_t *total = nullptr) : total(total) {}
  ~Clock() {
    if (total)
      *total -= counted;
  }
  /// Says that it will not change any more.
  void count() {
    counted = sizeof(Clock) + at.capacity() * sizeof(at[0]);
    if (total)
      *total += counted;
  }
  DoneRef done;
  ClockBaseRef base;
  /// What it has besides those two.
  Events at;
  /// Of the clocks of its set, in the order in which they were made.
  uint64_t number = 0;
  /// Its bytes, and where they are added up.
  size_t counted = 0;
  size_t *total;
};
using ClockRef = llvm::IntrusiveRefCntPtr<const Clock>;

/// Makes and compares clocks of one machine.
class ClockSet {
public:
  explicit ClockSet(int ranks);

  /// A new thread of a launch; `rank` -1 is for one that no launch ends.
  ThreadId newThread(int rank, int32_t launch);
  [[nodiscard]] const ClockRef &empty() const { return empty_; }
  /// Bytes of all clocks that are in use.
  [[nodiscard]] size_t bytes() const { return bytes_; }
  /// Entries of clocks that were looked at so far.
  [[nodiscard]] uint64_t work() const { return work_; }

  /// Whether the clock has event `time` of a thread.
  [[nodiscard]] bool includes(const Clock &clock, ThreadId thread, uint32_t time) const;
  /// Both; one of the two where it has the other.
  [[nodiscard]] ClockRef join(const ClockRef &a, const ClockRef &b) const;
  void joinTo(ClockRef &a, const ClockRef &b) const { a = join(a, b); }
  [[nodiscard]] ClockRef with(const ClockRef &clock, ThreadId thread, uint32_t time) const;
  /// Without the threads of a launch of a rank: for what is only asked when that has ended.
  [[nodiscard]] ClockRef withoutLaunch(const ClockRef &clock, int rank, int32_t launch) const;
  /// On a base of its own, with all threads of the rank's launches below `launches`.
  [[nodiscard]] ClockRef rebased(const ClockRef &clock, int rank, int32_t launches) const;

private:
  struct Thread {
    int32_t rank;
    int32_t launch;
  };
  struct Difference {
    ClockBaseRef a;
    ClockBaseRef b;
    Events events;
  };
  [[nodiscard]] bool isDone(const DoneLaunches &done, ThreadId thread) const {
    const Thread &t = threads_[thread];
    return t.rank >= 0 && t.launch < done.ofRank[t.rank];
  }
  /// What `b` has and `a` has not.
  [[nodiscard]] llvm::ArrayRef<std::pair<ThreadId, uint32_t>> beyond(const ClockBaseRef &a,
                                                                     const ClockBaseRef &b) const;
  [[nodiscard]] bool includesAll(const Clock &a, const Clock &b) const;
  [[nodiscard]] static DoneRef joinDone(const DoneRef &a, const DoneRef &b);

  /// A new clock without events of its own.
  [[nodiscard]] Clock *makeClock(DoneRef done, ClockBaseRef base, size_t *total) const;

  /// The last joins, by their operands. What is found here decides which clocks are one, and so how
  /// much work there is: their places follow from the numbers of clocks, and not from addresses.
  struct Joined {
    ClockRef a;
    ClockRef b;
    ClockRef result;
  };
  static constexpr size_t kJoined = 1024;

  // Clocks count themselves off when they go, so this goes last.
  mutable size_t bytes_ = 0;
  mutable uint64_t work_ = 0;
  mutable uint64_t made_ = 0;
  ClockRef empty_;
  mutable std::vector<Joined> joined_;
  /// The events of a join while it is made.
  mutable Events merged_;
  std::vector<Thread> threads_;
  /// Kept, as the bodies of two ranks meet often.
  mutable llvm::DenseMap<std::pair<const ClockBase *, const ClockBase *>, Difference> beyond_;
};

} // namespace dtile::protocol
