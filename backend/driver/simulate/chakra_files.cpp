// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The files of a graph: each rank that was simulated gives those of all ranks that are like it.
//
// Durations are whole microseconds in the format, and bodies are shorter. So what is rounded away
// is carried on to the next computation of the rank, and the sum is right.
#include "backend/driver/simulate/chakra_files.h"

#include "backend/driver/output/output_file.h"
#include "backend/driver/simulate/wire_format.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"

#include <cmath>

namespace dtile::driver {

namespace {

/// Nodes of all ranks together.
constexpr double kMostNodes = 2e7;
/// Of the schema: GlobalMetadata.version.
constexpr llvm::StringLiteral kVersion = "0.0.4";

// Fields of Node, and of AttributeProto.
enum NodeField : uint32_t {
  kId = 1,
  kName = 2,
  kType = 3,
  kControlDependences = 4,
  kDataDependences = 5,
  kDuration = 7,
  kAttribute = 10
};
enum AttributeField : uint32_t { kAttributeName = 1, kUint32 = 11, kUint64 = 13, kBool = 27 };

/// NodeType.
uint64_t typeOf(TraceNode::Kind kind) {
  switch (kind) {
  case TraceNode::Kind::Compute:
    return 4;
  case TraceNode::Kind::Send:
    return 5;
  case TraceNode::Kind::Receive:
    return 6;
  }
  return 0;
}

void attribute(WireMessage &node, llvm::StringRef name, AttributeField type, uint64_t value) {
  WireMessage made;
  made.bytes(kAttributeName, name).number(type, value);
  node.bytes(kAttribute, made.text());
}

/// The trace of `rank`, which is like one whose number is less by `shift`.
std::string traceOf(const std::vector<TraceNode> &nodes, int64_t rank, int64_t shift,
                    int64_t ranks) {
  std::string file;
  WireMessage metadata;
  metadata.bytes(1, kVersion);
  metadata.appendTo(file);
  double carried = 0;
  for (const auto [id, node] : llvm::enumerate(nodes)) {
    WireMessage made;
    made.number(kId, id).bytes(kName, node.name).number(kType, typeOf(node.kind));
    made.packed(kDataDependences, node.after);
    if (node.kind == TraceNode::Kind::Compute) {
      carried += node.nanoseconds / 1000;
      const double whole = std::floor(carried);
      carried -= whole;
      made.number(kDuration, uint64_t(whole));
    }
    attribute(made, "is_cpu_op", kBool, 0);
    if (node.kind != TraceNode::Kind::Compute) {
      const auto peer = uint64_t((node.peer + shift) % ranks);
      const bool sends = node.kind == TraceNode::Kind::Send;
      attribute(made, "comm_src", kUint32, sends ? uint64_t(rank) : peer);
      attribute(made, "comm_dst", kUint32, sends ? peer : uint64_t(rank));
      attribute(made, "comm_size", kUint64, node.bytes);
      attribute(made, "comm_tag", kUint32, node.tag);
    }
    made.appendTo(file);
  }
  return file;
}

std::string networkText(const simulate::Cluster &cluster) {
  const auto list = [&](double inside, double between) {
    return cluster.network ? llvm::formatv("[ {0:F2}, {1:F2} ]", inside, between).str()
                           : llvm::formatv("[ {0:F2} ]", inside).str();
  };
  std::string text = cluster.network ? "topology: [ Switch, Switch ]\n" : "topology: [ Switch ]\n";
  text += "npus_count: [ " + std::to_string(cluster.perHost) +
          (cluster.network ? ", " + std::to_string(cluster.ranks / cluster.perHost) : "") + " ]\n";
  const Timing &timing = cluster.machine->timing;
  text += "bandwidth: " + list(timing.linkRate, cluster.network ? cluster.network->rate : 0) +
          "  # GB/s\n";
  text += "latency: " + list(timing.peerLatency, cluster.network ? cluster.network->latency : 0) +
          "  # ns\n";
  return text;
}

constexpr llvm::StringLiteral kSystem = R"({
  "scheduling-policy": "FIFO",
  "endpoint-delay": 10,
  "active-chunks-per-dimension": 1,
  "preferred-dataset-splits": 1,
  "all-reduce-implementation": ["ring"],
  "all-gather-implementation": ["ring"],
  "reduce-scatter-implementation": ["ring"],
  "all-to-all-implementation": ["ring"],
  "collective-optimization": "localBWAware",
  "boost-mode": 0
}
)";

constexpr llvm::StringLiteral kMemory = "{\n  \"memory-type\": \"NO_MEMORY_EXPANSION\"\n}\n";

} // namespace

bool writeChakraFiles(Session &session, const std::string &folder, const std::string &name,
                      const simulate::Cluster &cluster, const TraceGraph &graph) {
  double nodes = 0;
  for (const auto &rank : graph)
    nodes += double(rank.size());
  nodes *= double(cluster.ranks) / double(graph.size());
  if (nodes > kMostNodes) {
    session.diagnostics.report(SourceLoc{}, diag::cannot_write,
                               llvm::formatv("traces of {0:F0} nodes are too large", nodes).str());
    return false;
  }
  // Files of other ranks would be taken for those of this launch.
  std::error_code none;
  if (const llvm::sys::fs::directory_iterator first(folder, none);
      !none && first != llvm::sys::fs::directory_iterator()) {
    session.diagnostics.report(SourceLoc{}, diag::cannot_write,
                               "`" + folder + "`: the folder is not empty; name a new one");
    return false;
  }
  if (const std::error_code error = llvm::sys::fs::create_directories(folder)) {
    session.diagnostics.report(SourceLoc{}, diag::cannot_write,
                               "`" + folder + "`: " + error.message());
    return false;
  }
  OutputFiles files;
  const auto add = [&](const std::string &file, llvm::StringRef bytes) {
    llvm::SmallString<128> path(folder);
    llvm::sys::path::append(path, file);
    if (llvm::Error error = files.add(path, bytes)) {
      session.reportNotWritten(std::move(error));
      return false;
    }
    return true;
  };
  const auto period = int64_t(graph.size());
  for (int64_t rank = 0; rank < cluster.ranks; ++rank)
    if (!add(name + "." + std::to_string(rank) + ".et",
             traceOf(graph[size_t(rank % period)], rank, rank - rank % period, cluster.ranks)))
      return false;
  if (!add("network.yml", networkText(cluster)) || !add("system.json", kSystem) ||
      !add("memory.json", kMemory))
    return false;
  if (llvm::Error error = files.commit()) {
    session.reportNotWritten(std::move(error));
    return false;
  }
  return true;
}

} // namespace dtile::driver
