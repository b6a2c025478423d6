// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ir/model/streams.h"

#include "ir/analysis/boxes/tensor_box.h"
#include "ir/analysis/loop_positions.h"
#include "ir/core/constants.h"
#include "ir/model/op_cost.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace dtile::model {

using ir::Op;
using ir::OpKind;
using ir::Value;

namespace {

/// What a value of a body follows from, within it.
llvm::SmallPtrSet<const Value *, 32> sourcesOf(llvm::ArrayRef<Value *> values, const Op &space) {
  llvm::SmallVector<const Value *, 16> todo(values.begin(), values.end());
  llvm::SmallPtrSet<const Value *, 32> seen(todo.begin(), todo.end());
  while (!todo.empty()) {
    const Value *value = todo.pop_back_val();
    Op *op = value->definingOp();
    // Where a loop is follows from its bounds, and from what they depend on.
    if (!op)
      op = value->argumentOf()->parentOp();
    // Bodies may find the same number, as that of an expert, at different places.
    const bool isFound = op->is(OpKind::Load) && !op->result()->type().isTile();
    if (op == &space || op->enclosing(OpKind::Space) != &space || isFound)
      continue;
    for (const Value *operand : op->operands())
      if (seen.insert(operand).second)
        todo.push_back(operand);
  }
  return seen;
}

/// Whether an index value is the position of a loop, and what stays the same in it, added up.
bool isSumOf(const Value &value, const Value &position) {
  const Op *op = value.definingOp();
  if (&value == &position || !op)
    return &value == &position;
  const Op &space = *position.argumentOf()->parentOp()->enclosing(OpKind::Space);
  return (op->is(OpKind::Add) || op->is(OpKind::Sub)) &&
         llvm::all_of(op->operands(), [&](Value *part) {
           return !sourcesOf(part, space).contains(&position) || isSumOf(*part, position);
         });
}

/// Of a tile whose place moves on by less than its length in each round of a loop: the part that is
/// new in a round.
double newPart(const ir::TensorBox &box, Op &loop) {
  const std::optional<int64_t> step =
      loop.is(OpKind::For) ? ir::constantOf(loop.operand(2)) : std::nullopt;
  if (!step || *step <= 0)
    return 1;
  const Value &position = *loop.body().argument(0);
  const Op &space = *loop.enclosing(OpKind::Space);
  const ir::TensorBox::Dim *along = nullptr;
  for (const ir::TensorBox::Dim &dim : box.dims)
    for (Value *first : dim.firsts) {
      if (!sourcesOf(first, space).contains(&position))
        continue;
      if (along || !isSumOf(*first, position))
        return 1;
      along = &dim;
    }
  return along && along->length > *step ? double(*step) / double(along->length) : 1;
}

/// The innermost loop around an op, within its space.
Op *loopAround(Op &op) {
  for (Op *around = op.parentOp(); around && !around->is(OpKind::Space);
       around = around->parentOp())
    if (around->is(OpKind::For) || around->is(OpKind::While))
      return around;
  return nullptr;
}

/// Whether a load of an earlier loop of the body has read the same tiles.
bool isReread(Op &load, Op &space) {
  const std::optional<ir::TensorBox> box = ir::tensorBox(load.operand(0));
  Op *loop = loopAround(load);
  if (!box || !loop)
    return false;
  const auto isPosition = [](const Op &around, llvm::ArrayRef<Value *> firsts) {
    return llvm::any_of(sourcesOf(firsts, *const_cast<Op &>(around).enclosing(OpKind::Space)),
                        [&](const Value *v) { return v == around.body().argument(0); });
  };
  bool isBehind = false, isFound = false;
  ir::walk(space, [&](Op &op) {
    isBehind |= &op == loop;
    if (isBehind || isFound || !op.is(OpKind::Load))
      return;
    Op *other = loopAround(op);
    const std::optional<ir::TensorBox> earlier =
        other && ir::haveSamePositions(*other, *loop) ? ir::tensorBox(op.operand(0)) : std::nullopt;
    if (!earlier || earlier->object != box->object)
      return;
    isFound = llvm::all_of(llvm::zip_equal(earlier->dims, box->dims), [&](const auto &pair) {
      const auto &[a, b] = pair;
      return a.length == b.length && (a.firsts == b.firsts || (isPosition(*other, a.firsts) &&
                                                               isPosition(*loop, b.firsts)));
    });
  });
  return isFound;
}

} // namespace

Stream streamOf(Op &load) {
  Op *space = load.enclosing(OpKind::Space);
  if (!space)
    return {};
  const auto sources = sourcesOf(load.operands(), *space);
  if (!llvm::all_of(space->body().arguments(),
                    [&](const Value *position) { return sources.contains(position); }))
    return {};
  Stream stream{1, isReread(load, *space)};
  if (const std::optional<ir::TensorBox> box = ir::tensorBox(load.operand(0)))
    for (Op *loop = loopAround(load); loop; loop = loopAround(*loop))
      stream.share *= newPart(*box, *loop);
  return stream;
}

llvm::SmallVector<Op *, 4> firstReads(Op &space) {
  llvm::SmallVector<Op *, 4> reads;
  ir::walk(space, [&](Op &op) {
    if (!op.is(OpKind::Load) || op.operand(0)->type().isRemote() || !readsMemory(op))
      return;
    const Stream stream = streamOf(op);
    if (stream.share > 0 && !stream.isReread)
      reads.push_back(&op);
  });
  return reads;
}

} // namespace dtile::model
