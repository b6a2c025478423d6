// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A task: a fiber that runs the bodies of one space one after the other.
#pragma once

#include "backend/runtime/host/fiber.h"
#include "backend/runtime/kernel_abi.h"

#include <cstdint>
#include <vector>

namespace dtile::runtime {

struct SpaceRun;
struct BarrierSite;
struct TaskTrace;
struct WaitNames;
namespace telemetry {
struct Wait;
}

enum class TaskState : uint8_t { Free, Running, Ready, Blocked };

/// Why a task gave its worker back.
enum class Outcome : uint8_t {
  /// Its space has no more bodies to start, or others should go first.
  Done,
  WaitsForCell,
  WaitsAtBarrier,
  /// Seeded schedules switch at communication, too.
  Yields,
  /// The launch has failed; the task never continues.
  Abandoned,
};

} // namespace dtile::runtime

/// Owned by the scheduler; used by one worker, queue or wait list at a time.
struct dtile_task {
  dtile::runtime::Fiber fiber;
  dtile::runtime::SpaceRun *space = nullptr;
  void *workspace = nullptr;
  /// The body that runs.
  int64_t linear = 0;
  dtile::runtime::TaskState state = dtile::runtime::TaskState::Free;
  dtile::runtime::Outcome outcome = dtile::runtime::Outcome::Done;
  /// Its fiber waits in its loop for the next space, and need not be made anew.
  bool looping = false;

  /// Waiting: for which cell of this rank to reach what, asked where.
  uint64_t *cell = nullptr;
  uint64_t wanted = 0;
  const dtile_site *site = nullptr;
  /// Waiting at a barrier: which, and how often it was reached before.
  dtile::runtime::BarrierSite *barrier = nullptr;
  int64_t generation = 0;
  dtile_task *nextWaiter = nullptr;

  /// Processes: the rank to which this body has put something that may still be on its way
  /// (kNobody, kSeveral), and the same of that which the body has awaited. What is awaited need not
  /// have landed: whatever could show that it has not comes after a fence or quiet.
  static constexpr int32_t kNobody = -2;
  static constexpr int32_t kSeveral = -1;
  int32_t sentTo = kNobody;
  int32_t awaitedTo = kNobody;
  /// Something has been awaited, and no fence or quiet came after it.
  bool isUnfenced = false;
  bool hasSentTo(int32_t rank) const { return sentTo == rank || sentTo == kSeveral; }
  void sendsTo(int32_t rank) { sentTo = sentTo == kNobody || sentTo == rank ? rank : kSeveral; }
  void awaitsSends() {
    awaitedTo = sentTo;
    isUnfenced = sentTo != kNobody;
  }
  /// All of it has landed, or nothing has been sent.
  void forgetSends() {
    sentTo = awaitedTo = kNobody;
    isUnfenced = false;
  }

  /// State of the random choices of a seeded schedule.
  uint64_t random = 0;
  /// Seeded schedules: transfers that land when they are awaited, and not at once.
  struct Transfer {
    bool adds;
    dtile_region source, destination;
  };
  std::vector<Transfer> late;

  /// Number of the task in its team, and what telemetry shows of its wait, or null; the count that
  /// its cell had when the launch began.
  size_t number = 0;
  dtile::runtime::telemetry::Wait *shown = nullptr;
  uint64_t base = 0;
  /// What its last wait, for this signal's parameter at this place, is called; null: none since it
  /// was bound.
  const dtile::runtime::WaitNames *names = nullptr;
  const dtile_site *namesSite = nullptr;
  int32_t namesSignal = -1;
  /// When it was last resumed; since when it waits, or 0.
  int64_t resumedNs = 0, blockedNs = 0;
  /// From here counts its body's own time since it began or last notified: later by what it has
  /// waited, and by what it took to wake others.
  int64_t ownFromNs = 0;
  /// What it took to wake others since it was resumed.
  int64_t wakingNs = 0;

  /// What has been recorded of it; null until a traced body runs while its team is traced.
  dtile::runtime::TaskTrace *trace = nullptr;
};

namespace dtile::runtime {

/// Lands the task's late transfers.
void landTransfers(dtile_task &task);

} // namespace dtile::runtime
