// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A number is followed backwards through the arithmetic: what must x be so that x / 32 is 6? Where
// an operation has no such answer, its operands are asked for the same number, as larger launches
// do no harm.
#include "ir/protocol/check/control_reach.h"

#include "ir/core/constants.h"
#include "ir/core/tile_order.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace dtile::protocol {

using ir::Block;
using ir::constantOf;
using ir::Op;
using ir::OpKind;
using ir::Value;

namespace {

/// Sizes, ranks and launches beyond these are not run.
constexpr int64_t kLargestSize = int64_t(1) << 24;
constexpr int64_t kMostRanks = 1024;
constexpr int64_t kMostLaunches = 64;
/// Strides around the ranks beyond which there would have to be too many ranks.
constexpr int64_t kMostStride = 32;
/// Numbers that are followed: products of two sizes stay below.
constexpr int64_t kLargest = int64_t(1) << 48;
/// Questions of one kernel.
constexpr size_t kMostQuestions = 20'000;

/// The last of the whole numbers from 0 on that a type of few bits holds; none of those that runs
/// do not go beyond.
std::optional<int64_t> lastWhole(DType dtype) {
  constexpr unsigned kFewBits = 16;
  if (dtypeBits(dtype) > kFewBits || dtype == DType::Bool)
    return std::nullopt;
  switch (dtype) {
  case DType::F8E5M2:
    return 8;
  case DType::F8E4M3:
    return 16;
  case DType::BF16:
    return 256;
  case DType::F16:
    return 2048;
  default:
    const bool isSigned = dtypeClass(dtype) == DTypeClass::Int;
    return (int64_t(1) << (dtypeBits(dtype) - (isSigned ? 1 : 0))) - 1;
  }
}

class ReachFinder {
public:
  ReachFinder(Op &kernel, const interpret::ControlSlice &slice) : kernel_(kernel), slice_(slice) {}

  ControlReach run();

private:
  void visit(const Op &op);
  void meet(const Value *value, const Value *constant, int64_t times, int64_t more);
  void visitPositions(const Op &op, bool isSignal);
  void visitCast(const Op &op);
  void visitIndexTiles(const Op &op);
  void visitStrides(const Value *dividend, const Value *divisor);
  void reach(const Value *value, int64_t target);
  void reachOp(const Op &op, unsigned result, int64_t target);
  void reachArgument(const Block &block, unsigned index, int64_t target);
  void reachEnd(const Op &loop, int64_t iterations);
  void reachCondition(const Value *condition, int64_t target);

