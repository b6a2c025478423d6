// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What ranks compute, send and receive, and what each has to wait for: the graph of a launch that
// was simulated, for simulators of other machines.
//
// A message is a put with the notify after it, or a notify alone. What one rank reads at another
// is a request and an answer. Bodies of a space that wait for the same messages and send to the
// same ranks are one computation, as such simulators run one at a time; it takes their share of
// the programs.
#pragma once

#include "ir/simulate/simulation.h"

#include <string>
#include <vector>

namespace dtile::driver {

struct TraceNode {
  enum class Kind : uint8_t { Compute, Send, Receive } kind = Kind::Compute;
  std::string name;
  /// Positions of nodes of the same rank that come before.
  std::vector<uint64_t> after;
  double nanoseconds = 0;
  /// Messages: bytes, the other rank, and what tells them from others between the two.
  uint64_t bytes = 0;
  int64_t peer = 0;
  uint32_t tag = 0;
};

/// The nodes of each rank that was simulated, in an order in which they can be done.
using TraceGraph = std::vector<std::vector<TraceNode>>;

/// Collects events while a launch is simulated.
class TraceRecorder {
public:
  void operator()(const simulate::Event &event) { events_.push_back(event); }
  /// `spaces`: their names. `programs`: of a rank.
  [[nodiscard]] TraceGraph graph(const simulate::Cluster &cluster, int64_t simulated,
                                 llvm::ArrayRef<simulate::SpaceTimes> spaces) const;
  [[nodiscard]] size_t events() const { return events_.size(); }

private:
  std::vector<simulate::Event> events_;
};

} // namespace dtile::driver
