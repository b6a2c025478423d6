// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Simulates a launch twice, with messages and without, and prints what that says.
#include "backend/driver/simulate/explain_simulation.h"

#include "backend/driver/explain/table.h"
#include "backend/driver/simulate/chakra_files.h"
#include "backend/driver/simulate/launch_of.h"

#include "frontend/base/check.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

#include <algorithm>

namespace dtile::driver {

using simulate::Link;
using simulate::LinkTimes;
using simulate::Outcome;
using simulate::SpaceTimes;

namespace {

std::string microseconds(double ns) { return llvm::formatv("{0:F1} us", ns / 1000).str(); }
std::string percent(double part, double whole) {
  return llvm::formatv("{0:F0}%", whole > 0 ? 100 * part / whole : 0).str();
}

const char *linkName(size_t link) {
  switch (Link(link)) {
  case Link::HostOut:
    return "links out of";
  case Link::HostIn:
    return "links into";
  case Link::NetworkOut:
    return "NIC out of";
  case Link::NetworkIn:
    return "NIC into";
  }
  return "";
}

struct BusiestLink {
  size_t link = 0;
  size_t rank = 0;
  LinkTimes times;
};

BusiestLink busiestOf(const Outcome &outcome) {
  BusiestLink found;
  for (const auto &[rank, links] : llvm::zip_equal(outcome.ranks, outcome.links))
    for (const auto [link, times] : llvm::enumerate(links))
      if (times.busy > found.times.busy)
        found = {link, size_t(rank), times};
  return found;
}

/// What is derived from a simulation with messages and one without.
struct Findings {
  Outcome real, free;
  BusiestLink busiest;
  /// When all programs would be done that never wait, and when the busiest link would.
  double programs = 0, link = 0;
  const SpaceTimes *last = nullptr;

