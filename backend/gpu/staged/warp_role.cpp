// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the roles of a warp-specialized space share.
#include "backend/gpu/staged/warp_role.h"

#include "backend/llvm/tile_order.h"

#include <tuple>

namespace dtile::backend::gpu {

using ir::Op;
using ir::OpKind;
using llvm::Value;

WarpRole::WarpRole(GpuModule &module, const KernelScaffold &kernel, const Ring &ring,
                   llvm::StringRef who)
    : BodyLowering(module, kernel), ring_(ring), warp_(*module.device.warpOps()),
      bulk_(*module.device.bulkCopies()), place_(b, kernel.entry, ring.length, who),
      body_(b, kernel.entry, b.getInt32(uint32_t(ir::kBodiesAhead)), who),
      number_(b, kernel.entry, b.getInt32(uint32_t(ir::kNumbersAhead)), who),
      output_(b, kernel.entry, b.getInt32(1), who),
      prefetched_(b, kernel.entry, b.getInt32(1), who),
      exchanged_(b, kernel.entry, b.getInt32(1), who) {
  threads_ = bodyThreads(*kernel.kernel);
  barrier_ = kBodyBarrier;
}

std::pair<Value *, Value *> WarpRole::partOf(Value *first, Value *end, Value *step) {
  // Where programs share nothing, no loop waits for a division.
  llvm::BasicBlock *before = b.GetInsertBlock(), *shared = block("part"),
                   *after = block("part.end");
  b.CreateCondBr(b.CreateICmpEQ(parts_, b.getInt32(1)), after, shared);
  b.SetInsertPoint(shared);
  // A loop has less than 2^32 rounds. The first parts have one more than the others.
  Value *rounds = b.CreateTrunc(emitBlockCount(b, first, end, step), b.getInt32Ty());
  Value *each = b.CreateUDiv(rounds, parts_);
  Value *left = b.CreateSub(rounds, b.CreateMul(each, parts_));
  const auto place = [&](Value *part) {
    Value *round = b.CreateAdd(b.CreateMul(each, part),
                               b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, part, left));
    return b.CreateAdd(first, b.CreateMul(b.CreateZExt(round, b.getInt64Ty()), step));
  };
  Value *next = b.CreateAdd(part_, b.getInt32(1));
  Value *begins = place(part_);
  Value *ends = b.CreateSelect(b.CreateICmpEQ(next, parts_), end, place(next));
  b.CreateBr(after);
  b.SetInsertPoint(after);
  const auto either = [&](Value *ofAll, Value *ofPart) {
    llvm::PHINode *phi = b.CreatePHI(ofAll->getType(), 2);
    phi->addIncoming(ofAll, before);
    phi->addIncoming(ofPart, shared);
    return phi;
  };
  return {either(first, begins), either(end, ends)};
}

std::pair<Value *, Value *> WarpRole::loopBounds(Op &op) {
  auto bounds = BodyLowering::loopBounds(op);
  if (parts_ && op.get(ir::attr::split_sums)) {
    const auto [first, end] = bounds;
    Value *step = scalar(op.operand(2));
    bounds = partOf(first, end, step);
  }
  if (item_ && op.get(ir::attr::split_rounds)) {
    // No launch has both.
    Value *isWhole = b.CreateICmpEQ(item_->parts, b.getInt32(1));
    const bool isSplit = parts_ && op.get(ir::attr::split_sums);
    const auto either = [&](Value *split, Value *divided) {
      return isSplit ? b.CreateSelect(isWhole, split, divided) : divided;
    };
    bounds = {either(bounds.first, item_->bounds.first), either(bounds.second, item_->bounds.end)};
  }
  return bounds_[&op] = bounds;
}

void WarpRole::forEachItem(Op &space, const BodyRange &range, llvm::function_ref<void()> body) {
  if (!range.divided)
    return forEachBody(space, range, body);
  const Op &divided = *dividedLoop(space);
  // Constants may stand in the bodies.
  llvm::SmallVector<Value *, 3> bounds;
  for (ir::Value *bound : divided.operands().take_front(3)) {
    const Op *op = bound->definingOp();
    const bool isConstant = op && op->is(OpKind::Const);
    bounds.push_back(isConstant ? b.getInt64(uint64_t(std::get<int64_t>(op->get(ir::attr::value))))
                                : scalar(bound));
  }
  const DividedBodies bodies(b, range, {bounds[0], bounds[1], bounds[2]});
  loop(bodies.count(), "bodies", [&](Value *number) {
    item_ = bodies.item(number);
    setPositions(space, range, item_->body);
    body();
  });
  item_.reset();
}

