// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the bodies of a space do, as a simulation sees it: times between sends, notifies and waits.
#pragma once

#include "ir/machine/target_facts.h"
#include "ir/model/arithmetic.h"
#include "ir/model/program_shares.h"

#include "llvm/ADT/StringRef.h"

#include <string>
#include <vector>

namespace dtile::simulate {

using model::Arithmetic;
using model::Code;
using model::kNoSlot;
using model::KnownSizes;
using model::Slot;
using model::Word;

/// Cells of a signal: in each dimension `count` positions from `first`.
struct CellRange {
  Slot first = kNoSlot;
  Slot count = kNoSlot;
};

enum class StepKind : uint8_t {
  /// Takes `time`.
  Work,
  /// Until each of `cells` has `count` notifies, or all of the launch where that is kNoSlot.
  Wait,
  /// `bytes` to `peer`; as fast as the program may, it takes `time`.
  Put,
  /// The same from `peer`, or words of it: the program waits for them.
  Get,
  /// Adds one to each of `cells` at `peer`; with `isBehind` once the body's puts have landed.
  Notify,
  /// Until what the body has put has landed.
  Land,
  /// Until every rank has one program that is here.
  Barrier,
  /// `steps` for each position of [first, end) by `step`.
  Loop,
  /// `steps` where `condition`, else `otherwise`.
  Branch,
};

struct Step {
  StepKind kind = StepKind::Work;
  SourceLoc loc;
  Slot time = kNoSlot;
  Slot peer = kNoSlot;
  Slot bytes = kNoSlot;
  Slot condition = kNoSlot;
  Slot count = kNoSlot;
  int32_t signal = -1;
  llvm::SmallVector<CellRange, 2> cells;
  bool isBehind = false;
  /// Done by the epilogue warp: the program goes on.
  bool isEpilogue = false;
  /// Loops: all rounds notify at the same time.
  bool isTogether = false;
  /// Loops: bounds, the slot of the position, and the level of what depends on it.
  Slot first = kNoSlot, end = kNoSlot, step = kNoSlot, position = kNoSlot;
  int32_t level = 0;
  std::vector<Step> steps, otherwise;
};

/// One signal of the kernel.
struct SignalShape {
  std::string name;
  /// Sizes of its dimensions.
  llvm::SmallVector<Slot, 3> sizes;
};

/// A space, ready to be simulated.
struct SpaceSteps {
  std::string name;
  Arithmetic arithmetic;
  /// Bounds of each dimension, and the slot of its position.
  llvm::SmallVector<Slot, 4> first, end, step, position;
  /// What a rotated dimension is turned about.
  llvm::SmallVector<Slot, 4> center;
  std::vector<Step> steps;
  bool hasNotifies = false;
};

/// Why a kernel cannot be simulated.
struct Obstacle {
  SourceLoc loc;
  std::string why;
};

/// Reads one space of a kernel. `signals` gets the kernel's, with slots of this space's arithmetic.
[[nodiscard]] std::optional<Obstacle> readSpace(ir::Op &space, const TargetFacts &machine,
                                                const KnownSizes &sizes, double together,
                                                double running, SpaceSteps &made,
                                                std::vector<SignalShape> &signals);

} // namespace dtile::simulate
