// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// sink-accumulator-init: adds what a sum of staged products begins with after its loop.
//
// Expects: staged loops that add products to tiles that they carry (stage-loads), before
//   specialize-stores and prefetch-epilogue.
// Produces: the loop begins with zeros, or with what is not moved (a sum of a loop before it); what
//   it began with besides is added after it. What that is computed from, if nobody else uses it,
//   is computed and loaded there, too.
// Why: the tile would be brought while the matrix units have nothing to do, into registers that
//   these then add to; ptxas awaits each product of sums that were loaded (C7515). After the loop
//   the warp that stores can have brought it meanwhile (prefetch-epilogue).
// Leaves alone: what follows from no tile in memory; loads with something between that writes,
//   waits or signals; sums that take so many registers that there were none for what is added.
#include "ir/analysis/loop_positions.h"
#include "ir/core/builder.h"
#include "ir/transform/pass.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"

namespace dtile::passes {
namespace {

using namespace dtile::ir;

/// Registers of a thread that a sum may take for something else to be added to it.
constexpr int64_t kMostInitRegisters = 96;

/// What one loop begins some of its sums with.
class SumStart {
public:
  SumStart(Op &loop, Value &start, llvm::ArrayRef<unsigned> carried)
      : loop_(loop), start_(start), carried_(carried) {}
  /// For groups of so many threads.
  [[nodiscard]] bool pays(int64_t threads) const {
    return start_.type().elements() <= kMostInitRegisters * threads;
  }
  [[nodiscard]] bool canMove();
  void move();

private:
  [[nodiscard]] bool isOnlyForStart(const Op &op) const;
  void collect(Value &value);
  void split(Value &tile);
  [[nodiscard]] bool isUndisturbed(const Op &load) const;
  void addBehind(Value &sum);

