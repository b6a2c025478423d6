// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Clocks are sorted lists of the threads that they know. Threads of launches that have ended on
// their rank are left out, as one number a rank stands for all of them: lists stay short.
#include "ir/protocol/clock.h"

#include <algorithm>

namespace dtile::protocol {

ClockSet::ClockSet(int ranks) {
  auto *clock = new Clock;
  clock->done.assign(ranks, 0);
  empty_ = clock;
}

ThreadId ClockSet::newThread(int rank, int32_t launch) {
  threads_.push_back({rank, launch});
  return static_cast<ThreadId>(threads_.size() - 1);
}

bool ClockSet::includes(const Clock &clock, ThreadId thread, uint32_t time) const {
  if (isDone(clock, thread))
    return true;
  const auto it =
      std::lower_bound(clock.at.begin(), clock.at.end(), std::pair(thread, uint32_t(0)));
  return it != clock.at.end() && it->first == thread && it->second >= time;
}

bool ClockSet::includesAll(const Clock &a, const Clock &b) const {
  if (a.at.size() < b.at.size() && b.done == a.done)
    return false;
  for (size_t r = 0; r < a.done.size(); ++r)
    if (a.done[r] < b.done[r])
      return false;
  auto at = a.at.begin();
  for (const auto &[thread, time] : b.at) {
    while (at != a.at.end() && at->first < thread)
      ++at;
    const bool isThere = at != a.at.end() && at->first == thread && at->second >= time;
    if (!isThere && !isDone(a, thread))
      return false;
  }
  return true;
}

ClockRef ClockSet::join(const ClockRef &a, const ClockRef &b) const {
  if (a == b || includesAll(*a, *b))
    return a;
  if (includesAll(*b, *a))
    return b;
  auto *joined = new Clock;
  joined->done = a->done;
  for (size_t r = 0; r < a->done.size(); ++r)
    joined->done[r] = std::max(a->done[r], b->done[r]);
  joined->at.reserve(a->at.size() + b->at.size());
  const auto add = [&](ThreadId thread, uint32_t time) {
    if (!isDone(*joined, thread))
      joined->at.emplace_back(thread, time);
  };
  auto i = a->at.begin();
  auto j = b->at.begin();
  while (i != a->at.end() || j != b->at.end()) {
    if (j == b->at.end() || (i != a->at.end() && i->first < j->first)) {
      add(i->first, i->second);
      ++i;
    } else if (i == a->at.end() || j->first < i->first) {
      add(j->first, j->second);
      ++j;
    } else {
      add(i->first, std::max(i->second, j->second));
      ++i;
      ++j;
    }
  }
  return ClockRef(joined);
}

ClockRef ClockSet::with(const ClockRef &clock, ThreadId thread, uint32_t time) const {
  if (includes(*clock, thread, time))
    return clock;
  auto *next = new Clock(*clock);
  const auto it =
      std::lower_bound(next->at.begin(), next->at.end(), std::pair(thread, uint32_t(0)));
  if (it != next->at.end() && it->first == thread)
    it->second = time;
  else
    next->at.insert(it, {thread, time});
  return ClockRef(next);
}

ClockRef ClockSet::withLaunches(const ClockRef &clock, int rank, int32_t launches) const {
  if (clock->done[rank] >= launches)
    return clock;
  auto *next = new Clock;
  next->done = clock->done;
  next->done[rank] = launches;
  for (const auto &entry : clock->at)
    if (!isDone(*next, entry.first))
      next->at.push_back(entry);
  return ClockRef(next);
}

} // namespace dtile::protocol
