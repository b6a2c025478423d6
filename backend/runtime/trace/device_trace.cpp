// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Cells count the notifies of a launch, so a wait was let go on by the notify with a certain number
// among those of its launch and cell, in order of time. Records say it as those of processors do:
// what a cell held before each notify.
#include "backend/runtime/trace/device_trace.h"

#include "backend/runtime/clock.h"
#include "backend/runtime/trace/trace_abi.h"

#include <algorithm>
#include <limits>
#include <set>

namespace dtile::runtime {

static_assert(int(TraceKind::Poll) == DTILE_TRACE_POLL &&
                  int(TraceKind::Body) == DTILE_TRACE_BODY &&
                  int(TraceKind::FurtherCell) == DTILE_TRACE_CELL,
              "kinds of slices begin with those of dtile_trace_op");

TracedKernel::TracedKernel(std::string name, std::string file, std::string variant,
                           std::vector<Space> spaces, std::vector<TracedSite> sites)
    : name_(std::move(name)), file_(std::move(file)), variant_(std::move(variant)),
      spaces_(std::move(spaces)), places_(std::move(sites)) {
  for (const Space &space : spaces_) {
    std::vector<const char *> &vars = vars_.emplace_back();
    for (const std::string &var : space.vars)
      vars.push_back(var.c_str());
    dtile_space_desc &desc = descs_.emplace_back();
    desc.name = space.name.c_str();
    desc.ndims = int32_t(vars.size());
    // A list keeps its elements where they are when the list of lists grows.
    desc.vars = vars.data();
  }
  for (const TracedSite &site : places_)
    sites_.push_back({site.file.c_str(), site.what.c_str(), site.line, site.column});
  desc_.name = name_.c_str();
  desc_.file = file_.c_str();
  desc_.nspaces = int32_t(descs_.size());
  desc_.spaces = descs_.data();
}

const dtile_site *TracedKernel::site(int32_t number) const {
  return number >= 0 && size_t(number) < sites_.size() ? &sites_[size_t(number)] : nullptr;
}

namespace {

/// Where the notify of a wait is not known: beyond this the wait was longer than the ways to memory
/// that it takes where all is there.
constexpr int64_t kWaitAtOnceNs = 3000;

/// Whether an event is what it says; where two launches have written at once it may be anything.
bool isSound(const TracedEvent &traced) {
  const dtile_device_event &event = traced.event;
  if (event.op < 0 || event.op > DTILE_TRACE_CELL || event.end < event.begin || !traced.kernel ||
      event.space < 0 || event.space >= traced.kernel->desc().nspaces)
    return false;
  return event.op == DTILE_TRACE_BODY || traced.kernel->site(event.site);
}

/// A cell in one launch: how often the team had failed, the launch, the rank and where it is.
using CellKey = std::tuple<int32_t, uint64_t, int64_t, int32_t, int64_t>;

/// By cell, its notifies in order of time.
using Notifies = std::map<const void *, std::vector<size_t>>;

/// Says of waits whether they found what they wanted.
void markBlocked(const Notifies &notifies, std::vector<TraceRecord> &records) {
  size_t owner = 0;
  for (size_t i = 0; i < records.size(); ++i) {
    if (records[i].kind != TraceKind::FurtherCell)
      owner = i;
    TraceRecord &wait = records[owner];
    if (wait.kind != TraceKind::Wait)
      continue;
    const TraceRecord::Cell &cell = records[i].cell;
    const auto found = notifies.find(cell.address);
    const bool isKnown =
        found != notifies.end() && cell.value > 0 && cell.value <= found->second.size();
    const bool wasAway = isKnown ? records[found->second[cell.value - 1]].end > wait.begin
                                 : wait.end - wait.begin > kWaitAtOnceNs;
    if (owner == i)
      wait.cell.detail = 0;
    wait.cell.detail |= wasAway ? 1 : 0;
  }
}

} // namespace

bool DeviceTrace::isOfCell(const dtile_device_event &event) {
  return event.op == DTILE_TRACE_NOTIFY || event.op == DTILE_TRACE_WAIT ||
         event.op == DTILE_TRACE_CELL;
}

DeviceTrace::DeviceTrace(int64_t mostEvents)
    : begin_(nowNs()), most_(std::max<int64_t>(mostEvents, 1)), left_(most_) {}

void DeviceTrace::queued(int32_t rank, uint64_t kernelId, int64_t before, int64_t after) {
  const std::lock_guard lock(mutex_);
  queued_[{rank, kernelId}].emplace_back(before, after);
}

void DeviceTrace::failed() {
  const std::lock_guard lock(mutex_);
  ++failures_;
  queued_.clear();
}

void DeviceTrace::add(int32_t rank, int32_t clock, int64_t now, std::vector<TracedEvent> events,
                      int64_t dropped) {
  const std::lock_guard lock(mutex_);
  dropped_ += dropped;
  std::map<uint64_t, std::map<int64_t, Launch *>> seen;
  uint64_t last = 0;
  for (TracedEvent &traced : events) {
    if (!isSound(traced))
      continue;
    const dtile_device_event &event = traced.event;
    last = std::max(last, event.end);
    Launch &launch = launches_[{rank, failures_, event.kernel_id, event.launch}];
    seen[event.kernel_id][event.launch] = &launch;
    launch.first = launch.kernel ? std::min(launch.first, event.begin) : event.begin;
    launch.last = std::max(launch.last, event.end);
    launch.clock = clock;
    launch.kernel = traced.kernel;
    if (left_ == 0) {
      ++dropped_;
      continue;
    }
    --left_;
    Kept &kept = events_.emplace_back();
    static_cast<TracedEvent &>(kept) = std::move(traced);
    kept.rank = rank;
    kept.clock = clock;
    kept.failures = failures_;
  }
  if (seen.empty())
    return;
  constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
  Clock &bounds = clocks_.try_emplace(clock, Clock{-kAny, kAny}).first->second;
  bounds.most = std::min(bounds.most, now - int64_t(last));
  for (auto &[kernelId, launches] : seen) {
    const auto queued = queued_.find({rank, kernelId});
    if (queued == queued_.end())
      continue;
    // A graph replays launches that nobody queues.
    const bool areAll = queued->second.size() == launches.size();
    size_t number = 0;
    for (auto &[epoch, launch] : launches) {
      const auto [before, after] = queued->second[areAll ? number : 0];
      bounds.least = std::max(bounds.least, before - int64_t(launch->first));
      if (areAll)
        std::tie(launch->before, launch->after) = std::pair(before, after);
      ++number;
    }
    queued_.erase(queued);
  }
}

std::map<int32_t, int64_t> DeviceTrace::offsets() const {
  std::map<int32_t, int64_t> offsets;
  constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
  for (const auto &[clock, bounds] : clocks_) {
    const bool isBounded = bounds.least != -kAny && bounds.least <= bounds.most;
    offsets[clock] = isBounded ? bounds.least + (bounds.most - bounds.least) / 2 : bounds.most;
  }
  if (offsets.size() < 2)
    return offsets;
  // No wait ends before a notify has begun that it needs: the last one of all, where it wanted as
  // many as there are.
  std::map<CellKey, std::vector<const Kept *>> notifies;
  const auto keyOf = [](const Kept &kept, int32_t owner) {
    return CellKey{kept.failures, kept.event.kernel_id, kept.event.launch, owner, kept.cell.offset};
  };
  for (const Kept &kept : events_)
    if (kept.event.op == DTILE_TRACE_NOTIFY)
      notifies[keyOf(kept, kept.event.peer)].push_back(&kept);
  for (size_t round = 0; round < offsets.size(); ++round)
    for (const Kept &wait : events_) {
      if (wait.event.op != DTILE_TRACE_WAIT)
        continue;
      const auto found = notifies.find(keyOf(wait, wait.rank));
      if (found == notifies.end() || int64_t(found->second.size()) != wait.event.words[1])
        continue;
      int64_t &own = offsets[wait.clock];
      for (const Kept *notify : found->second)
        own = std::max(own, int64_t(notify->event.begin) + offsets[notify->clock] -
                                int64_t(wait.event.end));
    }
  return offsets;
}

void DeviceTrace::addLaunches(const std::map<int32_t, int64_t> &offsets, Reading &reading) const {
  std::map<int32_t, std::vector<TraceRecord>> byRank;
  for (const auto &[key, launch] : launches_) {
    const int64_t offset = offsets.at(launch.clock);
    TraceRecord &record = byRank[std::get<0>(key)].emplace_back();
    record.kind = TraceKind::Launch;
    record.kernel = &launch.kernel->desc();
    record.variant = launch.kernel->variant();
    record.rank = std::get<0>(key);
    record.epoch = std::get<3>(key);
    const int64_t first = int64_t(launch.first) + offset;
    record.begin = launch.before ? std::min(launch.before, first) : first;
    record.end = int64_t(launch.last) + offset;
    record.steps = {std::clamp(launch.after, record.begin, first), first};
  }
  for (auto &[rank, records] : byRank) {
    std::sort(records.begin(), records.end(), [](const TraceRecord &a, const TraceRecord &b) {
      return a.steps.begun < b.steps.begun;
    });
    // Launches may be queued long before they run; a track shows one after the other.
    int64_t end = std::numeric_limits<int64_t>::min();
    for (TraceRecord &record : records) {
      record.begin = std::max(record.begin, end);
      record.steps.prepared = std::max(record.steps.prepared, record.begin);
      record.steps.begun = std::max(record.steps.begun, record.steps.prepared);
      end = record.end = std::max(record.end, record.steps.begun);
      reading.records.push_back(record);
    }
  }
}

DeviceTrace::Reading DeviceTrace::read() const {
  const std::lock_guard lock(mutex_);
  Reading reading;
  reading.dropped = dropped_;
  const std::map<int32_t, int64_t> clocks = offsets();
  addLaunches(clocks, reading);

  std::map<std::tuple<int32_t, int32_t, int32_t>, int32_t> tasks;
  for (const Kept &kept : events_)
    tasks[{kept.rank, kept.program, kept.recorder}] = 0;
  int32_t number = 0;
  for (auto &[task, own] : tasks)
    own = number++;
  // An address that stands for a cell in one launch.
  std::map<CellKey, int64_t> cells;
  Notifies notifies;
  size_t owner = 0;
  for (const Kept &kept : events_) {
    const dtile_device_event &event = kept.event;
    TraceRecord record;
    record.kind = TraceKind(event.op);
    record.begin = int64_t(event.begin) + clocks.at(kept.clock);
    record.end = int64_t(event.end) + clocks.at(kept.clock);
    record.kernel = &kept.kernel->desc();
    record.site = kept.kernel->site(event.site);
    record.epoch = event.launch;
    record.rank = kept.rank;
    record.task = tasks.at({kept.rank, kept.program, kept.recorder});
    record.part = TracePart(kept.recorder);
    record.space = event.space;
    if (event.op != DTILE_TRACE_CELL)
      owner = reading.records.size();
    if (event.op == DTILE_TRACE_BODY) {
      std::copy(std::begin(event.words), std::end(event.words), record.position);
    } else if (isOfCell(event)) {
      const bool isWait = (event.op == DTILE_TRACE_CELL ? reading.records[owner].kind
                                                        : record.kind) == TraceKind::Wait;
      record.cell = {};
      const CellKey key{kept.failures, event.kernel_id, event.launch,
                        isWait ? kept.rank : event.peer, kept.cell.offset};
      record.cell.address = &cells[key];
      record.cell.number = kept.cell.number;
      record.cell.ndim = kept.cell.ndim;
      std::copy(std::begin(kept.cell.size), std::end(kept.cell.size), record.cell.size);
      record.cell.detail = event.peer;
      if (isWait) {
        record.cell.value = uint64_t(event.words[1]);
      } else {
        notifies[record.cell.address].push_back(reading.records.size());
      }
    } else {
      record.copy = {event.words[0], event.peer};
      if (event.op != DTILE_TRACE_BARRIER && event.op != DTILE_TRACE_POLL && record.copy.bytes == 0)
        continue;
    }
    reading.records.push_back(record);
  }
  for (auto &[cell, all] : notifies) {
    std::stable_sort(all.begin(), all.end(), [&](size_t a, size_t b) {
      return reading.records[a].begin < reading.records[b].begin;
    });
    for (size_t i = 0; i < all.size(); ++i)
      reading.records[all[i]].cell.value = i;
  }
  markBlocked(notifies, reading.records);
  return reading;
}

} // namespace dtile::runtime
