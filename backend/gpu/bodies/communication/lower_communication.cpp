// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What leaves a program: copies to and from other ranks, notifies, waits, tokens, checks.
//
// Scope and order are the device library's: this says only who may notify a cell. What threads do
// on their own (stores of a put, polls of a wait) is put in order by meetings of the program: one
// before a notify, so that one thread releases what all have written, and one after a wait, so that
// all threads see what one has acquired. A token of something sent is complete after a meeting.
#include "backend/gpu/bodies/lower_body.h"
#include "backend/gpu/space_facts.h"

#include "frontend/base/check.h"
#include "ir/analysis/communication.h"
#include "ir/analysis/shared_memory_plan.h"

#include "llvm/IR/Intrinsics.h"
#include "llvm/Support/SaveAndRestore.h"

#include <functional>

namespace dtile::backend::gpu {

using ir::Op;
using ir::OpKind;
using ir::Value;

namespace {

/// Of dtile_distance, backend/device_library/device.h.
enum Distance : int32_t { kRank = 0, kTeam = 1 };

/// The parameter that a view or signal is a part of, or null where control carries it.
Op *parameterOf(const Value *value) {
  while (Op *op = value->definingOp()) {
    if (op->is(OpKind::Param) || op->is(OpKind::SignalParam))
      return op;
    if (op->numOperands() == 0 || op->hasEffect(ir::Control) || op->is(OpKind::ViewSelect))
      return nullptr;
    value = op->operand(0);
  }
  return nullptr;
}

/// Whether another rank's part of a value's object is named anywhere, or may be.
bool goesToOtherRanks(const Value *value) {
  return llvm::any_of(value->uses(), [](const ir::Use &use) {
    const Op &user = *use.user;
    if (user.is(OpKind::SigSlice))
      return goesToOtherRanks(user.result());
    return user.is(OpKind::SigAt) || user.hasEffect(ir::Control);
  });
}

} // namespace

// Calls.

llvm::Value *BodyLowering::call(DeviceCall callee, llvm::ArrayRef<llvm::Value *> arguments) {
  llvm::FunctionCallee function = gpu_.call(callee);
  llvm::SmallVector<llvm::Value *, 12> values;
  for (auto [value, type] : llvm::zip_equal(arguments, function.getFunctionType()->params()))
    values.push_back(value->getType() == type ? value : b.CreateAddrSpaceCast(value, type));
  return b.CreateCall(function, values);
}

llvm::Value *BodyLowering::stackSlot(llvm::Type *type, llvm::StringRef name) {
  llvm::BasicBlock &entry = b.GetInsertBlock()->getParent()->getEntryBlock();
  llvm::IRBuilder<> at(&entry, entry.begin());
  return at.CreateAddrSpaceCast(at.CreateAlloca(type, nullptr, name), b.getPtrTy());
}

void BodyLowering::sync(llvm::Value *failed) {
  call(DeviceCall::sync,
       {failed ? failed : b.getInt32(0), b.getInt32(barrier_), b.getInt32(threads_)});
  pending_ = {};
  sharedInUse_ = false;
}

llvm::Value *BodyLowering::meet(llvm::Value *failed) {
  llvm::Value *any = call(DeviceCall::any, {failed, b.getInt32(barrier_), b.getInt32(threads_)});
  pending_ = {};
  sharedInUse_ = false;
  return any;
}

void BodyLowering::report(int32_t site, llvm::ArrayRef<llvm::Value *> arguments) {
  llvm::Value *count = keepArguments(arguments);
  report(b.getInt32(site), count);
}

llvm::Value *BodyLowering::keepArguments(llvm::ArrayRef<llvm::Value *> arguments) {
  // Reports have room for so many.
  arguments = arguments.take_front(DTILE_DEVICE_REPORT_ARGS);
  if (!arguments_)
    arguments_ =
        stackSlot(llvm::ArrayType::get(b.getInt64Ty(), DTILE_DEVICE_REPORT_ARGS), "arguments");
  for (auto [i, argument] : llvm::enumerate(arguments))
    b.CreateStore(argument, b.CreateConstGEP1_64(b.getInt64Ty(), arguments_, i));
  return b.getInt32(arguments.size());
}

void BodyLowering::report(llvm::Value *site, llvm::Value *count) {
  call(pollsInPlace() ? DeviceCall::fail_alone : DeviceCall::fail,
       {kernel_.launch, site, count, arguments_});
}

void BodyLowering::fail(int32_t site, llvm::ArrayRef<llvm::Value *> arguments) {
  if (alone_) {
    report(site, arguments);
    alone_->mayFail = true;
    b.CreateStore(b.getInt32(1), alone_->failed);
    b.CreateBr(alone_->next);
    return b.SetInsertPoint(block("failed"));
  }
  llvm::Value *count = keepArguments(arguments);
  if (!failedSite_)
    emitFailure();
  failedSite_->addIncoming(b.getInt32(site), b.GetInsertBlock());
  failedCount_->addIncoming(count, b.GetInsertBlock());
  b.CreateBr(failedSite_->getParent());
  // Whatever is emitted next is never reached.
  b.SetInsertPoint(block("failed"));
}

void BodyLowering::emitFailure() {
  const llvm::IRBuilder<>::InsertPointGuard guard(b);
  b.SetInsertPoint(block("failure"));
  failedSite_ = b.CreatePHI(b.getInt32Ty(), 4, "site");
  failedCount_ = b.CreatePHI(b.getInt32Ty(), 4, "count");
  when(b.CreateICmpEQ(kernel_.thread, b.getInt32(0)), "report",
       [&] { report(failedSite_, failedCount_); });
  call(DeviceCall::sync, {b.getInt32(1), b.getInt32(barrier_), b.getInt32(threads_)});
  b.CreateRetVoid();
}

// Checks.

void BodyLowering::checkCell(Op &op, llvm::Value *position, llvm::Value *size) {
  when(b.CreateICmpUGE(position, size), "outside", [&] {
    const llvm::StringRef name = launch::objectName(op.operand(0));
    fail(gpu_.site(op, ("position {0} of `" + name + "` is outside of [0, {1})").str()),
         {position, size});
  });
}

void BodyLowering::checkRank(Op &op, llvm::Value *rank) {
  llvm::Value *ranks = fact(OpKind::NumRanks);
  when(b.CreateICmpUGE(rank, ranks), "no.rank", [&] {
    for (unsigned i = 0; 2 + 2 * i < op.numOperands(); ++i) {
      llvm::Value *place = scalar(op.operand(2 + 2 * i));
      llvm::Value *places = scalar(op.operand(3 + 2 * i));
      when(b.CreateICmpUGE(place, places), "outside",
           [&] { fail(gpu_.site(op, ir::outsideAxisText(op, i, "{0}", "{1}")), {place, places}); });
    }
    const llvm::StringRef name = launch::objectName(op.operand(0));
    fail(gpu_.site(op, ("rank {0} of `" + name + "` is not one of the {1} ranks").str()),
         {rank, ranks});
  });
}

void BodyLowering::lowerAssert(Op &op) {
  when(b.CreateNot(scalar(op.operand(0))), "failed", [&] {
    llvm::SmallVector<llvm::Value *, 4> arguments;
    for (Value *value : op.operands().drop_front())
      arguments.push_back(arith_.cast(value->type().elementOrIndex(), DType::I64, scalar(value)));
    fail(gpu_.site(op, op.get(ir::attr::message)), arguments);
  });
}

// Copies.

namespace {

/// One dimension of a copy; sizes and distances in elements.
struct CopyDimension {
  llvm::Value *size, *destination, *source;
};

/// Makes one dimension of those that lie without gaps in both: neighbours from outside in. What is
/// left stands innermost, after dimensions of size 1, so that rows with gaps between them are one
/// copy whatever made a row.
void mergeDimensions(llvm::IRBuilder<> &b, llvm::MutableArrayRef<CopyDimension> dims) {
  llvm::Value *one = b.getInt64(1);
  for (size_t d = 0; d + 1 < dims.size(); ++d) {
    CopyDimension &outer = dims[d];
    CopyDimension &inner = dims[d + 1];
    auto continues = [&](llvm::Value *far, llvm::Value *near) {
      return b.CreateICmpEQ(far, b.CreateMul(inner.size, near));
    };
    llvm::Value *isInnerOne = b.CreateICmpEQ(inner.size, one);
    llvm::Value *dense = b.CreateAnd(continues(outer.destination, inner.destination),
                                     continues(outer.source, inner.source));
    llvm::Value *merges =
        b.CreateOr(dense, b.CreateOr(isInnerOne, b.CreateICmpEQ(outer.size, one)));
    inner.destination = b.CreateSelect(isInnerOne, outer.destination, inner.destination);
    inner.source = b.CreateSelect(isInnerOne, outer.source, inner.source);
    llvm::Value *both = b.CreateMul(outer.size, inner.size);
    inner.size = b.CreateSelect(merges, both, inner.size);
    for (size_t free = d; free > 0; --free) {
      dims[free].size = b.CreateSelect(merges, dims[free - 1].size, dims[free].size);
      dims[free].destination =
          b.CreateSelect(merges, dims[free - 1].destination, dims[free].destination);
      dims[free].source = b.CreateSelect(merges, dims[free - 1].source, dims[free].source);
    }
    dims[0].size = b.CreateSelect(merges, one, dims[0].size);
  }
}

} // namespace

std::pair<llvm::Value *, int32_t> BodyLowering::copyBuffer(const View &source,
                                                           const View &destination) {
  const std::pair<llvm::Value *, int32_t> none(llvm::ConstantPointerNull::get(b.getPtrTy()), 0);
  const TargetFacts &facts = gpu_.device.facts();
  // Beside products memory answers later, and their programs have all shared memory anyway.
  const int64_t room = ir::sharedRoom(facts) - gpu_.sharedMark();
  const bool besideProducts = hasStagedLoads(*kernel_.kernel);
  int64_t bytes = ir::copyRingBytes(facts, besideProducts);
  if (room < bytes)
    bytes = ir::copyRingBytes(facts, /*besideProducts=*/false);
  if (room < bytes || bytes == 0)
    return none;
  // Copies that are known to be small are made by all threads.
  const double least = TargetFacts::leastBulkBytes(besideProducts);
  double most = dtypeBytes(source.type.dtype());
  for (auto [from, to] : llvm::zip_equal(source.dims, destination.dims)) {
    double size = least;
    for (llvm::Value *extent : {from.extent, to.extent})
      if (auto *known = llvm::dyn_cast<llvm::ConstantInt>(extent))
        size = std::min(size, double(known->getSExtValue()));
    most *= size;
  }
  if (most < least)
    return none;
  return {sharedScratch(bytes), int32_t(bytes)};
}

void BodyLowering::copy(View source, View destination) {
  const DType type = source.type.dtype();
  llvm::SmallVector<CopyDimension, 4> dims;
  for (auto [from, to] : llvm::zip_equal(source.dims, destination.dims)) {
    llvm::Value *low = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, from.low, to.low);
    llvm::Value *high = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, from.high, to.high);
    llvm::Value *size =
        b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, b.CreateSub(high, low), b.getInt64(0));
    source.data = views_.offset(type, source.data, b.CreateMul(low, from.stride));
    destination.data = views_.offset(type, destination.data, b.CreateMul(low, to.stride));
    dims.push_back({size, to.stride, from.stride});
  }
  const auto [buffer, bufferBytes] = copyBuffer(source, destination);
  mergeDimensions(b, dims);
  const CopyDimension single{b.getInt64(1), b.getInt64(1), b.getInt64(1)};
  while (dims.size() < 2)
    dims.insert(dims.begin(), single);

  std::function<void(unsigned, llvm::Value *, llvm::Value *)> emit =
      [&](unsigned d, llvm::Value *to, llvm::Value *from) {
        if (d + 2 < dims.size()) {
          loop(dims[d].size, "copy", [&](llvm::Value *i) {
            emit(d + 1, views_.offset(type, to, b.CreateMul(i, dims[d].destination)),
                 views_.offset(type, from, b.CreateMul(i, dims[d].source)));
          });
          return;
        }
        const CopyDimension &row = dims[d], &col = dims[d + 1];
        llvm::Value *shape[] = {b.getInt32(dtypeBytes(type)),
                                row.size,
                                col.size,
                                row.destination,
                                row.source,
                                col.destination,
                                col.source,
                                b.getInt32(threads_),
                                buffer,
                                b.getInt32(bufferBytes)};
        auto transfer = [&](DeviceCall callee, llvm::SmallVector<llvm::Value *, 16> arguments) {
          llvm::append_range(arguments, shape);
          return call(callee, arguments);
        };
        const auto put = [&](llvm::SmallVector<llvm::Value *, 16> arguments) {
          llvm::Value *none = llvm::ConstantPointerNull::get(b.getPtrTy());
          const bool isAll = toldCell_ && dims.size() == 2;
          llvm::append_range(arguments, shape);
          arguments.push_back(b.getInt32(isInOrder_));
          arguments.push_back(isAll ? toldCell_ : none);
          afterPut(call(DeviceCall::put, arguments));
        };
        if (source.rank)
          transfer(DeviceCall::get, {kernel_.launch, to, from, source.rank});
        else if (destination.rank)
          put({kernel_.launch, to, destination.rank, from});
        else
          transfer(DeviceCall::copy, {to, from});
      };
  if (!source.type.rank()) {
    llvm::Value *exist =
        b.CreateAnd(b.CreateIsNotNull(source.data), b.CreateIsNotNull(destination.data));
    return when(exist, "transfer", [&] { emit(0, destination.data, source.data); });
  }
  emit(0, destination.data, source.data);
  if (bufferBytes)
    sharedRead();
}

