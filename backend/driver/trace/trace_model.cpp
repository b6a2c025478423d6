// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads traces with LLVM's JSON parser.
#include "backend/driver/trace/trace_model.h"

#include "backend/driver/trace/trace_json.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/JSON.h"

#include <cmath>
#include <map>
#include <tuple>

namespace dtile::driver {

namespace {

using llvm::json::Object;

/// From microseconds with three decimals.
int64_t nanoseconds(double microseconds) { return std::llround(microseconds * 1000); }

/// Reads one file.
class TraceReader {
public:
  llvm::Expected<TraceModel> read(llvm::StringRef text);

private:
  struct Arrow {
    bool hasBegin = false, hasEnd = false;
    int process[2] = {}, track[2] = {};
    int64_t time[2] = {};
  };

  llvm::Error readEvent(const Object &event);
  llvm::Error readSlice(const Object &event);
  llvm::Error readName(const Object &event);
  llvm::Error readArrow(const Object &event, bool isEnd);
  llvm::Error nest();
  llvm::Error connect();
  void meet();
  int sliceAt(int process, int track, int64_t time, TraceSlice::Kind kind) const;
  template <typename... Args> llvm::Error wrong(const char *format, Args &&...args) {
    return llvm::createStringError("event " + std::to_string(number_) + ": " +
                                   llvm::formatv(format, args...).str());
  }

