// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What bodies that are compiled to be traced record: what they are doing, from when to when
// (runtime/device_abi.h). Of a program's threads one records what all do, as far as it takes part
// in it: the bodies' first thread, or one of a warp that loads or stores for them.
//
// Other code has none of this.
#include "backend/gpu/bodies/lower_body.h"
#include "backend/gpu/space_facts.h"

#include "backend/runtime/trace/trace_abi.h"
#include "ir/core/tile_order.h"

namespace dtile::backend::gpu {

using ir::Op;
using ir::OpKind;

namespace {

dtile_trace_op transferOp(const Op &op) {
  switch (op.kind()) {
  case OpKind::Put:
  case OpKind::PutSignal:
    return DTILE_TRACE_PUT;
  case OpKind::Get:
    return DTILE_TRACE_GET;
  case OpKind::ReduceAdd:
  case OpKind::ReduceAddScatter:
    return DTILE_TRACE_REDUCE_ADD;
  case OpKind::Load:
  case OpKind::Gather:
    return op.is(OpKind::Load) && op.get(ir::attr::ll) ? DTILE_TRACE_POLL : DTILE_TRACE_LOAD;
  case OpKind::Atomic:
  case OpKind::AtomicScatter:
    return DTILE_TRACE_ATOMIC;
  default:
    return DTILE_TRACE_STORE;
  }
}

/// The view of the memory that a transfer goes to or comes from.
ir::Value *farView(const Op &op) {
  switch (op.kind()) {
  case OpKind::Put:
  case OpKind::PutSignal:
  case OpKind::ReduceAdd:
  case OpKind::Store:
  case OpKind::Scatter:
    return op.operand(1);
  default:
    return op.operand(0);
  }
}

/// The tile whose elements a transfer picks, or null where it moves a whole view.
const ir::Value *pickedTile(const Op &op) {
  switch (op.kind()) {
  case OpKind::Gather:
    return op.result();
  case OpKind::Scatter:
    return op.operand(0);
  case OpKind::ReduceAddScatter:
  case OpKind::AtomicScatter:
    return op.operand(1);
  default:
    return nullptr;
  }
}

} // namespace

void BodyLowering::beginTrace(const Op &space) {
  const std::optional<dtile_device_recorder> own = recorder();
  if (!gpu_.isTraced || !own)
    return;
  tracedSpace_ = spaceNumber(space);
  region_ = call(DeviceCall::trace_region, {kernel_.launch, b.getInt32(*own)});
}

llvm::Value *BodyLowering::traceBegin() {
  if (!region_)
    return nullptr;
  llvm::Value *began = stackSlot(b.getInt64Ty(), "trace.began");
  when(isRecording(), "trace.begin",
       [&] { b.CreateStore(call(DeviceCall::trace_now, {}), began); });
  return began;
}

void BodyLowering::record(const Event &event,
                          llvm::function_ref<void(llvm::Value *words)> describe) {
  llvm::Value *peer = event.peer ? event.peer : kernel_.rank;
  llvm::Value *ended = event.ended ? event.ended : call(DeviceCall::trace_now, {});
  llvm::Value *words = call(
      DeviceCall::trace_event,
      {kernel_.launch, region_, event.op, b.getInt32(tracedSpace_), b.getInt32(event.site), epoch(),
       b.CreateLoad(b.getInt64Ty(), event.began), ended, b.CreateTrunc(peer, b.getInt32Ty())});
  when(b.CreateIsNotNull(words), "trace.words", [&] { describe(words); });
}

void BodyLowering::storeWord(llvm::Value *words, unsigned number, llvm::Value *value) {
  b.CreateStore(value, b.CreateConstInBoundsGEP1_64(b.getInt64Ty(), words, number));
}

void BodyLowering::traced(Op &space, llvm::function_ref<void()> body) {
  llvm::Value *began = traceBegin();
  body();
  if (!began)
    return;
  when(isRecording(), "trace.body", [&] {
    record({.op = b.getInt32(DTILE_TRACE_BODY), .began = began}, [&](llvm::Value *words) {
      for (unsigned d = 0; d < ir::spaceDims(space); ++d)
        storeWord(words, d, scalar(space.body().argument(d)));
    });
  });
}

llvm::Value *BodyLowering::bytesMoved(const Op &op) {
  const View moved = view(farView(op));
  const auto bytes = int64_t(dtypeBytes(moved.type.dtype()));
  if (const ir::Value *tile = pickedTile(op))
    return b.getInt64(uint64_t(bytes * (tile->type().isTile() ? tile->type().elements() : 1)));
  llvm::Value *count = b.getInt64(uint64_t(bytes));
  for (const ViewDimension &dim : moved.dims) {
    llvm::Value *low = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, dim.low, b.getInt64(0));
    llvm::Value *high = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, dim.high, dim.extent);
    llvm::Value *size =
        b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, b.CreateSub(high, low), b.getInt64(0));
    count = b.CreateMul(count, size);
  }
  return b.CreateSelect(b.CreateIsNotNull(moved.data), count, b.getInt64(0));
}