llvm::Value *BodyLowering::isLeftToEngine(Op &op, llvm::Value *rank) {
  const Op *space = op.enclosing(OpKind::Space);
  if (!kernel_.engine || !rank || !space || !space->get(ir::attr::engine_copies))
    return nullptr;
  llvm::Value *own = b.CreateAnd(kernel_.engine, b.getInt32(1u << unsigned(spaceNumber(*space))));
  return b.CreateAnd(b.CreateIsNotNull(own), b.CreateICmpNE(rank, kernel_.rank));
}

void BodyLowering::lowerPut(Op &op) {
  if (op.get(ir::attr::ll))
    return putLl(op);
  awaitTokens(op, op.is(OpKind::PutSignal) ? 3 : 2);
  const llvm::SaveAndRestore later(isSentLater_, sendsLater(op));
  const llvm::SaveAndRestore ordered(isInOrder_, isSentLater_ && ir::notifyToldOf(op));
  Value *source = op.operand(0);
  Value *target = op.operand(1);
  // What is sent to another rank is in no order until it is told of.
  if (!target->type().isRemote())
    beforeWrite(target);
  if (source->type().isView()) {
    beforeRead(source);
    if (!source->type().isRemote() || !target->type().isRemote()) {
      View from = view(source);
      const View to = view(target);
      if (llvm::Value *isLeft = isLeftToEngine(op, to.rank)) {
        // Nothing is left of it, which takes no branch.
        if (from.dims.empty())
          from.data =
              b.CreateSelect(isLeft, llvm::Constant::getNullValue(from.data->getType()), from.data);
        else
          from.dims[0].high = b.CreateSelect(isLeft, from.dims[0].low, from.dims[0].high);
      }
      return copy(from, to);
    }
    View from = located(source);
    from.rank = nullptr;
    return copy(from, view(target));
  }
  const View there = locatedToSend(target);
  if (source->type().isTile())
    return storeTile(source, there);
  const DType type = source->type().elementOrIndex();
  llvm::Value *value = scalar(source);
  asLeader("put", [&] {
    when(b.CreateIsNotNull(there.data), "exists", [&] {
      storeWord(there, arith_.toMemory(type, value), there.data, dtypeBytes(type));
      finishStores(there);
    });
  });
}

