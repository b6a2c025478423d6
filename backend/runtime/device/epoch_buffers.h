// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Callers' symmetric objects that kernels write at peers part by part, in turn by the number of
// their launch (`epoch() % 2`).
#pragma once

#include "backend/runtime/errors.h"
#include "backend/runtime/host/kernel_state.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dtile::runtime {

/// Which kernel takes parts of what memory in turn, as one rank's launches go. Such a launch writes
/// its part at peers which may still use that of the launch before. So it relies on all that was
/// written to the memory lately being of launches like it: of this kernel, as each counts its own
/// launches, and to an object of this place and these sizes, by which it is cut. The first launch,
/// and the first after anything else has written the memory, meets its peers before. All ranks
/// launch the same, so they come to the same answers.
///
/// Graphs are replayed between any two launches that are seen here: what a captured launch does
/// holds for ever after, until the memory is freed.
class TurnedMemory {
public:
  struct Entry {
    /// The ranks meet before the bodies of this launch.
    bool meets = false;
    /// The next launch with these arguments that is not captured need not ask, and need not meet,
    /// while version() is this; 0: it asks.
    uint64_t version = 0;
  };
  /// Whether launches of the kernel have to enter.
  [[nodiscard]] static bool concerns(const dtile_kernel_desc &kernel);
  /// A launch with checked arguments that will take place, or is captured. `heap` is where the
  /// rank's begins. An error, and nothing has changed, where a captured launch that relies on what
  /// it writes would be left without.
  Status enter(const KernelState &kernel, const dtile_arg *arguments, const void *heap,
               int32_t rank, bool isCaptured, Entry *entry);
  /// The launch that entered last did not take place, as the driver refused it: nothing has
  /// changed, and it may be tried again.
  void leave();
  [[nodiscard]] uint64_t version() const { return state_.version; }
  /// Memory that was freed; offsets of the heap.
  void release(int64_t begin, int64_t end);
  /// A launch has failed: nobody knows what was written.
  void restart();
  /// No graph that was captured so far will be replayed.
  void forgetGraphs();
  /// A kernel that is gone; its graphs may stay.
  void forget(const KernelState &kernel);

private:
  /// How a kernel writes an object.
  struct Use {
    int64_t begin = 0, end = 0;
    std::vector<int64_t> sizes;
    const KernelState *owner = nullptr;
    bool isInTurn = false;
    [[nodiscard]] bool overlaps(const Use &other) const {
      return begin < other.end && other.begin < end;
    }
    bool operator==(const Use &) const = default;
  };
  /// By graphs.
  struct Captured {
    Use use;
    /// Without a meeting.
    bool relies = false;
    /// The owner may be gone.
    std::string kernel;
  };
  /// What the arguments are to the launch's parameter; empty where it writes no caller's object.
  static Use useOf(const KernelState &kernel, size_t param, const dtile_arg *arguments,
                   const void *heap);
  /// Of two different ways to use some memory.
  static Status refusal(const KernelState &kernel, size_t param, int32_t rank,
                        const Captured &captured);
  /// One use of a launch that is let through; whether the next launch need not ask.
  bool admit(const Use &use, const std::string &kernel, bool isCaptured, bool *meets);

  struct State {
    /// In turn, and nothing else has written the memory since.
    std::vector<Use> claims;
    std::vector<Captured> captured;
    uint64_t version = 1;
  };
  State state_;
  /// When the last launch entered.
  State before_;
};

} // namespace dtile::runtime
