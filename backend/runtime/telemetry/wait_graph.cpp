// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Nodes are roles of ranks. What nobody in the graph can end by itself is a strongly connected
// component without an edge out of it: of those the root is the one that most nodes wait for, by
// whatever way.
#include "backend/runtime/telemetry/wait_graph.h"

#include "backend/runtime/text/text_files.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace dtile::runtime::telemetry {

namespace {

class Builder {
public:
  explicit Builder(const JobView &job) : job_(job) {
    graph_.job = job.job;
    graph_.ranks = job.ranks();
    for (const ProcessView &process : job.processes)
      for (const RankView &rank : process.local)
        mostBegun_ = std::max(mostBegun_, rank.begun);
  }

  WaitGraph build() {
    for (const ProcessView &process : job_.processes) {
      // What a stopped process waited for need not keep it.
      for (size_t i = 0; !process.isStopped && i < process.waits.size(); ++i)
        addWait(process.waits[i]);
      for (size_t i = 0; !process.isStopped && i < process.local.size(); ++i)
        addEntry(process.local[i]);
      if (process.failureCode != 0)
        graph_.failures.push_back(process.failure);
    }
    std::sort(graph_.edges.begin(), graph_.edges.end(),
              [&](const WaitEdge &a, const WaitEdge &b) { return keyOf(a) < keyOf(b); });
    for (WaitNode &node : graph_.nodes)
      describe(node);
    return std::move(graph_);
  }

private:
  [[nodiscard]] std::tuple<int32_t, std::string, std::string, std::string>
  keyOf(const WaitEdge &edge) const {
    const WaitNode &node = graph_.nodes[edge.from];
    return {node.rank, node.role, edge.place, edge.cell};
  }

  size_t nodeOf(int32_t rank, const std::string &role) {
    const auto [at, isNew] = known_.try_emplace({rank, role}, graph_.nodes.size());
    if (isNew) {
      WaitNode &node = graph_.nodes.emplace_back();
      node.rank = rank;
      node.role = role;
    }
    return at->second;
  }

  void addWait(const WaitView &wait) {
    const size_t from = nodeOf(wait.rank, wait.role);
    const int64_t ms = std::max<int64_t>(0, job_.nowNs - wait.sinceNs) / 1'000'000;
    for (WaitEdge &edge : graph_.edges)
      if (edge.from == from && edge.place == wait.place && edge.cell == wait.cell &&
          edge.kernel == wait.kernel && edge.wanted == wait.wanted) {
        ++edge.bodies;
        edge.waitedMs = std::max(edge.waitedMs, ms);
        return;
      }
    WaitEdge edge;
    edge.from = from;
    edge.isBarrier = wait.isBarrier || wait.isMeeting;
    edge.kernel = wait.kernel;
    edge.place = wait.place;
    edge.body = wait.body;
    edge.cell = wait.cell;
    edge.notifiedAt = wait.fromPlace;
    edge.wanted = wait.wanted;
    edge.seen = wait.seen;
    edge.waitedMs = ms;
    std::vector<std::string> roles = wait.fromRoles;
    if (roles.empty())
      roles.emplace_back();
    const bool isForAll = wait.isBarrier || (wait.isMeeting && !wait.fromRank);
    for (int32_t rank = 0; rank < graph_.ranks; ++rank) {
      if (isForAll) {
        if (!isAt(rank, wait))
          edge.to.push_back(nodeOf(rank, wait.role));
        continue;
      }
      if (wait.fromRank && *wait.fromRank != rank)
        continue;
      for (const std::string &role : roles)
        edge.to.push_back(nodeOf(rank, role));
    }
    // Where all are there, it is about to end.
    if (!edge.to.empty())
      graph_.edges.push_back(std::move(edge));
  }

  /// Whether a rank is at the same barrier or meeting. Who is stopped in a meeting has not left it,
  /// and perhaps keeps the others there.
  [[nodiscard]] bool isAt(int32_t rank, const WaitView &wait) const {
    for (const ProcessView &process : job_.processes)
      for (const WaitView &other : process.waits)
        if (other.rank == rank && other.isBarrier == wait.isBarrier &&
            other.isMeeting == wait.isMeeting && other.place == wait.place &&
            other.kernel == wait.kernel)
          return wait.isBarrier || !process.isStopped;
    return false;
  }

  /// Ranks meet before the bodies of some launches.
  void addEntry(const RankView &rank) {
    if (rank.state != RankState::Begins)
      return;
    WaitEdge edge;
    for (int32_t other = 0; other < graph_.ranks; ++other) {
      const RankView *there = job_.rank(other);
      if (!there || there->begun < rank.begun)
        edge.to.push_back(nodeOf(other, ""));
    }
    if (edge.to.empty())
      return;
    edge.from = nodeOf(rank.rank, "");
    edge.isBarrier = true;
    edge.kernel = rank.kernel;
    edge.place = "the start of a launch";
    edge.waitedMs = std::max<int64_t>(0, job_.nowNs - rank.sinceNs) / 1'000'000;
    graph_.edges.push_back(std::move(edge));
  }