void BodyLowering::lowerGet(Op &op) {
  awaitTokens(op, 2);
  beforeWrite(op.operand(1));
  copy(view(op.operand(0)), view(op.operand(1)));
}

void BodyLowering::lowerReduceAdd(Op &op) {
  awaitTokens(op, 2);
  const llvm::SaveAndRestore later(isSentLater_, sendsLater(op));
  Value *source = op.operand(0);
  Value *target = op.operand(1);
  if (!target->type().isRemote())
    beforeWrite(target);
  const DType type = source->type().elementOrIndex();
  const View there = isSentAtomically(type) ? locatedToSend(target) : located(target);
  const bool own = isOwn(target);
  if (source->type().isTile()) {
    llvm::ArrayRef<llvm::Value *> values = registers(source);
    eachGroup(info(source->type()), there, addedAtOnce(type),
              [&](llvm::ArrayRef<unsigned> slots, llvm::Value *address) {
                if (there.far)
                  return addAt(there, type, address, values[slots.front()], own);
                llvm::SmallVector<llvm::Value *, 8> group;
                for (unsigned slot : slots)
                  group.push_back(values[slot]);
                atomicAdd(type, address, group, own);
              });
    finishStores(there);
    return;
  }
  llvm::Value *value = scalar(source);
  asLeader("reduce", [&] {
    when(b.CreateIsNotNull(there.data), "exists", [&] {
      addAt(there, type, there.data, value, own);
      finishStores(there);
    });
  });
}

