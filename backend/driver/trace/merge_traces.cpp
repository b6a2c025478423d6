// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Cells count the notifies of a launch, so the notify that let a wait go on is known by its number
// among those of this launch and cell, in order of time. Each process has written the cells and
// launches of its own.
#include "backend/driver/trace/merge_traces.h"

#include "backend/driver/trace/trace_json.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>

namespace dtile::driver {

namespace {

using llvm::json::Array;
using llvm::json::Object;
using llvm::json::Value;

/// Thirty years; more is no time, and would not fit.
constexpr double kMostMicroseconds = 1e15;
constexpr int64_t kUnknown = std::numeric_limits<int64_t>::min();

/// One cell in one launch of a team: a kernel, the launch, the rank that has it, signal and number.
/// Teams are told apart by the process that would stand for their rank 0.
using CellKey = std::tuple<int64_t, std::string, int64_t, int64_t, std::string, int64_t>;

/// Events of notifies and waits; times are nanoseconds.
struct Slice {
  Object *event = nullptr;
  Object *arguments = nullptr;
  size_t clock = 0;
  int64_t rank = 0;
  int64_t begin = 0, end = 0;
};

class TraceMerger {
public:
  llvm::Expected<MergedTrace> merge(llvm::ArrayRef<TracePart> parts);

private:
  llvm::Error read(const TracePart &part);
  llvm::Error readEvent(const TracePart &part, Object &event, size_t clock,
                        std::map<int64_t, int64_t> &ranks);
  void alignClocks();
  void shift();
  void connect();
  std::string write();
  const Slice *writerOf(const Slice &wait) const;
  [[nodiscard]] std::vector<CellKey> cellsOf(const Slice &slice, int64_t owner) const;
  void eachNotifyOf(const Slice &wait,
                    llvm::function_ref<void(const Slice &, llvm::ArrayRef<size_t>)> visit) const;

