// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What one op does to memory at once: elements of a scatter come in no order, and neither do what a
// copy reads and what it writes.
#include "ir/protocol/prove/prover.h"

#include "ir/core/constants.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::protocol::prove {

using ir::OpKind;
using ir::Type;

namespace {

Op *definedBy(const Value *value, OpKind kind) {
  Op *op = value->definingOp();
  return op && op->is(kind) ? op : nullptr;
}

bool isSplat(const Value *tile) { return definedBy(tile, OpKind::Splat) != nullptr; }

bool isNegative(const Value *tile) {
  const Op *splat = definedBy(tile, OpKind::Splat);
  const auto number = splat ? ir::constantOf(splat->operand(0)) : std::nullopt;
  return number && *number < 0;
}

/// Whether a loaded tile holds elements of an input that are known to be distinct.
using IsDistinct = llvm::function_ref<bool(const Op &load)>;

/// Whether a tile of integers has another number at each of its positions, but for negative ones,
/// which are no place: it counts, or is known to be distinct.
bool counts(const Value *tile, IsDistinct isDistinct) {
  const Op *op = tile->definingOp();
  if (!op)
    return false;
  // Floats are rounded.
  const DType type = tile->type().dtype();
  if (!isInteger(type) || dtypeBytes(type) < kLeastCounterBytes)
    return false;
  switch (op->kind()) {
  case OpKind::Iota:
    return true;
  case OpKind::Load:
    return isDistinct(*op);
  case OpKind::Cast: {
    // Of numbers that only differ two may become one.
    const DType from = op->operand(0)->type().dtype();
    const bool isWider = isInteger(from) && dtypeBytes(from) <= dtypeBytes(type);
    return counts(op->operand(0), isWider ? isDistinct : [](const Op &) { return false; });
  }
  case OpKind::Add:
    return (isSplat(op->operand(0)) && counts(op->operand(1), isDistinct)) ||
           (isSplat(op->operand(1)) && counts(op->operand(0), isDistinct));
  case OpKind::Select:
    return counts(op->operand(1), isDistinct) && isNegative(op->operand(2));
  default:
    return false;
  }
}

/// Whether an index tile counts along a dimension, the same at each position of the others.
bool countsAlong(const Value *tile, unsigned dim, IsDistinct isDistinct) {
  if (tile->type().rank() == 1)
    return counts(tile, isDistinct);
  if (const Op *select = definedBy(tile, OpKind::Select))
    return countsAlong(select->operand(1), dim, isDistinct) && isNegative(select->operand(2));
  if (const Op *cast = definedBy(tile, OpKind::Cast)) {
    const DType from = cast->operand(0)->type().dtype(), to = tile->type().dtype();
    return isInteger(from) && isInteger(to) && dtypeBytes(from) <= dtypeBytes(to) &&
           countsAlong(cast->operand(0), dim, isDistinct);
  }
  // Nothing is repeated where the other dimensions have size 1.
  const Op *broadcast = definedBy(tile, OpKind::Broadcast);
  const Value *line = broadcast ? broadcast->operand(0) : tile;
  const Op *reshape = definedBy(line, OpKind::Reshape);
  if (!reshape || reshape->operand(0)->type().rank() != 1)
    return false;
  const llvm::ArrayRef<int64_t> shape = line->type().shape();
  for (unsigned d = 0; d < shape.size(); ++d)
    if (shape[d] != (d == dim ? tile->type().shape()[d] : 1))
      return false;
  return counts(reshape->operand(0), isDistinct);
}

/// Whether no two elements of a scatter go to one place, or all of them are one value.
bool writesApart(const Op &scatter, IsDistinct isDistinct) {
  if (isSplat(scatter.operand(0)))
    return true;
  const Type tile = scatter.operand(0)->type();
  const auto indices = scatter.operands().slice(2, scatter.operand(1)->type().rank());
  for (unsigned d = 0; tile.isTile() && d < tile.rank(); ++d)
    if (tile.shape()[d] > 1 && llvm::none_of(indices, [&](const Value *index) {
          return countsAlong(index, d, isDistinct);
        }))
      return false;
  return true;
}

} // namespace

/// Whether a copy reads nothing that it writes, or each element where it writes it.
bool Prover::copiesApart(const Access &read, const Access &write) {
  Scene scene(budget_);
  Instance at = scene.instance(read.op);
  Facts facts;
  scene.assume(facts, at);
  const Region from = scene.region(read.view, at, facts);
  const Region to = scene.region(write.view, at, facts);
  const auto point = scene.assumeMeeting(facts, from, to);
  if (scene.refuter.isImpossible(facts))
    return true;
  const auto source = scene.shape(read.view, at, facts);
  const auto target = scene.shape(write.view, at, facts);
  const auto positionOf = [&](const std::optional<ViewShape> &shape) {
    return shape ? positionIn(*shape, point) : std::nullopt;
  };
  const auto a = positionOf(source), b = positionOf(target);
  return a && b && llvm::all_of(llvm::zip_equal(*a, *b), [&](const auto &both) {
           return scene.refuter.impliesEqual(facts, std::get<0>(both), std::get<1>(both));
         });
}

void Prover::proveSingleOps() {
  for (const Access &access : accesses_) {
    if (access.kind != Access::Kind::Write)
      continue;
    if (access.op->is(OpKind::Scatter)) {
      ++proof_.obligations;
      Scene scene(budget_);
      Instance at = scene.instance(access.op);
      Facts facts;
      scene.assume(facts, at);
      (void)scene.region(access.view, at, facts);
      const auto isDistinct = [&](const Op &load) {
        return llvm::any_of(at.picked, [&](const Picked &picked) {
          return picked.read == &load && scene.isSaid(picked.object, "distinct");
        });
      };
      if (!writesApart(*access.op, isDistinct))
        fail(access.op, "that this writes no element of " + nameOf(*access.object) + " twice",
             nullptr, Unproved::Kind::OneLaunch);
      continue;
    }
    for (const Access &read : accesses_) {
      if (read.op != access.op || read.kind != Access::Kind::Read || read.object != access.object)
        continue;
      ++proof_.obligations;
      const BudgetShare share(budget_);
      if (isOutOfTime() || !copiesApart(read, access))
        fail(access.op,
             "that what this reads and writes of " + nameOf(*access.object) +
                 " are different elements",
             nullptr, Unproved::Kind::OneLaunch);
    }
  }
}

} // namespace dtile::protocol::prove