// Tokens.

void BodyLowering::awaitTokens(Op &op, unsigned first) {
  for (Value *operand : op.operands().drop_front(std::min(first, op.numOperands()))) {
    const Op *producer = operand->definingOp();
    if (operand->type().isToken() && !(producer && producer->is(OpKind::TokenDone)))
      return sync();
  }
}

// Signals.

void BodyLowering::eachCell(const SignalCells &cells,
                            llvm::function_ref<void(llvm::Value *)> body) {
  if (cells.dims.empty())
    return asLeader("cell", [&] { body(cells.data); });
  eachCellOf(cells, thread_, threads_, [&](llvm::Value *cell, llvm::Value *) { body(cell); });
}

void BodyLowering::eachCellOf(
    const SignalCells &cells, llvm::Value *begin, unsigned every,
    llvm::function_ref<void(llvm::Value *cell, llvm::Value *number)> body) {
  llvm::Value *total = b.getInt64(1);
  for (const SignalCells::Dimension &dim : cells.dims)
    total = b.CreateMul(total, dim.size);
  llvm::Value *step = b.getInt64(every);
  llvm::Value *first = b.CreateZExt(begin, b.getInt64Ty());
  llvm::Value *span = b.CreateAdd(b.CreateSub(total, first), b.getInt64(every - 1));
  loop(b.CreateSDiv(span, step), "cells", [&](llvm::Value *round) {
    llvm::Value *const place = b.CreateAdd(b.CreateMul(round, step), first);
    llvm::Value *number = place;
    llvm::Value *offset = b.getInt64(0);
    for (size_t d = cells.dims.size(); d-- > 0;) {
      const SignalCells::Dimension &dim = cells.dims[d];
      llvm::Value *position = d > 0 ? b.CreateURem(number, dim.size) : number;
      offset = b.CreateAdd(offset, b.CreateMul(position, dim.stride));
      if (d > 0)
        number = b.CreateUDiv(number, dim.size);
    }
    body(b.CreateGEP(b.getInt64Ty(), cells.data, offset), place);
  });
}

