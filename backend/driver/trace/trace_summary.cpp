// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where the time of a trace has gone.
#include "backend/driver/trace/trace_summary.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace dtile::driver {

namespace {

using Kind = TraceSlice::Kind;

/// What a program does: an entry of a rank's state.
enum Activity : uint8_t { Launched, Computing, Moving, Waiting, Queued, kActivities };

struct Change {
  int64_t time;
  Activity activity;
  int by;
};

/// Of a wait, from when on only a worker was missing.
int64_t released(const TraceSlice &slice) {
  return slice.writer < 0 ? slice.end : std::max(slice.begin, slice.end - slice.queued);
}

/// Collects one team's numbers.
class TeamSummarizer {
public:
  TeamSummarizer(const TraceModel &trace, std::string section) : trace_(trace) {
    team_.section = std::move(section);
  }

  TeamSummary run();

private:
  void addSlice(size_t index);
  void addTimes();
  void addWait(const TraceSlice &wait);
  void addPrograms();
  void addPath();
  void addLate();
  const TraceSlice *rootOf(const TraceSlice &wait) const;
  int lastBefore(const TraceSlice &body, int limit) const;
  int64_t launchOf(const TraceSlice &body) const;
  const TraceSlice *bodyBefore(const TraceSlice &body, int64_t launch) const;
  void step(PathStep::Kind kind, const TraceSlice &slice, int64_t time);
  [[nodiscard]] int rankOf(const TraceSlice &slice) const {
    return trace_.process(slice.process)->rank;
  }
  void change(int rank, int64_t begin, int64_t end, Activity activity) {
    if (begin >= end)
      return;
    changes_[rank].push_back({begin, activity, 1});
    changes_[rank].push_back({end, activity, -1});
  }

