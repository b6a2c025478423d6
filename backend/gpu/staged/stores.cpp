// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The warp that stores what the groups have handed over.
//
// Rows that are whole words where they go are stored by the copy engine; others, element by
// element.
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
  for (Op *op : ring.output->deferred)
    for (ir::Value *operand : op->operands())
      if (!operand->type().isToken() && !operand->type().isAcquire())
        needValue(operand);
}

void StoreLowering::lowerBodies(Op &space, const BodyRange &range) {
  lane_ = b.CreateAnd(kernel_.thread, b.getInt32(kWarp - 1), "lane");
  body_.begin(0);
  output_.begin(0);
  b.CreateStore(b.getFalse(), failed_);
  forEachBody(space, range, [&] { lowerBlock(space.body()); });
  ops_.awaitStores(b);
  ops_.arrive(b, ring_.output->ended);
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
  Value *acts = b.CreateAnd(b.CreateICmpEQ(lane_, b.getInt32(0)), b.CreateNot(hasFailed()));
  when(acts, "notify", [&] { SliceLowering::lowerOp(op); });
}

void StoreLowering::store(Op &op) {
  const OutputTile &output = *ring_.output;
  waitOrLeave(output.stored, output_.phase());
  output_.next();
  // Nothing of a launch that was given up: the groups have multiplied whatever was there.
  Value *wasGivenUp = b.CreateIsNotNull(b.CreateLoad(b.getInt32Ty(), shared(ring_.failed)));
  b.CreateStore(b.CreateOr(hasFailed(), wasGivenUp), failed_);
  const Target to = target(located(op.operand(1)));
  Value *isRight = b.CreateNot(hasFailed());
  when(b.CreateAnd(isRight, to.isRows), "rows", [&] { storeRows(to); });
  when(b.CreateAnd(isRight, b.CreateNot(to.isRows)), "elements", [&] { storeElements(to); });
  ops_.arrive(b, output.drained);
}

StoreLowering::Target StoreLowering::target(const View &view) {
  const unsigned bytes = dtypeBytes(view.type.dtype());
  Target to;
  to.data = view.data;
  for (unsigned d : {0u, 1u}) {
    const auto within = [&](Value *position) {
      position = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, position, b.getInt64(0));
      return b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, position,
                                     b.getInt64(ring_.output->shape[d]));
    };
    to.low[d] = within(view.dims[d].low);
    to.high[d] = within(view.dims[d].high);
    to.stride[d] = b.CreateMul(view.dims[d].stride, b.getInt64(bytes));
  }
  Value *edges = b.CreateMul(b.CreateOr(to.low[1], to.high[1]), b.getInt64(bytes));
  Value *all = b.CreateOr(b.CreatePtrToInt(to.data, b.getInt64Ty()), to.stride[0]);
  all = b.CreateAnd(b.CreateOr(all, edges), b.getInt64(StagingOps::kRowAlign - 1));
  Value *isDense = b.CreateICmpEQ(to.stride[1], b.getInt64(bytes));
  to.isRows = b.CreateAnd(b.CreateIsNull(all), isDense);
  return to;
}

Value *StoreLowering::inShared(Value *row, Value *column) {
  const SharedTile &tile = ring_.output->tile;
  const auto along = [&](Value *position, unsigned d) {
    return b.CreateMul(b.CreateTrunc(position, b.getInt32Ty()),
                       b.getInt32(uint32_t(tile.strides[d])));
  };
  Value *base = b.CreatePtrToInt(tile.base, b.getInt32Ty());
  return b.CreateAdd(base, b.CreateAdd(along(row, 0), along(column, 1)));
}

void StoreLowering::eachOfLanes(Value *first, Value *end,
                                llvm::function_ref<void(Value *)> body) {
  first = b.CreateAdd(first, b.CreateZExt(lane_, b.getInt64Ty()));
  Value *left = b.CreateAdd(b.CreateSub(end, first), b.getInt64(kWarp - 1));
  Value *count = b.CreateSDiv(left, b.getInt64(kWarp));
  loop(b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, count, b.getInt64(0)), "lanes",
       [&](Value *round) {
         body(b.CreateAdd(first, b.CreateMul(round, b.getInt64(kWarp))));
       });
}

void StoreLowering::storeRows(const Target &to) {
  const unsigned bytes = dtypeBytes(ring_.output->tile.dtype);
  Value *length = b.CreateMul(b.CreateSub(to.high[1], to.low[1]), b.getInt64(bytes));
  Value *skipped = b.CreateMul(to.low[1], b.getInt64(bytes));
  Value *isAny = b.CreateICmpSGT(length, b.getInt64(0));
  eachOfLanes(to.low[0], b.CreateSelect(isAny, to.high[0], to.low[0]), [&](Value *row) {
    Value *there = b.CreateAdd(b.CreateMul(row, to.stride[0]), skipped);
    ops_.storeRow(b, b.CreateGEP(b.getInt8Ty(), to.data, there), inShared(row, to.low[1]),
                  b.CreateTrunc(length, b.getInt32Ty()));
  });
  ops_.commitStores(b);
  ops_.awaitStoresRead(b, 0);
}

void StoreLowering::storeElements(const Target &to) {
  const DType dtype = ring_.output->tile.dtype;
  llvm::Type *element = memoryType(context(), dtype);
  const llvm::Align align(dtypeBytes(dtype));
  Value *height = b.CreateSub(to.high[0], to.low[0]);
  loop(b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, height, b.getInt64(0)), "rows",
       [&](Value *round) {
         Value *row = b.CreateAdd(to.low[0], round);
         eachOfLanes(to.low[1], to.high[1], [&](Value *column) {
           Value *value = b.CreateAlignedLoad(element, shared(inShared(row, column)), align);
           Value *there = b.CreateAdd(b.CreateMul(row, to.stride[0]),
                                      b.CreateMul(column, to.stride[1]));
           b.CreateAlignedStore(value, b.CreateGEP(b.getInt8Ty(), to.data, there), align);
         });
       });
}

} // namespace dtile::backend::gpu