void BodyLowering::notify(Op &op) {
  Value *signal = op.operand(op.is(OpKind::PutSignal) ? 2 : 0);
  const Op *param = parameterOf(signal);
  const bool isFar = !param || goesToOtherRanks(param->result());
  const SignalCells target = cells(signal);
  const auto notify = [&](llvm::Value *cell) {
    call(DeviceCall::notify, {kernel_.launch, cell, target.rank ? target.rank : b.getInt64(-1),
                              b.getInt32(isFar ? kTeam : kRank), unfencedSends(op)});
  };
  llvm::Value *isLeft = isLeftToEngine(op, target.rank);
  const auto tell = [&](llvm::Value *cell) {
    llvm::Value *isDone = told_ ? b.CreateLoad(b.getInt1Ty(), told_) : isLeft;
    if (told_ && isLeft)
      isDone = b.CreateOr(isDone, isLeft);
    if (isDone)
      return when(b.CreateNot(isDone), "tell", [&] { notify(cell); });
    notify(cell);
  };
  const auto trace = [&](llvm::Value *began) {
    if (isLeft && began)
      return when(b.CreateNot(isLeft), "seen", [&] { traceCells(op, began, target); });
    traceCells(op, began, target);
  };
  if (alone_)
    return alone_->began ? trace(alone_->began) : tell(target.data);
  sync();
  llvm::Value *began = traceBegin();
  eachCell(target, tell);
  trace(began);
}