  Op &loop_;
  Value &start_;
  /// Which of the loop's sums.
  llvm::ArrayRef<unsigned> carried_;
  /// What the tile is computed from and nothing else is, each after what uses it.
  llvm::SmallSetVector<Op *, 8> chain_;
  /// What of that the tile is the sum of, and the ops that add that, each after what uses it.
  llvm::SmallVector<Value *, 4> addends_;
  llvm::SmallVector<Op *, 4> sums_;
  /// The addend that stays where it is, if there is one: others use it, too, or a loop gives it.
  Value *kept_ = nullptr;
};

bool SumStart::isOnlyForStart(const Op &op) const {
  return llvm::all_of(op.result()->uses(), [&](const Use &use) {
    return use.user == &loop_ ? use.index >= 3 && llvm::is_contained(carried_, use.index - 3)
                              : chain_.contains(use.user);
  });
}

void SumStart::collect(Value &value) {
  Op *op = value.definingOp();
  if (!op || op->parentBlock() != loop_.parentBlock() || op->numResults() != 1 ||
      op->numRegions() > 0 || op->is(OpKind::Dot) || !(op->isPure() || op->is(OpKind::Load)) ||
      !isOnlyForStart(*op))
    return;
  chain_.insert(op);
  for (Value *operand : op->operands())
    collect(*operand);
}

/// Whether a load gives the same after the loop.
bool SumStart::isUndisturbed(const Op &load) const {
  for (const Value *after : load.operands().drop_front())
    if (!after->type().isAcquire())
      return false;
  bool isBetween = false, isDisturbed = false;
  for (Op &op : loop_.parentBlock()->ops()) {
    isBetween |= &op == &load;
    if (isBetween)
      walk(op, [&](Op &inner) {
        isDisturbed |= inner.hasEffect(Write | RemoteWrite | Signal | Wait | Order);
      });
    if (&op == &loop_)
      break;
  }
  return !isDisturbed;
}

bool SumStart::canMove() {
  collect(start_);
  split(start_);
  for (Value *addend : addends_) {
    Op *op = addend->definingOp();
    if (op && chain_.contains(op))
      continue;
    if (kept_)
      return false;
    kept_ = addend;
  }
  const auto isLoad = [](const Op *op) {
    return op->is(OpKind::Load) && op->result()->type().isTile();
  };
  return llvm::any_of(chain_, isLoad) && llvm::all_of(chain_, [&](const Op *op) {
           return !op->is(OpKind::Load) || isUndisturbed(*op);
         });
}

/// What a tile that moves is the sum of: each is added by itself, as two large ones at a time would
/// not be left in registers.
void SumStart::split(Value &tile) {
  Op *op = tile.definingOp();
  const bool isShared = &tile != &start_ && tile.uses().size() > 1;
  if (!op || !chain_.contains(op) || !op->is(OpKind::Add) || isShared) {
    addends_.push_back(&tile);
    return;
  }
  sums_.push_back(op);
  for (Value *operand : op->operands())
    split(*operand);
}

void SumStart::addBehind(Value &sum) {
  const llvm::SmallVector<Use, 2> uses(sum.uses());
  Builder builder(loop_.parentBlock()->module());
  builder.setInsertionPoint(&loop_);
  builder.setLoc(loop_.loc());
  llvm::SmallVector<Op *, 4> additions;
  Value *total = &sum;
  for (Value *addend : addends_) {
    if (addend == kept_)
      continue;
    additions.push_back(builder.op(OpKind::Add, {total, addend}));
    total = additions.back()->result();
  }
  for (const Use &use : uses)
    use.user->setOperand(use.index, total);
  for (Op *addition : llvm::reverse(additions))
    addition->moveAfter(&loop_);
}

void SumStart::move() {
  const Type type = start_.type();
  Builder builder(loop_.parentBlock()->module());
  builder.setInsertionPoint(&loop_);
  builder.setLoc(loop_.loc());
  Value *first = kept_;
  if (!first) {
    Value *zero = isFloat(type.dtype()) ? builder.constFloat(type.dtype(), 0)
                                        : builder.constInt(type.dtype(), 0);
    first = builder.value(OpKind::Splat, {zero}, type);
  }
  for (unsigned carried : carried_)
    loop_.setOperand(carried + 3, first);
  for (Op *op : sums_) {
    chain_.remove(op);
    op->erase();
  }
  for (unsigned carried : carried_)
    addBehind(*loop_.result(carried));
  // Each goes before those that use it.
  for (Op *op : chain_)
    op->moveAfter(&loop_);
}

/// Whether a loop does nothing with what it carries but add a product to it.
bool isSumOfProducts(Op &loop, unsigned carried) {
  Value *sum = loop.body().argument(carried + 1);
  const Op *next = loop.body().terminator()->operand(carried)->definingOp();
  return next && next->is(OpKind::Dot) && next->has(attr::warpgroups) && next->operand(2) == sum &&
         sum->hasOneUse() && next->result()->hasOneUse();
}

/// The loop around others that do nothing but carry a sum on to this one: where it begins.
std::pair<Op *, unsigned> outermost(Op &loop, unsigned carried) {
  const Value *start = loop.operand(carried + 3);
  Op *outer = start->argumentOf() ? start->argumentOf()->parentOp() : nullptr;
  const Value *sum = loop.result(carried);
  if (!outer || !outer->is(OpKind::For) || loop.parentOp() != outer || !start->hasOneUse() ||
      !sum->hasOneUse() || start->index() == 0 ||
      outer->body().terminator()->operand(start->index() - 1) != sum)
    return {&loop, carried};
  return outermost(*outer, start->index() - 1);
}

} // namespace

bool sinkAccumulatorInit(Module &module, PassContext &context) {
  bool changed = false;
  if (!context.facts)
    return changed;
  for (Op *loop : loopsOfSpaces(module)) {
    if (!loop->has(attr::stages))
      continue;
    const int64_t groups = loop->enclosing(OpKind::Space)->get(attr::warpgroups);
    // Several sums may begin alike.
    llvm::MapVector<std::pair<Op *, Value *>, llvm::SmallVector<unsigned, 2>> starts;
    for (unsigned carried = 0; carried < loop->numResults(); ++carried) {
      if (!isSumOfProducts(*loop, carried))
        continue;
      const auto [outer, number] = outermost(*loop, carried);
      starts[{outer, outer->operand(number + 3)}].push_back(number);
    }
    for (auto &[where, carried] : starts) {
      SumStart start(*where.first, *where.second, carried);
      if (!start.pays(groups * context.facts->groupThreads) || !start.canMove())
        continue;
      start.move();
      context.remark(*where.first, "what this sum begins with is added behind its loop");
      changed = true;
    }
  }
  return changed;
}

} // namespace dtile::passes