  [[nodiscard]] double bound() const { return std::max(programs, link); }
  [[nodiscard]] double exposed() const { return std::max(real.time - free.time, 0.0); }
};

Findings findingsOf(Outcome real, Outcome free) {
  Findings made{.real = std::move(real), .free = std::move(free)};
  made.busiest = busiestOf(made.real);
  made.link = made.busiest.times.busy + made.real.overhead;
  double worked = 0;
  int64_t programs = 0;
  for (const SpaceTimes &space : made.real.spaces) {
    worked += space.worked;
    programs += space.programs;
    if (space.bodies > 0 && (!made.last || space.end > made.last->end))
      made.last = &space;
  }
  made.programs =
      worked / double(std::max<int64_t>(programs, 1) * made.real.simulated) + made.real.overhead;
  return made;
}

void printFindings(const SimulatedLaunch &launch, const Findings &f, llvm::raw_ostream &os) {
  const Outcome &real = f.real;
  os << launch.kernel << " on " << text(launch.cluster) << '\n';
  std::vector<Row> rows;
  if (!launch.constants.empty())
    rows.push_back({"constants",
                    launch.constants + (launch.isChosen ? ", by the model for these sizes" : "")});
  rows.push_back({"time", microseconds(real.time) + ", " + microseconds(real.overhead) +
                              " of it for the launch"});
  rows.push_back(
      {"bound", microseconds(f.bound()) + (f.link > f.programs ? ", by the busiest link"
                                                               : ", by the work of its programs")});
  rows.push_back({"exposed", microseconds(f.exposed()) + " of communication: " +
                                 microseconds(f.free.time) + " without messages"});
  if (f.busiest.times.busy > 0)
    rows.push_back({"busiest", llvm::formatv("{0} rank {1}: {2} of the time, {3:F1} MB",
                                             linkName(f.busiest.link), f.busiest.rank,
                                             percent(f.busiest.times.busy, real.time),
                                             f.busiest.times.bytes / 1e6)
                                   .str()});
  if (f.last)
    rows.push_back({"slowest", (f.last->name.empty() ? "(body)" : f.last->name) + " of rank " +
                                   std::to_string(f.last->lastRank) + ", at " +
                                   microseconds(f.last->end + real.overhead)});
  rows.push_back({"simulated", std::to_string(real.simulated) +
                                   (real.simulated < launch.cluster.ranks
                                        ? real.simulated == 1 ? " rank, which stands for all"
                                                              : " ranks, which stand for all"
                                    : real.simulated == 1 ? " rank"
                                                          : " ranks") +
                                   (real.isClose ? " but for the order of waits: " : ": ") +
                                   std::to_string(real.bodies) + " bodies, " +
                                   std::to_string(real.messages) + " messages"});
  printTable(rows, os);
  os << '\n';
  rows = {{"space", "programs", "bodies a rank", "works", "sends", "waits", "ends"}};
  for (const SpaceTimes &space : real.spaces) {
    // Of the time of its own programs; guests of other spaces make it more.
    const double all = space.worked + space.moved + space.waited;
    rows.push_back({space.name.empty() ? "(body)" : space.name, std::to_string(space.programs),
                    std::to_string(space.bodies / real.simulated), percent(space.worked, all),
                    percent(space.moved, all), percent(space.waited, all),
                    space.bodies > 0 ? microseconds(space.end + real.overhead) : "-"});
  }
  printTable(rows, os);
}

void printJson(const SimulatedLaunch &launch, const Findings &f, llvm::raw_ostream &os) {
  llvm::json::Array spaces;
  for (const SpaceTimes &space : f.real.spaces)
    spaces.push_back(llvm::json::Object{{"name", space.name},
                                        {"programs", space.programs},
                                        {"bodies", space.bodies / f.real.simulated},
                                        {"worked_ns", space.worked},
                                        {"moved_ns", space.moved},
                                        {"waited_ns", space.waited},
                                        {"end_ns", space.end + f.real.overhead},
                                        {"last_rank", space.lastRank}});
  llvm::json::Object made{{"kernel", launch.kernel},
                          {"constants", launch.constants},
                          {"ranks", launch.cluster.ranks},
                          {"ranks_per_host", launch.cluster.perHost},
                          {"machine", launch.cluster.machine->name.str()},
                          {"ns", f.real.time},
                          {"bound_ns", f.bound()},
                          {"exposed_ns", f.exposed()},
                          {"simulated_ranks", f.real.simulated},
                          {"same_waits", !f.real.isClose},
                          {"messages", f.real.messages},
                          {"spaces", std::move(spaces)}};
  made["network"] = launch.cluster.network ? llvm::json::Value(launch.cluster.network->name.str())
                                           : llvm::json::Value(nullptr);
  if (f.busiest.times.busy > 0)
    made["busiest_link"] = llvm::json::Object{{"link", linkName(f.busiest.link)},
                                              {"rank", int64_t(f.busiest.rank)},
                                              {"busy_ns", f.busiest.times.busy},
                                              {"bytes", f.busiest.times.bytes}};
  os << llvm::json::Value(std::move(made)) << '\n';
}

} // namespace

void explainSimulation(Session &session, llvm::StringRef path) {
  const auto program = analyzeFile(session, path);
  if (!program || !checkConstants(session, *program))
    return;
  const auto launch = launchOf(session, *program);
  if (!launch)
    return;
  PhaseScope phase("simulating a launch");
  simulate::Options options;
  options.allRanks = session.options.allRanks;
  TraceRecorder recorder;
  const std::string &folder = session.options.chakra;
  if (!folder.empty())
    options.record = [&](const simulate::Event &event) { recorder(event); };
  const auto simulated = [&]() -> std::optional<Outcome> {
    auto made = launch->launch->run(options);
    if (auto *outcome = std::get_if<Outcome>(&made))
      return std::move(*outcome);
    const auto &obstacle = std::get<simulate::Obstacle>(made);
    session.diagnostics.report(obstacle.loc, diag::cannot_simulate, launch->kernel, obstacle.why);
    return std::nullopt;
  };
  auto real = simulated();
  if (!real)
    return;
  if (!folder.empty() &&
      !writeChakraFiles(session, folder, launch->kernel, launch->cluster,
                        recorder.graph(launch->cluster, real->simulated, real->spaces)))
    return;
  options.isFree = true;
  options.record = nullptr;
  auto free = simulated();
  if (!free)
    return;
  const Findings findings = findingsOf(std::move(*real), std::move(*free));
  if (session.options.json)
    printJson(*launch, findings, llvm::outs());
  else
    printFindings(*launch, findings, llvm::outs());
}

} // namespace dtile::driver
