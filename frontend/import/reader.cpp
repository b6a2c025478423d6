// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What both formats mean in the same way: collectives and their sizes, buffers that are one, the
// root of a broadcast, and steps that would wait for themselves.
#include "frontend/import/reader.h"

#include "frontend/base/check.h"
#include "frontend/import/import.h"

#include "llvm/ADT/StringSwitch.h"

#include <set>

namespace dtile::imported {

std::optional<Collective> collectiveOf(llvm::StringRef name) {
  return llvm::StringSwitch<std::optional<Collective>>(name.lower())
      .Cases({"allreduce", "all_reduce"}, Collective::AllReduce)
      .Cases({"allgather", "all_gather"}, Collective::AllGather)
      .Cases({"reducescatter", "reduce_scatter"}, Collective::ReduceScatter)
      .Cases({"alltoall", "all_to_all"}, Collective::AllToAll)
      .Case("broadcast", Collective::Broadcast)
      .Default(std::nullopt);
}

std::optional<int64_t> outputChunksOf(Collective collective, int64_t inputChunks, int64_t ranks) {
  switch (collective) {
  case Collective::AllReduce:
  case Collective::Broadcast:
    return inputChunks;
  case Collective::AllGather:
    return inputChunks * ranks;
  case Collective::ReduceScatter:
    return inputChunks % ranks == 0 ? std::optional(inputChunks / ranks) : std::nullopt;
  case Collective::AllToAll:
    return inputChunks % ranks == 0 ? std::optional(inputChunks) : std::nullopt;
  }
  return std::nullopt;
}

Region inOneBuffer(const Algorithm &algorithm, Region region) {
  if (!algorithm.inPlace)
    return region;
  switch (algorithm.collective) {
  case Collective::AllGather:
    if (region.buffer == Buffer::Input) {
      region.buffer = Buffer::Output;
      region.index += region.rank * algorithm.inputChunks;
    }
    break;
  case Collective::ReduceScatter:
    if (region.buffer == Buffer::Output) {
      region.buffer = Buffer::Input;
      region.index += region.rank * algorithm.outputChunks;
    }
    break;
  case Collective::AllReduce:
  case Collective::AllToAll:
  case Collective::Broadcast:
    if (region.buffer == Buffer::Output)
      region.buffer = Buffer::Input;
    break;
  }
  return region;
}

int addEvent(Algorithm &algorithm, EventKind kind, int rank, int64_t count) {
  algorithm.events.push_back({.kind = kind, .rank = rank, .count = count});
  return int(algorithm.events.size()) - 1;
}

namespace {

// The one rank whose input goes anywhere.
bool findRoot(Algorithm &algorithm, Reader &reader) {
  std::set<int> roots;
  for (int rank = 0; rank < algorithm.ranks; ++rank)
    if (algorithm.inPlace)
      roots.insert(rank);
  for (const ThreadBlock &block : algorithm.blocks)
    for (const Step &step : block.steps) {
      // In place, the root is who gets nothing; else, whose input is read.
      if (algorithm.inPlace)
        for (const Region &target : step.targets)
          if (target.buffer == Buffer::Input)
            roots.erase(target.rank);
      if (!algorithm.inPlace)
        for (const Region &source : step.sources)
          if (source.buffer == Buffer::Input)
            roots.insert(source.rank);
    }
  if (roots.size() == 1) {
    algorithm.root = *roots.begin();
    return true;
  }
  reader.diags.report(algorithm.place, diag::import_not_understood, "this broadcast",
                      roots.empty() ? "no rank is its root"
                                    : "several ranks might be its root: a root gets nothing, "
                                      "and it alone has an input");
  return false;
}

// Steps as a graph: a step follows the one before it in its block, and all that notify what it
// waits for. Steps that remain when those that can run have run wait for each other.
class Progress {
public:
  explicit Progress(const Algorithm &algorithm) : algorithm_(algorithm) {
    for (const ThreadBlock &block : algorithm.blocks)
      for (const Step &step : block.steps)
        steps_.push_back({.step = &step, .isFirst = &step == &block.steps.front()});
    notifiers_.resize(algorithm.events.size());
    for (size_t i = 0; i < steps_.size(); ++i)
      for (const int event : steps_[i].step->notifies)
        notifiers_[size_t(event)].push_back(i);
  }

