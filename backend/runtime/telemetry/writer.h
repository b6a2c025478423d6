// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes what a process shows of its team (block.h). What is done often is a few relaxed stores.
#pragma once

#include "backend/runtime/telemetry/block.h"

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

namespace dtile::runtime::telemetry {

/// What a team says of itself once.
struct TeamFacts {
  Kind kind = Kind::Processors;
  int32_t ranks = 1, firstLocal = 0, localCount = 1;
  int32_t timeoutMs = 0;
  bool isDirect = true;
  uint64_t job = 0;
};

/// Ranks are local numbers here, and peers are ranks of the team.
class Writer {
public:
  /// Where the machine gives no memfd, or DTILE_TELEMETRY is 0, only this process sees the block.
  explicit Writer(const TeamFacts &team);
  ~Writer();
  Writer(const Writer &) = delete;
  Writer &operator=(const Writer &) = delete;

  /// False: the machine gave no memory, and nothing below does anything.
  [[nodiscard]] bool isOpen() const { return block_ != nullptr; }
  /// The block as it is, for the process itself.
  [[nodiscard]] std::string_view bytes() const {
    return block_ ? std::string_view(block_, size_t(layout_.bytes)) : std::string_view();
  }

  // ---- Launches ----
  void launchBegins(int32_t local, const std::string &kernel);
  void bodiesBegin(int32_t local);
  void launchEnds(int32_t local);
  /// The same for devices: a launch was queued; all that were have ended.
  void launchQueued(int32_t local, uint32_t kernel);
  void queuesEnded();
  /// Calls to launch have ended, well or not.
  void rest(bool hasFailed);
  /// After a failure, launches have the same number on all ranks again: this one, or the largest
  /// that there was here.
  void restart(uint64_t number);
  void fail(int32_t code, const std::string &words);

  // ---- Bodies ----
  /// A body has notified `count` cells of `peer`, for which it has run `ownNs`.
  void notified(int32_t local, int32_t peer, int64_t count, int64_t ownNs, int64_t now);
  /// Bodies have run, one after the other, for `ns`.
  void ran(int32_t local, int64_t ns);
  /// A body that has waited goes on.
  void woken(int32_t local, int64_t now);

  // ---- Waits ----
  /// Room for what task number `number` waits for; null: there is none. Between open and close
  /// readers know that it is being written.
  [[nodiscard]] Wait *openWait(size_t number);
  /// The process waits for `peer` to come to a meeting, or, where that is negative, for the others.
  void openMeeting(int32_t rank, const char *what, int32_t peer);
  void endMeeting();
  void closeWait(Wait &wait, WaitState state);
  void endWait(Wait &wait) { closeWait(*openKnown(wait), WaitState::None); }
  void leaveOut();
  /// Where text begins among the strings; text for which there is no room is "".
  [[nodiscard]] uint32_t stringOf(const std::string &text);

private:
  [[nodiscard]] Header &header() { return *reinterpret_cast<Header *>(block_); }
  [[nodiscard]] Rank &rank(int32_t local);
  [[nodiscard]] Peer &peer(int32_t local, int32_t rank);
  [[nodiscard]] Launch &launch(int32_t local, uint64_t number);
  [[nodiscard]] Wait &meeting();
  [[nodiscard]] Wait *openKnown(Wait &wait);
  void setState(int32_t local, RankState state, int64_t now);

  Layout layout_;
  char *block_ = nullptr;
  int file_ = -1;
  /// Of the strings.
  std::mutex mutex_;
  std::map<std::string, uint32_t, std::less<>> strings_;
};

} // namespace dtile::runtime::telemetry
