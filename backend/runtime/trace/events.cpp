// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A process of the format is a rank. Its first track has launches. Each further one has a program:
// a task that runs bodies of one space one after the other. Slices of a track nest, and stand in
// order of time.
#include "backend/runtime/trace/events.h"

#include "backend/runtime/errors.h"
#include "backend/runtime/text/text_files.h"
#include "backend/runtime/trace/flows.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace dtile::runtime {

namespace {

std::string siteText(const TraceRecord &record) {
  return format("%s:%d:%d", record.site->file, record.site->line, record.site->column);
}

/// "ready[1, 0]".
std::string cellText(const TraceRecord &record) {
  int64_t number = record.cell.number;
  int64_t position[DTILE_MAX_RANK] = {};
  for (int32_t d = record.cell.ndim - 1; d >= 0; --d) {
    const int64_t size = std::max(record.cell.size[d], 1);
    position[d] = number % size;
    number /= size;
  }
  const std::string name = record.site->what;
  return record.cell.ndim > 0 ? name + shapeText(record.cell.ndim, position) : name;
}

const char *kindText(TraceKind kind) {
  switch (kind) {
  case TraceKind::Put:
    return "put";
  case TraceKind::Get:
    return "get";
  case TraceKind::ReduceAdd:
    return "reduce_add";
  case TraceKind::Load:
    return "load";
  case TraceKind::Store:
    return "store";
  case TraceKind::Atomic:
    return "atomic";
  case TraceKind::Notify:
    return "notify";
  case TraceKind::Wait:
    return "wait";
  case TraceKind::Barrier:
    return "barrier";
  case TraceKind::Poll:
    return "poll";
  case TraceKind::Body:
    return "body";
  case TraceKind::Launch:
    return "launch";
  case TraceKind::FurtherCell:
    break;
  }
  return "";
}

const char *partText(TracePart part) {
  switch (part) {
  case TracePart::Bodies:
    break;
  case TracePart::Loads:
    return ", loads";
  case TracePart::Stores:
    return ", stores";
  }
  return "";
}

bool isCopy(TraceKind kind) { return kind <= TraceKind::Atomic; }

/// Writes one team's events.
class EventWriter {
public:
  EventWriter(const std::vector<const TraceRecord *> &records, const TracePlace &place)
      : place_(place), records_(records),
        writers_(place.isPart ? std::vector<const TraceRecord *>(records_.size())
                              : findWriters(records_)),
        owners_(findOwners(records_)) {
    nameKernels();
  }

  std::string write();

private:
  /// Tracks of a rank: launches, then programs by kernel (in the order of their first use), space
  /// and number of the task.
  struct Track {
    int32_t rank, kernel, space, task;
    auto operator<=>(const Track &) const = default;
  };
  struct TrackFacts {
    int32_t number = 0;
    const TraceRecord *first = nullptr;
  };
  struct Event {
    int64_t time;
    std::string text;
  };

  void nameKernels();
  /// "kernel.role", or the kernel where it has one space.
  std::string spaceText(const TraceRecord &record) const;
  std::string bodyText(const TraceRecord &record) const;
  void nameTracks();
  Track trackOf(const TraceRecord &record) const;
  int32_t process(int32_t rank) const { return place_.firstProcess + rank; }
  std::string time(int64_t ns) const;
  /// The members that all events with a place in time share.
  std::string at(const char *phase, const TraceRecord &record, int64_t ns) const;
  void slice(const TraceRecord &record, const std::string &name, const char *category,
             int64_t begin, int64_t end, const std::string &arguments);
  void addSlice(size_t index);
  void addLaunch(const TraceRecord &launch);
  std::string waitArguments(size_t index) const;
  std::string partArguments(size_t index) const;
  std::string cellNames(size_t index) const;
  void addArrow(size_t index);
  void addCounters();
  void addMetadata();

