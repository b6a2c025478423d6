// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Proves of a kernel, for all numbers of ranks and all sizes, what the checker else finds out by
// running it: that it cannot hang, cannot race, and ends clean.
#pragma once

#include "ir/core/ir.h"

#include "llvm/ADT/SetVector.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dtile::protocol {

/// Something that would have to be shown, and was not.
struct Unproved {
  /// What rests on it.
  enum class Kind : uint8_t {
    /// The course of launches: waits, and the order in scratch memory, which several launches use.
    Course,
    /// What is read of scratch memory: what no launch has written, or an earlier one.
    Contents,
    /// Whether the launch is stopped with a message, after which no other follows.
    Stop,
    /// That iterations may run in any order, which runs do not try.
    AnyOrder,
    /// Order within a launch: in memory that belongs to the caller, or of what one op does.
    OneLaunch
  };
  const ir::Op *op = nullptr;
  std::string text;
  /// A second place that the text is about; null where there is none.
  const ir::Op *other = nullptr;
  Kind kind = Kind::Course;
  /// A clause that would be enough, `k > 0`; "" where none is known.
  std::string clause;
};

/// What was shown of a kernel. `unproved` is empty exactly where all of it was.
struct Proof {
  std::vector<Unproved> unproved;
  /// Callers' objects that launches write at peers which may not have begun: parts of them, in turn
  /// by the number of the launch. It is right where no other kernel does so with the same memory,
  /// and all launches take it as an object of the same sizes.
  llvm::SmallSetVector<ir::Op *, 4> inTurn;
  /// How many things were to be shown, and the work that it took.
  unsigned obligations = 0;
  uint64_t work = 0;
  [[nodiscard]] bool isComplete() const { return unproved.empty(); }
};

/// How much work a proof may be, in rows of inequalities: examples take up to seventy thousand, a
/// tenth of a second.
struct ProofOptions {
  uint64_t work = 500'000;
  /// What is asked is whether launches are in order: the first thing that leaves this open ends the
  /// proof, which says so.
  bool isOrderAsked = false;
};

/// Looks at an inlined kernel with derived counts.
[[nodiscard]] Proof proveProtocol(ir::Op &kernel, const ProofOptions &options = {});

/// Whether what is required of launches, what is assumed of them and what assertions say of W and
/// sizes leaves none.
[[nodiscard]] bool leavesNoLaunch(ir::Op &kernel);

/// Whether a kernel's own waits keep ranks together, so that nobody needs to wait for all ranks
/// before a launch.
struct DriftBound {
  bool isBounded = false;
  /// Sizes that must be more than zero for it: in a launch where one is not, ranks must meet.
  std::vector<ir::Value *> needed;
  /// Why not.
  std::string reason;
  /// Whether it is not proved that what a launch reads of scratch memory was written in it.
  bool readsStale = false;
  /// As in Proof.
  llvm::SmallSetVector<ir::Op *, 4> inTurn;
};
[[nodiscard]] DriftBound waitsBoundDrift(ir::Op &kernel);
/// Whether they do so and no size is needed for it, once the kernel has one more space than at
/// `before`, which waits for notifies and does nothing else. What was proved of bodies then still
/// holds: nothing waits for those of that space, and they touch no memory.
[[nodiscard]] bool waitsBoundDriftOfAll(ir::Op &kernel, const DriftBound &before);

} // namespace dtile::protocol