  /// The steps of a circle, or none.
  std::vector<const Step *> findCircle() {
    run();
    size_t at = 0;
    while (at < steps_.size() && steps_[at].hasRun)
      ++at;
    if (at == steps_.size())
      return {};
    // Whoever has not run waits for one that has not run either; so this comes back to itself.
    std::vector<size_t> path;
    std::vector<bool> seen(steps_.size());
    while (!seen[at]) {
      seen[at] = true;
      path.push_back(at);
      at = waitsFor(at);
    }
    std::vector<const Step *> circle;
    for (auto it = std::find(path.begin(), path.end(), at); it != path.end(); ++it)
      circle.push_back(steps_[*it].step);
    return circle;
  }

private:
  struct Node {
    const Step *step;
    bool isFirst;
    bool hasRun = false;
  };

  const Algorithm &algorithm_;
  std::vector<Node> steps_;
  std::vector<std::vector<size_t>> notifiers_;

  void run() {
    std::vector<size_t> missing(algorithm_.events.size());
    for (size_t event = 0; event < missing.size(); ++event)
      missing[event] = notifiers_[event].size();
    std::vector<std::vector<size_t>> waiting(algorithm_.events.size());
    std::vector<size_t> ready;
    for (size_t i = 0; i < steps_.size(); ++i)
      if (steps_[i].isFirst)
        ready.push_back(i);
    while (!ready.empty()) {
      const size_t i = ready.back();
      ready.pop_back();
      const auto &waits = steps_[i].step->waits;
      const auto blocking =
          std::find_if(waits.begin(), waits.end(), [&](int e) { return missing[size_t(e)] != 0; });
      if (blocking != waits.end()) {
        waiting[size_t(*blocking)].push_back(i);
        continue;
      }
      steps_[i].hasRun = true;
      for (const int event : steps_[i].step->notifies)
        if (--missing[size_t(event)] == 0)
          ready.insert(ready.end(), waiting[size_t(event)].begin(), waiting[size_t(event)].end());
      if (i + 1 < steps_.size() && !steps_[i + 1].isFirst)
        ready.push_back(i + 1);
    }
  }

  size_t waitsFor(size_t i) {
    if (!steps_[i].isFirst && !steps_[i - 1].hasRun)
      return i - 1;
    for (const int event : steps_[i].step->waits)
      for (const size_t notifier : notifiers_[size_t(event)])
        if (!steps_[notifier].hasRun)
          return notifier;
    DTILE_UNREACHABLE("a step that waits for nothing has run");
  }
};

} // namespace

bool finish(Algorithm &algorithm, Reader &reader) {
  if (algorithm.collective == Collective::Broadcast && !findRoot(algorithm, reader))
    return false;
  const std::vector<const Step *> circle = Progress(algorithm).findCircle();
  if (circle.empty())
    return true;
  DiagBuilder report = reader.diags.report(circle.front()->place, diag::import_circle);
  // A long circle is shown in its first steps.
  constexpr size_t kShown = 8;
  for (size_t i = 1; i < std::min(circle.size(), kShown); ++i)
    report.note(circle[i]->place, diag::note_import_waits);
  return false;
}

std::optional<std::string> importProgram(FileId file, const SourceManager &sources,
                                         Diagnostics &diagnostics) {
  Reader reader{.file = file, .sources = sources, .diags = diagnostics};
  llvm::StringRef text = sources.text(file);
  text.consume_front("\xef\xbb\xbf");
  const llvm::StringRef start = text.ltrim();
  if (!start.starts_with("<") && !start.starts_with("{")) {
    diagnostics.report(reader.range(0, 0), diag::import_format, sources.name(file));
    return std::nullopt;
  }
  std::optional<Algorithm> algorithm =
      start.starts_with("<") ? readMsccl(reader) : readPlan(reader);
  if (!algorithm || !finish(*algorithm, reader))
    return std::nullopt;
  // Of the ways to put blocks side by side, the one in which the ranks differ least.
  std::string shortest;
  for (const BlockOrder order : kBlockOrders) {
    arrange(*algorithm, order);
    std::string text = writeProgram(*algorithm);
    if (shortest.empty() || text.size() < shortest.size())
      shortest = std::move(text);
  }
  return shortest + writePlan(*algorithm);
}

} // namespace dtile::imported
