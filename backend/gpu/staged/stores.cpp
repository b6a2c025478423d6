// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The warp that stores what the groups have handed over.
//
// Order. Each thread of the groups fences its writes of shared memory against the copy engine, then
// arrives at `stored`; the warp's threads see that, and each has the engine copy some of the rows.
// When the engine has read them, they arrive at `drained`: the groups may write the next tile. When
// all rows have landed, the warp meets, and one thread notifies: its release, at the scope of those
// who wait, covers what the warp's threads have seen to land, and what the groups wrote before they
// arrived.
#include "backend/gpu/staged/walkers.h"

namespace dtile::backend::gpu {

using ir::Op;
using ir::OpKind;
using llvm::Value;

namespace {

constexpr unsigned kWarp = StagingOps::kWarpThreads;

} // namespace

StoreLowering::StoreLowering(GpuModule &module, const KernelScaffold &kernel, const Ring &ring)
    : SliceLowering(module, kernel, ring, "store") {
  threads_ = 1;
  thread_ = b.getInt32(0);
  for (Op *op : ring.output->deferred)
    for (ir::Value *operand : op->operands())
      if (!operand->type().isToken() && !operand->type().isAcquire())
        needValue(operand);
}

void StoreLowering::lowerBodies(Op &space, const BodyRange &range) {
  lane_ = b.CreateAnd(kernel_.thread, b.getInt32(kWarp - 1), "lane");
  body_.begin(0);
  output_.begin(0);
  forEachBody(space, range, [&] { lowerBlock(space.body()); });
  ops_.awaitStores(b);
  ops_.arrive(b, ring_.output->drained);
}

Value *StoreLowering::takeBody(const BodyRange &) {
  waitOrLeave(body_.barrier(ring_.bodiesFull, body_.slot()), body_.phase());
  return readBodyNumber();
}

void StoreLowering::lowerOp(Op &op) {
  if (!isDeferred(op)) {
    if (isNeeded(op))
      SliceLowering::lowerOp(op);
    return;
  }
  if (op.is(OpKind::Await))
    return;
  if (!op.is(OpKind::Notify))
    return store(op);
  // By one thread, for the rows that all have sent.
  ops_.awaitStores(b);
  ops_.meetWarp(b);
  when(b.CreateICmpEQ(lane_, b.getInt32(0)), "notify", [&] { SliceLowering::lowerOp(op); });
}

void StoreLowering::store(Op &op) {
  const OutputTile &output = *ring_.output;
  waitOrLeave(output.stored, output_.phase());
  output_.next();
  const Rows rows = rowsOf(located(op.operand(1)));
  when(rows.usable, "rows", [&] {
    Value *first = b.CreateAdd(rows.first, lane_);
    Value *left = b.CreateSub(rows.end, first);
    Value *count = b.CreateSDiv(b.CreateAdd(left, b.getInt32(kWarp - 1)), b.getInt32(kWarp));
    count = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, count, b.getInt32(0));
    Value *isAny = b.CreateICmpSGT(rows.bytes, b.getInt32(0));
    count = b.CreateSelect(isAny, count, b.getInt32(0));
    Value *base = b.CreatePtrToInt(output.tile.base, b.getInt32Ty());
    loop(b.CreateZExt(count, b.getInt64Ty()), "rows", [&](Value *round) {
      Value *row = b.CreateAdd(
          first, b.CreateMul(b.CreateTrunc(round, b.getInt32Ty()), b.getInt32(kWarp)));
      Value *here = b.CreateMul(row, b.getInt32(uint32_t(output.tile.strides[0])));
      here = b.CreateAdd(b.CreateAdd(base, here), rows.skipped);
      Value *there = b.CreateMul(b.CreateZExt(row, b.getInt64Ty()), rows.stride);
      there = b.CreateAdd(there, b.CreateZExt(rows.skipped, b.getInt64Ty()));
      ops_.storeRow(b, b.CreateGEP(b.getInt8Ty(), rows.data, there), here, rows.bytes);
    });
    ops_.commitStores(b);
    ops_.awaitStoresRead(b, 0);
  });
  ops_.arrive(b, output.drained);
}

} // namespace dtile::backend::gpu