  Op &kernel_;
  const interpret::ControlSlice &slice_;
  /// What the number at hand is for: sizes and launches, numbers of ranks, or both.
  enum class For : uint8_t { All, Sizes, Ranks } for_ = For::All;
  std::set<std::tuple<const Value *, int64_t, For>> asked_;
  ControlReach found_;
  /// Something of the operation at hand was left out.
  bool isCut_ = false;
};

void ReachFinder::reach(const Value *value, int64_t target) {
  if (asked_.size() >= kMostQuestions) {
    isCut_ = true;
    return;
  }
  // What is too large is followed all the same: a size that it leads to is named as left out.
  target = std::min(target, kLargest);
  if (target <= 0 || !asked_.insert({value, target, for_}).second)
    return;
  if (const Op *op = value->definingOp())
    return reachOp(*op, value->index(), target);
  reachArgument(*value->argumentOf(), value->index(), target);
}

void ReachFinder::reachOp(const Op &op, unsigned result, int64_t target) {
  const auto constant = [&](unsigned operand) {
    return operand < op.numOperands() ? constantOf(op.operand(operand)) : std::nullopt;
  };
  const auto reachAll = [&](int64_t number) {
    for (const Value *operand : op.operands())
      if (operand->type().isIndex() || operand->type().isScalar() || operand->type().isTile())
        reach(operand, number);
  };
  switch (op.kind()) {
  case OpKind::LaunchDim:
  case OpKind::ScalarParam:
    if (for_ == For::Ranks)
      return;
    if (target <= kLargestSize)
      found_.sizes[&op].insert(target);
    isCut_ |= target > kLargestSize;
    return;
  case OpKind::NumRanks:
  case OpKind::Rank: {
    if (for_ == For::Sizes)
      return;
    const int64_t ranks = op.is(OpKind::Rank) ? target + 1 : target;
    if (ranks <= kMostRanks)
      found_.ranks.insert(ranks);
    isCut_ |= ranks > kMostRanks;
    return;
  }
  case OpKind::Epoch:
    if (for_ == For::Ranks)
      return;
    found_.launches = std::max(found_.launches, std::min(target + 1, kMostLaunches));
    isCut_ |= target + 1 > kMostLaunches;
    return;
  case OpKind::Add:
    if (const auto c = constant(1))
      return reach(op.operand(0), target - *c);
    return reachAll(target);
  case OpKind::Sub:
    if (const auto c = constant(1))
      return reach(op.operand(0), target + *c);
    return reach(op.operand(0), target);
  case OpKind::Mul:
    if (const auto c = constant(1); c && *c > 0)
      return reach(op.operand(0), (target + *c - 1) / *c);
    return reachAll(target);
  case OpKind::Div:
    if (const auto c = constant(1); c && *c > 0)
      return reach(op.operand(0), *c <= kLargest / target ? target * *c : kLargest);
    return reach(op.operand(0), target);
  case OpKind::Rem:
    if (const auto c = constant(1); c && *c <= target)
      return;
    return reach(op.operand(0), target);
  case OpKind::For:
    return reachArgument(op.body(), result + 1, target);
  case OpKind::While:
    return reachArgument(op.body(0), result, target);
  case OpKind::If:
    for (unsigned arm = 0; arm < 2; ++arm)
      reach(op.body(arm).terminator()->operand(result), target);
    return;
  default:
    if (op.isPure() && op.numRegions() == 0)
      reachAll(target);
  }
}

/// A loop that goes round so often.
void ReachFinder::reachEnd(const Op &loop, int64_t iterations) {
  const int64_t step = std::max<int64_t>(1, constantOf(loop.operand(2)).value_or(1));
  reach(loop.operand(1), iterations <= kLargest / step ? iterations * step : kLargest);
}

void ReachFinder::reachCondition(const Value *condition, int64_t target) {
  const Op *op = condition->definingOp();
  if (!op)
    return;
  if (op->is(OpKind::Cmp)) {
    reach(op->operand(0), target);
    reach(op->operand(1), target);
  } else if (op->is(OpKind::And) || op->is(OpKind::Or)) {
    reachCondition(op->operand(0), target);
    reachCondition(op->operand(1), target);
  }
}

void ReachFinder::reachArgument(const Block &block, unsigned index, int64_t target) {
  const Op &op = *block.parentOp();
  if (op.is(OpKind::Space)) {
    if (index >= ir::spaceDims(op))
      return;
    reach(op.operand(3 * index), target);
    return reach(op.operand(3 * index + 1), target + 1);
  }
  if (op.is(OpKind::For)) {
    if (index == 0) {
      reach(op.operand(0), target);
      return reach(op.operand(1), target + 1);
    }
    // What a loop carries often grows by one each time.
    reach(op.operand(index + 2), target);
    reach(block.terminator()->operand(index - 1), target);
    return reachEnd(op, target);
  }
  if (!op.is(OpKind::While))
    return;
  if (&block == &op.body(1))
    return reach(op.body(0).terminator()->operand(index + 1), target);
  if (index < op.numOperands())
    reach(op.operand(index), target);
  if (index < op.body(1).terminator()->numOperands())
    reach(op.body(1).terminator()->operand(index), target);
  reachCondition(op.body(0).terminator()->operand(0), target);
}

/// `value` meets a constant `c`: it is to be `times` c and `more`.
void ReachFinder::meet(const Value *value, const Value *constant, int64_t times, int64_t more) {
  const std::optional<int64_t> c = constantOf(constant);
  if (c && *c > 0 && !constantOf(value))
    reach(value, *c < kLargest / 4 ? times * *c + more : kLargest);
}

/// Positions in memory or cells of a constant number.
void ReachFinder::visitPositions(const Op &op, bool isSignal) {
  const Op *object = interpret::rootParam(op.operand(0));
  const Op *direct = op.operand(0)->definingOp();
  while (direct && (direct->is(OpKind::ViewAt) || direct->is(OpKind::SigAt)))
    direct = direct->operand(0)->definingOp();
  // Of a slice of a slice the sizes are others.
  if (!object || direct != object)
    return;
  if (!isSignal && object->get(ir::attr::mode) != ir::ParamMode::Scratch &&
      object->get(ir::attr::mode) != ir::ParamMode::Symm)
    return;
  unsigned operand = 1;
  unsigned dim = 0;
  for (const char letter : op.get(ir::attr::dims)) {
    if (letter != 'a' && dim < object->numOperands())
      meet(op.operand(operand), object->operand(dim), 1, 0);
    operand += letter == 'i' ? 1 : letter == 'r' ? 2 : 0;
    ++dim;
  }
}

/// From the first number on that a type does not hold.
void ReachFinder::visitCast(const Op &op) {
  const std::optional<int64_t> last = lastWhole(op.result()->type().elementOrIndex());
  const auto from = lastWhole(op.operand(0)->type().elementOrIndex());
  if (last && (!from || *from > *last))
    reach(op.operand(0), *last + 1);
}

/// The positions that a tile counts, in the dimensions of what it picks from.
void ReachFinder::visitIndexTiles(const Op &op) {
  const Op *object = interpret::rootParam(op.operand(ir::indexedView(op)));
  if (!object)
    return;
  llvm::SmallVector<const Value *, 8> work;
  for (unsigned i = ir::firstIndexTile(op); i < op.numOperands(); ++i)
    if (op.operand(i)->type().isTile() && slice_.isNeeded(op.operand(i)))
      work.push_back(op.operand(i));
  llvm::SmallPtrSet<const Value *, 16> seen;
  while (!work.empty()) {
    const Value *value = work.pop_back_val();
    const Op *made = value->definingOp();
    if (!made || !made->isPure() || made->numRegions() != 0 || !seen.insert(value).second)
      continue;
    llvm::append_range(work, made->operands());
    if (made->is(OpKind::Iota))
      for (const Value *size : object->operands())
        if (!constantOf(size))
          reach(size, made->result()->type().elements() + 1);
  }
}

/// `(rank() + 13 * hop) % W` comes to all ranks, but for multiples of 13.
void ReachFinder::visitStrides(const Value *dividend, const Value *divisor) {
  if (constantOf(divisor))
    return;
  llvm::SmallVector<const Value *, 4> work{dividend};
  while (!work.empty()) {
    const Op *op = work.pop_back_val()->definingOp();
    if (op && (op->is(OpKind::Add) || op->is(OpKind::Sub)))
      llvm::append_range(work, op->operands());
    if (op && op->is(OpKind::Mul))
      for (const unsigned side : {0U, 1U})
        if (const auto c = constantOf(op->operand(side)); c && *c > 1 && *c <= kMostStride)
          reach(divisor, *c);
  }
}

void ReachFinder::visit(const Op &op) {
  const bool isNeeded = op.numResults() != 0 && slice_.isNeeded(op.result());
  switch (op.kind()) {
  case OpKind::Rem:
  case OpKind::Div:
    if (!isNeeded)
      return;
    if (op.is(OpKind::Rem))
      visitStrides(op.operand(0), op.operand(1));
    // Runs of many ranks are long: of these one comes round.
    for_ = For::Ranks;
    meet(op.operand(0), op.operand(1), 1, 0);
    for_ = For::Sizes;
    meet(op.operand(0), op.operand(1), 2, 0);
    for_ = For::All;
    return;
  case OpKind::Cmp:
    if (!isNeeded)
      return;
    // What only happens at c itself (`W == 9`) does not at c + 1.
    for (const int64_t more : {0, 1}) {
      meet(op.operand(0), op.operand(1), 1, more);
      meet(op.operand(1), op.operand(0), 1, more);
    }
    return;
  case OpKind::Min:
  case OpKind::Max:
    if (!isNeeded)
      return;
    meet(op.operand(0), op.operand(1), 1, 1);
    return meet(op.operand(1), op.operand(0), 1, 1);
  case OpKind::Cast:
    if (isNeeded)
      visitCast(op);
    return;
  // Where other bits begin to matter is not known.
  case OpKind::Bitcast:
    if (isNeeded)
      reach(op.operand(0), kLargest);
    return;
  case OpKind::Gather:
  case OpKind::Scatter:
  case OpKind::AtomicScatter:
  case OpKind::ReduceAddScatter:
    return visitIndexTiles(op);
  case OpKind::SigSlice:
    return visitPositions(op, /*isSignal=*/true);
  case OpKind::ViewSlice:
  case OpKind::ViewTile:
    return visitPositions(op, /*isSignal=*/false);
  default:
    return;
  }
}

ControlReach ReachFinder::run() {
  walk(kernel_, [&](Op &op) {
    // What is derived from the rest adds nothing.
    isCut_ = false;
    if (slice_.doesRun(op) && !op.enclosing(OpKind::SignalParam))
      visit(op);
    if (isCut_)
      found_.beyond.push_back(&op);
    if (op.is(OpKind::Epoch))
      found_.launches = std::max<int64_t>(found_.launches, 1);
  });
  return std::move(found_);
}

} // namespace

ControlReach reachOfControl(Op &kernel, const interpret::ControlSlice &slice) {
  return ReachFinder(kernel, slice).run();
}

} // namespace dtile::protocol
