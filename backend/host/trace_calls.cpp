// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls of bodies that are compiled to be traced: before and after what leaves the body.
#include "backend/host/lower_body.h"

#include "backend/runtime/trace/trace_abi.h"
#include "frontend/base/check.h"

namespace dtile::backend::host {

using ir::Op;
using ir::OpKind;

namespace {

dtile_trace_op traceOp(const Op &op) {
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
    return DTILE_TRACE_LOAD;
  case OpKind::Store:
  case OpKind::Scatter:
    return DTILE_TRACE_STORE;
  case OpKind::Atomic:
  case OpKind::AtomicScatter:
    return DTILE_TRACE_ATOMIC;
  default:
    DTILE_UNREACHABLE("an op that moves nothing");
  }
}

/// The view or signal that an op accesses at another rank, as its site names it.
const ir::Value *remoteObject(const Op &op) {
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

} // namespace

void BodyLowering::traceCopy(const Op &op, llvm::Value *remote, llvm::Value *local) {
  if (host_.isTraced)
    call(Runtime::trace_copy,
         {b.getInt32(traceOp(op)), remote, local, host_.site(op, objectName(remoteObject(op)))});
}

void BodyLowering::traceCells(const Op &op, llvm::Value *cells, llvm::Value *count) {
  if (!host_.isTraced)
    return;
  const bool isWait = op.is(OpKind::Wait);
  const bool isBarrier = op.is(OpKind::Barrier);
  const dtile_trace_op kind = isWait      ? DTILE_TRACE_WAIT
                              : isBarrier ? DTILE_TRACE_BARRIER
                                          : DTILE_TRACE_NOTIFY;
  const ir::Value *signal = isBarrier ? nullptr : op.operand(op.is(OpKind::PutSignal) ? 2 : 0);
  call(Runtime::trace_cells, {b.getInt32(kind), cells, count,
                              host_.site(op, signal ? objectName(signal) : llvm::StringRef())});
}

void BodyLowering::traceEnd() {
  if (host_.isTraced)
    call(Runtime::trace_end);
}

} // namespace dtile::backend::host