  const TraceModel &trace_;
  TeamSummary team_;
  std::vector<size_t> slices_;
  std::map<int, std::vector<Change>> changes_;
  std::map<std::string, WaitPlace> waits_;
  std::map<std::pair<int, int>, ProgramTime> programs_;
  /// Operations of each body, in order.
  std::map<int, std::vector<int>> inBody_;
};

void TeamSummarizer::addSlice(size_t index) {
  const TraceSlice &slice = trace_.slices[index];
  const int rank = rankOf(slice);
  switch (slice.kind) {
  case Kind::Launch:
    ++team_.launches;
    return change(rank, slice.begin, slice.end, Launched);
  case Kind::Step:
    return;
  case Kind::Body: {
    ProgramTime &program = programs_[{slice.process, slice.track}];
    program.rank = rank;
    program.space = slice.space;
    program.busy += slice.end - slice.begin;
    ++program.bodies;
    return change(rank, slice.begin, slice.end, Computing);
  }
  case Kind::Wait:
  case Kind::Barrier:
    addWait(slice);
    // The body computes but for this.
    changes_[rank].push_back({slice.begin, Computing, -1});
    changes_[rank].push_back({slice.end, Computing, 1});
    change(rank, slice.begin, released(slice), Waiting);
    change(rank, released(slice), slice.end, Queued);
    break;
  case Kind::Notify:
  case Kind::Transfer:
    changes_[rank].push_back({slice.begin, Computing, -1});
    changes_[rank].push_back({slice.end, Computing, 1});
    change(rank, slice.begin, slice.end, Moving);
    break;
  }
  if (slice.parent >= 0)
    inBody_[slice.parent].push_back(int(index));
}

void TeamSummarizer::addWait(const TraceSlice &wait) {
  WaitPlace &place = waits_[wait.at];
  place.at = wait.at;
  ++place.count;
  if (!wait.isBlocked)
    return;
  ++place.blocked;
  const int64_t time = released(wait) - wait.begin;
  place.total += time;
  place.longest = std::max(place.longest, time);
  place.queued += wait.end - released(wait);
  if (wait.writer >= 0)
    place.writers["rank " + std::to_string(wait.writerRank) + ", " + wait.writerAt] += time;
}

void TeamSummarizer::addTimes() {
  for (auto &[rank, changes] : changes_) {
    llvm::stable_sort(changes, [](const Change &a, const Change &b) { return a.time < b.time; });
    RankTimes &times = team_.ranks.emplace_back();
    times.rank = rank;
    int active[kActivities] = {};
    int64_t last = changes.front().time;
    for (const Change &change : changes) {
      const int64_t passed = change.time - last;
      last = change.time;
      if (active[Launched] > 0)
        times.launches += passed;
      if (active[Computing] > 0)
        times.computes += passed;
      else if (active[Moving] > 0)
        times.moves += passed;
      else if (active[Waiting] > 0)
        times.waits += passed;
      else if (active[Queued] > 0)
        times.queued += passed;
      active[change.activity] += change.by;
    }
  }
}

void TeamSummarizer::addPrograms() {
  for (auto &[track, program] : programs_) {
    const auto named = llvm::find_if(trace_.tracks, [&, &track = track](const TraceTrack &t) {
      return t.process == track.first && t.id == track.second;
    });
    program.name = named->name;
  }
  for (size_t index : slices_) {
    const TraceSlice &body = trace_.slices[index];
    if (body.kind != Kind::Body)
      continue;
    int64_t busy = body.end - body.begin;
    ProgramTime &program = programs_[{body.process, body.track}];
    if (const auto in = inBody_.find(int(index)); in != inBody_.end())
      for (int operation : in->second) {
        const TraceSlice &slice = trace_.slices[size_t(operation)];
        if (slice.kind != Kind::Wait && slice.kind != Kind::Barrier)
          continue;
        busy -= slice.end - slice.begin;
        program.busy -= slice.end - slice.begin;
      }
    if (busy > program.slowestTime || program.slowest.empty()) {
      program.slowestTime = busy;
      program.slowest = body.name;
    }
  }
  for (auto &[track, program] : programs_)
    team_.programs.push_back(std::move(program));
  llvm::stable_sort(team_.programs,
                    [](const ProgramTime &a, const ProgramTime &b) { return a.busy > b.busy; });
}

void TeamSummarizer::step(PathStep::Kind kind, const TraceSlice &slice, int64_t time) {
  if (time <= 0)
    return;
  const std::string space = slice.kind == Kind::Launch ? slice.name : slice.space;
  const int rank = rankOf(slice);
  if (!team_.path.empty()) {
    PathStep &previous = team_.path.back();
    if (previous.kind == kind && previous.rank == rank && previous.space == space) {
      previous.time += time;
      return;
    }
  }
  team_.path.push_back({kind, rank, space, time});
}

/// The last operation of a body before slice `limit`, or -1.
int TeamSummarizer::lastBefore(const TraceSlice &body, int limit) const {
  const auto in = inBody_.find(int(&body - trace_.slices.data()));
  if (in == inBody_.end())
    return -1;
  const auto at = llvm::lower_bound(in->second, limit);
  return at == in->second.begin() ? -1 : *(at - 1);
}

/// The body before this one on its track in the launch that begins then, or else the rank's last
/// one before that launch, or null.
const TraceSlice *TeamSummarizer::bodyBefore(const TraceSlice &body, int64_t launch) const {
  for (const TraceSlice *at = &body; at != trace_.slices.data();) {
    --at;
    if (at->process != body.process || at->track != body.track || at->begin < launch)
      break;
    if (at->kind == Kind::Body)
      return at;
  }
  const TraceSlice *last = nullptr;
  for (size_t index : slices_) {
    const TraceSlice &slice = trace_.slices[index];
    if (slice.kind == Kind::Body && slice.process == body.process && slice.end <= launch &&
        (!last || slice.end > last->end))
      last = &slice;
  }
  return last;
}

/// When the launch began that a body belongs to.
int64_t TeamSummarizer::launchOf(const TraceSlice &body) const {
  int64_t begin = body.begin;
  for (size_t index : slices_) {
    const TraceSlice &slice = trace_.slices[index];
    if (slice.kind == Kind::Launch && slice.process == body.process && slice.begin <= body.begin &&
        slice.end >= body.begin)
      begin = slice.begin;
  }
  return begin;
}

/// From the body that ends last, back in time: through the body to the last wait that was not
/// satisfied at once, from there to the notify that let it go on, and so on; from a body's begin to
/// the body before it of the same program, or to the rank's last body of the launch before.
void TeamSummarizer::addPath() {
  const TraceSlice *body = nullptr;
  for (size_t index : slices_) {
    const TraceSlice &slice = trace_.slices[index];
    if (slice.kind == Kind::Body && (!body || slice.end > body->end))
      body = &slice;
  }
  int64_t time = body ? body->end : 0;
  int limit = int(trace_.slices.size());
  while (body) {
    const int last = lastBefore(*body, limit);
    if (last < 0) {
      step(PathStep::Kind::Computes, *body, time - body->begin);
      time = body->begin;
      limit = int(trace_.slices.size());
      const int64_t launch = launchOf(*body);
      const TraceSlice *before = bodyBefore(*body, launch);
      step(PathStep::Kind::Other, *body, time - (before ? before->end : launch));
      body = before;
      time = body ? std::min(time, body->end) : time;
      continue;
    }
    const TraceSlice &operation = trace_.slices[size_t(last)];
    step(PathStep::Kind::Computes, *body, time - operation.end);
    time = std::min(time, operation.end);
    limit = last;
    const bool isWait = operation.kind == Kind::Wait || operation.kind == Kind::Barrier;
    if (isWait && operation.isBlocked && operation.writer >= 0) {
      const TraceSlice &writer = trace_.slices[size_t(operation.writer)];
      if (writer.parent < 0 || writer.begin >= time)
        break;
      step(PathStep::Kind::Queued, *body, time - released(operation));
      body = &trace_.slices[size_t(writer.parent)];
      step(PathStep::Kind::Moves, *body, released(operation) - writer.begin);
      time = writer.begin;
      limit = operation.writer;
      continue;
    }
    step(isWait ? PathStep::Kind::Waits : PathStep::Kind::Moves, *body, time - operation.begin);
    time = operation.begin;
  }
  std::reverse(team_.path.begin(), team_.path.end());
}

/// The notify that a wait is for in the end: where its body waited itself for most of that time, it
/// is what that one waited for, as along a ring.
const TraceSlice *TeamSummarizer::rootOf(const TraceSlice &wait) const {
  const TraceSlice *now = &wait;
  while (true) {
    const TraceSlice &writer = trace_.slices[size_t(now->writer)];
    if (writer.parent < 0)
      return &writer;
    const auto in = inBody_.find(writer.parent);
    const TraceSlice *next = nullptr;
    if (in != inBody_.end())
      for (int index : in->second) {
        const TraceSlice &other = trace_.slices[size_t(index)];
        const int64_t together =
            std::min(released(other), released(wait)) - std::max(other.begin, wait.begin);
        // Times go back, so this ends.
        if (index < now->writer && other.isBlocked && other.writer >= 0 &&
            trace_.slices[size_t(other.writer)].begin < writer.begin &&
            2 * together > released(wait) - wait.begin)
          next = &other;
      }
    if (!next)
      return &writer;
    now = next;
  }
}

void TeamSummarizer::addLate() {
  struct Body {
    int64_t waited = 0;
    const TraceSlice *writer = nullptr, *wait = nullptr;
  };
  // By the late rank: when whom waits, and the bodies that they wait for.
  std::map<int, std::map<int, std::vector<std::pair<int64_t, int64_t>>>> spans;
  std::map<int, std::map<int, Body>> bodies;
  for (size_t index : slices_) {
    const TraceSlice &wait = trace_.slices[index];
    if (!wait.isBlocked || wait.writer < 0 || wait.parent < 0)
      continue;
    const TraceSlice *root = rootOf(wait);
    if (root->process == wait.process || root->parent < 0)
      continue;
    spans[rankOf(*root)][rankOf(wait)].push_back({wait.begin, released(wait)});
    Body &body = bodies[rankOf(*root)][root->parent];
    body.waited += released(wait) - wait.begin;
    if (!body.wait || released(wait) - wait.begin > released(*body.wait) - body.wait->begin) {
      body.wait = &wait;
      body.writer = root;
    }
  }
  LateRank late;
  int64_t all = 0;
  for (auto &[rank, waiting] : spans) {
    int64_t waited = 0;
    for (auto &[who, times] : waiting) {
      llvm::sort(times);
      int64_t end = times.front().first;
      for (const auto &[from, to] : times) {
        waited += std::max<int64_t>(to - std::max(from, end), 0);
        end = std::max(end, to);
      }
    }
    all += waited;
    if (waited > late.waited) {
      late.rank = rank;
      late.waited = waited;
    }
  }
  for (const RankTimes &times : team_.ranks)
    late.launches += times.rank == late.rank ? 0 : times.launches;
  // Ranks that wait for each other in turn have none.
  if (2 * late.waited <= all || 10 * late.waited < late.launches)
    return;
  const Body &worst = llvm::max_element(bodies[late.rank], [](const auto &a, const auto &b) {
                        return a.second.waited < b.second.waited;
                      })->second;
  const TraceSlice &body = trace_.slices[size_t(worst.writer->parent)];
  const TraceSlice &waiting = trace_.slices[size_t(worst.wait->parent)];
  late.space = body.space;
  late.body = body.name;
  late.at = worst.writer->at;
  late.begins = body.begin - std::min(launchOf(body), launchOf(waiting));
  late.runs = worst.writer->begin - body.begin;
  team_.late = std::move(late);
}

TeamSummary TeamSummarizer::run() {
  for (size_t i = 0; i < trace_.slices.size(); ++i)
    if (trace_.process(trace_.slices[i].process)->section == team_.section)
      slices_.push_back(i);
  for (size_t index : slices_) {
    const TraceSlice &slice = trace_.slices[index];
    team_.begin = team_.end == 0 ? slice.begin : std::min(team_.begin, slice.begin);
    team_.end = std::max(team_.end, slice.end);
    addSlice(index);
  }
  addTimes();
  addPrograms();
  addPath();
  addLate();
  for (auto &[at, place] : waits_)
    team_.waits.push_back(std::move(place));
  llvm::stable_sort(team_.waits,
                    [](const WaitPlace &a, const WaitPlace &b) { return a.total > b.total; });
  return std::move(team_);
}

} // namespace

std::vector<TeamSummary> summarize(const TraceModel &trace) {
  std::vector<TeamSummary> teams;
  std::set<std::string> seen;
  for (const TraceProcess &process : trace.processes)
    if (seen.insert(process.section).second)
      teams.push_back(TeamSummarizer(trace, process.section).run());
  return teams;
}

} // namespace dtile::driver
