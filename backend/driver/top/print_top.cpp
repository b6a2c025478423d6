// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Jobs for people: a table of ranks, what they have notified, and who waits for whom.
#include "backend/driver/explain/table.h"
#include "backend/driver/top/top_view.h"

#include "backend/runtime/telemetry/wait_graph.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"

#include <string>
#include <vector>

namespace dtile::driver {

using namespace runtime::telemetry;

llvm::StringRef stateName(RankState state) {
  switch (state) {
  case RankState::Idle:
    return "idle";
  case RankState::Begins:
    return "begins";
  case RankState::Runs:
    return "runs";
  case RankState::Failed:
    return "failed";
  }
  return "";
}

namespace {

/// More ranks than this are not shown against each other.
constexpr int32_t kMostColumns = 16;

std::string seconds(int64_t ns) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.1f s", double(std::max<int64_t>(ns, 0)) / 1e9);
  return text;
}

/// Since when the rank has waited for `peer` alone, in bodies; "" where it does not.
std::string waitFor(const JobView &job, int32_t rank, int32_t peer) {
  size_t bodies = 0;
  int64_t since = job.nowNs;
  for (const ProcessView &process : job.processes)
    for (const WaitView &wait : process.waits)
      if (wait.rank == rank && wait.fromRank == peer) {
        ++bodies;
        since = std::min(since, wait.sinceNs);
      }
  return bodies == 0 ? std::string()
                     : " (waits " + seconds(job.nowNs - since) +
                           (bodies == 1 ? ")" : ", " + std::to_string(bodies) + " bodies)");
}

void printRanks(const JobView &job, llvm::raw_ostream &out) {
  std::vector<Row> table = {
      {"rank", "process", "state", "since", "moved", "kernel", "begun", "ended", "waits"}};
  for (int32_t rank = 0; rank < job.ranks(); ++rank) {
    const RankView *view = job.rank(rank);
    if (!view) {
      if (job.ranks() <= kMostColumns || job.processes.front().isDirect)
        table.push_back({std::to_string(rank), "-",
                         job.processes.front().isDirect ? "gone" : "not here", "", "", "", "", "",
                         ""});
      continue;
    }
    const ProcessView *process = job.processOf(rank);
    const auto waits =
        llvm::count_if(process->waits, [&](const WaitView &wait) { return wait.rank == rank; });
    table.push_back({std::to_string(rank), std::to_string(process->pid),
                     process->isStopped ? "stopped" : stateName(view->state).str(),
                     seconds(job.nowNs - view->sinceNs),
                     seconds(job.nowNs - view->movedNs) + " ago", view->kernel,
                     std::to_string(view->begun), std::to_string(view->ended),
                     std::to_string(waits)});
  }
  printTable(table, out);
}

/// A row a rank that waits or notifies, a column a peer. GPUs count no notifies for others to see.
void printPeers(const JobView &job, llvm::raw_ostream &out) {
  if (job.ranks() > kMostColumns || job.processes.front().kind == Kind::Gpus)
    return;
  Row head = {"from"};
  for (int32_t peer = 0; peer < job.ranks(); ++peer)
    head.push_back("to " + std::to_string(peer));
  std::vector<Row> table = {std::move(head)};
  for (int32_t rank = 0; rank < job.ranks(); ++rank) {
    const RankView *view = job.rank(rank);
    if (!view)
      continue;
    Row row = {std::to_string(rank)};
    for (int32_t peer = 0; peer < job.ranks(); ++peer)
      row.push_back(std::to_string(view->peers[size_t(peer)].notified) + waitFor(job, peer, rank));
    table.push_back(std::move(row));
  }
  out << "notifies" << (job.processes.front().isDirect ? ", all landed" : " sent") << ":\n";
  printTable(table, out);
}

} // namespace

void printTop(llvm::ArrayRef<JobView> jobs, const Looks &earlier, bool stragglers,
              llvm::raw_ostream &out) {
  for (const auto &[i, job] : llvm::enumerate(jobs)) {
    const ProcessView &first = job.processes.front();
    if (i != 0)
      out << '\n';
    out << "job " << llvm::format_hex_no_prefix(job.job, 1) << ": " << first.ranks
        << (first.kind == Kind::Gpus ? " GPUs" : " ranks") << " of `" << first.program << "`, "
        << job.processes.size() << (job.processes.size() == 1 ? " process, " : " processes, ")
        << seconds(job.nowNs - first.createdNs) << '\n';
    if (stragglers) {
      out << textOf(findStragglers(job, earlier));
      continue;
    }
    printRanks(job, out);
    printPeers(job, out);
    const WaitGraph graph = waitGraphOf(job);
    out << textOf(graph);
    uint64_t left = 0;
    for (const ProcessView &process : job.processes)
      left += process.waitsLeftOut;
    if (left != 0)
      out << left << " waits had no room to be shown\n";
  }
}

} // namespace dtile::driver
