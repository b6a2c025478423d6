// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One launch on one rank: its arguments, frame and spaces.
#pragma once

#include "backend/runtime/dtile.h"
#include "backend/runtime/errors.h"
#include "backend/runtime/host/kernel_state.h"
#include "backend/runtime/host/task.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace dtile::runtime {

struct HostTeam;
struct DeviceLaunch;
class LaunchQuery;

/// A bijection of [0, count): the identity, or a seeded shuffle that needs no memory.
class BodyOrder {
public:
  void set(int64_t count, uint64_t seed);
  int64_t at(int64_t position) const;

private:
  int64_t count_ = 0;
  uint64_t seed_ = 0;
  int halfBits_ = 1;
};

/// A space of a launch, being run. Bodies are started lazily: a task takes the next body when it
/// has ended one.
struct SpaceRun {
  dtile_launch *launch = nullptr;
  const dtile_space_desc *desc = nullptr;
  int32_t index = 0;
  int64_t count = 0;
  BodyOrder order;
  /// Bodies taken, and bodies that have not ended.
  std::atomic<int64_t> next{0};
  std::atomic<int64_t> left{0};
  /// The rest belongs to the scheduler's lock: tasks at once at most (0: any number) and now;
  /// whether an entry for it is queued; whether it may run; whether all its bodies have ended.
  int32_t limit = 0;
  int32_t active = 0;
  bool queued = false;
  bool begun = false;
  bool ended = false;

  /// The next body's number, or -1.
  int64_t take();
  bool hasMore() const { return next.load(std::memory_order_relaxed) < count; }
};

/// The part of an object that a launch uses.
struct LaunchObject {
  KernelObject *object = nullptr;
  /// On this rank: this launch's copy, or the cells.
  char *data = nullptr;
};

} // namespace dtile::runtime

/// One a local rank, used again for each launch.
struct dtile_launch {
  /// Null for launches on devices, which have `device`; of the rest those use rank, ranks, local,
  /// kernel, arguments and error.
  dtile::runtime::HostTeam *team = nullptr;
  dtile::runtime::DeviceLaunch *device = nullptr;
  int32_t rank = 0;
  int32_t ranks = 1;
  /// Number of the rank among this process's ranks.
  int32_t local = 0;

  dtile::runtime::KernelState *kernel = nullptr;
  /// The kernel's own code, or other code of it that was measured to be faster for these sizes.
  const dtile_kernel_desc *code = nullptr;
  /// What that looks like to other ranks.
  int32_t protocol = 0;
  const dtile_arg *arguments = nullptr;
  int64_t epoch = 0;
  /// Launches still to start after this one (dtile_launch_repeat).
  int32_t remaining = 0;
  /// All ranks meet before the bodies, whatever the kernel (epoch_buffers.h).
  bool meets = false;
  void *frame = nullptr;
  int64_t frameCapacity = 0;
  std::vector<dtile::runtime::LaunchObject> objects;
  std::unique_ptr<dtile::runtime::SpaceRun[]> spaces;
  int32_t spaceCapacity = 0;
  int32_t spacesLeft = 0;
  /// Not negative while a prologue is asked for what all ranks agree on: sizes that ranks need not
  /// agree on are taken as this, tensors as contiguous and aligned, and nothing is refused.
  int64_t unknownSize = -1;
  /// Meanwhile, the name for several kernels that says on which sizes ranks agree, or null.
  const dtile_kernel_desc *family = nullptr;
  /// Not null while a prologue is asked about a launch that is not to be.
  dtile::runtime::LaunchQuery *query = nullptr;
  /// Set by a prologue that found something wrong.
  dtile::runtime::Status error;

  /// The signal of this launch that has a cell at `address`, or null.
  const dtile::runtime::LaunchObject *signalAt(const void *address) const;
};