  TraceModel model_;
  std::map<int64_t, Arrow> arrows_;
  size_t number_ = 0;
};

llvm::Expected<TraceModel> TraceReader::read(llvm::StringRef text) {
  llvm::Expected<llvm::json::Value> parsed = parseTrace(text);
  if (!parsed)
    return parsed.takeError();
  const Object *file = parsed->getAsObject();
  const llvm::json::Array *events = file ? file->getArray("traceEvents") : nullptr;
  if (!events)
    return llvm::createStringError("it is JSON, and has no list `traceEvents`");
  const Object *other = file->getObject("otherData");
  if (!other || other->getString("producer") != "dtile")
    return llvm::createStringError("it is a trace that `dtilec` has not written");
  model_.dropped = other->getInteger("dropped").value_or(0);
  for (const llvm::json::Value &value : *events) {
    ++number_;
    const Object *event = value.getAsObject();
    if (!event)
      return wrong("it is no object");
    if (llvm::Error error = readEvent(*event))
      return error;
  }
  if (llvm::Error error = nest())
    return error;
  if (llvm::Error error = connect())
    return error;
  meet();
  return std::move(model_);
}

llvm::Error TraceReader::readEvent(const Object &event) {
  const llvm::StringRef phase = event.getString("ph").value_or("");
  if (!event.getInteger("pid") || !event.getInteger("tid"))
    return wrong("it has no `pid` or no `tid`");
  if (phase == "M")
    return readName(event);
  if (!event.getNumber("ts"))
    return wrong("it has no `ts`");
  if (phase == "X")
    return readSlice(event);
  if (phase == "s" || phase == "f")
    return readArrow(event, phase == "f");
  if (phase == "C")
    return llvm::Error::success();
  return wrong("`{0}` is no phase that dtile writes", phase);
}

llvm::Error TraceReader::readName(const Object &event) {
  const llvm::StringRef what = event.getString("name").value_or("");
  const Object *args = event.getObject("args");
  const llvm::StringRef name = args ? args->getString("name").value_or("") : "";
  const int process = int(*event.getInteger("pid"));
  if (what == "thread_name")
    model_.tracks.push_back({process, int(*event.getInteger("tid")), name.str()});
  if (what != "process_name")
    return llvm::Error::success();
  TraceProcess &made = model_.processes.emplace_back();
  made.id = process;
  made.name = name.str();
  const auto [section, rank] = name.rsplit("rank ");
  if (rank.getAsInteger(10, made.rank))
    return wrong("`{0}` is no name of a rank", name);
  made.section = section.drop_back(section.ends_with(", ") ? 2 : 0).str();
  return llvm::Error::success();
}

llvm::Error TraceReader::readSlice(const Object &event) {
  using Kind = TraceSlice::Kind;
  TraceSlice &slice = model_.slices.emplace_back();
  const auto duration = event.getNumber("dur");
  const llvm::StringRef category = event.getString("cat").value_or("");
  const Object *args = event.getObject("args");
  if (!duration || *duration < 0 || !event.getString("name") || !args)
    return wrong("a slice has a name, a duration and arguments");
  slice.kind = llvm::StringSwitch<Kind>(category)
                   .Case("launch", Kind::Launch)
                   .Cases({"prologue", "start"}, Kind::Step)
                   .Case("body", Kind::Body)
                   .Cases({"wait", "poll"}, Kind::Wait)
                   .Case("barrier", Kind::Barrier)
                   .Case("notify", Kind::Notify)
                   .Default(Kind::Transfer);
  slice.process = int(*event.getInteger("pid"));
  slice.track = int(*event.getInteger("tid"));
  slice.begin = nanoseconds(*event.getNumber("ts"));
  slice.end = slice.begin + nanoseconds(*duration);
  slice.name = event.getString("name")->str();
  slice.at = args->getString("at").value_or("").str();
  slice.space = args->getString("space").value_or("").str();
  slice.bytes = args->getInteger("bytes").value_or(0);
  slice.isBlocked =
      args->getBoolean("blocked").value_or(slice.kind == Kind::Barrier || category == "poll");
  slice.isUnfinished = args->getBoolean("unfinished").value_or(false);
  slice.queued = nanoseconds(args->getNumber("queued_us").value_or(0));
  slice.writerAt = args->getString("writer").value_or("").str();
  slice.writerRank = int(args->getInteger("writer_rank").value_or(-1));
  return llvm::Error::success();
}

llvm::Error TraceReader::readArrow(const Object &event, bool isEnd) {
  const auto id = event.getInteger("id");
  if (!id)
    return wrong("an arrow has an `id`");
  Arrow &arrow = arrows_[*id];
  bool &has = isEnd ? arrow.hasEnd : arrow.hasBegin;
  if (std::exchange(has, true))
    return wrong("arrow {0} has this end twice", *id);
  arrow.process[isEnd] = int(*event.getInteger("pid"));
  arrow.track[isEnd] = int(*event.getInteger("tid"));
  arrow.time[isEnd] = nanoseconds(*event.getNumber("ts"));
  return llvm::Error::success();
}

llvm::Error TraceReader::nest() {
  std::vector<TraceSlice> &slices = model_.slices;
  llvm::stable_sort(slices, [](const TraceSlice &a, const TraceSlice &b) {
    return std::tuple(a.process, a.track, a.begin) < std::tuple(b.process, b.track, b.begin);
  });
  std::vector<int> open;
  for (size_t i = 0; i < slices.size(); ++i) {
    TraceSlice &slice = slices[i];
    if (i == 0 || slices[i - 1].process != slice.process || slices[i - 1].track != slice.track) {
      open.clear();
      if (llvm::none_of(model_.tracks, [&](const TraceTrack &track) {
            return track.process == slice.process && track.id == slice.track;
          }))
        return llvm::createStringError("track " + std::to_string(slice.track) + " of process " +
                                       std::to_string(slice.process) + " has no name");
      if (!model_.process(slice.process))
        return llvm::createStringError("process " + std::to_string(slice.process) + " has no name");
    }
    while (!open.empty() && slices[size_t(open.back())].end <= slice.begin &&
           slices[size_t(open.back())].end < slice.end)
      open.pop_back();
    if (!open.empty() && slice.end > slices[size_t(open.back())].end)
      return llvm::createStringError("`" + slice.name + "` of process " +
                                     std::to_string(slice.process) +
                                     " ends after the slice that it is in");
    slice.parent = open.empty() ? -1 : open.back();
    open.push_back(int(i));
  }
  return llvm::Error::success();
}

int TraceReader::sliceAt(int process, int track, int64_t time, TraceSlice::Kind kind) const {
  const auto after =
      llvm::upper_bound(model_.slices, std::tuple(process, track, time),
                        [](const auto &place, const TraceSlice &slice) {
                          return place < std::tuple(slice.process, slice.track, slice.begin);
                        });
  for (auto it = after; it != model_.slices.begin();) {
    --it;
    if (it->process != process || it->track != track)
      break;
    if (it->kind == kind)
      return it->end >= time ? int(it - model_.slices.begin()) : -1;
  }
  return -1;
}

llvm::Error TraceReader::connect() {
  for (const auto &[id, arrow] : arrows_) {
    if (!arrow.hasBegin || !arrow.hasEnd)
      return llvm::createStringError("arrow " + std::to_string(id) + " has one end only");
    const int from =
        sliceAt(arrow.process[0], arrow.track[0], arrow.time[0], TraceSlice::Kind::Notify);
    const int to = sliceAt(arrow.process[1], arrow.track[1], arrow.time[1], TraceSlice::Kind::Wait);
    if (from < 0 || to < 0 || arrow.time[0] > arrow.time[1])
      return llvm::createStringError("arrow " + std::to_string(id) +
                                     " does not lead from a notify to a later wait");
    model_.slices[size_t(to)].writer = from;
  }
  return llvm::Error::success();
}

/// All ranks come to a barrier equally often, so those that meet have one number on each rank.
void TraceReader::meet() {
  std::map<std::string, size_t> ranks;
  for (const TraceProcess &process : model_.processes)
    ++ranks[process.section];
  std::map<std::pair<int, std::string>, size_t> come;
  std::map<std::tuple<std::string, std::string, size_t>, std::vector<TraceSlice *>> meetings;
  for (TraceSlice &slice : model_.slices)
    if (slice.kind == TraceSlice::Kind::Barrier)
      meetings[{model_.process(slice.process)->section, slice.at,
                come[{slice.process, slice.at}]++}]
          .push_back(&slice);
  for (const auto &[key, slices] : meetings) {
    TraceSlice &last = **llvm::max_element(
        slices, [](const auto *a, const auto *b) { return a->begin < b->begin; });
    if (slices.size() != ranks[std::get<0>(key)] ||
        llvm::any_of(slices, [&](const auto *slice) { return slice->end < last.begin; }))
      continue;
    for (TraceSlice *slice : slices) {
      slice->isBlocked = slice != &last;
      if (!slice->isBlocked)
        continue;
      slice->writer = int(&last - model_.slices.data());
      slice->writerRank = model_.process(last.process)->rank;
      slice->writerAt = last.at;
      slice->queued = slice->end - last.begin;
    }
  }
}

} // namespace

const TraceProcess *TraceModel::process(int id) const {
  const auto it = llvm::find_if(processes, [&](const TraceProcess &p) { return p.id == id; });
  return it == processes.end() ? nullptr : &*it;
}

llvm::Expected<TraceModel> readTrace(llvm::StringRef text) { return TraceReader().read(text); }

} // namespace dtile::driver
