// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One launch of a kernel on many ranks, by the machine's model: programs take bodies, bodies take
// time, puts take links, waits stand still until what they wait for has come.
//
// Where moving every rank on by a host, or along an axis of the mesh, changes nothing but names,
// only the ranks at the first place are simulated (symmetry.h). What they send to others, those
// that correspond to them send to them; each such message is computed for the rank that really
// sends it, and must be the same in size and order. Where one is not, more ranks are simulated.
#pragma once

#include "ir/machine/networks.h"
#include "ir/model/program_shares.h"
#include "ir/simulate/steps.h"

#include <array>
#include <functional>
#include <memory>
#include <variant>

namespace dtile::simulate {

using model::ProgramShares;

/// The ranks and what joins them.
struct Cluster {
  const TargetFacts *machine = nullptr;
  const HostFacts *host = nullptr;
  /// Null where all ranks are in one host.
  const NetworkFacts *network = nullptr;
  int64_t ranks = 1;
  /// Ranks of one host, which are numbered one after the other.
  int64_t perHost = 1;
  /// Sizes of the mesh's axes, whose product is the number of ranks; the last one the fastest.
  llvm::SmallVector<int64_t, 4> axes;
};

/// Ways between ranks. Each rank has one of each.
enum class Link : uint8_t { HostOut, HostIn, NetworkOut, NetworkIn };
inline constexpr size_t kLinks = 4;

/// What one space did, over the ranks that were simulated.
struct SpaceTimes {
  std::string name;
  int64_t bodies = 0, programs = 0;
  /// Nanoseconds of all its programs: at work, sending or reading at peers, waiting.
  double worked = 0, moved = 0, waited = 0;
  /// When the last body ended, and where.
  double end = 0;
  int64_t lastRank = 0;
};

/// What a link carried.
struct LinkTimes {
  double bytes = 0;
  double busy = 0;
};

/// A body, or a part of one between two steps that talk to others; a message; what a program waited
/// for. Times are nanoseconds from the start of the bodies.
struct Event {
  enum class Kind : uint8_t { Work, Put, Get, Notify, Wait } kind = Kind::Work;
  int32_t space = 0;
  /// Of the rank, numbered over its spaces.
  int32_t program = 0;
  int64_t body = 0;
  int64_t rank = 0, peer = 0;
  double start = 0, end = 0;
  double bytes = 0;
  /// Cells of the signal that a wait reads; that a notify adds to, at the rank that stands for
  /// `peer`, by the rank whose notifies to that one are like these.
  int32_t signal = -1;
  std::vector<int64_t> cells;
};

struct Outcome {
  /// Nanoseconds, with what the launch takes itself.
  double time = 0;
  double overhead = 0;
  std::vector<SpaceTimes> spaces;
  /// Each rank that was simulated, and its links.
  std::vector<int64_t> ranks;
  std::vector<std::array<LinkTimes, kLinks>> links;
  /// How many ranks were simulated, and stand for all.
  int64_t simulated = 1;
  /// They do so but for the order in which ranks wait.
  bool isClose = false;
  int64_t bodies = 0;
  int64_t messages = 0;
};

struct Options {
  /// Messages take no time.
  bool isFree = false;
  /// No use of symmetry.
  bool allRanks = false;
  /// Called for what happens on the ranks that are simulated.
  std::function<void(const Event &)> record;
};

/// A kernel whose spaces have been read.
class Launch {
public:
  /// Reads the kernel for these sizes; an obstacle where something follows from data.
  static std::variant<std::unique_ptr<Launch>, Obstacle>
  make(ir::Op &kernel, const KnownSizes &sizes, const Cluster &cluster, ProgramShares shares);
  virtual ~Launch() = default;
  [[nodiscard]] virtual std::variant<Outcome, Obstacle> run(const Options &options) = 0;
};

} // namespace dtile::simulate