  void describe(WaitNode &node) {
    const size_t number = size_t(&node - graph_.nodes.data());
    const RankView *rank = job_.rank(node.rank);
    const auto number64 = [](uint64_t count) { return static_cast<unsigned long long>(count); };
    if (!rank) {
      node.state = NodeState::Gone;
      node.words = job_.processes.front().isDirect
                       ? "gone: no process of this machine has the rank any more"
                       : "gone, or on another machine";
      return;
    }
    if (job_.processOf(node.rank)->isStopped) {
      node.state = NodeState::Stopped;
      node.words =
          format("process %lld is stopped", static_cast<long long>(job_.processOf(node.rank)->pid));
      return;
    }
    if (std::any_of(graph_.edges.begin(), graph_.edges.end(),
                    [&](const WaitEdge &edge) { return edge.from == number; })) {
      node.state = NodeState::Waits;
      node.words = "waits";
      return;
    }
    if (rank->begun < mostBegun_) {
      node.state = NodeState::Late;
      node.words = format("late: has begun %llu launches, and others %llu", number64(rank->begun),
                          number64(mostBegun_));
      return;
    }
    node.state = NodeState::Runs;
    node.words = rank->state == RankState::Runs
                     ? format("runs, or has ended its bodies; moved %lld ms ago",
                              static_cast<long long>(
                                  std::max<int64_t>(0, job_.nowNs - rank->movedNs) / 1'000'000))
                     : "has ended the launch";
  }

  const JobView &job_;
  WaitGraph graph_;
  uint64_t mostBegun_ = 0;
  std::map<std::pair<int32_t, std::string>, size_t> known_;
};

/// What each node reaches, itself left out unless it is on a cycle.
std::vector<std::set<size_t>> reachOf(const WaitGraph &graph) {
  std::vector<std::set<size_t>> next(graph.nodes.size()), reach(graph.nodes.size());
  for (const WaitEdge &edge : graph.edges)
    next[edge.from].insert(edge.to.begin(), edge.to.end());
  for (size_t node = 0; node < next.size(); ++node) {
    std::vector<size_t> open(next[node].begin(), next[node].end());
    while (!open.empty()) {
      const size_t at = open.back();
      open.pop_back();
      if (reach[node].insert(at).second)
        open.insert(open.end(), next[at].begin(), next[at].end());
    }
  }
  return reach;
}

void markRoots(WaitGraph &graph) {
  const auto reach = reachOf(graph);
  size_t most = 0;
  std::vector<size_t> waiters(graph.nodes.size());
  for (size_t node = 0; node < graph.nodes.size(); ++node) {
    // Where all that it reaches reaches it, nothing outside can help.
    const bool isLast = std::all_of(reach[node].begin(), reach[node].end(),
                                    [&](size_t other) { return reach[other].count(node) != 0; });
    if (!isLast)
      continue;
    for (const auto &from : reach)
      waiters[node] += from.count(node);
    most = std::max(most, waiters[node]);
  }
  for (size_t node = 0; node < graph.nodes.size(); ++node) {
    graph.nodes[node].isRoot = most != 0 && waiters[node] == most;
    graph.isCycle |= graph.nodes[node].isRoot && reach[node].count(node) != 0;
  }
}

std::string nameOf(const WaitNode &node) {
  return format("rank %d", node.rank) + (node.role.empty() ? "" : ", role `" + node.role + "`");
}

std::string forWhat(const WaitEdge &edge) {
  if (edge.isBarrier)
    return "at a barrier";
  return format("for `%s`: wants %llu, has seen %llu", edge.cell.c_str(),
                static_cast<unsigned long long>(edge.wanted),
                static_cast<unsigned long long>(edge.seen));
}

const char *stateName(NodeState state) {
  switch (state) {
  case NodeState::Waits:
    return "waits";
  case NodeState::Runs:
    return "runs";
  case NodeState::Late:
    return "late";
  case NodeState::Stopped:
    return "stopped";
  case NodeState::Gone:
    return "gone";
  }
  return "";
}

} // namespace

WaitGraph waitGraphOf(const JobView &job) {
  WaitGraph graph = Builder(job).build();
  markRoots(graph);
  return graph;
}

std::string textOf(const WaitGraph &graph) {
  constexpr size_t kMostNames = 4;
  std::string text;
  for (const WaitEdge &edge : graph.edges) {
    text += edge.place + ": " + nameOf(graph.nodes[edge.from]);
    if (!edge.body.empty())
      text += " (" + edge.body + ")";
    if (edge.bodies > 1)
      text += format(" and %zu more bodies", edge.bodies - 1);
    if (!edge.kernel.empty())
      text += " in `" + edge.kernel + "`";
    text +=
        format(" %s %.1f s ", edge.bodies > 1 ? "wait" : "waits", double(edge.waitedMs) / 1000) +
        forWhat(edge);
    for (size_t i = 0; i < edge.to.size() && i < kMostNames; ++i)
      text += (i == 0           ? "; it is for "
               : edge.isBarrier ? " and "
                                : " or ") +
              nameOf(graph.nodes[edge.to[i]]);
    if (edge.to.size() > kMostNames)
      text += format(" … %zu in all", edge.to.size());
    if (!edge.notifiedAt.empty())
      text += " to notify it, at " + edge.notifiedAt;
    text += "\n";
  }
  for (const WaitNode &node : graph.nodes)
    if (node.isRoot)
      text += "root: " + nameOf(node) + ": " +
              (graph.isCycle ? "in a circle of waits" : node.words) + "\n";
  for (const std::string &failure : graph.failures)
    text += "failed: " + failure + "\n";
  return text;
}

