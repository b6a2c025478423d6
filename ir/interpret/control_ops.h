// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Jumps, moves and calls: what structured control is decoded to. Private to ir/interpret.
#pragma once

#include "ir/interpret/state.h"

namespace dtile::interpret {

/// Assignments between slots of a frame.
struct MoveList {
  struct Move {
    Bank bank;
    Operand from;
    uint32_t to;
  };
  std::vector<Move> moves;
  /// They happen at once: a target is also a source.
  bool isParallel = false;
};

struct MovesInfo : InstrInfo {
  MoveList list;
};

/// Slots of a for loop, and what becomes the carried arguments.
struct LoopInfo : InstrInfo {
  uint32_t position = 0;
  uint32_t first = 0;
  uint32_t last = 0;
  uint32_t step = 0;
  MoveList list;
  /// Each iteration takes a cell that is complete, whichever that is.
  bool isArrivals = false;
};

struct CallInfo : InstrInfo {
  const Code *callee = nullptr;
  std::vector<Bank> arguments;
  std::vector<Slot> results;
};

/// A `while` whose condition comes from carried numbers alone: when these are as they were once, it
/// does not end.
struct WatchInfo : InstrInfo {
  /// Slots of these numbers.
  std::vector<uint32_t> slots;
};

Step runMoves(Body &body, const Instr &instr);
Step runJump(Body &body, const Instr &instr);
/// Jumps to the target unless operand 0 holds.
Step runBranch(Body &body, const Instr &instr);
/// Initializes the carried arguments; jumps to the target when there is no iteration.
Step runLoopBegin(Body &body, const Instr &instr);
/// Moves the yielded values; jumps to the target for the next iteration.
Step runLoopNext(Body &body, const Instr &instr);
/// Begins and goes on with a watch of the `while` that is the instruction's op.
Step runWatchBegin(Body &body, const Instr &instr);
Step runWatchNext(Body &body, const Instr &instr);
Step runCall(Body &body, const Instr &instr);
Step runReturn(Body &body, const Instr &instr);
/// Ends the body; keeps the scalar that it yields, if any.
Step runEnd(Body &body, const Instr &instr);

/// Copies one value between frames (or within one).
void copySlot(Frame &from, Slot source, Frame &to, uint32_t target);

} // namespace dtile::interpret