llvm::Value *BodyLowering::pollCells(Op &op) {
  Value *signal = op.operand(0);
  llvm::Value *failed = stackSlot(b.getInt32Ty(), "failed");
  b.CreateStore(b.getInt32(0), failed);
  auto result = [&] { return b.CreateLoad(b.getInt32Ty(), failed); };
  Op *param = parameterOf(signal);
  if (!param) {
    giveUp(op, "must name its signal, not one of several that control chooses from");
    return result();
  }
  const bool isDerived = op.numOperands() == 1;
  const bool knowsCounts = !param->body().empty();
  if (isDerived && !knowsCounts) {
    giveUp(op, "has no count: nothing derived one, and the signal's region is empty");
    return result();
  }
  llvm::Value *distance = b.getInt32(goesToOtherRanks(param->result()) ? kTeam : kRank);
  llvm::Value *site = b.getInt32(gpu_.site(op, launch::objectName(signal)));
  llvm::Value *object = cellsObject(*param);
  eachCell(cells(signal), [&](llvm::Value *cell) {
    llvm::Value *number = cellNumber(*param, cell);
    llvm::Value *count = isDerived ? expected(*param, number) : scalar(op.operand(1));
    if (!knowsCounts)
      call(DeviceCall::ask, {object, number, count});
    const DeviceCall wait = pollsInPlace() ? DeviceCall::wait_alone : DeviceCall::wait;
    llvm::Value *status =
        call(wait, {kernel_.launch, object, number, kernel_.ended, count, distance, site});
    b.CreateStore(b.CreateOr(result(), status), failed);
  });
  return result();
}

void BodyLowering::traceWait(Op &op, llvm::Value *began) {
  Op *param = began ? parameterOf(op.operand(0)) : nullptr;
  if (!param)
    return;
  traceCells(op, began, cells(op.operand(0)), [&](llvm::Value *cell) {
    return op.numOperands() == 1 ? expected(*param, cellNumber(*param, cell))
                                 : scalar(op.operand(1));
  });
}

void BodyLowering::lowerPoll(Op &op) {
  Value *signal = op.operand(0);
  Op *param = parameterOf(signal);
  if (!param || param->body().empty() || signal->type().rank() != 0)
    return giveUp(op, "must name one cell of a signal whose counts are derived");
  llvm::Value *distance = b.getInt32(goesToOtherRanks(param->result()) ? kTeam : kRank);
  llvm::Value *object = cellsObject(*param);
  llvm::Value *has = stackSlot(b.getInt1Ty(), "has");
  eachCell(cells(signal), [&](llvm::Value *cell) {
    llvm::Value *number = cellNumber(*param, cell);
    llvm::Value *status =
        call(DeviceCall::poll, {object, number, kernel_.ended, expected(*param, number), distance});
    b.CreateStore(b.CreateICmpNE(status, b.getInt32(0)), has);
  });
  set(op.result(), {fromLeader(b.CreateLoad(b.getInt1Ty(), has))});
}

