// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Who waits for whom, and who is at the root of it: one structure, printed in three forms.
#pragma once

#include "backend/runtime/errors.h"
#include "backend/runtime/telemetry/processes.h"
#include "backend/runtime/telemetry/writer.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dtile::runtime::telemetry {

/// What keeps a node of the graph.
enum class NodeState : uint8_t {
  /// It waits itself.
  Waits,
  /// It runs, or has ended its bodies.
  Runs,
  /// The others have begun a launch that its rank has not.
  Late,
  /// Its process has been stopped, by a signal or a debugger.
  Stopped,
  /// No process of this machine has its rank.
  Gone,
};

/// A role of a rank; of a rank whose roles are not known, all of it, with the role "".
struct WaitNode {
  int32_t rank = 0;
  std::string role;
  NodeState state = NodeState::Runs;
  /// "late: has begun 3 launches, and others 4".
  std::string words;
  bool isRoot = false;
};

/// Bodies of one node that wait at one place for one cell, or at a barrier.
struct WaitEdge {
  size_t from = 0;
  /// Who can end the wait: all of them are needed for a barrier, and one of them where a cell does
  /// not say who notifies it.
  std::vector<size_t> to;
  bool isBarrier = false;
  std::string kernel, place, body, cell, notifiedAt;
  size_t bodies = 1;
  uint64_t wanted = 0, seen = 0;
  int64_t waitedMs = 0;
};

struct WaitGraph {
  uint64_t job = 0;
  int32_t ranks = 0;
  std::vector<WaitNode> nodes;
  std::vector<WaitEdge> edges;
  /// Whether the roots wait for each other.
  bool isCycle = false;
  /// What calls that failed have said, a line a process.
  std::vector<std::string> failures;
};

[[nodiscard]] WaitGraph waitGraphOf(const JobView &job);

[[nodiscard]] std::string textOf(const WaitGraph &graph);
[[nodiscard]] std::string dotOf(const WaitGraph &graph);
[[nodiscard]] std::string jsonOf(const WaitGraph &graph);

/// Writes DOT or JSON, as the name of the file ends.
Status writeWaitGraph(const std::string &path, const WaitGraph &graph);
/// The same of the job whose block `own` is, where `path` is not "". Processes of the job that run
/// here are looked for, and the first of them writes.
Status keepWaitGraph(const std::string &path, const Writer &own, bool isDistributed);
/// Whether the name ends as that of a file that can be written does.
[[nodiscard]] bool isWaitGraphName(const std::string &path);

} // namespace dtile::runtime::telemetry