std::string dotOf(const WaitGraph &graph) {
  std::string text = format("digraph waits {\n  label=\"job %llx, %d ranks\";\n"
                            "  node [shape=box];\n",
                            static_cast<unsigned long long>(graph.job), graph.ranks);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const WaitNode &node = graph.nodes[i];
    text += format("  n%zu [label=", i) + quoted(nameOf(node) + ": " + node.words) +
            (node.isRoot ? ", style=filled, fillcolor=\"#f4a6a6\", penwidth=2" : "") + "];\n";
  }
  for (const WaitEdge &edge : graph.edges)
    for (const size_t to : edge.to)
      text += format("  n%zu -> n%zu [label=", edge.from, to) +
              quoted(edge.place + " " + forWhat(edge)) +
              (edge.to.size() > 1 && !edge.isBarrier ? ", style=dashed" : "") + "];\n";
  return text + "}\n";
}

std::string jsonOf(const WaitGraph &graph) {
  std::string text = format("{\"job\": \"%llx\", \"ranks\": %d, \"is_cycle\": %s,\n \"nodes\": [",
                            static_cast<unsigned long long>(graph.job), graph.ranks,
                            graph.isCycle ? "true" : "false");
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const WaitNode &node = graph.nodes[i];
    text +=
        format("%s\n  {\"node\": %zu, \"rank\": %d, \"role\": ", i == 0 ? "" : ",", i, node.rank) +
        quoted(node.role) + ", \"state\": \"" + stateName(node.state) +
        "\", \"words\": " + quoted(node.words) + ", \"root\": " + (node.isRoot ? "true" : "false") +
        "}";
  }
  text += "],\n \"edges\": [";
  for (size_t i = 0; i < graph.edges.size(); ++i) {
    const WaitEdge &edge = graph.edges[i];
    text += format("%s\n  {\"from\": %zu, \"to\": [", i == 0 ? "" : ",", edge.from);
    for (size_t j = 0; j < edge.to.size(); ++j)
      text += format("%s%zu", j == 0 ? "" : ", ", edge.to[j]);
    text +=
        format("], \"is_barrier\": %s, \"bodies\": %zu, \"wanted\": %llu, \"seen\": %llu, "
               "\"waited_ms\": %lld, \"kernel\": ",
               edge.isBarrier ? "true" : "false", edge.bodies,
               static_cast<unsigned long long>(edge.wanted),
               static_cast<unsigned long long>(edge.seen), static_cast<long long>(edge.waitedMs)) +
        quoted(edge.kernel) + ", \"place\": " + quoted(edge.place) +
        ", \"body\": " + quoted(edge.body) + ", \"cell\": " + quoted(edge.cell) +
        ", \"notified_at\": " + quoted(edge.notifiedAt) + "}";
  }
  text += "],\n \"failures\": [";
  for (size_t i = 0; i < graph.failures.size(); ++i)
    text += (i == 0 ? "" : ", ") + quoted(graph.failures[i]);
  return text + "]}\n";
}

bool isWaitGraphName(const std::string &path) {
  return path.ends_with(".dot") || path.ends_with(".json");
}

Status writeWaitGraph(const std::string &path, const WaitGraph &graph) {
  if (!isWaitGraphName(path))
    return {DTILE_INVALID,
            "the name of a wait-for graph ends in .dot or in .json, and `" + path + "` does not"};
  return writeTextFile(path, path.ends_with(".dot") ? dotOf(graph) : jsonOf(graph),
                       "wait-for graph");
}

Status keepWaitGraph(const std::string &path, const Writer &own, bool isDistributed) {
  if (path.empty())
    return {};
  // The own block even where nobody else may see it.
  std::vector<ProcessView> processes;
  if (auto view = readBlock(own.bytes(), nullptr))
    processes.push_back(std::move(*view));
  if (processes.empty())
    return {};
  const uint64_t job = processes.front().job;
  const int32_t first = processes.front().firstLocal;
  if (isDistributed)
    for (JobView &other : findJobs(nullptr))
      for (ProcessView &process : other.processes)
        if (other.job == job && process.firstLocal != first)
          processes.push_back(std::move(process));
  const std::vector<JobView> jobs = joinJobs(std::move(processes), nullptr);
  // Which is the first that is still there.
  if (jobs.front().processes.front().firstLocal != first)
    return {};
  return writeWaitGraph(path, waitGraphOf(jobs.front()));
}

} // namespace dtile::runtime::telemetry
