// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a run shows to whoever watches it: every memory access and every synchronization, in the
// order in which the machine performs them. A checker of happens-before needs nothing else.
#pragma once

#include "ir/core/ir.h"

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <optional>

namespace dtile::interpret {

struct ViewVal;
struct SignalVal;

/// Names a running body. `space` is null for a rank's prologue.
struct BodyId {
  /// Unique in the machine.
  uint64_t number = 0;
  int rank = 0;
  /// Launch of the kernel on that rank, from 0.
  int64_t launch = 0;
  const ir::Op *space = nullptr;
  llvm::ArrayRef<int64_t> positions;
};

enum class AccessKind : uint8_t { Read, Write, Atomic };

/// Watches a machine. Asynchronous operations and waits have numbers, from 1 in each body: the
/// tokens and acquires of the IR are sets of them.
class Observer {
public:
  virtual ~Observer();

  /// A launch's prologue has found the object of a parameter.
  virtual void binds(const BodyId &, const ir::Op &param, const ViewVal &) {}

  virtual void bodyStarts(const BodyId &) {}
  /// The body, of a space, is at its end, and gives `when all` these operations to wait for.
  virtual void yields(const BodyId &, llvm::ArrayRef<uint64_t>) {}
  /// All that the body sent has landed.
  virtual void bodyEnds(const BodyId &) {}
  /// The body touches what exists of the view, after the operations in `after`. `number` is the
  /// asynchronous operation that does it, or 0 for the body itself.
  virtual void access(const BodyId &, const ir::Op &, AccessKind, const ViewVal &,
                      llvm::ArrayRef<uint64_t> after, uint64_t number) {}
  /// Two elements of one scatter go to the place, and differ as far as is known.
  virtual void meetsItself(const BodyId &, const ir::Op &, const ViewVal &) {}
  virtual void issues(const BodyId &, const ir::Op &, uint64_t number,
                      llvm::ArrayRef<uint64_t> after) {}
  /// An `await`, `after` or the like has used the operation's token.
  virtual void completes(const BodyId &, uint64_t number) {}
  /// `number` is the put_signal, or 0 for a notify.
  virtual void notifies(const BodyId &, const ir::Op &, const SignalVal &,
                        llvm::ArrayRef<uint64_t> after, uint64_t number) {}
  /// The wait has been satisfied; `number` is its acquire, `count` what it says itself of the
  /// notifies that it is for.
  virtual void waits(const BodyId &, const ir::Op &, const SignalVal &, uint64_t number,
                     std::optional<uint64_t> count) {}
  /// Everything after is ordered after these operations: `await`.
  virtual void awaits(const BodyId &, const ir::Op &, llvm::ArrayRef<uint64_t> operations) {}
  /// All that the body has sent has landed.
  virtual void quiet(const BodyId &, const ir::Op &) {}
  virtual void fence(const BodyId &, const ir::Op &) {}
  /// A memory_fence, whose `kind` says of which.
  virtual void memoryFence(const BodyId &, const ir::Op &) {}
  /// The body arrives at and later leaves the barrier of that number.
  virtual void arrives(const BodyId &, const ir::Op &, uint64_t barrier) {}
  virtual void leaves(const BodyId &, const ir::Op &, uint64_t barrier) {}
  /// What a body that a deadlock has left waits for: a cell, and counts of this launch.
  struct Shortage {
    int64_t cell = 0;
    uint64_t wanted = 0;
    uint64_t seen = 0;
    /// All that the launch sends, where that is derived.
    std::optional<uint64_t> all;
  };
  virtual void stuck(const BodyId &, const ir::Op &, const SignalVal &, const Shortage &) {}
  /// In a deadlock, the body waits at a barrier that rank `missing` has not reached: how often this
  /// rank and that one have reached it.
  struct Absence {
    int missing = 0;
    uint64_t arrivals = 0;
    uint64_t itsArrivals = 0;
  };
  virtual void stuckAtBarrier(const BodyId &, const ir::Op &, const Absence &) {}
};

} // namespace dtile::interpret
