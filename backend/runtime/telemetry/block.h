// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a process shows of its team while it runs: the layout of a block of memory that others map
// or read. One process writes; any number read, at any time, and trust nothing in it.
//
// The block is a memfd: it ends with its process, needs no folder and leaves nothing behind. Who
// may read the process's /proc/PID/fd, its user and root, may read it. Sections follow the header
// in the order of their fields; each begins at a multiple of 64.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dtile::runtime::telemetry {

/// The memfd's name, as /proc/PID/fd shows it after "/memfd:".
inline constexpr const char *kName = "dtile-telemetry";
inline constexpr uint64_t kMagic = 0x31746c6574646c74u;
inline constexpr uint32_t kVersion = 1;
inline constexpr int32_t kDims = 6;

enum class Kind : int32_t { Processors, Gpus };

/// What a rank does.
enum class RankState : uint32_t {
  /// Between calls.
  Idle,
  /// Its prologue, or the meeting of ranks before the bodies.
  Begins,
  Runs,
  /// Its last launch has failed.
  Failed,
};

/// What is waited for: a cell, the other ranks at a `barrier` of a kernel, or a process that is to
/// come to a meeting of all, as dtile_team_barrier is.
enum class WaitState : uint32_t { None, Cell, Barrier, Meeting };

/// Who notifies a cell.
enum class From : uint32_t { Anybody, Rank };

struct Header {
  uint64_t magic;
  uint32_t version;
  uint32_t headerBytes;
  uint64_t bytes;
  /// The same in all processes of a job, and most likely in no other.
  uint64_t job;
  int64_t pid;
  /// Of the machine's monotonic clock, as all times here, in nanoseconds.
  int64_t createdNs;
  int32_t ranks, firstLocal, localCount;
  Kind kind;
  /// Whether a notify has landed when it was sent, as memory of all ranks can be addressed.
  int32_t isDirect;
  /// Budget of a wait.
  int32_t timeoutMs;
  /// Launches that are remembered, and waits that there is room for.
  int32_t window, waits;
  uint64_t ranksAt, peersAt, historyAt, waitsAt, stringsAt, stringsBytes;
  /// Bytes of the strings that are written.
  uint64_t stringsUsed;
  /// Bodies that waited while there was no room to say so.
  uint64_t waitsLeftOut;
  char program[64];
  /// Odd while the words are written.
  uint32_t failureTurn;
  int32_t failureCode;
  int64_t failureNs;
  char failure[1024];
};

/// One a local rank.
struct alignas(64) Rank {
  RankState state;
  /// Where the kernel's name begins among the strings.
  uint32_t kernel;
  /// Launches of the team that have begun and ended here.
  uint64_t begun, ended;
  /// Of the current state.
  int64_t sinceNs;
  /// When a body last began, was woken or notified somebody.
  int64_t movedNs;
};

/// One a local rank and rank of the team: what the local one has sent to the other.
struct Peer {
  uint64_t notified;
  int64_t lastNs;
};

/// One a local rank and launch of the window, by launch % window, followed by one int64_t a rank of
/// the team: how long bodies of this rank have run, in all, for what they notified that one of.
/// What they waited for others or for a worker is left out. 0: they did not notify it.
struct Launch {
  /// Odd while the launch runs; 2 * (launch + 1) when it has ended.
  uint64_t turn;
  int64_t beginNs, endNs;
  /// How long its bodies have run, together.
  int64_t ranNs;
};

/// One a body that waits; the last one is the process's own, at meetings.
struct alignas(64) Wait {
  /// Odd while the rest is written.
  uint32_t turn;
  WaitState state;
  int32_t rank;
  /// Who notifies the cell: of which rank; and strings: the roles that do, and the place.
  From from;
  int32_t fromRank;
  uint32_t fromRoles, fromPlace;
  /// Strings: "" for a kernel without roles; the signal's name; names of a body's dimensions with
  /// commas between; FILE:LINE:COLUMN, or the meeting's name.
  uint32_t kernel, role, signal, dims, place;
  int32_t ndims, cellDims;
  uint32_t reserved;
  int64_t body[kDims];
  int64_t cell[kDims];
  /// Notifies of this launch, as far as its base is known.
  uint64_t wanted, seen;
  int64_t sinceNs;
};

/// The layout for a team.
struct Layout {
  int32_t ranks = 1, localCount = 1, window = 0, waits = 0;
  uint64_t ranksAt = 0, peersAt = 0, historyAt = 0, waitsAt = 0, stringsAt = 0, bytes = 0;

  static constexpr uint64_t kStrings = 64 * 1024;
  static constexpr uint64_t kMostHistory = 4 << 20;
  static constexpr int32_t kWaits = 512;
  static constexpr int32_t kMostWindow = 64;

  [[nodiscard]] constexpr uint64_t launchBytes() const {
    return sizeof(Launch) + uint64_t(ranks) * 8;
  }
};

constexpr Layout layoutOf(int32_t ranks, int32_t localCount) {
  constexpr auto up = [](uint64_t bytes) { return (bytes + 63) / 64 * 64; };
  Layout layout;
  layout.ranks = ranks;
  layout.localCount = localCount;
  layout.waits = Layout::kWaits;
  const uint64_t row = layout.launchBytes() * uint64_t(localCount);
  const uint64_t fits = Layout::kMostHistory / row;
  layout.window = fits < uint64_t(Layout::kMostWindow) ? int32_t(fits) : Layout::kMostWindow;
  layout.ranksAt = up(sizeof(Header));
  layout.peersAt = up(layout.ranksAt + sizeof(Rank) * uint64_t(localCount));
  layout.historyAt = up(layout.peersAt + sizeof(Peer) * uint64_t(localCount) * uint64_t(ranks));
  layout.waitsAt = up(layout.historyAt + row * uint64_t(layout.window));
  layout.stringsAt = up(layout.waitsAt + sizeof(Wait) * uint64_t(layout.waits));
  layout.bytes = layout.stringsAt + Layout::kStrings;
  return layout;
}

} // namespace dtile::runtime::telemetry
