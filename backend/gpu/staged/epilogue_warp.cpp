// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The epilogue warp: stores output tiles, and prefetches what epilogues add to them.
//
// RowRuns that are whole words where they go are stored by TMA; others, element by
// element.
//
// Order. Each thread of the warpgroups fences its writes of shared memory against TMA,
// then arrives at `stored`; the warp's threads see that, and one has the engine copy the rows (the
// instruction takes uniform registers: by all threads it would be issued one thread after the
// other, less than half as fast). When the engine has read them, they arrive at `drained`: the
// groups may write the next tile. When all rows have landed, the warp meets, and one thread
// notifies: its release, at the scope of those who wait, covers what the warp's threads have seen
// to land, and what the warpgroups wrote before they arrived. A loop over ranks comes twice: it
// sends the tile to all of them, then each thread notifies one.
#include "backend/gpu/staged/epilogue_warp.h"

#include "ir/analysis/communication.h"
#include "ir/core/constants.h"
#include "ir/core/tile_order.h"
#include "ir/model/op_cost.h"

namespace dtile::backend::gpu {

using ir::Op;
using ir::OpKind;
using llvm::Value;

namespace {

constexpr unsigned kWarp = WarpOps::kWarpThreads;

bool isCountedByOne(const Op &loop) { return ir::constantOf(loop.operand(2)) == 1; }

} // namespace

EpilogueWarp::EpilogueWarp(GpuModule &module, const KernelScaffold &kernel, const Ring &ring)
    : HelperWarp(module, kernel, ring, "store") {
  for (Op *load : ring.passed)
    needPassed(*load);
  for (Op *op : ring.output->deferred)
    for (ir::Value *operand : op->operands())
      if (!operand->type().isToken() && !operand->type().isAcquire())
        needValue(operand);
  for (Op *load : ring.output->brought)
    need(*load);
}

void EpilogueWarp::lowerBodies(Op &space, const BodyRange &range) {
  lane_ = b.CreateAnd(kernel_.thread, b.getInt32(kWarp - 1), "lane");
  body_.begin(0);
  number_.begin(0);
  output_.begin(0);
  prefetched_.begin(1);
  b.CreateStore(b.getFalse(), failed_);
  setParts(range);
  beginTrace(space);
  forEachItem(space, range, [&] {
    if (range.paired) {
      const unsigned dim = *ir::TileOrder::fromSpace(space).pairedDimension();
      isOfSpace_ =
          b.CreateICmpSLT(scalar(space.body().argument(dim)), scalar(space.operand(3 * dim + 1)));
    }
    whenGoesOn([&] { lowerBlock(space.body()); });
  });
  if (isSeenOnlyAfterKernel(space))
    bulk_.awaitStoresRead(b, 0);
  else
    bulk_.awaitStores(b);
  bulk_.arrive(b, ring_.output->ended);
}

/// Whether all that the warp stores is for who comes when the kernel has ended: tensors that
/// neither peers nor other spaces reach.
bool EpilogueWarp::isSeenOnlyAfterKernel(const Op &space) {
  return llvm::all_of(ring_.output->deferred, [&](const Op *op) {
    if (!op->is(OpKind::Store))
      return false;
    const Op *object = ir::objectOf(op->operand(1));
    if (!object || !object->is(OpKind::Param))
      return false;
    if (object->get(ir::attr::mode) != ir::ParamMode::Out &&
        object->get(ir::attr::mode) != ir::ParamMode::InOut)
      return false;
    const auto isElsewhere = [&](const ir::Value *value, auto &&self) -> bool {
      return llvm::any_of(value->uses(), [&](const ir::Use &use) {
        const Op *in = use.user->enclosing(OpKind::Space);
        if (in && in != &space)
          return true;
        return use.user->numResults() == 1 && use.user->result()->type().isView() &&
               self(use.user->result(), self);
      });
    };
    return !isElsewhere(object->result(), isElsewhere);
  });
}

void EpilogueWarp::lowerOp(Op &op) {
  if (isEpilogueLoad(op))
    return prefetch(op);
  if (ir::isLoopOfEpilogue(op))
    return lowerLoop(op);
  if (!isOfEpilogue(op)) {
    if (isNeeded(op))
      HelperWarp::lowerOp(op);
    return;
  }
  if (op.is(OpKind::Await))
    return;
  const bool isNotify = op.is(OpKind::Notify);
  if (isNotify && loopPart_ != LoopPart::Stores)
    notify(op);
  else if (!isNotify && loopPart_ == LoopPart::None)
    tracedTransfer(op, [&] { store(op); });
  else if (!isNotify && loopPart_ == LoopPart::Stores)
    tracedTransfer(op, [&] { send(target(located(op.operand(1)))); });
}

void EpilogueWarp::notify(Op &op) {
  Value *acts = b.CreateNot(hasFailed());
  if (loopPart_ != LoopPart::NotifiesOfLanes) {
    // By one thread, when the one that had the rows stored has seen them land.
    bulk_.awaitStores(b);
    warp_.syncWarp(b);
    acts = b.CreateAnd(acts, b.CreateICmpEQ(lane_, b.getInt32(0)));
  }
  if (isOfSpace_)
    acts = b.CreateAnd(acts, isOfSpace_);
  when(acts, "notify", [&] { HelperWarp::lowerOp(op); });
}

/// First the tile is sent to all ranks; it stays in shared memory until the last one has got it.
/// Then all are notified.
void EpilogueWarp::lowerLoop(Op &loop) {
  if (ir::tileStoreOfEpilogue(loop)) {
    takeTile();
    loopPart_ = LoopPart::Stores;
    HelperWarp::lowerOp(loop);
    bulk_.arrive(b, output_.barrier(ring_.output->drained, b.getInt32(0)));
  }
  // Only the first lane records.
  if (gpu_.isTraced || !isCountedByOne(loop)) {
    loopPart_ = LoopPart::Notifies;
    HelperWarp::lowerOp(loop);
  } else {
    // A lane each rank, so that no notify waits for the fence of another.
    bulk_.awaitStores(b);
    warp_.syncWarp(b);
    loopPart_ = LoopPart::NotifiesOfLanes;
    eachOfLanes(scalar(loop.operand(0)), scalar(loop.operand(1)), [&](Value *number) {
      set(loop.body().argument(0), {number});
      lowerBlock(loop.body());
    });
    warp_.syncWarp(b);
  }
  loopPart_ = LoopPart::None;
}

/// Waits for what the warpgroups have left in shared memory.
void EpilogueWarp::takeTile() {
  waitOrLeave(ring_.output->stored, output_.phase());
  output_.next();
  // Nothing of a launch that was given up: the warpgroups have multiplied whatever was there.
  readFailure();
}

void EpilogueWarp::send(const TileRegion &to) {
  Value *isRight = b.CreateNot(hasFailed());
  when(b.CreateAnd(isRight, to.isRows), "rows", [&] { storeRows(to); });
  whenRarely(b.CreateAnd(isRight, to.isShifted), "shifted", [&] { storeShifted(to); });
  Value *isOther = b.CreateNot(b.CreateOr(to.isRows, to.isShifted));
  whenRarely(b.CreateAnd(isRight, isOther), "elements", [&] { storeElements(to); });
}

/// Cells and places of a body that only fills up a pair need not exist.
void EpilogueWarp::fail(int32_t site, llvm::ArrayRef<Value *> arguments) {
  const auto report = [&] { HelperWarp::fail(site, arguments); };
  isOfSpace_ ? when(isOfSpace_, "checked", report) : report();
}

void EpilogueWarp::store(Op &op) {
  const OutputTile &output = *ring_.output;
  const TileRegion whole = target(located(op.operand(1)));
  loop(b.getInt64(uint64_t(output.parts)), "parts", [&](Value *part) {
    takeTile();
    send(output.parts > 1 ? rowsOf(whole, b.CreateMul(part, b.getInt64(uint64_t(output.partRows))))
                          : whole);
    Value *turn = output.isInTurns ? b.CreateTrunc(part, b.getInt32Ty()) : b.getInt32(0);
    bulk_.arrive(b, output_.barrier(output.drained, turn));
  });
}

/// Of a target, the part that begins with a row (i64): what of it exists, and where it stands.
EpilogueWarp::TileRegion EpilogueWarp::rowsOf(const TileRegion &whole, Value *first) {
  TileRegion part = whole;
  Value *end = b.CreateAdd(first, b.getInt64(uint64_t(ring_.output->partRows)));
  part.first = first;
  part.low[0] = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, whole.low[0], first);
  part.high[0] = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, whole.high[0], end);
  return part;
}

