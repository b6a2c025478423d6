// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// peel-masks: leaves out masks where they are all true.
//
// Expects: loops of spaces after infer-layouts.
// Produces: where a loop selects elements of a tile by comparing positions (those of keys that
//   exist, those up to the diagonal), the tile is taken as it is in iterations where the least, or
//   the largest, positions tell that all are selected: an `if` around the select and its mask.
// Why: a mask takes two instructions an element, and only the last iteration, or that on the
//   diagonal, needs it.
// Leaves alone: masks of anything but sums and differences of 64-bit positions, tiles of few
//   elements a thread, and masks that threads would have to exchange.
#include "ir/core/builder.h"
#include "ir/transform/pass.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"

namespace dtile::passes {
namespace {

using namespace dtile::ir;

/// Elements of a thread from which on a mask takes longer than a branch.
constexpr int64_t kFewestElements = 8;

/// Ops of the loop's body that a mask is made by, each after those that it uses.
using MaskOps = llvm::SmallSetVector<Op *, 16>;

/// One mask, and when all of it is true.
class Mask {
public:
  explicit Mask(Op &select) : mask_(select.operand(0)), body_(*select.parentBlock()) {}

  /// Whether that can be told from scalars of the iteration.
  [[nodiscard]] bool isGuardable() { return isConjunction(mask_); }
  /// bool: all of it is true.
  [[nodiscard]] Value *emitAll(Builder &builder) const { return emitAll(builder, mask_); }
  /// What the iteration computes for it.
  [[nodiscard]] const MaskOps &ops() const { return ops_; }

private:
  enum class End { Least, Largest };

  [[nodiscard]] bool isConjunction(Value *mask);
  [[nodiscard]] bool isPosition(Value *tile);
  [[nodiscard]] Value *emitAll(Builder &builder, Value *mask) const;
  [[nodiscard]] Value *emitEnd(Builder &builder, Value *tile, End end) const;

  void note(Op &op) {
    if (op.parentBlock() == &body_)
      ops_.insert(&op);
  }

  Value *mask_;
  Block &body_;
  MaskOps ops_;
};

/// Whether an op only says where elements of its operand are.
bool isShape(const Op &op) {
  return op.is(OpKind::Reshape) || op.is(OpKind::Broadcast) || op.is(OpKind::Trans);
}

bool isOrder(const Op &op) {
  return op.is(OpKind::Cmp) && op.get(attr::pred) != "eq" && op.get(attr::pred) != "ne";
}

bool Mask::isConjunction(Value *mask) {
  Op *op = mask->definingOp();
  const bool isKnown =
      op && (isShape(*op) || op->is(OpKind::And)
                 ? llvm::all_of(op->operands(), [&](Value *part) { return isConjunction(part); })
                 : isOrder(*op) &&
                       llvm::all_of(op->operands(), [&](Value *part) { return isPosition(part); }));
  if (isKnown)
    note(*op);
  return isKnown;
}

/// Sums and differences of what all elements have in common, and of how far each is from the first.
bool Mask::isPosition(Value *tile) {
  Op *op = tile->definingOp();
  if (!op || tile->type().dtype() != DType::I64)
    return false;
  bool isKnown = false;
  if (op->is(OpKind::Splat)) {
    isKnown = op->operand(0)->type().isIndex();
  } else if (op->is(OpKind::Cast)) {
    Op *from = op->operand(0)->definingOp();
    isKnown = from && from->is(OpKind::Iota);
    if (isKnown)
      note(*from);
  } else if (isShape(*op) || op->is(OpKind::Add) || op->is(OpKind::Sub)) {
    isKnown = llvm::all_of(op->operands(), [&](Value *part) { return isPosition(part); });
  }
  if (isKnown)
    note(*op);
  return isKnown;
}

Value *Mask::emitAll(Builder &builder, Value *mask) const {
  const Op &op = *mask->definingOp();
  if (isShape(op))
    return emitAll(builder, op.operand(0));
  if (op.is(OpKind::And))
    return builder.value(OpKind::And,
                         {emitAll(builder, op.operand(0)), emitAll(builder, op.operand(1))});
  const auto compare = [&](End left, End right) {
    return builder.cmp(op.get(attr::pred), emitEnd(builder, op.operand(0), left),
                       emitEnd(builder, op.operand(1), right));
  };
  // Both ends: sums may have wrapped between them.
  return builder.value(OpKind::And,
                       {compare(End::Largest, End::Least), compare(End::Least, End::Largest)});
}

Value *Mask::emitEnd(Builder &builder, Value *tile, End end) const {
  const Op &op = *tile->definingOp();
  if (op.is(OpKind::Splat))
    return op.operand(0);
  if (op.is(OpKind::Cast))
    return builder.constIndex(end == End::Least ? 0 : tile->type().shape()[0] - 1);
  Value *first = emitEnd(builder, op.operand(0), end);
  if (isShape(op))
    return first;
  if (op.is(OpKind::Add))
    return builder.add(first, emitEnd(builder, op.operand(1), end));
  const End other = end == End::Least ? End::Largest : End::Least;
  return builder.sub(first, emitEnd(builder, op.operand(1), other));
}

/// Whether a select is worth a branch.
bool isCandidate(Op &op) {
  const Op *kernel = op.enclosing(OpKind::Kernel);
  return op.is(OpKind::Select) && op.parentOp()->is(OpKind::For) &&
         op.operand(0)->type().isTile() && kernel &&
         op.result()->type().elements() >= kFewestElements * kernel->getOr(attr::threads, 1);
}

bool guard(Op &select, PassContext &context) {
  Mask mask(select);
  if (!mask.isGuardable())
    return false;
  Builder builder(select.parentBlock()->module());
  builder.setLoc(select.loc());
  builder.setInsertionPoint(&select);
  Value *all = mask.emitAll(builder);
  Op *choice = builder.op(OpKind::If, {all}, {select.result()->type()});
  builder.setInsertionPointToEnd(choice->body(0));
  builder.op(OpKind::Yield, {select.operand(1)});
  builder.setInsertionPointToEnd(choice->body(1));
  ValueMap map;
  for (Op *op : mask.ops())
    cloneOp(builder, *op, map);
  builder.op(OpKind::Yield, {cloneOp(builder, select, map)->result()});
  select.result()->replaceAllUsesWith(choice->result());
  select.erase();
  for (Op *op : llvm::reverse(mask.ops()))
    if (!op->result()->hasUses())
      op->erase();
  context.remark(*choice, "its mask is left out where all of it is true");
  return true;
}

} // namespace

bool peelMasks(Module &module, PassContext &context) {
  llvm::SmallVector<Op *, 4> selects;
  walk(module.body(), [&](Op &op) {
    if (op.enclosing(OpKind::Space) && isCandidate(op))
      selects.push_back(&op);
  });
  bool changed = false;
  for (Op *select : selects)
    changed |= guard(*select, context);
  return changed;
}

} // namespace dtile::passes
