// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arithmetic on sizes, ranks and positions as a list of instructions, so that millions of bodies
// can be asked what they send and how long they take, and hundreds of launches of thousands of
// configurations. It is recorded once from the IR; the domain of BodyTime is one of its users.
//
// Every value has a slot. Instructions are sorted by what they depend on: the launch, the rank,
// then the dimensions of the space, outermost first, then loops. Of a next body only what its
// innermost dimensions change is computed anew.
#pragma once

#include "ir/core/ir.h"
#include "ir/model/op_cost.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"

#include <map>
#include <optional>
#include <vector>

namespace dtile::model {

/// Blocks of `step` in [first, end); 0 where there are none.
[[nodiscard]] int64_t blockCount(int64_t first, int64_t end, int64_t step);

/// Where a value is; see Arithmetic.
using Slot = int32_t;
inline constexpr Slot kNoSlot = -1;

/// An integer or a real number; which of them, the instruction knows.
union Word {
  int64_t integer;
  double real;
};

/// What an instruction computes of the slots a, b, c (and d).
enum class Code : uint8_t {
  Add,
  Sub,
  Mul,
  Div,
  Rem,
  Min,
  Max,
  And,
  Or,
  Xor,
  Eq,
  Ne,
  Lt,
  Le,
  Gt,
  Ge,
  Neg,
  Not,
  NotBool,
  Abs,
  Select,
  /// clamp(min(c, b) - a, 0, d): positions of the range [a, b) in a dimension of c, at most d.
  Cut,
  /// Blocks of c in [a, b).
  Blocks,
  ToReal,
  RealAdd,
  RealMul,
  RealMax,
  RealMin,
};

struct Instruction {
  Code code = Code::Add;
  Slot out = kNoSlot;
  Slot a = kNoSlot, b = kNoSlot, c = kNoSlot, d = kNoSlot;
};

/// Numbers of levels: what slots depend on.
inline constexpr int32_t kLaunchLevel = 0;
inline constexpr int32_t kRankLevel = 1;
inline constexpr int32_t kFirstDimension = 2;

/// The instructions of one space; made while its body is read, then run.
class Arithmetic {
public:
  Arithmetic();

  // ---- Recording ----
  /// A value that is set from outside: a size, a position. Levels are begun in order.
  Slot input(ir::Value &value, int32_t level);
  /// The same for a number that is no value of the IR.
  Slot input(int32_t level) { return slot(level); }
  /// A size that is known.
  void set(ir::Value &value, int64_t number) { known_[&value] = integer(number); }
  /// A level of its own for the positions of a loop.
  int32_t beginLevel();
  Slot integer(int64_t value);
  Slot real(double value);
  Slot emit(Code code, Slot a, Slot b = kNoSlot, Slot c = kNoSlot, Slot d = kNoSlot);
  /// Of an index or integer that follows from inputs, ranks and constants; nothing where it follows
  /// from memory.
  [[nodiscard]] std::optional<Slot> number(ir::Value &value);
  using Extents = llvm::SmallVector<Slot, 4>;
  [[nodiscard]] std::optional<Extents> extents(ir::Value &view);
  [[nodiscard]] Slot rank() const { return rank_; }
  [[nodiscard]] Slot ranks() const { return ranks_; }
  /// Of slots that `real` made.
  [[nodiscard]] std::optional<double> constant(Slot slot) const;

  // ---- Running ----
  [[nodiscard]] size_t slots() const { return levelOf_.size(); }
  /// Values of constants; where words start.
  [[nodiscard]] const std::vector<Word> &initial() const { return initial_; }
  void run(int32_t level, Word *words) const;
  [[nodiscard]] int32_t levels() const { return int32_t(code_.size()); }

private:
  Slot slot(int32_t level);
  std::optional<Slot> compute(ir::Op &op);
  std::optional<Extents> cut(ir::Op &slice);

  Slot rank_, ranks_;
  std::vector<int32_t> levelOf_;
  std::vector<Word> initial_;
  std::vector<std::vector<Instruction>> code_;
  llvm::DenseMap<ir::Value *, std::optional<Slot>> known_;
  std::map<int64_t, Slot> integers_;
  std::map<double, Slot> reals_;
  llvm::DenseMap<Slot, double> constants_;
};

/// The domain of BodyTime whose numbers are slots.
class TimeDomain {
public:
  using Number = Slot;
  explicit TimeDomain(Arithmetic &arithmetic) : a_(arithmetic) {}

  Slot real(double x) { return a_.real(x); }
  Slot add(Slot x, Slot y);
  Slot mul(Slot x, Slot y);
  Slot larger(Slot x, Slot y);
  Slot smaller(Slot x, Slot y);
  Slot select(ir::Value &condition, Slot then, Slot otherwise);
  [[nodiscard]] bool isKnown(ir::Value &value);
  Slot rounds(ir::Op &loop, int64_t together);
  Slot bytesOfView(ir::Value &view);
  Slot byRowStart(ir::Op &access, const ByRowStart &numbers);
  Slot unlessOwn(ir::Value &peer, Slot bytes);

private:
  Arithmetic &a_;
};

} // namespace dtile::model
