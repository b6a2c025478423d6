// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Prints what trace_summary.cpp has found.
#include "backend/driver/explain/table.h"
#include "backend/driver/trace/trace_summary.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

namespace dtile::driver {

namespace {

constexpr size_t kShownRanks = 16;
constexpr size_t kShownWaits = 8;
constexpr size_t kShownPrograms = 3;
constexpr size_t kShownSteps = 8;
constexpr size_t kShownTeams = 8;

std::string timeText(int64_t ns) {
  if (ns < 10'000'000)
    return llvm::formatv("{0:f1} us", double(ns) / 1e3).str();
  return llvm::formatv("{0:f2} ms", double(ns) / 1e6).str();
}

std::string partText(int64_t part, int64_t whole) {
  return timeText(part) +
         llvm::formatv(" ({0:f0} %)", whole > 0 ? 100.0 * double(part) / double(whole) : 0.0).str();
}

void printRanks(const TeamSummary &team, llvm::raw_ostream &os) {
  std::vector<Row> rows = {
      {"rank", "launches", "computes", "exposed: moves", "exposed: waits", "no worker"}};
  int64_t launches = 0, exposed = 0;
  for (const RankTimes &times : team.ranks) {
    launches += times.launches;
    exposed += times.exposed();
    if (rows.size() <= kShownRanks)
      rows.push_back({std::to_string(times.rank), timeText(times.launches),
                      partText(times.computes, times.launches),
                      partText(times.moves, times.launches), partText(times.waits, times.launches),
                      partText(times.queued, times.launches)});
  }
  os << llvm::formatv("exposed communication: {0:f1} % of the ranks' time in launches\n",
                      launches > 0 ? 100.0 * double(exposed) / double(launches) : 0.0);
  printTable(rows, os);
  if (team.ranks.size() > kShownRanks)
    os << "  and " << team.ranks.size() - kShownRanks << " more ranks\n";
}

void printLate(const TeamSummary &team, llvm::raw_ostream &os) {
  if (!team.late)
    return;
  const LateRank &late = *team.late;
  os << llvm::formatv(
      "late: rank {0}; other ranks wait {1} for it, {2:f0} % of their time in "
      "launches\n  its `{3}: {4}` begins {5} after the launch, and comes to {6} {7} "
      "later\n",
      late.rank, timeText(late.waited),
      100.0 * double(late.waited) / double(std::max<int64_t>(late.launches, 1)), late.space,
      late.body, timeText(late.begins), late.at, timeText(late.runs));
}

llvm::StringRef kindText(PathStep::Kind kind) {
  switch (kind) {
  case PathStep::Kind::Computes:
    return "computes";
  case PathStep::Kind::Moves:
    return "moves and notifies";
  case PathStep::Kind::Waits:
    return "waits, for whom is not known";
  case PathStep::Kind::Queued:
    return "waits for a worker";
  case PathStep::Kind::Other:
    return "has no worker, or is between launches";
  }
  return "";
}

void printPath(const TeamSummary &team, llvm::raw_ostream &os) {
  std::map<std::tuple<int, std::string, PathStep::Kind>, int64_t> parts;
  int64_t total = 0;
  size_t changes = 0;
  int rank = team.path.empty() ? 0 : team.path.front().rank;
  for (const PathStep &step : team.path) {
    parts[{step.rank, step.space, step.kind}] += step.time;
    total += step.time;
    changes += step.rank != rank;
    rank = step.rank;
  }
  os << "critical path: " << timeText(total) << ", from rank to rank " << changes << " times\n";
  std::vector<std::pair<int64_t, Row>> rows;
  for (const auto &[part, time] : parts) {
    const auto &[of, space, kind] = part;
    rows.push_back(
        {time, {"rank " + std::to_string(of), space, kindText(kind).str(), partText(time, total)}});
  }
  llvm::stable_sort(rows, [](const auto &a, const auto &b) { return a.first > b.first; });
  std::vector<Row> shown;
  for (auto &[time, row] : rows)
    if (shown.size() < kShownSteps)
      shown.push_back(std::move(row));
  printTable(shown, os);
}

void printPrograms(const TeamSummary &team, llvm::raw_ostream &os) {
  if (team.programs.empty())
    return;
  os << "slowest programs, without what they wait for\n";
  std::vector<Row> rows = {{"rank", "program", "time", "bodies", "slowest body", ""}};
  for (const ProgramTime &program : team.programs)
    if (rows.size() <= kShownPrograms)
      rows.push_back({std::to_string(program.rank), program.name, timeText(program.busy),
                      std::to_string(program.bodies), program.slowest,
                      timeText(program.slowestTime)});
  printTable(rows, os);
}

void printWaits(const TeamSummary &team, llvm::raw_ostream &os) {
  std::vector<Row> rows = {{"place", "waits", "not at once", "time", "longest", "mostly for", ""}};
  for (const WaitPlace &place : team.waits) {
    if (rows.size() > kShownWaits)
      break;
    const auto most = llvm::max_element(
        place.writers, [](const auto &a, const auto &b) { return a.second < b.second; });
    const bool isKnown = most != place.writers.end();
    rows.push_back({place.at, std::to_string(place.count), std::to_string(place.blocked),
                    timeText(place.total), timeText(place.longest), isKnown ? most->first : "",
                    isKnown ? timeText(most->second) : ""});
  }
  os << (rows.size() == 1 ? "no waits\n" : "waits by place, the worst first\n");
  if (rows.size() > 1)
    printTable(rows, os);
}

} // namespace

void printSummary(const TraceModel &trace, llvm::raw_ostream &os) {
  std::vector<TeamSummary> teams = summarize(trace);
  const size_t all = teams.size();
  if (all == 0)
    os << "nothing was traced\n";
  // Those that took longest, in the order in which they ran.
  std::vector<const TeamSummary *> order;
  for (const TeamSummary &team : teams)
    order.push_back(&team);
  llvm::stable_sort(
      order, [](const auto *a, const auto *b) { return a->end - a->begin > b->end - b->begin; });
  order.resize(std::min(all, kShownTeams));
  llvm::sort(order);
  for (const TeamSummary *team : order) {
    os << (team->section.empty() ? "" : team->section + ": ") << team->ranks.size()
       << (team->ranks.size() == 1 ? " rank, " : " ranks, ") << team->launches
       << " launches of ranks, " << timeText(team->end - team->begin) << " from begin to end\n";
    printRanks(*team, os);
    printLate(*team, os);
    printPath(*team, os);
    printPrograms(*team, os);
    printWaits(*team, os);
  }
  if (order.size() < all)
    os << "and " << all - order.size() << " more that took less time\n";
  if (trace.dropped > 0)
    os << "the trace leaves out " << trace.dropped << " slices\n";
}

} // namespace dtile::driver
