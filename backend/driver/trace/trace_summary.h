// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A trace in a few tables.
#pragma once

#include "backend/driver/trace/trace_model.h"

#include "llvm/Support/raw_ostream.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace dtile::driver {

/// What a rank does at each moment of its launches. The first that holds counts.
struct RankTimes {
  int rank = 0;
  int64_t launches = 0;
  /// A body computes.
  int64_t computes = 0;
  /// None does, and one moves data or notifies.
  int64_t moves = 0;
  /// Nor that, and one waits for a signal that is not there.
  int64_t waits = 0;
  /// Nor that, and one could go on if a worker were free.
  int64_t queued = 0;
  /// Communication that nothing hides.
  [[nodiscard]] int64_t exposed() const { return moves + waits; }
};

/// Waits of one place in the source.
struct WaitPlace {
  std::string at;
  size_t count = 0;
  size_t blocked = 0;
  /// From the begin of a wait to the notify, without the time for a worker.
  int64_t total = 0;
  int64_t longest = 0;
  int64_t queued = 0;
  /// Time by who let them go on: "rank 2, file:12:5".
  std::map<std::string, int64_t> writers;
};

/// A piece of the chain of bodies, waits and notifies that ends last.
struct PathStep {
  enum class Kind : uint8_t { Computes, Moves, Waits, Queued, Other };
  Kind kind = Kind::Computes;
  int rank = 0;
  std::string space;
  int64_t time = 0;
};

/// The rank that the others wait for.
struct LateRank {
  int rank = 0;
  /// How long others wait for it, and how long their launches are.
  int64_t waited = 0, launches = 0;
  /// What they wait for longest: a body of the rank, how long after the launch it begins, and how
  /// long it then runs until it comes to the place that lets them go on.
  std::string space, body, at;
  int64_t begins = 0, runs = 0;
};

/// A program: its bodies without what they wait for.
struct ProgramTime {
  std::string name;
  std::string space;
  int rank = 0;
  int64_t busy = 0;
  size_t bodies = 0;
  /// What its slowest body is called, and how long it ran.
  std::string slowest;
  int64_t slowestTime = 0;
};

/// What is worth knowing of the ranks of one team.
struct TeamSummary {
  std::string section;
  int64_t begin = 0, end = 0;
  size_t launches = 0;
  std::vector<RankTimes> ranks;
  /// Where one is waited for much more than all others.
  std::optional<LateRank> late;
  /// The longest first.
  std::vector<WaitPlace> waits;
  std::vector<ProgramTime> programs;
  /// In order of time.
  std::vector<PathStep> path;
};

[[nodiscard]] std::vector<TeamSummary> summarize(const TraceModel &trace);

void printSummary(const TraceModel &trace, llvm::raw_ostream &os);

} // namespace dtile::driver
