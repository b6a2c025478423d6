// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to backend/gpu: launches whose last round of bodies is divided among all programs (For,
// split_rounds), where it would leave most of them without.
//
// There are B bodies of L iterations for P programs. In floor(B / P) rounds each program
// runs a whole body. R bodies are left. Of these, up to P / 2 are run by two programs each, and
// what is then left, up to P / 4, by four: each runs an equal part of the iterations. So the rest
// takes a quarter, a half or three quarters of a round; where R is more, it takes a whole one.
//
//   R <= P / 4                four programs a body
//   P / 4 < R <= P / 2        two
//   P / 2 < R <= 3 P / 4      P / 2 bodies by two, then the others by four
//
// Who does not have the first part leaves its sums in memory, says so by a flag, and is done. Who
// has the first part adds these sums to its own in the order of the parts, and goes on with the
// rest of the body. The order of additions follows from the sizes and the number of programs.
//
// Programs that run the same part of different bodies are in the same iteration at about the same
// time, so operands that they share come from memory once, as in whole rounds (in stream-K, where
// each program begins somewhere else, they do not: docs/decisions/divided_rounds.md).
//
// In launches whose clusters of two programs share loads, two bodies side by side are divided
// alike, between pairs.
#pragma once

#include "backend/gpu/gpu_module.h"
#include "ir/machine/target_facts.h"

namespace dtile::backend::gpu {

/// The loop of a space's bodies that launches may divide, or null.
[[nodiscard]] ir::Op *dividedLoop(const ir::Op &space);

/// Bytes of the sums that a program of `threads` threads leaves in memory for another one: as many
/// in all spaces of the kernel, whose programs have places side by side. 0 where none is divided.
/// Threads beyond those that share a tile hold copies, and have bytes of their own.
[[nodiscard]] int64_t partialBytes(ir::Op &kernel, int64_t threads);

/// Nanoseconds that leaving and adding them takes.
[[nodiscard]] double partialTime(const ir::Op &loop, const TargetFacts &machine);

/// Positions of a loop, i64.
struct LoopBounds {
  llvm::Value *first = nullptr, *end = nullptr, *step = nullptr;
};

/// What the programs of a space have to do in such a launch.
class DividedBodies {
public:
  /// At a builder's insertion point. `bounds` are those of the loop that is divided.
  DividedBodies(llvm::IRBuilder<> &builder, const BodyRange &range, const LoopBounds &bounds);

  /// A body, or a part of one.
  struct Item {
    /// i64: the body's number.
    llvm::Value *body = nullptr;
    /// Of the loop, the iterations of this part.
    LoopBounds bounds;
    /// i32: into how many parts the body is divided, which of them this is, and how far apart are
    /// the programs of two parts that follow each other.
    llvm::Value *parts = nullptr, *part = nullptr, *distance = nullptr;
  };
  /// The largest number of parts.
  static constexpr unsigned kMostParts = 4;
  /// i64: of this program.
  [[nodiscard]] llvm::Value *count() const { return count_; }
  [[nodiscard]] Item item(llvm::Value *number) const;

private:
  llvm::IRBuilder<> &b;
  const BodyRange &range_;
  LoopBounds bounds_;
  /// i32; units are programs, or pairs of them.
  llvm::Value *unit_, *lanes_;
  /// i64: rounds of whole bodies of this unit, and the first body of a unit that is divided.
  llvm::Value *rounds_, *first_;
  /// Bodies of two and of four parts, for one program of a unit (i32), and whether this unit has a
  /// part of one of the former (i1).
  llvm::Value *halves_, *quarters_, *hasHalf_;
  llvm::Value *count_;
};

} // namespace dtile::backend::gpu
