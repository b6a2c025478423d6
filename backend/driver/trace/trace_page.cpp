// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Puts a trace into page.html, in the form that its script reads.
#include "backend/driver/trace/trace_page.h"

#include "backend/driver/trace/trace_summary.h"

#include "frontend/base/check.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

#include <map>

namespace dtile::driver {

namespace {

constexpr llvm::StringLiteral kHole = "@TRACE@";

/// Texts by number: most slices share theirs.
class Names {
public:
  int number(llvm::StringRef text) {
    const auto [it, isNew] = numbers_.try_emplace(text, int(texts_.size()));
    if (isNew)
      texts_.push_back(text.str());
    return it->second;
  }
  [[nodiscard]] const std::vector<std::string> &texts() const { return texts_; }

private:
  llvm::StringMap<int> numbers_;
  std::vector<std::string> texts_;
};

/// What stands below the name of a slice; "" for nothing.
std::string detailText(const TraceSlice &slice) {
  if (slice.kind == TraceSlice::Kind::Transfer)
    return llvm::formatv("{0} bytes", slice.bytes).str();
  if (slice.kind != TraceSlice::Kind::Wait)
    return slice.isUnfinished ? "not ended: the launch failed" : "";
  if (slice.isUnfinished)
    return "not ended: the launch failed";
  std::string text = slice.isBlocked ? "" : "it was there already; ";
  if (slice.writerRank >= 0)
    text += llvm::formatv("from rank {0}, {1}", slice.writerRank, slice.writerAt).str();
  if (slice.queued > 0)
    text += llvm::formatv("; {0:f1} us of it for a worker", double(slice.queued) / 1e3).str();
  return text;
}

std::string pageData(const TraceModel &trace) {
  Names names;
  std::map<std::pair<int, int>, int> tracks;
  std::map<int, int> processes;
  llvm::json::Array processNames, trackList, slices, arrows;
  for (const TraceProcess &process : trace.processes) {
    processes[process.id] = int(processNames.size());
    processNames.push_back(process.name);
  }
  for (const TraceSlice &slice : trace.slices)
    tracks[{slice.process, slice.track}] = 0;
  // In order of ranks, and of tracks in them.
  for (auto &[key, number] : tracks) {
    number = int(trackList.size());
    std::string name;
    for (const TraceTrack &track : trace.tracks)
      if (track.process == key.first && track.id == key.second)
        name = track.name;
    trackList.push_back(
        llvm::json::Object{{"process", processes.at(key.first)}, {"name", std::move(name)}});
  }
  for (size_t i = 0; i < trace.slices.size(); ++i) {
    const TraceSlice &slice = trace.slices[i];
    llvm::json::Array row{tracks.at({slice.process, slice.track}),
                          slice.begin,
                          slice.end - slice.begin,
                          int(slice.kind),
                          names.number(slice.name),
                          slice.at.empty() ? -1 : names.number(slice.at),
                          slice.parent};
    if (std::string detail = detailText(slice); !detail.empty())
      row.push_back(std::move(detail));
    slices.push_back(std::move(row));
    if (slice.writer >= 0)
      arrows.push_back(llvm::json::Array{slice.writer, int64_t(i)});
  }
  std::string summary;
  llvm::raw_string_ostream os(summary);
  printSummary(trace, os);
  llvm::json::Object data{
      {"summary", std::move(summary)},  {"processes", std::move(processNames)},
      {"tracks", std::move(trackList)}, {"names", llvm::json::Array(names.texts())},
      {"slices", std::move(slices)},    {"arrows", std::move(arrows)}};
  return llvm::formatv("{0}", llvm::json::Value(std::move(data))).str();
}

} // namespace

std::string tracePage(const TraceModel &trace) {
  const llvm::ArrayRef<EmbeddedFile> pages = tracePages();
  DTILE_CHECK(pages.size() == 1, "one page is embedded");
  const auto [before, after] = pages.front().text.split(kHole);
  std::string page = before.str();
  // Names must not end the script.
  for (const char c : pageData(trace)) {
    if (c == '<')
      page += "\\u003c";
    else
      page += c;
  }
  page += after;
  return page;
}

} // namespace dtile::driver
