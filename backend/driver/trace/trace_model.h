// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A trace that dtile has written, read again.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dtile::driver {

/// One slice. Times are nanoseconds.
struct TraceSlice {
  enum class Kind : uint8_t { Launch, Step, Body, Wait, Barrier, Notify, Transfer };
  Kind kind = Kind::Body;
  int process = 0;
  int track = 0;
  int64_t begin = 0, end = 0;
  std::string name;
  /// "file:line:column"; "" for bodies and launches.
  std::string at;
  /// Bodies: "kernel.role".
  std::string space;
  /// Transfers.
  int64_t bytes = 0;
  /// Waits: what it waited for was not yet there; how long the body was not run although it was;
  /// the slice of the notify that let it go on, or -1, with its place. Of a barrier, the slice of
  /// the rank that came last.
  bool isBlocked = false;
  bool isUnfinished = false;
  int64_t queued = 0;
  int writer = -1;
  int writerRank = -1;
  std::string writerAt;
  /// The slice that it is in, or -1.
  int parent = -1;
};

/// A rank of a team: a process of the format.
struct TraceProcess {
  int id = 0;
  /// "rank 3", and what stands before it: the test, or "".
  std::string name;
  std::string section;
  int rank = 0;
};

struct TraceTrack {
  int process = 0;
  int id = 0;
  std::string name;
};

struct TraceModel {
  std::vector<TraceProcess> processes;
  std::vector<TraceTrack> tracks;
  /// By process, track and time; a slice comes before those in it.
  std::vector<TraceSlice> slices;
  int64_t dropped = 0;

  [[nodiscard]] const TraceProcess *process(int id) const;
};

/// Reads the text of a trace, and checks all that the rest relies on: that slices nest, that arrows
/// have both ends, that processes and tracks have names. The error says what is wrong and where.
llvm::Expected<TraceModel> readTrace(llvm::StringRef text);

} // namespace dtile::driver