  const TracePlace &place_;
  const std::vector<const TraceRecord *> &records_;
  std::vector<const TraceRecord *> writers_;
  std::vector<size_t> owners_;
  /// Further cells of a record.
  std::map<size_t, std::vector<size_t>> further_;
  std::map<const dtile_kernel_desc *, int32_t> kernels_;
  std::map<const dtile_kernel_desc *, std::string> names_;
  std::map<Track, TrackFacts> tracks_;
  std::vector<Event> events_;
  int64_t arrows_ = 0;
};

void EventWriter::nameKernels() {
  for (const TraceRecord *record : records_)
    names_.try_emplace(record->kernel);
  std::map<std::string, std::set<std::string>> called;
  for (auto &[kernel, name] : names_) {
    const auto known = place_.kernels.find(kernel->name);
    name = known == place_.kernels.end() ? kernel->name : known->second;
    called[name].insert(kernel->name);
  }
  for (auto &[kernel, name] : names_)
    if (called[name].size() > 1)
      name = kernel->name;
}

std::string EventWriter::spaceText(const TraceRecord &record) const {
  const char *role = record.kernel->spaces[record.space].name;
  const std::string &kernel = names_.at(record.kernel);
  return *role ? kernel + "." + role : kernel;
}

std::string EventWriter::bodyText(const TraceRecord &record) const {
  const dtile_space_desc &space = record.kernel->spaces[record.space];
  std::string text = *space.name ? space.name : names_.at(record.kernel);
  for (int32_t d = 0; d < space.ndims; ++d)
    text += format("%s%s=%lld", d == 0 ? " (" : ", ", space.vars[d],
                   static_cast<long long>(record.position[d]));
  return space.ndims > 0 ? text + ")" : text;
}

EventWriter::Track EventWriter::trackOf(const TraceRecord &record) const {
  if (record.kind == TraceKind::Launch)
    return {record.rank, -1, -1, -1};
  return {record.rank, kernels_.at(record.kernel), record.space, record.task};
}

void EventWriter::nameTracks() {
  std::vector<const TraceRecord *> byTime = records_;
  std::stable_sort(byTime.begin(), byTime.end(),
                   [](const TraceRecord *a, const TraceRecord *b) { return a->begin < b->begin; });
  for (const TraceRecord *record : byTime)
    kernels_.try_emplace(record->kernel, int32_t(kernels_.size()));
  for (const TraceRecord *record : byTime)
    tracks_.try_emplace(trackOf(*record), TrackFacts{0, record});
  int32_t rank = -1;
  int32_t number = 0;
  for (auto &[track, facts] : tracks_) {
    if (track.rank != rank)
      number = 0;
    rank = track.rank;
    // The first is that of launches, whether there are any or not.
    if (track.space >= 0)
      ++number;
    facts.number = number + 1;
  }
}

std::string EventWriter::time(int64_t ns) const {
  const int64_t since = std::max<int64_t>(ns - place_.originNs, 0);
  return format("%lld.%03lld", static_cast<long long>(since / 1000),
                static_cast<long long>(since % 1000));
}

std::string EventWriter::at(const char *phase, const TraceRecord &record, int64_t ns) const {
  return format("{\"ph\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":", phase, process(record.rank),
                tracks_.at(trackOf(record)).number) +
         time(ns);
}

void EventWriter::slice(const TraceRecord &record, const std::string &name, const char *category,
                        int64_t begin, int64_t end, const std::string &arguments) {
  events_.push_back({begin, at("X", record, begin) + ",\"dur\":" +
                                format("%lld.%03lld", static_cast<long long>((end - begin) / 1000),
                                       static_cast<long long>((end - begin) % 1000)) +
                                ",\"name\":" + quoted(name) + ",\"cat\":\"" + category +
                                "\",\"args\":{" + arguments +
                                (record.isUnfinished ? ",\"unfinished\":true" : "") + "}}"});
}

/// What finds the notify of a wait in another process: kernel and launch, and the cells with what a
/// wait wants of each in this launch.
std::string EventWriter::partArguments(size_t index) const {
  if (!place_.isPart)
    return {};
  const TraceRecord &record = *records_[index];
  std::string cells = std::to_string(record.cell.number);
  std::string wants = std::to_string(record.cell.value - record.cell.base);
  if (const auto further = further_.find(index); further != further_.end())
    for (size_t i : further->second) {
      cells += "," + std::to_string(records_[i]->cell.number);
      wants += "," + std::to_string(records_[i]->cell.value - records_[i]->cell.base);
    }
  return ",\"kernel\":" + quoted(record.kernel->name) +
         format(",\"launch\":%lld", static_cast<long long>(record.epoch)) +
         ",\"role\":" + quoted(spaceText(record)) + ",\"signal\":" + quoted(record.site->what) +
         ",\"cells\":[" + cells + "]" +
         (record.kind == TraceKind::Wait ? ",\"wants\":[" + wants + "]" : "");
}

std::string EventWriter::cellNames(size_t index) const {
  std::string text = cellText(*records_[index]);
  const auto further = further_.find(index);
  if (further == further_.end())
    return text;
  if (further->second.size() == 1)
    return text + ", " + cellText(*records_[further->second.front()]);
  return text + format(" and %zu more", further->second.size());
}

std::string EventWriter::waitArguments(size_t index) const {
  const TraceRecord &wait = *records_[index];
  std::string text = format("\"wanted\":%llu,\"blocked\":%s",
                            static_cast<unsigned long long>(wait.cell.value - wait.cell.base),
                            wait.cell.detail ? "true" : "false");
  const TraceRecord *writer = writers_[index];
  if (!writer)
    return text;
  // From the notify on, the body could have gone on, but for a worker that was free.
  const int64_t released = std::clamp(writer->end, wait.begin, wait.end);
  text += format(",\"writer_rank\":%d,\"queued_us\":", writer->rank) +
          format("%lld.%03lld", static_cast<long long>((wait.end - released) / 1000),
                 static_cast<long long>((wait.end - released) % 1000));
  return text + ",\"writer\":" + quoted(siteText(*writer)) +
         ",\"writer_role\":" + quoted(spaceText(*writer));
}

void EventWriter::addLaunch(const TraceRecord &launch) {
  const std::string arguments = format("\"launch\":%lld", static_cast<long long>(launch.epoch));
  slice(launch, launch.kernel->name, "launch", launch.begin, launch.end,
        arguments + ",\"file\":" + quoted(launch.kernel->file) +
            (launch.variant && *launch.variant ? ",\"variant\":" + quoted(launch.variant) : ""));
  // These have ended, also where the launch has failed.
  TraceRecord step = launch;
  step.isUnfinished = false;
  slice(step, "prologue", "prologue", launch.begin, launch.steps.prepared, arguments);
  if (launch.steps.begun > launch.steps.prepared)
    slice(step, "start", "start", launch.steps.prepared, launch.steps.begun, arguments);
}

void EventWriter::addSlice(size_t index) {
  const TraceRecord &record = *records_[index];
  if (record.kind == TraceKind::Launch)
    return addLaunch(record);
  if (record.kind == TraceKind::FurtherCell)
    return;
  std::string name = kindText(record.kind);
  std::string arguments = record.site ? "\"at\":" + quoted(siteText(record)) : std::string();
  if (record.kind == TraceKind::Body) {
    name = bodyText(record);
    arguments = "\"space\":" + quoted(spaceText(record)) +
                format(",\"launch\":%lld", static_cast<long long>(record.epoch));
  } else if (record.kind == TraceKind::Poll) {
    name += std::string(" ") + record.site->what;
    arguments += format(",\"bytes\":%lld", static_cast<long long>(record.copy.bytes));
  } else if (isCopy(record.kind)) {
    name += std::string(" ") + record.site->what;
    arguments += format(",\"bytes\":%lld,\"peer\":%d", static_cast<long long>(record.copy.bytes),
                        record.copy.peer);
  } else if (record.kind == TraceKind::Notify) {
    name += " " + cellNames(index);
    arguments += format(",\"peer\":%d", record.cell.detail) + partArguments(index);
  } else if (record.kind == TraceKind::Wait) {
    name += " " + cellNames(index);
    arguments += "," + waitArguments(index) + partArguments(index);
  }
  slice(record, name, kindText(record.kind), record.begin, record.end, arguments);
}

void EventWriter::addArrow(size_t index) {
  const TraceRecord *writer = writers_[index];
  if (!writer)
    return;
  const TraceRecord &wait = *records_[index];
  const std::string rest = format(",\"id\":%lld,\"name\":\"signal\",\"cat\":\"signal\"",
                                  static_cast<long long>(place_.firstProcess) << 32 | ++arrows_);
  // Ends belong to the slices that are open at their times.
  events_.push_back({writer->begin, at("s", *writer, writer->begin) + rest + "}"});
  const int64_t end = std::max({wait.begin, writer->begin, wait.end - 1});
  events_.push_back({end, at("f", wait, end) + rest + ",\"bp\":\"e\"}"});
}

void EventWriter::addCounters() {
  struct Step {
    int64_t time;
    int32_t rank;
    bool isBody;
    int64_t change;
  };
  std::vector<Step> steps;
  for (const TraceRecord *record : records_) {
    if (record->kind == TraceKind::Body && !record->isUnfinished)
      steps.push_back({record->end, record->rank, true, 1});
    if (!isCopy(record->kind))
      continue;
    steps.push_back({record->begin, record->rank, false, record->copy.bytes});
    steps.push_back({record->end, record->rank, false, -record->copy.bytes});
  }
  std::stable_sort(steps.begin(), steps.end(),
                   [](const Step &a, const Step &b) { return a.time < b.time; });
  std::map<std::pair<int32_t, bool>, int64_t> values;
  for (const Step &step : steps) {
    const int64_t value = values[{step.rank, step.isBody}] += step.change;
    events_.push_back(
        {step.time, format("{\"ph\":\"C\",\"pid\":%d,\"tid\":0,\"ts\":", process(step.rank)) +
                        time(step.time) + ",\"name\":" +
                        (step.isBody ? "\"bodies done\",\"args\":{\"bodies\":"
                                     : "\"bytes in flight\",\"args\":{\"bytes\":") +
                        std::to_string(value) + "}}"});
  }
}

void EventWriter::addMetadata() {
  auto metadata = [&](const char *what, int32_t rank, int32_t track, const std::string &argument) {
    events_.push_back({-1, format("{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"%s\",\"args\":{",
                                  process(rank), track, what) +
                               argument + "}}"});
  };
  int32_t rank = -1;
  std::map<std::tuple<int32_t, int32_t, int32_t>, int32_t> programs;
  for (const auto &[track, facts] : tracks_) {
    if (track.rank != rank) {
      rank = track.rank;
      metadata("process_name", rank, 0,
               "\"name\":" + quoted(place_.name + format("rank %d", rank)));
      metadata("process_sort_index", rank, 0, format("\"sort_index\":%d", process(rank)));
      metadata("thread_name", rank, 0, "\"name\":\"counters\"");
    }
    std::string name = "launches";
    if (track.space >= 0) {
      // What helps a program comes after it.
      const TracePart part = facts.first->part;
      int32_t &next = programs[{track.rank, track.kernel, track.space}];
      const int32_t program = part == TracePart::Bodies ? next++ : std::max(next - 1, 0);
      name = spaceText(*facts.first) + format(" program %d", program) + partText(part);
    }
    metadata("thread_name", rank, facts.number, "\"name\":" + quoted(name));
    metadata("thread_sort_index", rank, facts.number, format("\"sort_index\":%d", facts.number));
  }
}

std::string EventWriter::write() {
  if (records_.empty())
    return {};
  for (size_t i = 0; i < records_.size(); ++i)
    if (owners_[i] != i)
      further_[owners_[i]].push_back(i);
  nameTracks();
  addMetadata();
  // What contains others comes before them.
  std::vector<size_t> order(records_.size());
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const auto depth = [&](size_t i) {
      return records_[i]->kind == TraceKind::Body || records_[i]->kind == TraceKind::Launch ? 0 : 1;
    };
    return std::tuple(records_[a]->begin, depth(a)) < std::tuple(records_[b]->begin, depth(b));
  });
  for (size_t i : order)
    addSlice(i);
  for (size_t i : order)
    addArrow(i);
  addCounters();
  std::stable_sort(events_.begin(), events_.end(),
                   [](const Event &a, const Event &b) { return a.time < b.time; });
  std::string text;
  for (const Event &event : events_) {
    if (!text.empty())
      text += ",\n";
    text += event.text;
  }
  return text;
}

} // namespace

std::string traceEvents(const std::vector<const TraceRecord *> &records, const TracePlace &place) {
  return EventWriter(records, place).write();
}

std::string traceHead() { return "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n"; }

std::string traceEnd(int64_t dropped, const std::string &part) {
  return format("\n],\"otherData\":{\"producer\":\"dtile\",\"dropped\":%lld",
                static_cast<long long>(dropped)) +
         part + "}}\n";
}

} // namespace dtile::runtime