void EpilogueWarp::readFailure() {
  Value *wasGivenUp = b.CreateIsNotNull(b.CreateLoad(b.getInt32Ty(), shared(ring_.failed)));
  b.CreateStore(b.CreateOr(hasFailed(), warp_.anyOfWarp(b, wasGivenUp)), failed_);
}

void EpilogueWarp::prefetch(Op &load) {
  const OutputTile &output = *ring_.output;
  waitOrLeave(output.taken, prefetched_.phase());
  prefetched_.next();
  whenRarely(hasFailed(), "bring.failed",
             [&] { b.CreateStore(b.getInt32(1), shared(ring_.failed)); });
  // One thread has seen the rows of the tile before leave.
  warp_.syncWarp(b);
  const TileRegion from = target(located(load.operand(0)));
  Value *isAll = b.getTrue();
  for (unsigned d : {0u, 1u})
    for (Value *missing : {from.low[d], b.CreateSub(b.getInt64(output.shape[d]), from.high[d])})
      isAll = b.CreateAnd(isAll, b.CreateIsNull(missing));
  whenRarely(b.CreateNot(isAll), "zeros", [&] { fillWithZeros(); });
  Value *isRight = b.CreateNot(hasFailed());
  Value *byRows = b.CreateAnd(isRight, from.isRows);
  when(byRows, "rows", [&] { prefetchRows(from); });
  whenRarely(b.CreateNot(byRows), "singly", [&] {
    when(isRight, "elements", [&] { prefetchElements(from); });
    bulk_.arrive(b, output.arrived);
  });
}

