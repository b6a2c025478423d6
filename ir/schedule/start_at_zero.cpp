// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// start-at-zero: adds what a sum of staged products begins with behind its loop.
//
// Expects: staged loops that add products to tiles that they carry (stage-loads), before
//   defer-stores and bring-tiles.
// Produces: the loop begins with zeros; behind it the tile is added that it began with. What that
//   is computed from, if nobody else uses it, is computed and loaded there, too.
// Why: the tile would be brought while the matrix units have nothing to do, into registers that
//   these then add to; ptxas awaits each product of sums that were loaded (C7515). Behind the loop
//   the warp that stores can have brought it meanwhile (bring-tiles).
// Leaves alone: what another loop has summed, and what is not loaded; loads with something between
//   that writes, waits or signals; sums that take so many registers that there were none for what
//   is added, unless they begin as they are loaded.
#include "ir/analysis/loop_positions.h"
#include "ir/core/builder.h"
#include "ir/transform/pass.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"

namespace dtile::passes {
namespace {

using namespace dtile::ir;

/// Registers of a thread that a sum may take for something else to be added to it.
constexpr int64_t kMostRegisters = 96;

/// What one loop begins a sum with.
class SumStart {
public:
  SumStart(Op &loop, unsigned carried) : loop_(loop), carried_(carried) {}
  [[nodiscard]] bool pays(const TargetFacts &facts) const;
  [[nodiscard]] bool canMove();
  void move();

private:
  [[nodiscard]] bool isOnlyForStart(const Op &op) const;
  void collect(Value &value);
  void split(Value &tile);
  [[nodiscard]] bool isUndisturbed(const Op &load) const;

  Op &loop_;
  unsigned carried_;
  /// What the tile is computed from and nothing else is, each behind what uses it.
  llvm::SmallSetVector<Op *, 8> chain_;
  /// What of that the tile is the sum of, and the ops that add that, each behind what uses it.
  llvm::SmallVector<Value *, 4> addends_;
  llvm::SmallVector<Op *, 4> sums_;
};

bool SumStart::pays(const TargetFacts &facts) const {
  const Op *start = loop_.operand(carried_ + 3)->definingOp();
  const Op *dot = loop_.body().terminator()->operand(carried_)->definingOp();
  const int64_t threads = dot->intAttr("groups") * facts.groupThreads;
  return start &&
         (start->is(OpKind::Load) || dot->result()->type().elements() <= kMostRegisters * threads);
}

bool SumStart::isOnlyForStart(const Op &op) const {
  return llvm::all_of(op.result()->uses(), [&](const Use &use) {
    return use.user == &loop_ ? use.index == carried_ + 3 : chain_.contains(use.user);
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

/// Whether a load gives the same behind the loop.
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
  collect(*loop_.operand(carried_ + 3));
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
  if (!op || !chain_.contains(op) || !op->is(OpKind::Add) || tile.uses().size() > 1) {
    addends_.push_back(&tile);
    return;
  }
  sums_.push_back(op);
  for (Value *operand : op->operands())
    split(*operand);
}

void SumStart::move() {
  Value *start = loop_.operand(carried_ + 3);
  Value *sum = loop_.result(carried_);
  const Type type = sum->type();
  const llvm::SmallVector<Use, 2> uses(sum->uses());
  Builder builder(loop_.parentBlock()->module());
  builder.setInsertionPoint(&loop_);
  builder.setLoc(start->definingOp()->loc());
  Value *zero = isFloat(type.dtype()) ? builder.constFloat(type.dtype(), 0)
                                      : builder.constInt(type.dtype(), 0);
  loop_.setOperand(carried_ + 3, builder.value(OpKind::Splat, {zero}, type));
  split(*start);
  for (Op *op : sums_) {
    chain_.remove(op);
    op->erase();
  }
  llvm::SmallVector<Op *, 4> additions;
  Value *total = sum;
  for (Value *addend : addends_) {
    additions.push_back(builder.op(OpKind::Add, {total, addend}));
    total = additions.back()->result();
  }
  for (const Use &use : uses)
    use.user->setOperand(use.index, total);
  for (Op *addition : llvm::reverse(additions))
    addition->moveAfter(&loop_);
  // Each goes before those that use it.
  for (Op *op : chain_)
    op->moveAfter(&loop_);
}

/// Whether a loop does nothing with what it carries but add a product to it.
bool isSumOfProducts(Op &loop, unsigned carried) {
  Value *sum = loop.body().argument(carried + 1);
  const Op *next = loop.body().terminator()->operand(carried)->definingOp();
  return next && next->is(OpKind::Dot) && next->hasAttr("groups") && next->operand(2) == sum &&
         sum->hasOneUse() && next->result()->hasOneUse();
}

} // namespace

bool startAtZero(Module &module, PassContext &context) {
  bool changed = false;
  if (!context.facts)
    return changed;
  for (Op *loop : loopsOfSpaces(module)) {
    if (!loop->hasAttr("stages"))
      continue;
    for (unsigned carried = 0; carried < loop->numResults(); ++carried) {
      if (!isSumOfProducts(*loop, carried))
        continue;
      SumStart start(*loop, carried);
      if (!start.pays(*context.facts) || !start.canMove())
        continue;
      start.move();
      context.remark(*loop, "what this sum begins with is added behind its loop");
      changed = true;
    }
  }
  return changed;
}

} // namespace dtile::passes