  std::vector<Object> files_;
  std::vector<Value> events_;
  int64_t ranksOfJob_ = 0;
  int64_t dropped_ = 0;
  std::set<int64_t> ranks_;
  llvm::StringMap<size_t> clocks_;
  std::vector<int64_t> offsets_;
  std::vector<size_t> clockOfEvent_;
  std::vector<Slice> notifies_, waits_;
  std::map<CellKey, std::vector<size_t>> byCell_;
  MergedTrace result_;
};

int64_t nanoseconds(double microseconds) { return std::llround(microseconds * 1000); }
double microseconds(int64_t nanoseconds) { return double(nanoseconds) / 1000; }

/// Of each cell that a wait names: the notify with which its count was reached, and the numbers of
/// all notifies of the cell. Leaves out cells whose notifies are not all in the files.
void TraceMerger::eachNotifyOf(
    const Slice &wait,
    llvm::function_ref<void(const Slice &, llvm::ArrayRef<size_t>)> visit) const {
  const Array &wants = *wait.arguments->getArray("wants");
  for (const auto &[want, key] : llvm::zip_equal(wants, cellsOf(wait, wait.rank))) {
    const auto found = byCell_.find(key);
    const int64_t wanted = want.getAsInteger().value_or(0);
    if (found != byCell_.end() && wanted >= 1 && size_t(wanted) <= found->second.size())
      visit(notifies_[found->second[size_t(wanted) - 1]], found->second);
  }
}

std::vector<CellKey> TraceMerger::cellsOf(const Slice &slice, int64_t owner) const {
  std::vector<CellKey> keys;
  const int64_t team = *slice.event->getInteger("pid") - slice.rank;
  for (const Value &cell : *slice.arguments->getArray("cells"))
    keys.emplace_back(team, slice.arguments->getString("kernel")->str(),
                      *slice.arguments->getInteger("launch"), owner,
                      slice.arguments->getString("signal")->str(), cell.getAsInteger().value_or(0));
  return keys;
}

llvm::Error TraceMerger::readEvent(const TracePart &part, Object &event, size_t clock,
                                   std::map<int64_t, int64_t> &ranks) {
  const auto wrong = [&](llvm::StringRef what) {
    return llvm::createStringError("`" + part.path + "`: " + what);
  };
  const auto process = event.getInteger("pid");
  Object *arguments = event.getObject("args");
  if (!process)
    return wrong("an event has no `pid`");
  if (event.getString("ph") == "M") {
    const llvm::StringRef name =
        arguments ? arguments->getString("name").value_or("") : llvm::StringRef();
    int64_t rank = 0;
    if (event.getString("name") == "process_name" &&
        !name.rsplit("rank ").second.getAsInteger(10, rank))
      ranks[*process] = rank;
    return llvm::Error::success();
  }
  const auto time = event.getNumber("ts");
  if (!time || !(*time >= 0 && *time < kMostMicroseconds) || !ranks.count(*process))
    return wrong("an event has no time, or belongs to no rank");
  const llvm::StringRef kind = event.getString("cat").value_or("");
  if (event.getString("ph") != "X" || (kind != "notify" && kind != "wait"))
    return llvm::Error::success();
  const Array *cells = arguments ? arguments->getArray("cells") : nullptr;
  const Array *wants = arguments ? arguments->getArray("wants") : nullptr;
  const auto duration = event.getNumber("dur");
  if (!cells || !duration || !(*duration >= 0 && *duration < kMostMicroseconds) ||
      !arguments->getString("kernel") || !arguments->getString("signal") ||
      !arguments->getInteger("launch") ||
      (kind == "notify" ? !arguments->getInteger("peer")
                        : !wants || wants->size() != cells->size()))
    return wrong("a " + kind.str() + " does not say which cells it is of");
  Slice slice{&event, arguments, clock, ranks.at(*process), nanoseconds(*time), 0};
  slice.end = slice.begin + nanoseconds(*duration);
  (kind == "notify" ? notifies_ : waits_).push_back(slice);
  return llvm::Error::success();
}

llvm::Error TraceMerger::read(const TracePart &part) {
  const auto wrong = [&](const llvm::Twine &what) {
    return llvm::createStringError("`" + part.path + "`: " + what);
  };
  llvm::Expected<Value> parsed = parseTrace(part.text);
  if (!parsed)
    return wrong(llvm::toString(parsed.takeError()));
  Object *file = parsed->getAsObject();
  Array *events = file ? file->getArray("traceEvents") : nullptr;
  const Object *other = file ? file->getObject("otherData") : nullptr;
  if (!events || !other || other->getString("producer") != "dtile")
    return wrong("it is a trace that `dtilec` has not written");
  const auto ranks = other->getInteger("ranks");
  const auto clock = other->getString("clock");
  if (!ranks || !clock)
    return wrong("it is whole; only what the processes of one job have written is joined");
  if (ranksOfJob_ != 0 && *ranks != ranksOfJob_)
    return wrong("it is of a job of " + llvm::Twine(*ranks) +
                 " ranks, and the files before it of " + llvm::Twine(ranksOfJob_));
  ranksOfJob_ = *ranks;
  dropped_ += other->getInteger("dropped").value_or(0);
  const size_t number = clocks_.try_emplace(*clock, clocks_.size()).first->second;
  std::map<int64_t, int64_t> rankOf;
  // Objects stay where they are when the list is moved.
  for (Value &value : *events) {
    Object *event = value.getAsObject();
    if (!event)
      return wrong("an event is no object");
    if (llvm::Error error = readEvent(part, *event, number, rankOf))
      return error;
    clockOfEvent_.push_back(number);
  }
  std::set<int64_t> own;
  for (const auto &[process, rank] : rankOf)
    own.insert(rank);
  for (const int64_t rank : own)
    if (!ranks_.insert(rank).second)
      return wrong("rank " + llvm::Twine(rank) + " is in a file before it, too");
  files_.push_back(std::move(*file));
  return llvm::Error::success();
}

/// Cells that one process alone notifies tell how far clocks may be apart, whichever way they are.
void TraceMerger::alignClocks() {
  const size_t count = clocks_.size();
  offsets_.assign(count, kUnknown);
  offsets_[0] = 0;
  // least[a][b]: what must at least be added to times of b, where nothing is added to those of a.
  std::vector<std::vector<int64_t>> least(count, std::vector<int64_t>(count, kUnknown));
  for (const Slice &wait : waits_) {
    if (count == 1 || wait.arguments->getBoolean("unfinished").value_or(false))
      continue;
    eachNotifyOf(wait, [&](const Slice &notify, llvm::ArrayRef<size_t> ofCell) {
      const bool isOfOne = llvm::all_of(
          ofCell, [&](size_t other) { return notifies_[other].clock == notify.clock; });
      if (isOfOne && notify.clock != wait.clock) {
        int64_t &bound = least[notify.clock][wait.clock];
        bound = std::max(bound, notify.begin - wait.end);
      }
    });
  }
  for (bool isNew = true; isNew;) {
    isNew = false;
    for (size_t a = 0; a < count; ++a)
      for (size_t b = 0; b < count; ++b) {
        if (offsets_[a] == kUnknown || offsets_[b] != kUnknown)
          continue;
        const int64_t low = least[a][b], high = least[b][a];
        if (low == kUnknown && high == kUnknown)
          continue;
        const int64_t there = low == kUnknown    ? -high
                              : high == kUnknown ? low
                                                 : low + (-high - low) / 2;
        offsets_[b] = offsets_[a] + there;
        isNew = true;
      }
  }
  for (int64_t &offset : offsets_)
    if (offset == kUnknown) {
      offset = 0;
      result_.notes.push_back("nothing shows how far the clock of one host is from another's: no "
                              "rank waits for a notify from there");
    }
}

void TraceMerger::shift() {
  for (auto *list : {&notifies_, &waits_})
    for (Slice &slice : *list) {
      slice.begin += offsets_[slice.clock];
      slice.end += offsets_[slice.clock];
    }
  int64_t first = std::numeric_limits<int64_t>::max();
  const auto eachTime = [&](auto visit) {
    size_t number = 0;
    for (Object &file : files_)
      for (Value &value : *file.getArray("traceEvents")) {
        Object &event = *value.getAsObject();
        const int64_t offset = offsets_[clockOfEvent_[number++]];
        if (const auto time = event.getNumber("ts"))
          visit(event, nanoseconds(*time) + offset);
      }
  };
  eachTime([&](Object &, int64_t time) { first = std::min(first, time); });
  eachTime([&](Object &event, int64_t time) { event["ts"] = microseconds(time - first); });
  for (auto *list : {&notifies_, &waits_})
    for (Slice &slice : *list) {
      slice.begin -= first;
      slice.end -= first;
    }
}

/// Of a wait for several cells, the notify that came last.
const Slice *TraceMerger::writerOf(const Slice &wait) const {
  const Slice *writer = nullptr;
  eachNotifyOf(wait, [&](const Slice &notify, llvm::ArrayRef<size_t>) {
    if (notify.begin <= wait.end && (!writer || notify.end > writer->end))
      writer = &notify;
  });
  return writer;
}

void TraceMerger::connect() {
  for (auto &[key, list] : byCell_)
    llvm::stable_sort(list,
                      [&](size_t a, size_t b) { return notifies_[a].begin < notifies_[b].begin; });
  int64_t arrows = 0;
  for (const Slice &wait : waits_) {
    const Slice *writer =
        wait.arguments->getBoolean("unfinished").value_or(false) ? nullptr : writerOf(wait);
    if (!writer)
      continue;
    const int64_t released = std::clamp(writer->end, wait.begin, wait.end);
    Object &arguments = *wait.arguments;
    arguments["writer_rank"] = writer->rank;
    arguments["queued_us"] = microseconds(wait.end - released);
    arguments["writer"] = writer->arguments->getString("at").value_or("").str();
    arguments["writer_role"] = writer->arguments->getString("role").value_or("").str();
    ++arrows;
    const auto add = [&](const char *phase, const Slice &slice, int64_t time) {
      Object event{{"ph", phase},
                   {"pid", *slice.event->getInteger("pid")},
                   {"tid", slice.event->getInteger("tid").value_or(0)},
                   {"ts", microseconds(time)},
                   {"id", arrows},
                   {"name", "signal"},
                   {"cat", "signal"}};
      if (*phase == 'f')
        event["bp"] = "e";
      events_.push_back(std::move(event));
    };
    add("s", *writer, writer->begin);
    add("f", wait, std::max({wait.begin, writer->begin, wait.end - 1}));
  }
}

std::string TraceMerger::write() {
  std::vector<Value> all;
  for (Object &file : files_)
    for (Value &value : *file.getArray("traceEvents"))
      all.push_back(std::move(value));
  llvm::append_range(all, std::move(events_));
  const auto timeOf = [](const Value &value) {
    return value.getAsObject()->getNumber("ts").value_or(-1);
  };
  llvm::stable_sort(all, [&](const Value &a, const Value &b) { return timeOf(a) < timeOf(b); });
  std::string text = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
  llvm::raw_string_ostream os(text);
  llvm::interleave(all, os, [&](const Value &value) { os << value; }, ",\n");
  os << "\n],\"otherData\":" << Value(Object{{"producer", "dtile"}, {"dropped", dropped_}})
     << "}\n";
  return text;
}

llvm::Expected<MergedTrace> TraceMerger::merge(llvm::ArrayRef<TracePart> parts) {
  files_.reserve(parts.size());
  for (const TracePart &part : parts)
    if (llvm::Error error = read(part))
      return error;
  for (auto [number, notify] : llvm::enumerate(notifies_))
    for (CellKey &key : cellsOf(notify, *notify.arguments->getInteger("peer")))
      byCell_[std::move(key)].push_back(number);
  if (int64_t(ranks_.size()) < ranksOfJob_)
    result_.notes.push_back(
        llvm::formatv("these are {0} of the job's {1} ranks", ranks_.size(), ranksOfJob_));
  if (dropped_ > 0)
    result_.notes.push_back("slices were left out, so that a wait may name a later notify of its "
                            "cell: raise --trace-limit");
  alignClocks();
  shift();
  connect();
  result_.text = write();
  return std::move(result_);
}

} // namespace

llvm::Expected<MergedTrace> mergeTraces(llvm::ArrayRef<TracePart> parts) {
  return TraceMerger().merge(parts);
}

} // namespace dtile::driver
