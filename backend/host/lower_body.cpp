// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A body's function: its positions, the dispatch of ops that touch tiles and memory, and the moves
// of tiles that loops and branches carry.
#include "backend/host/lower_body.h"

#include "backend/host/tile_loops.h"
#include "frontend/base/check.h"
#include "ir/analysis/communication.h"

namespace dtile::backend::host {

using ir::Op;
using ir::OpKind;
using ir::Value;

LoweredBody BodyLowering::lower(Op &space, llvm::StringRef name) {
  llvm::Type *p = b.getPtrTy();
  auto *type = llvm::FunctionType::get(b.getVoidTy(), {p, p, p, b.getInt64Ty()}, false);
  llvm::Function *function = host_.function(name, type);
  // The workspace is this body's alone.
  function->getArg(2)->addAttr(llvm::Attribute::NoAlias);
  function->getArg(2)->addAttr(
      llvm::Attribute::getWithAlignment(context(), llvm::Align(kBufferAlign)));
  host_.debug.describe(*function, space);
  begin(function, 1);
  task_ = function->getArg(0);
  workspace_ = function->getArg(2);
  host_.debug.moveTo(b, space);

  ir::Block &body = space.body();
  llvm::SmallVector<llvm::Value *, 4> at =
      launch::positions(*this, b, space, fact(OpKind::Rank), function->getArg(3));
  for (auto [argument, position] : llvm::zip(body.arguments(), at))
    set(argument, {position});
  if (host_.isTraced)
    call(Runtime::trace_body);
  lowerBlock(body);
  // What was put has been taken from the workspace, and nothing is sent after the body.
  if (plan_.sendsFromBuffers() || parcels_ > 0 || body.terminator()->numOperands() > 0)
    call(Runtime::issue);
  traceEnd();
  b.CreateRetVoid();
  end();

  const int64_t parcels = llvm::alignTo(plan_.bytes() + scratchBytes_, kBufferAlign);
  for (llvm::Instruction *address : parcelAddresses_) {
    auto *number = llvm::cast<llvm::ConstantInt>(address->getOperand(1));
    address->setOperand(1, b.getInt64(number->getSExtValue() + parcels));
  }
  return {function, parcels + parcels_};
}

LoweredBody lowerBody(HostModule &module, const Frame &frame, Op &space, llvm::StringRef name) {
  return BodyLowering(module, frame, space.body()).lower(space, name);
}

// Memory.

llvm::Value *BodyLowering::buffer(const Value *tile) {
  return b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), workspace_, plan_.offset(tile));
}

llvm::Value *BodyLowering::scratch(int64_t bytes) {
  const int64_t offset = scratchUsed_;
  scratchUsed_ = llvm::alignTo(scratchUsed_ + bytes, kBufferAlign);
  scratchBytes_ = std::max(scratchBytes_, scratchUsed_);
  return b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), workspace_, plan_.bytes() + offset);
}

void BodyLowering::copyBytes(llvm::Value *to, llvm::Value *from, int64_t bytes) {
  b.CreateMemCpy(to, llvm::Align(kBufferAlign), from, llvm::Align(kBufferAlign), bytes);
}

void BodyLowering::beforeWrite(const Value *tile) {
  if (plan_.mayBeInFlight(tile))
    call(Runtime::issue);
}

// Control.

void BodyLowering::moveTiles(Op &op, llvm::ArrayRef<Value *> from, llvm::ArrayRef<Value *> to) {
  struct Move {
    Value *from, *to;
    llvm::Value *staged = nullptr;
  };
  llvm::SmallVector<Move, 4> moves;
  for (auto [source, target] : llvm::zip_equal(from, to))
    if (source->type().isTile() && !plan_.sameBuffer(source, target))
      moves.push_back({source, target});
  if (moves.empty())
    return;
  scratchUsed_ = 0;
  // All happen at once: what another move overwrites is put aside first.
  for (Move &move : moves) {
    const bool isOverwritten = llvm::any_of(
        moves, [&](const Move &other) { return plan_.sameBuffer(move.from, other.to); });
    if (!isOverwritten)
      continue;
    const int64_t bytes = tileBytes(move.from->type());
    move.staged = scratch(bytes);
    copyBytes(move.staged, buffer(move.from), bytes);
  }
  for (Move &move : moves) {
    beforeWrite(move.to);
    if (move.staged)
      copyBytes(buffer(move.to), move.staged, tileBytes(move.to->type()));
    else
      materialize(move.from, buffer(move.to));
  }
}

