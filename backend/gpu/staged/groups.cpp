// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The groups of warps that multiply what has come to the slots of the ring.
#include "backend/gpu/staged/walkers.h"

namespace dtile::backend::gpu {

using ir::Op;
using ir::OpKind;
using llvm::Value;

void GroupLowering::lowerBodies(Op &space, const BodyRange &range) {
  place_.begin(0);
  body_.begin(0);
  output_.begin(1);
  BodyLowering::lowerBodies(space, range);
  // What is in shared memory has other uses behind.
  if (ring_.output)
    waitPhase(ring_.output->ended, b.getInt32(0));
}

void GroupLowering::lowerOp(Op &op) {
  if (isStagedLoad(op) || isForOthers(op))
    return;
  if (op.is(OpKind::Dot) && op.hasAttr("groups"))
    return multiply(op);
  if (isDeferred(op)) {
    if (!op.is(OpKind::Notify) && !op.is(OpKind::Await))
      handOver(op);
    return;
  }
  BodyLowering::lowerOp(op);
  if (op.is(OpKind::For) && op.hasAttr("stages"))
    finish(op);
}

Value *GroupLowering::takeBody(const BodyRange &) {
  waitPhase(body_.barrier(ring_.bodiesFull, body_.slot()), body_.phase());
  return readBodyNumber();
}

Value *GroupLowering::previousSlot() {
  Value *slot = place_.slot();
  return b.CreateSelect(b.CreateICmpEQ(slot, b.getInt32(0)), b.getInt32(ring_.stages - 1),
                        b.CreateSub(slot, b.getInt32(1)));
}

void GroupLowering::awaitDrained() {
  waitPhase(ring_.output->drained, output_.phase());
  output_.next();
}

void GroupLowering::handOver(Op &store) {
  const OutputTile &output = *ring_.output;
  if (!output.lastLoop)
    awaitDrained();
  ir::Value *tile = store.operand(0);
  writeShared(output.tile, info(tile->type()), registers(tile));
  ops_.proxyFence(b);
  ops_.arrive(b, output.stored);
}

/// The load that a tile is, up to the order of its elements; null where it is something else.
const Op *GroupLowering::loadOf(const ir::Value *tile) {
  const Op *op = tile->definingOp();
  while (op && (op->is(OpKind::Trans) || op->is(OpKind::Convert)))
    op = op->operand(0)->definingOp();
  return op && isStagedLoad(*op) ? op : nullptr;
}

/// Whether all uses lead to what other walkers do, or to nothing.
bool GroupLowering::isForOthers(const Op &op) {
  if (op.is(OpKind::Trans) || op.is(OpKind::Convert))
    return loadOf(op.operand(0)) != nullptr;
  const bool isToken = op.is(OpKind::Wait) || op.is(OpKind::TokenJoin);
  if (isToken ? !op.result()->type().isAcquire() : !op.is(OpKind::SigSlice))
    return false;
  return llvm::all_of(op.result()->uses(), [](const ir::Use &use) {
    return isStagedLoad(*use.user) || isDeferred(*use.user) || isForOthers(*use.user);
  });
}

void GroupLowering::release(Value *slot) {
  Value *lane = b.CreateAnd(kernel_.thread, b.getInt32(31));
  when(b.CreateICmpEQ(lane, b.getInt32(0)), "release",
       [&] { ops_.arrive(b, place_.barrier(ring_.empty, slot)); });
}

void GroupLowering::multiply(Op &dot) {
  const StagedTile &a = ring_.tiles.find(loadOf(dot.operand(0)))->second;
  const StagedTile &bTile = ring_.tiles.find(loadOf(dot.operand(1)))->second;
  const GroupDot shape = {.a = {a.dtype(), unsigned(a.swizzle)},
                          .b = {bTile.dtype(), unsigned(bTile.swizzle)},
                          .accumulator = dot.result()->type().dtype(),
                          .columns = unsigned(bTile.rows)};
  const unsigned groups = dot.intAttr("groups");
  const unsigned blocks = a.rows / 64 / groups;

  Value *slot = place_.slot();
  waitPhase(place_.barrier(ring_.full, slot), place_.phase());
  Registers sums(registers(dot.operand(2)));
  const unsigned each = sums.size() / blocks;
  // The groups stand above each other, then their next blocks.
  Value *group = b.CreateLShr(kernel_.thread, 7);
  Value *rows = b.CreateMul(group, b.getInt32(64 * a.swizzle));
  Value *aStart = b.CreateAdd(address(slot, a.offset), rows);
  Value *bDescriptor =
      ops_.descriptor(b, shape.b, address(slot, bTile.offset));
  ops_.beginDots(b);
  for (unsigned block = 0; block < blocks; ++block) {
    Value *start = b.CreateAdd(aStart, b.getInt32(block * groups * 64 * a.swizzle));
    Value *aDescriptor = ops_.descriptor(b, shape.a, start);
    auto part = llvm::MutableArrayRef<Value *>(sums).slice(block * each, each);
    for (int64_t at = 0; at < a.depthBytes; at += GroupDot::kDepthBytes) {
      const auto within = [&](const StagedTile &tile) {
        return uint64_t(at / tile.swizzle * tile.rows * tile.swizzle + at % tile.swizzle);
      };
      ops_.dot(b, shape, ops_.advance(b, aDescriptor, within(a)),
               ops_.advance(b, bDescriptor, within(bTile)), part);
    }
  }
  ops_.endDots(b);
  setRegisters(dot.result(), sums);
  // Those of the iteration before are done then, and its slot is free.
  ops_.awaitDots(b, 1, {});
  Op &loop = *dot.parentOp();
  Value *isFirst = b.CreateICmpEQ(scalar(loop.body().argument(0)), scalar(loop.operand(0)));
  when(b.CreateNot(isFirst), "previous", [&] { release(previousSlot()); });
  place_.next();
}

/// Behind a loop: its last products.
void GroupLowering::finish(Op &loop) {
  // While products are in flight: ptxas would serialize them for a loop between their end and the
  // use of the sums (C7514).
  if (ring_.output && ring_.output->lastLoop == &loop)
    awaitDrained();
  for (Op &op : loop.body().ops()) {
    if (!op.is(OpKind::Dot) || !op.hasAttr("groups"))
      continue;
    ir::Value *result = loop.result(op.result()->uses()[0].index);
    Registers sums(registers(result));
    ops_.awaitDots(b, 0, sums);
    setRegisters(result, sums);
  }
  Value *ran = b.CreateICmpSLT(scalar(loop.operand(0)), scalar(loop.operand(1)));
  when(ran, "last", [&] { release(previousSlot()); });
}

} // namespace dtile::backend::gpu