EpilogueWarp::TileRegion EpilogueWarp::target(const View &view) {
  const unsigned bytes = dtypeBytes(view.type.dtype());
  TileRegion to;
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
  all = b.CreateAnd(b.CreateOr(all, edges), b.getInt64(model::kRowAlign - 1));
  Value *isDense = b.CreateICmpEQ(to.stride[1], b.getInt64(bytes));
  to.isRows = b.CreateAnd(b.CreateIsNull(all), isDense);
  Value *begin = b.CreateMul(to.low[1], b.getInt64(bytes));
  Value *isWhole = b.CreateIsNull(b.CreateAnd(begin, b.getInt64(ir::kSharedWordBytes - 1)));
  to.isShifted = b.CreateAnd(b.CreateAnd(isDense, isWhole), b.CreateNot(to.isRows));
  return to;
}

Value *EpilogueWarp::inShared(const TileRegion &target, Value *row, Value *column) {
  const SharedTile &tile = ring_.output->tile;
  if (target.first)
    row = b.CreateSub(row, target.first);
  const auto along = [&](Value *position, unsigned d) {
    return b.CreateMul(b.CreateTrunc(position, b.getInt32Ty()),
                       b.getInt32(uint32_t(tile.strides[d])));
  };
  Value *base = b.CreatePtrToInt(tile.base, b.getInt32Ty());
  return b.CreateAdd(base, b.CreateAdd(along(row, 0), along(column, 1)));
}

Value *EpilogueWarp::roundsOfLanes(Value *first, Value *end) {
  Value *left = b.CreateSub(end, b.CreateAdd(first, b.CreateZExt(lane_, b.getInt64Ty())));
  Value *count = b.CreateSDiv(b.CreateAdd(left, b.getInt64(kWarp - 1)), b.getInt64(kWarp));
  return b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, count, b.getInt64(0));
}

void EpilogueWarp::eachOfLanes(Value *first, Value *end, llvm::function_ref<void(Value *)> body) {
  Value *mine = b.CreateAdd(first, b.CreateZExt(lane_, b.getInt64Ty()));
  loop(roundsOfLanes(first, end), "lanes",
       [&](Value *round) { body(b.CreateAdd(mine, b.CreateMul(round, b.getInt64(kWarp)))); });
}

EpilogueWarp::RowRuns EpilogueWarp::rows(const TileRegion &target) {
  const unsigned bytes = dtypeBytes(ring_.output->tile.dtype);
  const auto atLeastZero = [&](Value *value) {
    return b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, value, b.getInt64(0));
  };
  Value *height = atLeastZero(b.CreateSub(target.high[0], target.low[0]));
  Value *length =
      atLeastZero(b.CreateMul(b.CreateSub(target.high[1], target.low[1]), b.getInt64(bytes)));
  Value *count = b.CreateSelect(b.CreateIsNull(length), b.getInt64(0), height);
  Value *skipped = b.CreateAdd(b.CreateMul(target.low[0], target.stride[0]),
                               b.CreateMul(target.low[1], b.getInt64(bytes)));
  Value *there = b.CreateAdd(b.CreatePtrToInt(target.data, b.getInt64Ty()), skipped);
  return {.count = warp_.uniform(b, b.CreateTrunc(count, b.getInt32Ty())),
          .length = warp_.uniform(b, b.CreateTrunc(length, b.getInt32Ty())),
          .there = warp_.uniform(b, there),
          .stride = warp_.uniform(b, target.stride[0]),
          .here = warp_.uniform(b, inShared(target, target.low[0], target.low[1]))};
}