void BodyLowering::tracedTransfer(Op &op, llvm::function_ref<void()> body) {
  const dtile_trace_op what = transferOp(op);
  ir::Value *far = farView(op);
  // What a rank reads and writes of its own is no transfer.
  const bool moves = op.is(OpKind::Put) || op.is(OpKind::PutSignal) || op.is(OpKind::Get) ||
                     what == DTILE_TRACE_POLL || far->type().isRemote();
  llvm::Value *began = moves ? traceBegin() : nullptr;
  body();
  if (!began)
    return;
  // What the copy engine does in this launch is not seen from here.
  llvm::Value *isSeen = isRecording();
  if (llvm::Value *isLeft = isLeftToEngine(op, view(far).rank))
    isSeen = b.CreateAnd(isSeen, b.CreateNot(isLeft));
  when(isSeen, "trace.transfer", [&] {
    record({.op = b.getInt32(what),
            .site = gpu_.site(op, launch::objectName(far)),
            .began = began,
            .peer = view(far).rank},
           [&](llvm::Value *words) { storeWord(words, 0, bytesMoved(op)); });
  });
}

void BodyLowering::traceCells(const Op &op, llvm::Value *began, const SignalCells &cells,
                              llvm::function_ref<llvm::Value *(llvm::Value *cell)> wanted) {
  if (!began)
    return;
  const bool isWait = op.is(OpKind::Wait);
  const unsigned signal = op.is(OpKind::PutSignal) ? 2 : 0;
  Event event{.op = b.getInt32(isWait ? DTILE_TRACE_WAIT : DTILE_TRACE_NOTIFY),
              .site = gpu_.site(op, launch::objectName(op.operand(signal))),
              .began = began,
              .peer = cells.rank};
  const auto one = [&](llvm::Value *cell, llvm::Value *what) {
    Event own = event;
    own.op = what;
    record(own, [&](llvm::Value *words) {
      storeWord(words, 0, b.CreatePtrToInt(cell, b.getInt64Ty()));
      if (wanted)
        storeWord(words, 1, wanted(cell));
    });
  };
  if (alone_) {
    event.ended = b.CreateAdd(b.CreateLoad(b.getInt64Ty(), began), alone_->each);
    one(cells.data, event.op);
    b.CreateStore(event.ended, began);
    return;
  }
  when(isRecording(), "trace.cells", [&] {
    event.ended = call(DeviceCall::trace_now, {});
    if (cells.dims.empty())
      return one(cells.data, event.op);
    eachCellOf(cells, b.getInt32(0), 1, [&](llvm::Value *cell, llvm::Value *number) {
      one(cell, b.CreateSelect(b.CreateIsNull(number), event.op, b.getInt32(DTILE_TRACE_CELL)));
    });
  });
}

void BodyLowering::tracedBarrier(Op &op, llvm::function_ref<void()> body) {
  llvm::Value *began = traceBegin();
  body();
  if (began)
    when(isRecording(), "trace.barrier", [&] {
      record({.op = b.getInt32(DTILE_TRACE_BARRIER), .site = gpu_.site(op, ""), .began = began},
             [](llvm::Value *) {});
    });
}

} // namespace dtile::backend::gpu
