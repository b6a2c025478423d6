// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a block of telemetry says, checked: a process that is no friend, or that ends meanwhile, may
// have left anything in it.
#pragma once

#include "backend/runtime/telemetry/block.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dtile::runtime::telemetry {

struct LaunchView {
  uint64_t number = 0;
  int64_t beginNs = 0, endNs = 0, ranNs = 0;
  /// What notifying each rank took of it (Launch in block.h); 0: it was not notified.
  std::vector<int64_t> ownNs;
};

struct PeerView {
  uint64_t notified = 0;
  int64_t lastNs = 0;
};

struct RankView {
  int32_t rank = 0;
  RankState state = RankState::Idle;
  std::string kernel;
  uint64_t begun = 0, ended = 0;
  int64_t sinceNs = 0, movedNs = 0;
  /// By rank of the team.
  std::vector<PeerView> peers;
  /// That have ended, oldest first.
  std::vector<LaunchView> launches;
};

struct WaitView {
  bool isBarrier = false;
  /// Of the process with the others, outside of kernels: `place` is its name.
  bool isMeeting = false;
  int32_t rank = 0;
  std::string kernel, role, place;
  /// "m = 0, n = 128".
  std::string body;
  /// "ready[1, 2]"; "" at a barrier.
  std::string cell;
  /// Who notifies it.
  std::optional<int32_t> fromRank;
  std::vector<std::string> fromRoles;
  std::string fromPlace;
  uint64_t wanted = 0, seen = 0;
  int64_t sinceNs = 0;
};

/// A process with ranks of a job.
struct ProcessView {
  int64_t pid = 0;
  uint64_t job = 0;
  Kind kind = Kind::Processors;
  std::string program;
  int32_t ranks = 0, firstLocal = 0;
  bool isDirect = false;
  /// As the system says; no block does. Stopped by a signal or a debugger; how long its threads
  /// have run, and have waited for a processor, together.
  bool isStopped = false;
  int64_t ranNs = 0, starvedNs = 0;
  int32_t timeoutMs = 0;
  int64_t createdNs = 0;
  std::vector<RankView> local;
  std::vector<WaitView> waits;
  uint64_t waitsLeftOut = 0;
  /// 0: no call has failed.
  int32_t failureCode = 0;
  std::string failure;
};

/// None: it is no block, or of another version, and *why says so.
[[nodiscard]] std::optional<ProcessView> readBlock(std::string_view bytes, std::string *why);

/// Bytes of a block that a header of `ranks` and `localCount` may ask for at most.
inline constexpr uint64_t kMostBytes = uint64_t(1) << 28;

} // namespace dtile::runtime::telemetry