void WarpRole::whenGoesOn(llvm::function_ref<void()> body) {
  Value *goesOn = part_ ? b.CreateIsNull(part_) : nullptr;
  if (item_) {
    Value *isFirst = b.CreateIsNull(item_->part);
    goesOn = goesOn ? b.CreateAnd(goesOn, isFirst) : isFirst;
  }
  goesOn ? when(goesOn, "goes.on", body) : body();
}

Value *WarpRole::loopBegin(Op &loop) {
  const auto known = bounds_.find(&loop);
  return known != bounds_.end() ? known->second.first : scalar(loop.operand(0));
}

Value *WarpRole::loopEnd(Op &loop) {
  const auto known = bounds_.find(&loop);
  return known != bounds_.end() ? known->second.second : scalar(loop.operand(1));
}

void WarpRole::waitPhase(Value *barrier, Value *phase) {
  llvm::BasicBlock *again = block("phase");
  llvm::BasicBlock *done = block("phase.done");
  b.CreateBr(again);
  b.SetInsertPoint(again);
  b.CreateCondBr(bulk_.tryWait(b, barrier, phase), done, again);
  b.SetInsertPoint(done);
}

Value *WarpRole::address(Value *slot, int64_t offset) {
  Value *start = b.CreateMul(slot, b.getInt32(ring_.slot.bytes()));
  return b.CreateAdd(ring_.slots, b.CreateAdd(start, b.getInt32(offset)));
}

Value *WarpRole::shared(Value *address) {
  return b.CreateIntToPtr(address, llvm::PointerType::get(context(), Device::kShared));
}

Value *WarpRole::bodyNumber() {
  return shared(b.CreateAdd(ring_.bodies, b.CreateShl(body_.slot(), 3)));
}

Value *WarpRole::readBodyNumber() {
  Value *number = b.CreateLoad(b.getInt64Ty(), bodyNumber());
  // One arrival a thread: each has read it.
  bulk_.arrive(b, body_.barrier(ring_.bodiesEmpty, body_.slot()));
  body_.next();
  return number;
}

Value *WarpRole::passedNumber(Value *slot) {
  return shared(b.CreateAdd(ring_.numbers, b.CreateShl(slot, 3)));
}

void WarpRole::takeNumber(Op &load) {
  Value *number = b.CreateLoad(b.getInt64Ty(), passedNumber(number_.slot()));
  // One arrival a thread, as for numbers of bodies.
  bulk_.arrive(b, number_.barrier(ring_.numbersEmpty, number_.slot()));
  number_.next();
  llvm::Type *type = partTypes(load.result()->type()).front();
  set(load.result(), {b.CreateTrunc(number, type)});
}

HelperWarp::HelperWarp(GpuModule &module, const KernelScaffold &kernel, const Ring &ring,
                       llvm::StringRef who)
    : WarpRole(module, kernel, ring, who),
      unit_(b, kernel.entry, b.getInt32(uint32_t(ring.folded.units)), who) {
  // Each of its threads checks and polls by itself.
  threads_ = 1;
  thread_ = b.getInt32(0);
  llvm::IRBuilder<> start(kernel.entry, kernel.entry->begin());
  failed_ = start.CreateAlloca(b.getInt1Ty(), nullptr, who + ".failed");
}

Value *HelperWarp::hasFailed() { return b.CreateLoad(b.getInt1Ty(), failed_); }

void HelperWarp::awaitExchange() {
  whenInCluster([&] {
    waitOrLeave(ring_.reusable, lastExchange());
    exchanged_.next();
  });
}

void HelperWarp::fail(int32_t site, llvm::ArrayRef<Value *> arguments) {
  report(site, arguments);
  b.CreateStore(b.getTrue(), failed_);
}

Value *HelperWarp::isRecording() {
  return b.CreateIsNull(b.CreateAnd(kernel_.thread, b.getInt32(WarpOps::kWarpThreads - 1)));
}

Value *HelperWarp::nextBody(const BodyRange &) {
  waitOrLeave(body_.barrier(ring_.bodiesFull, body_.slot()), body_.phase());
  return readBodyNumber();
}