// Checks.

void BodyLowering::checkCell(Op &op, llvm::Value *position, llvm::Value *size) {
  llvm::Value *outside = b.CreateICmpUGE(position, size);
  when(outside, "outside", [&] {
    call(Runtime::check_cell, {position, size, host_.site(op, objectName(op.operand(0)))});
  });
}

void BodyLowering::call(Runtime callee, llvm::ArrayRef<llvm::Value *> arguments) {
  llvm::SmallVector<llvm::Value *, 8> all{task_};
  llvm::append_range(all, arguments);
  b.CreateCall(host_.runtime(callee), all);
}

// Ops.

void BodyLowering::lowerTargetOp(Op &op) {
  scratchUsed_ = 0;
  switch (op.kind()) {
  case OpKind::TokenDone:
  case OpKind::TokenJoin:
    return;
  case OpKind::Store:
    return lowerStore(op);
  case OpKind::Scatter:
    return lowerScatter(op);
  case OpKind::Atomic:
    return lowerAtomic(op);
  case OpKind::AtomicScatter:
  case OpKind::ReduceAddScatter:
    return lowerAtomicScatter(op);
  case OpKind::Put:
    return lowerSend(op, Runtime::put);
  case OpKind::PutSignal:
    lowerSend(op, Runtime::put);
    call(ir::putsToldBy(op).empty() ? Runtime::await : Runtime::issue);
    return notify(op, op.operand(2));
  case OpKind::ReduceAdd:
    return lowerSend(op, Runtime::reduce_add);
  case OpKind::Get:
    return lowerGet(op);
  case OpKind::Notify:
    if (ir::putsToldBy(op).empty())
      awaitTokens(op, 1);
    else
      call(Runtime::issue);
    return notify(op, op.operand(0));
  case OpKind::Wait:
    return lowerWait(op);
  case OpKind::Await:
    return awaitTokens(op, 0);
  case OpKind::Quiet:
    return call(Runtime::quiet);
  case OpKind::Fence:
    return call(Runtime::fence);
  case OpKind::MemoryFence:
    return lowerMemoryFence(op);
  case OpKind::Barrier:
    traceCells(op, llvm::ConstantPointerNull::get(b.getPtrTy()), b.getInt64(-1));
    call(Runtime::barrier, {host_.site(op, "")});
    return traceEnd();
  case OpKind::Assert:
    return lowerAssert(op);
  case OpKind::Print:
    return lowerPrint(op);
  case OpKind::Load:
    return lowerLoad(op);
  case OpKind::Gather:
    return lowerGather(op);
  case OpKind::Reduce:
    return lowerReduce(op);
  case OpKind::ArgReduce:
    return lowerArgReduce(op);
  default:
    break;
  }
  if (op.numResults() == 1 && op.result()->type().isTile())
    return lowerTileOp(op);
  giveUp(op, "cannot stand in a tile space");
}

void BodyLowering::lowerTileOp(Op &op) {
  Value *tile = op.result();
  if (plan_.isInlined(tile))
    return;
  switch (op.kind()) {
  case OpKind::Dot:
    return lowerDot(op);
  case OpKind::Scan:
    return lowerScan(op);
  case OpKind::Take:
    return lowerTake(op);
  case OpKind::Reshape:
    // The same memory, unless the operand has none.
    if (plan_.isInlined(op.operand(0)) && !isUnitReshape(op)) {
      beforeWrite(tile);
      materialize(op.operand(0), buffer(tile));
    }
    if (!isUnitReshape(op) || plan_.sameBuffer(op.operand(0), tile))
      return;
    break;
  default:
    break;
  }
  // Elementwise ops and rearrangements.
  beforeWrite(tile);
  fill(tile, buffer(tile), tile->type().dtype(), tile);
}

} // namespace dtile::backend::host