namespace {

/// Whether a value is the same in all bodies of the space: made outside of it, or of such values.
/// `seen`: ops that were asked about; a no ends all questions.
bool isSameInAllBodies(Value *value, llvm::SmallPtrSetImpl<const Op *> &seen) {
  Op *op = value->definingOp();
  if (!op)
    return !value->argumentOf()->parentOp()->enclosing(OpKind::Space) &&
           !value->argumentOf()->parentOp()->is(OpKind::Space);
  if (!op->enclosing(OpKind::Space) || !seen.insert(op).second)
    return true;
  const bool isArithmetic = op->numRegions() == 0 && (op->isPure() || op->is(OpKind::SigSlice));
  return isArithmetic && llvm::all_of(op->operands(), [&](Value *operand) {
           return isSameInAllBodies(operand, seen);
         });
}

} // namespace

void BodyLowering::pollOnce(Op &wait, llvm::function_ref<void()> poll) {
  llvm::SmallPtrSet<const Op *, 8> asked;
  if (!llvm::all_of(wait.operands(),
                    [&](Value *operand) { return isSameInAllBodies(operand, asked); }))
    return poll();
  // Cells only grow: what a program has seen once it need not ask for again in its next body.
  llvm::BasicBlock &entry = b.GetInsertBlock()->getParent()->getEntryBlock();
  llvm::IRBuilder<> start(&entry, entry.begin());
  llvm::AllocaInst *seen = start.CreateAlloca(b.getInt1Ty(), nullptr, "seen");
  start.CreateStore(b.getFalse(), seen);
  const Pending before = pending_;
  const bool wasShared = sharedInUse_;
  when(b.CreateNot(b.CreateLoad(b.getInt1Ty(), seen)), "wait", [&] {
    poll();
    b.CreateStore(b.getTrue(), seen);
  });
  // Later bodies have not met here.
  pending_ = before;
  sharedInUse_ = wasShared;
}

void BodyLowering::lowerWait(Op &op) {
  pollOnce(op, [&] {
    llvm::Value *began = traceBegin();
    sync(pollCells(op));
    traceWait(op, began);
  });
}

// Ops.

void BodyLowering::lowerCommunication(Op &op) {
  // Without a provider that sends, all of it is accesses to others' memory.
  if (gpu_.areMapped && op.is(OpKind::Barrier))
    gpu_.needsMapped(op, "");
  for (const Value *operand : op.operands())
    if (gpu_.areMapped && operand->type().isRemote())
      gpu_.needsMapped(op, launch::objectName(operand));
  switch (op.kind()) {
  case OpKind::TokenDone:
  case OpKind::TokenJoin:
    return;
  case OpKind::Put:
    if (notifySentWith(op))
      return;
    return tracedTransfer(op, [&] { lowerPut(op); });
  case OpKind::PutSignal:
    if (sendsLater(op) && putSentWith(op))
      return putAndNotify(op, op);
    tracedTransfer(op, [&] { lowerPut(op); });
    finishSends();
    return notify(op);
  case OpKind::Get:
    return tracedTransfer(op, [&] { lowerGet(op); });
  case OpKind::ReduceAdd:
    return tracedTransfer(op, [&] { lowerReduceAdd(op); });
  case OpKind::Notify:
    if (Op *put = putSentWith(op))
      return putAndNotify(*put, op);
    return notify(op);
  case OpKind::Wait:
    return lowerWait(op);
  case OpKind::Poll:
    return lowerPoll(op);
  case OpKind::Await:
    return awaitTokens(op, 0);
  case OpKind::Quiet:
    quiet();
    return sync();
  case OpKind::Fence:
    finishSends();
    call(DeviceCall::fence, {kernel_.launch});
    return sync();
  case OpKind::MemoryFence:
    return lowerMemoryFence(op);
  case OpKind::Barrier:
    return tracedBarrier(op, [&] {
      sync();
      call(DeviceCall::barrier, {kernel_.launch, b.getInt32(gpu_.site(op, "")),
                                 b.getInt32(barrier_), b.getInt32(threads_)});
      if (kernel_.sends)
        b.CreateStore(b.getInt32(0), kernel_.sends);
    });
  case OpKind::Assert:
    return lowerAssert(op);
  default:
    DTILE_UNREACHABLE("an op that is no communication");
  }
}

} // namespace dtile::backend::gpu