void HelperWarp::lowerOp(Op &op) {
  if (isPassedNumber(op)) {
    waitOrLeave(number_.barrier(ring_.numbersFull, number_.slot()), number_.phase());
    return takeNumber(op);
  }
  if (!op.is(OpKind::Wait))
    return WarpRole::lowerOp(op);
  // An answer takes most of a microsecond, so each thread asks for its part of the cells. What one
  // has seen is there for all when they have met.
  const auto poll = [&] {
    const auto [thread, threads] = std::pair(thread_, threads_);
    thread_ = b.CreateAnd(kernel_.thread, b.getInt32(WarpOps::kWarpThreads - 1));
    threads_ = WarpOps::kWarpThreads;
    Value *began = traceBegin();
    Value *failed = pollCells(op);
    std::tie(thread_, threads_) = std::pair(thread, threads);
    b.CreateStore(warp_.anyOfWarp(b, b.CreateIsNotNull(failed)), failed_);
    warp_.syncWarp(b);
    bulk_.proxyFence(b);
    traceWait(op, began);
  };
  pollOnce(op, [&] { when(b.CreateNot(hasFailed()), "slice.wait", poll); });
}

void HelperWarp::needPassed(Op &load) {
  needed_.insert(&load);
  if (Op *parent = load.parentOp(); !parent->is(OpKind::Space))
    need(*parent);
}

void HelperWarp::need(Op &op) {
  if (!needed_.insert(&op).second)
    return;
  for (ir::Value *operand : op.operands())
    needValue(operand);
  // What a loop carries, but for tiles, comes along.
  if (op.is(OpKind::For))
    for (ir::Value *next : op.body().terminator()->operands())
      needValue(next);
  if (op.is(OpKind::If))
    for (const ir::Value *result : op.results())
      if (!result->type().isToken() && !result->type().isAcquire())
        for (unsigned arm : {0u, 1u})
          needValue(op.body(arm).terminator()->operand(result->index()));
  if (Op *parent = op.parentOp(); parent && !parent->is(OpKind::Space))
    need(*parent);
}

void HelperWarp::needValue(ir::Value *value) {
  if (value->type().isTile())
    return;
  if (Op *op = value->definingOp()) {
    if (op->enclosing(OpKind::Space))
      need(*op);
    return;
  }
  if (Op *owner = value->argumentOf()->parentOp(); !owner->is(OpKind::Space))
    need(*owner);
}

llvm::SmallVector<llvm::Type *, 4> HelperWarp::partTypes(ir::Type type) {
  return type.isTile() ? llvm::SmallVector<llvm::Type *, 4>() : BodyLowering::partTypes(type);
}

void HelperWarp::waitOrLeave(Value *barrier, Value *phase) {
  // Rounds between looks at memory far away, and looks at a launch that was given up.
  constexpr unsigned kLookAround = 4096, kPatience = 256;
  llvm::BasicBlock *before = b.GetInsertBlock();
  llvm::BasicBlock *again = block("empty");
  llvm::BasicBlock *count = block("empty.count");
  llvm::BasicBlock *ask = block("empty.ask");
  llvm::BasicBlock *gone = block("empty.gone");
  llvm::BasicBlock *done = block("empty.done");
  b.CreateBr(again);
  b.SetInsertPoint(again);
  llvm::PHINode *round = b.CreatePHI(b.getInt32Ty(), 3);
  llvm::PHINode *looks = b.CreatePHI(b.getInt32Ty(), 3);
  b.CreateCondBr(bulk_.tryWait(b, barrier, phase), done, count);
  b.SetInsertPoint(count);
  Value *next = b.CreateAdd(round, b.getInt32(1));
  Value *isTime = b.CreateIsNull(b.CreateAnd(next, b.getInt32(kLookAround - 1)));
  b.CreateCondBr(isTime, ask, again, unlikely());
  b.SetInsertPoint(ask);
  Value *aborted = call(DeviceCall::aborted, {kernel_.launch});
  Value *more = b.CreateAdd(looks, aborted);
  llvm::BasicBlock *asked = b.GetInsertBlock();
  b.CreateCondBr(b.CreateICmpUGE(more, b.getInt32(kPatience)), gone, again);
  for (auto [from, rounds, seen] :
       {std::tuple<llvm::BasicBlock *, Value *, Value *>{before, b.getInt32(0), b.getInt32(0)},
        {count, next, looks},
        {asked, next, more}}) {
    round->addIncoming(rounds, from);
    looks->addIncoming(seen, from);
  }
  b.SetInsertPoint(gone);
  b.CreateRetVoid();
  b.SetInsertPoint(done);
}

} // namespace dtile::backend::gpu
