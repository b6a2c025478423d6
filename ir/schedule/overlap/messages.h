// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to ir/schedule/overlap: whether the LL protocol can carry all that a kernel's ranks send
// each other.
#pragma once

#include "ir/core/ir.h"
#include "ir/machine/target_facts.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallPtrSet.h"

#include <optional>

namespace dtile::passes {

/// The kernels whose messages may carry flags: those for a machine with threads, unless the copy
/// engine sends for them, whose copies carry none.
[[nodiscard]] llvm::SmallVector<ir::Op *, 4> kernelsWithMessages(ir::Module &module,
                                                                 const TargetFacts *facts);

/// A part of an object, cut out in one step: `rank` is null where it is this rank's own, `cut` is
/// null where it is all of it.
struct MessagePart {
  ir::Op *object = nullptr;
  ir::Op *cut = nullptr;
  ir::Value *rank = nullptr;
};

/// Of a dimension that counts ranks.
enum RankSet : uint8_t { NoRanks = 0, RanksBefore = 1, RanksBehind = 2, AllRanks = 3 };

/// How puts fill an object, and which parts of it loads read.
struct MessageFilling {
  /// The dimension that counts who has sent, where ranks send to each other.
  std::optional<unsigned> senders = {};
  /// Nobody sends to itself: what is at the own number is neither written nor read.
  bool isByOthers = false;
  uint8_t read = NoRanks;
};

/// A window that a put copies to an equal one, as the load of a tile would read it.
struct SentWindow {
  /// Of the `view.tile`: without what read-in-place has left out.
  llvm::SmallVector<ir::Value *, 6> operands;
  ir::Type tile;
};

/// What a put copies, if that is a window of this rank's memory with the limits of the one it goes
/// to: then a put of the loaded tile writes the same elements.
[[nodiscard]] std::optional<SentWindow> sentWindow(ir::Op &put);

/// The other rank's part, where read-in-place lets a load choose between that and a rank's own
/// data; else the load's view.
[[nodiscard]] ir::Value *sentPart(ir::Op &load);

/// What one kernel does to memory, and whether words can carry all that goes from rank to rank.
class Messages {
public:
  /// What a put may send: tiles, or also windows that could be loaded as tiles (sentWindow), with
  /// what read-in-place has done to them undone.
  enum class Of : uint8_t { Tiles, Windows };

  Messages(ir::Op &kernel, Of what) : kernel_(kernel), what_(what) {}
  /// Null where they can, else why not. Once.
  const char *judge();
  [[nodiscard]] bool isSending() const { return !puts_.empty(); }
  /// Names of those that puts fill.
  [[nodiscard]] std::string objects() const;
  [[nodiscard]] bool usesLl(const ir::Op *object) const { return filled_.contains(object); }

  [[nodiscard]] llvm::ArrayRef<ir::Op *> puts() const { return puts_; }
  [[nodiscard]] llvm::ArrayRef<ir::Op *> loads() const { return loads_; }
  [[nodiscard]] llvm::ArrayRef<ir::Op *> waits() const { return waits_; }
  [[nodiscard]] llvm::ArrayRef<ir::Op *> notifies() const { return notifies_; }
  [[nodiscard]] llvm::ArrayRef<ir::Op *> awaits() const { return awaits_; }

private:
  const char *collect(ir::Op &op);
  const char *judgePut(ir::Op &put);
  const char *judgeLoad(ir::Op &load);
  const char *judgeWait(ir::Op &wait);
  const char *judgeStore(ir::Op &store);
  [[nodiscard]] ir::Type tileOf(ir::Op &put) const;
  [[nodiscard]] ir::Value *readOf(ir::Op &load) const;
  using Reached = llvm::SmallPtrSet<const ir::Value *, 16>;
  [[nodiscard]] static bool reachesScalar(ir::Value *tile, Reached &reached);

  ir::Op &kernel_;
  Of what_;
  llvm::SmallVector<ir::Op *, 4> puts_, loads_, stores_, waits_, notifies_, awaits_;
  /// By object: all ops that read or write it.
  llvm::MapVector<const ir::Op *, llvm::SmallVector<ir::Op *, 4>> accesses_;
  /// Objects that puts fill.
  llvm::MapVector<const ir::Op *, MessageFilling> filled_;
  /// The order of ops, as they are written.
  llvm::DenseMap<const ir::Op *, int> place_;
};

} // namespace dtile::passes
