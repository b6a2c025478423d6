// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loops that do nothing but notify, as `for hop in 0..W { notify(s@((rank() + hop) % W)[…]); }`.
//
// A notify waits until what the program has stored has landed, also at peers, and so does the next
// one: one after the other they would take as many trips as there are rounds. Here the program
// meets once, and each thread does some of the rounds by itself, so that they are all under way at
// once. No order is lost: what rounds do is unordered for those who wait.
#include "backend/gpu/bodies/lower_body.h"

#include "backend/llvm/tile_order.h"

#include "llvm/Support/MathExtras.h"

namespace dtile::backend::gpu {

using ir::Op;
using ir::OpKind;

namespace {

/// One cell, for which no token is awaited.
bool isSingle(const Op &notify) {
  return notify.operand(0)->type().rank() == 0 &&
         llvm::all_of(notify.operands().drop_front(), [](const ir::Value *token) {
           const Op *op = token->definingOp();
           return !token->type().isToken() || (op && op->is(OpKind::TokenDone));
         });
}

/// Whether a thread alone can do it: what it computes is not spread over threads.
bool isOwnWork(const Op &op) {
  if (op.is(OpKind::SigAt) || op.is(OpKind::SigSlice) || op.is(OpKind::Yield) ||
      op.is(OpKind::TokenDone))
    return true;
  if (!op.isPure() || op.numRegions() > 0)
    return false;
  const auto isTile = [](const ir::Value *value) { return value->type().isTile(); };
  return llvm::none_of(op.operands(), isTile) && llvm::none_of(op.results(), isTile);
}

bool onlyNotifies(Op &op) {
  if (!op.is(OpKind::For) || op.numResults() > 0)
    return false;
  bool notifies = false;
  for (Op &inner : op.body().ops()) {
    if (inner.is(OpKind::Notify) && isSingle(inner))
      notifies = true;
    else if (!isOwnWork(inner))
      return false;
  }
  return notifies;
}

} // namespace

bool BodyLowering::lowerNotifyingLoop(Op &op) {
  if (threads_ == 1 || alone_ || !onlyNotifies(op))
    return false;
  llvm::Value *first = scalar(op.operand(0));
  llvm::Value *end = scalar(op.operand(1));
  llvm::Value *step = scalar(op.operand(2));
  sync();
  llvm::Value *failed = stackSlot(b.getInt32Ty(), "failed");
  b.CreateStore(b.getInt32(0), failed);
  llvm::Value *began = traceBegin();

  // Round r of the loop belongs to thread r % threads.
  llvm::Value *thread = b.CreateZExt(thread_, b.getInt64Ty());
  llvm::Value *start = b.CreateAdd(first, b.CreateMul(thread, step));
  const bool mayFail =
      notifyAlone(op, {start, end, b.CreateMul(step, b.getInt64(threads_))}, {.failed = failed});
  // One thread records all of them; each has its share of the time that they took together.
  if (began)
    when(isRecording(), "trace.notifies", [&] {
      llvm::Value *taken =
          b.CreateSub(call(DeviceCall::trace_now, {}), b.CreateLoad(b.getInt64Ty(), began));
      const auto inRound = uint64_t(llvm::count_if(
          op.body().ops(), [](const Op &inner) { return inner.is(OpKind::Notify); }));
      llvm::Value *notifies = b.CreateMul(emitBlockCount(b, first, end, step), b.getInt64(inRound));
      notifies = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, notifies, b.getInt64(1));
      (void)notifyAlone(op, {first, end, step},
                        {.failed = failed, .began = began, .each = b.CreateSDiv(taken, notifies)});
    });
  if (mayFail)
    sync(b.CreateLoad(b.getInt32Ty(), failed));
  return true;
}

bool BodyLowering::notifyAlone(Op &op, const Rounds &rounds, Alone alone) {
  llvm::BasicBlock *before = b.GetInsertBlock();
  llvm::BasicBlock *header = block("notifies");
  llvm::BasicBlock *inside = block("notifies.one");
  llvm::BasicBlock *next = block("notifies.next");
  llvm::BasicBlock *after = block("notifies.end");
  b.CreateBr(header);
  b.SetInsertPoint(header);
  llvm::PHINode *position = b.CreatePHI(b.getInt64Ty(), 2);
  position->addIncoming(rounds.first, before);
  b.CreateCondBr(b.CreateICmpSLT(position, rounds.end), inside, after);

  b.SetInsertPoint(inside);
  set(op.body().argument(0), {position});
  alone.next = next;
  alone_ = alone;
  lowerBlock(op.body());
  const bool mayFail = alone_->mayFail;
  alone_.reset();
  b.CreateBr(next);
  b.SetInsertPoint(next);
  position->addIncoming(b.CreateAdd(position, rounds.step), next);
  b.CreateBr(header);
  b.SetInsertPoint(after);
  return mayFail;
}

} // namespace dtile::backend::gpu