void EpilogueWarp::eachRow(const RowRuns &rows, llvm::function_ref<void(Value *, Value *)> body) {
  // Between the engine's instructions there should be little else.
  constexpr uint32_t kAtOnce = 8;
  const auto some = [&](Value *first, Value *rounds, uint32_t atOnce) {
    loop(b.CreateZExt(rounds, b.getInt64Ty()), "rows", [&](Value *round) {
      Value *begin =
          b.CreateAdd(first, b.CreateMul(b.CreateTrunc(round, b.getInt32Ty()), b.getInt32(atOnce)));
      for (uint32_t i = 0; i < atOnce; ++i) {
        Value *row = b.CreateAdd(begin, b.getInt32(i));
        Value *skipped = b.CreateMul(b.CreateZExt(row, b.getInt64Ty()), rows.stride);
        Value *pitch = b.getInt32(uint32_t(ring_.output->tile.strides[0]));
        body(b.CreateIntToPtr(b.CreateAdd(rows.there, skipped), b.getPtrTy()),
             b.CreateAdd(rows.here, b.CreateMul(row, pitch)));
      }
    });
  };
  Value *left = b.CreateURem(rows.count, b.getInt32(kAtOnce));
  some(b.getInt32(0), b.CreateUDiv(rows.count, b.getInt32(kAtOnce)), kAtOnce);
  some(b.CreateSub(rows.count, left), left, 1);
}

void EpilogueWarp::storeRows(const TileRegion &to) {
  const RowRuns rows = this->rows(to);
  when(warp_.isElected(b), "engine", [&] {
    eachRow(rows, [&](Value *there, Value *here) { bulk_.storeRow(b, there, here, rows.length); });
    bulk_.commitStores(b);
    bulk_.awaitStoresRead(b, 0);
  });
}

void EpilogueWarp::prefetchRows(const TileRegion &from) {
  const RowRuns rows = this->rows(from);
  Value *arrived = ring_.output->arrived;
  Value *acts = warp_.isElected(b);
  Value *bytes = b.CreateMul(rows.count, rows.length);
  bulk_.arriveExpecting(b, arrived, b.CreateSelect(acts, bytes, b.getInt32(0)));
  when(acts, "engine", [&] {
    eachRow(rows, [&](Value *there, Value *here) {
      bulk_.loadRow(b, here, there, rows.length, arrived);
    });
  });
}

void EpilogueWarp::eachElement(const TileRegion &target,
                               llvm::function_ref<void(Value *, Value *)> body) {
  Value *height = b.CreateSub(target.high[0], target.low[0]);
  loop(b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, height, b.getInt64(0)), "rows",
       [&](Value *round) {
         Value *row = b.CreateAdd(target.low[0], round);
         eachOfLanes(target.low[1], target.high[1], [&](Value *column) {
           Value *there = b.CreateAdd(b.CreateMul(row, target.stride[0]),
                                      b.CreateMul(column, target.stride[1]));
           body(b.CreateGEP(b.getInt8Ty(), target.data, there),
                shared(inShared(target, row, column)));
         });
       });
}

void EpilogueWarp::storeElements(const TileRegion &to) {
  eachElement(to, [&](Value *there, Value *inShared) { moveElement(inShared, there); });
}

void EpilogueWarp::prefetchElements(const TileRegion &from) {
  eachElement(from, [&](Value *there, Value *inShared) { moveElement(there, inShared); });
}

void EpilogueWarp::moveElement(Value *from, Value *to) {
  const DType dtype = ring_.output->tile.dtype;
  const llvm::Align align(dtypeBytes(dtype));
  Value *value = b.CreateAlignedLoad(memoryType(context(), dtype), from, align);
  b.CreateAlignedStore(value, to, align);
}

void EpilogueWarp::fillWithZeros() {
  llvm::Type *word = llvm::FixedVectorType::get(b.getInt32Ty(), 4);
  const unsigned bytes = model::kRowAlign;
  const SharedTile &tile = ring_.output->tile;
  Value *first = b.CreatePtrToInt(tile.base, b.getInt32Ty());
  eachOfLanes(b.getInt64(0), b.getInt64(tile.bytes / bytes), [&](Value *number) {
    Value *at = b.CreateMul(b.CreateTrunc(number, b.getInt32Ty()), b.getInt32(bytes));
    b.CreateAlignedStore(llvm::Constant::getNullValue(word), shared(b.CreateAdd(first, at)),
                         llvm::Align(bytes));
  });
  // Before what TMA brings for one of the warp's threads.
  bulk_.proxyFence(b);
  warp_.syncWarp(b);
}

} // namespace dtile::backend::gpu
