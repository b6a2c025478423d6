// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A body knows all that its rank knew when the launch began, and a little more: so a clock is a
// base that the launch's bodies share, and a short list. Threads of launches that have ended on
// their rank are one number a rank.
#include "ir/protocol/check/clock.h"

#include <algorithm>

namespace dtile::protocol {

namespace {

bool hasEvent(const Events &events, ThreadId thread, uint32_t time) {
  const auto it = std::lower_bound(events.begin(), events.end(), std::pair(thread, uint32_t(0)));
  return it != events.end() && it->first == thread && it->second >= time;
}

using EventsRef = llvm::ArrayRef<std::pair<ThreadId, uint32_t>>;

/// Whether all launches that have ended by `b` have by `a`.
bool hasDone(const DoneLaunches &a, const DoneLaunches &b) {
  return &a == &b || std::equal(a.ofRank.begin(), a.ofRank.end(), b.ofRank.begin(),
                                [](int32_t x, int32_t y) { return x >= y; });
}

/// The later event of each thread, of those of `a` that `keepA` holds for and of those of `b` that
/// `keepB` does, in `all`.
template <typename KeepA, typename KeepB>
void mergeKept(EventsRef a, EventsRef b, KeepA &&keepA, KeepB &&keepB, Events &all) {
  all.clear();
  const auto *i = a.begin();
  const auto *j = b.begin();
  while (i != a.end() || j != b.end()) {
    if (j == b.end() || (i != a.end() && i->first < j->first)) {
      if (keepA(i->first, i->second))
        all.push_back(*i);
      ++i;
    } else if (i == a.end() || j->first < i->first) {
      if (keepB(j->first, j->second))
        all.push_back(*j);
      ++j;
    } else {
      const uint32_t time = std::max(i->second, j->second);
      if (keepA(i->first, time))
        all.emplace_back(i->first, time);
      ++i;
      ++j;
    }
  }
}

/// The later event of each thread.
void mergeAll(EventsRef a, EventsRef b, Events &all) {
  all.resize(a.size() + b.size());
  const auto *i = a.begin();
  const auto *j = b.begin();
  auto *to = all.data();
  while (i != a.end() && j != b.end()) {
    const bool isOne = i->first == j->first;
    if (isOne)
      *to++ = {i->first, std::max(i->second, j->second)};
    else
      *to++ = i->first < j->first ? *i : *j;
    const bool isFirst = i->first <= j->first;
    j += isOne || !isFirst ? 1 : 0;
    i += isFirst ? 1 : 0;
  }
  to = std::copy(i, a.end(), to);
  to = std::copy(j, b.end(), to);
  all.resize(size_t(to - all.data()));
}

} // namespace

ClockSet::ClockSet(int ranks) {
  auto *done = new DoneLaunches;
  done->ofRank.assign(ranks, 0);
  auto *clock = new Clock;
  clock->done = done;
  clock->base = new ClockBase;
  empty_ = clock;
  joined_.resize(kJoined);
}

Clock *ClockSet::makeClock(DoneRef done, ClockBaseRef base, size_t *total) const {
  auto *made = new Clock(total);
  made->done = std::move(done);
  made->base = std::move(base);
  made->number = ++made_;
  return made;
}

ThreadId ClockSet::newThread(int rank, int32_t launch) {
  threads_.push_back({rank, launch});
  return static_cast<ThreadId>(threads_.size() - 1);
}

bool ClockSet::includes(const Clock &clock, ThreadId thread, uint32_t time) const {
  return isDone(*clock.done, thread) || hasEvent(clock.at, thread, time) ||
         hasEvent(clock.base->at, thread, time);
}

llvm::ArrayRef<std::pair<ThreadId, uint32_t>> ClockSet::beyond(const ClockBaseRef &a,
                                                               const ClockBaseRef &b) const {
  if (a == b)
    return {};
  const auto [it, isNew] = beyond_.try_emplace({a.get(), b.get()});
  Difference &difference = it->second;
  if (isNew) {
    difference.a = a;
    difference.b = b;
    for (const auto &[thread, time] : b->at)
      if (!hasEvent(a->at, thread, time))
        difference.events.emplace_back(thread, time);
    bytes_ += difference.events.capacity() * sizeof(difference.events[0]);
  }
  return difference.events;
}

/// The launches that either knows to have ended; one of the two where it has the other's.
DoneRef ClockSet::joinDone(const DoneRef &a, const DoneRef &b) {
  if (hasDone(*a, *b))
    return a;
  if (hasDone(*b, *a))
    return b;
  auto *done = new DoneLaunches(*a);
  for (size_t r = 0; r < done->ofRank.size(); ++r)
    done->ofRank[r] = std::max(done->ofRank[r], b->ofRank[r]);
  return DoneRef(done);
}

bool ClockSet::includesAll(const Clock &a, const Clock &b) const {
  if (a.base == b.base && a.done == b.done && a.at.size() < b.at.size())
    return false;
  if (!hasDone(*a.done, *b.done))
    return false;
  work_ += b.at.size();
  const auto isKnown = [&](ThreadId thread, uint32_t time) {
    return isDone(*a.done, thread) || hasEvent(a.base->at, thread, time);
  };
  // Both are in order, so one walk goes through both. What is new is of new threads: from the end.
  auto have = a.at.rbegin();
  for (auto it = b.at.rbegin(); it != b.at.rend(); ++it) {
    const auto &[thread, time] = *it;
    while (have != a.at.rend() && have->first > thread)
      ++have;
    const bool isThere = have != a.at.rend() && have->first == thread && have->second >= time;
    if (!isThere && !isKnown(thread, time))
      return false;
  }
  for (const auto &[thread, time] : beyond(a.base, b.base))
    if (!includes(a, thread, time))
      return false;
  return true;
}

ClockRef ClockSet::join(const ClockRef &a, const ClockRef &b) const {
  if (a == b || includesAll(*a, *b))
    return a;
  if (includesAll(*b, *a))
    return b;
  // Bodies of one rank wait for the same cells, one like the other.
  constexpr uint64_t kMix = 0x9e3779b97f4a7c15;
  const uint64_t hash = (a->number * kMix + b->number) * kMix;
  Joined &known = joined_[(hash >> 32) % kJoined];
  if (known.a == a && known.b == b)
    return known.result;
  Clock *joined = makeClock(joinDone(a->done, b->done), a->base, &bytes_);
  const ClockRef owner(joined);
  if (a->base == b->base && a->done == b->done) {
    // What either has besides the base is news to that, and of no launch that has ended.
    mergeAll(a->at, b->at, merged_);
  } else {
    const auto isNews = [&](ThreadId thread, uint32_t time) {
      return !isDone(*joined->done, thread) && !hasEvent(joined->base->at, thread, time);
    };
    // What `a` has besides its base is news to that, unless `b` knows a launch of it to have ended.
    const bool isSameDone = joined->done == a->done;
    const auto isKept = [&](ThreadId thread, uint32_t) {
      return isSameDone || !isDone(*joined->done, thread);
    };
    mergeKept(a->at, b->at, isKept, isNews, merged_);
    if (const auto more = beyond(a->base, b->base); !more.empty()) {
      Events own;
      own.swap(merged_);
      mergeKept(own, more, [](ThreadId, uint32_t) { return true; }, isKept, merged_);
    }
  }
  joined->at.assign(merged_.begin(), merged_.end());
  joined->count();
  work_ += a->at.size() + b->at.size() + joined->at.size();
  known = {a, b, owner};
  return owner;
}

ClockRef ClockSet::with(const ClockRef &clock, ThreadId thread, uint32_t time) const {
  if (includes(*clock, thread, time))
    return clock;
  Clock *next = makeClock(clock->done, clock->base, &bytes_);
  next->at.reserve(clock->at.size() + 1);
  const auto it =
      std::lower_bound(clock->at.begin(), clock->at.end(), std::pair(thread, uint32_t(0)));
  next->at.assign(clock->at.begin(), it);
  next->at.emplace_back(thread, time);
  const bool isThere = it != clock->at.end() && it->first == thread;
  next->at.insert(next->at.end(), it + isThere, clock->at.end());
  work_ += next->at.size();
  next->count();
  return ClockRef(next);
}

ClockRef ClockSet::withoutLaunch(const ClockRef &clock, int rank, int32_t launch) const {
  Clock *next = makeClock(clock->done, clock->base, nullptr);
  for (const auto &entry : clock->at) {
    const Thread &thread = threads_[entry.first];
    if (thread.rank != rank || thread.launch != launch)
      next->at.push_back(entry);
  }
  return ClockRef(next);
}

ClockRef ClockSet::rebased(const ClockRef &clock, int rank, int32_t launches) const {
  auto *done = new DoneLaunches(*clock->done);
  auto *base = new ClockBase;
  Clock *next = makeClock(DoneRef(done), ClockBaseRef(base), nullptr);
  done->ofRank[rank] = std::max(done->ofRank[rank], launches);
  const auto isOpen = [&](ThreadId thread, uint32_t) { return !isDone(*done, thread); };
  mergeKept(clock->base->at, clock->at, isOpen, isOpen, base->at);
  return ClockRef(next);
}

} // namespace dtile::protocol
