// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What leaves a body: regions for the runtime, transfers, signals, atomics, and accesses to other
// ranks' memory.
//
// Bodies run in program order, so acquire tokens need no code. A completion token stands for
// everything that the body has sent: using one awaits all of it.
#include "backend/host/lower_body.h"
#include "backend/host/tile_loops.h"

#include "backend/runtime/kernel_abi.h"
#include "frontend/base/check.h"
#include "ir/analysis/communication.h"

#include "llvm/ADT/StringSwitch.h"

namespace dtile::backend::host {

using ir::Op;
using ir::OpKind;
using ir::Value;

// Regions.

llvm::Value *BodyLowering::region(Slot slot, const View &view) {
  llvm::Value *&place = regionSlots_[size_t(slot)];
  if (!place)
    place = stackSlot(host_.abi.region, slot == Slot::Source ? "source" : "destination");
  launch::storeRegion(host_, b, views_, place, view);
  return place;
}

llvm::Value *BodyLowering::cellsRegion(const SignalCells &cells) {
  llvm::Value *&place = regionSlots_[size_t(Slot::Source)];
  if (!place)
    place = stackSlot(host_.abi.region, "source");
  launch::storeCells(host_, b, views_, place, cells);
  return place;
}

View BodyLowering::tileView(ir::Type type, llvm::Value *data) {
  const bool isTile = type.isTile();
  llvm::SmallVector<llvm::Value *, 4> sizes;
  if (isTile)
    for (int64_t size : type.shape())
      sizes.push_back(b.getInt64(size));
  return views_.contiguous(module_.source.types().view(type.elementOrIndex(), sizes.size(), false),
                           data, sizes);
}

void BodyLowering::transfer(Runtime callee, View source, View destination, const Op *traced) {
  const auto emit = [&] {
    llvm::Value *from = region(Slot::Source, source);
    llvm::Value *to = region(Slot::Destination, destination);
    if (traced)
      traceCopy(*traced, source.rank ? from : to, source.rank ? to : from);
    call(callee, {from, to});
    if (traced)
      traceEnd();
  };
  if (source.dims.empty()) {
    llvm::Value *exist =
        b.CreateAnd(b.CreateIsNotNull(source.data), b.CreateIsNotNull(destination.data));
    return when(exist, "transfer", emit);
  }
  launch::cutToCommon(b, source, destination);
  emit();
}

void BodyLowering::awaitTokens(Op &op, unsigned first) {
  for (Value *operand : op.operands().drop_front(std::min(first, op.numOperands()))) {
    const Op *producer = operand->definingOp();
    if (operand->type().isToken() && !(producer && producer->is(OpKind::TokenDone)))
      return call(Runtime::await);
  }
}

// Transfers.

void BodyLowering::lowerSend(Op &op, Runtime callee) {
  awaitTokens(op, op.is(OpKind::PutSignal) ? 3 : 2);
  Value *source = op.operand(0);
  View target = view(op.operand(1));
  if (source->type().isView())
    return transfer(callee, view(source), target, &op);
  if (source->type().isTile()) {
    transfer(callee, tileView(source->type(), address(source)), target, &op);
    // A tile without a buffer of its own was put in memory that the next op may use.
    if (plan_.isInlined(source))
      call(Runtime::issue);
    return;
  }
  // A scalar travels from a place of its own, which has to be free again when a loop comes back.
  auto *place =
      llvm::GetElementPtrInst::CreateInBounds(b.getInt8Ty(), workspace_, {b.getInt64(parcels_)});
  b.Insert(place, "parcel");
  parcelAddresses_.push_back(place);
  parcels_ += 8;
  for (const Op *outer = op.parentOp(); outer && !outer->is(OpKind::Space);
       outer = outer->parentOp())
    if (outer->is(OpKind::For) || outer->is(OpKind::While)) {
      call(Runtime::issue);
      break;
    }
  const DType type = source->type().elementOrIndex();
  b.CreateAlignedStore(arith_.toMemory(type, scalar(source)), place, llvm::Align(dtypeBytes(type)));
  transfer(callee, tileView(source->type(), place), target, &op);
}

void BodyLowering::lowerGet(Op &op) {
  awaitTokens(op, 2);
  transfer(Runtime::get, view(op.operand(0)), view(op.operand(1)), &op);
}

void BodyLowering::lowerRemoteLoad(Op &op) {
  Value *result = op.result();
  View source = view(op.operand(0));
  if (!result->type().isTile()) {
    const DType type = result->type().elementOrIndex();
    llvm::Value *place = stackSlot(b.getInt64Ty(), "loaded");
    b.CreateStore(b.getInt64(0), place);
    transfer(Runtime::load, source, tileView(result->type(), place), &op);
    llvm::Value *loaded = b.CreateLoad(memoryType(context(), type), place);
    return set(result, {arith_.fromMemory(type, loaded)});
  }
  beforeWrite(result);
  llvm::Value *place = buffer(result);
  when(b.CreateNot(views_.containsBox(source, result->type().shape())), "partial", [&] {
    b.CreateMemSet(place, b.getInt8(0), tileBytes(result->type()), llvm::Align(kBufferAlign));
  });
  transfer(Runtime::load, source, tileView(result->type(), place), &op);
}

llvm::Value *BodyLowering::placeOf(Value *value) {
  if (value->type().isTile())
    return address(value);
  llvm::Value *place = stackSlot(b.getInt64Ty(), "placed");
  b.CreateStore(arith_.toMemory(value->type().elementOrIndex(), scalar(value)), place);
  return place;
}

void BodyLowering::lowerRemoteStore(Op &op) {
  Value *value = op.operand(0);
  transfer(Runtime::store, tileView(value->type(), placeOf(value)), view(op.operand(1)), &op);
}

namespace {

/// One element of a view.
View elementOf(ViewBuilder &views, const View &view, llvm::ArrayRef<llvm::Value *> at) {
  return {view.type, views.address(view, at), view.rank, {}};
}

} // namespace

void BodyLowering::lowerRemoteGather(Op &op) {
  Value *result = op.result();
  const DType type = result->type().dtype();
  View source = view(op.operand(0));
  beforeWrite(result);
  llvm::Value *place = buffer(result);
  b.CreateMemSet(place, b.getInt8(0), tileBytes(result->type()), llvm::Align(kBufferAlign));
  if (host_.isTraced)
    traceCopy(op, region(Slot::Source, source),
              region(Slot::Destination, tileView(result->type(), place)));
  eachIndexed(
      op, source.dims.size(), {},
      [&](TileLoops &loops, llvm::ArrayRef<llvm::Value *>, llvm::ArrayRef<llvm::Value *> at) {
        when(views_.contains(source, at), "gather", [&] {
          llvm::Value *to = loops.denseAddress(place, memoryType(context(), type));
          ir::Type element = module_.source.types().scalar(type);
          transfer(Runtime::load, elementOf(views_, source, at), tileView(element, to), nullptr);
        });
      });
  traceEnd();
}

void BodyLowering::lowerRemoteScatter(Op &op) {
  View target = view(op.operand(1));
  const DType type = target.type.dtype();
  llvm::Value *place = stackSlot(b.getInt64Ty(), "scattered");
  if (host_.isTraced) {
    View local = tileView(op.operand(2)->type(), place);
    local.type = module_.source.types().view(type, local.dims.size(), false);
    traceCopy(op, region(Slot::Destination, target), region(Slot::Source, local));
  }
  eachIndexed(
      op, target.dims.size(), {op.operand(0)},
      [&](TileLoops &, llvm::ArrayRef<llvm::Value *> numbers, llvm::ArrayRef<llvm::Value *> at) {
        when(views_.contains(target, at), "scatter", [&] {
          b.CreateStore(arith_.toMemory(type, numbers[0]), place);
          ir::Type element = module_.source.types().scalar(type);
          transfer(Runtime::store, tileView(element, place), elementOf(views_, target, at),
                   nullptr);
        });
      });
  traceEnd();
}

// Signals.

void BodyLowering::notify(Op &op, Value *signal) {
  llvm::Value *region = cellsRegion(cells(signal));
  traceCells(op, region, b.getInt64(-1));
  call(Runtime::notify, {region, host_.site(op, objectName(signal))});
  traceEnd();
}

void BodyLowering::lowerWait(Op &op) {
  Value *signal = op.operand(0);
  llvm::Value *count = op.numOperands() > 1 ? scalar(op.operand(1)) : b.getInt64(-1);
  llvm::Value *region = cellsRegion(cells(signal));
  traceCells(op, region, count);
  call(Runtime::wait, {region, count, host_.site(op, objectName(signal))});
  traceEnd();
}

// Atomics and assertions.

llvm::Value *BodyLowering::bitsOf(DType type, llvm::Value *value) {
  llvm::Value *memory = arith_.toMemory(type, value);
  memory = b.CreateBitCast(memory, b.getIntNTy(dtypeBits(type)));
  return b.CreateZExt(memory, b.getInt64Ty());
}

llvm::Value *BodyLowering::valueOf(DType type, llvm::Value *bits) {
  llvm::Value *narrow = b.CreateTrunc(bits, b.getIntNTy(dtypeBits(type)));
  return arith_.fromMemory(type, b.CreateBitCast(narrow, memoryType(context(), type)));
}

namespace {

/// The runtime's number of an atomic, by the word of its kind.
int runtimeKind(llvm::StringRef kind) {
  return llvm::StringSwitch<int>(kind)
      .Case("add", 0)
      .Case("min", 1)
      .Case("max", 2)
      .Case("and", 3)
      .Case("or", 4)
      .Case("exch", 5)
      .Case("cas", 6);
}

constexpr int kSwap = 6;

} // namespace

/// The bits of what the element held.
llvm::Value *BodyLowering::updated(int kind, const View &cell,
                                   llvm::ArrayRef<llvm::Value *> values) {
  const DType type = cell.type.dtype();
  const bool isSwap = kind == kSwap;
  llvm::Value *operand = bitsOf(type, values[isSwap ? 1 : 0]);
  llvm::Value *expected = isSwap ? bitsOf(type, values[0]) : b.getInt64(0);
  return b.CreateCall(host_.runtime(Runtime::atomic),
                      {task_, b.getInt32(kind), region(Slot::Source, cell), operand, expected});
}

void BodyLowering::lowerAtomic(Op &op) {
  const unsigned tokens = op.getOr(ir::attr::ntok, 0);
  awaitTokens(op, op.numOperands() - tokens);
  const int kind = runtimeKind(op.get(ir::attr::kind));
  View cell = view(op.operand(0));
  llvm::SmallVector<llvm::Value *, 2> values;
  for (Value *value : op.operands().slice(1, kind == kSwap ? 2 : 1))
    values.push_back(scalar(value));
  llvm::Value *old = stackSlot(b.getInt64Ty(), "old");
  b.CreateStore(b.getInt64(0), old);
  when(b.CreateIsNotNull(cell.data), "atomic", [&] {
    if (host_.isTraced) {
      llvm::Value *at = region(Slot::Source, cell);
      traceCopy(op, at, at);
    }
    b.CreateStore(updated(kind, cell, values), old);
    traceEnd();
  });
  set(op.result(), {valueOf(cell.type.dtype(), b.CreateLoad(b.getInt64Ty(), old))});
}

namespace {

bool sendsToOthers(Op &space) {
  bool sends = false;
  ir::walk(space, [&](Op &op) {
    const Value *written = ir::writtenView(op);
    sends |= written && written->type().isRemote();
  });
  return sends;
}

} // namespace

void BodyLowering::lowerMemoryFence(Op &op) {
  const bool releases = op.get(ir::attr::kind) == "release";
  // What went to another host has landed there before the atomic tells of it: of a rank's own
  // memory, to a body that may tell any other rank.
  if (releases && (op.operand(0)->type().isRemote() || sendsToOthers(*op.enclosing(OpKind::Space))))
    call(Runtime::quiet);
  b.CreateFence(releases ? llvm::AtomicOrdering::Release : llvm::AtomicOrdering::Acquire);
}

void BodyLowering::lowerAtomicScatter(Op &op) {
  awaitTokens(op, op.numOperands() - ir::numTrailingTokens(op));
  const bool isSend = op.is(OpKind::ReduceAddScatter);
  View target = view(op.operand(ir::indexedView(op)));
  const DType type = target.type.dtype();
  const int kind = isSend ? 0 : runtimeKind(op.get(ir::attr::kind));
  const auto values =
      isSend ? op.operands().take_front(1) : op.operands().slice(1, kind == kSwap ? 2 : 1);
  llvm::Value *found = nullptr;
  if (!isSend && op.result()->hasUses()) {
    beforeWrite(op.result());
    found = buffer(op.result());
    b.CreateMemSet(found, b.getInt8(0), tileBytes(op.result()->type()), llvm::Align(kBufferAlign));
  }
  if (host_.isTraced) {
    View local = tileView(values.front()->type(), stackSlot(b.getInt64Ty(), "added"));
    local.type = module_.source.types().view(type, local.dims.size(), false);
    traceCopy(op, region(Slot::Destination, target), region(Slot::Source, local));
  }
  eachIndexed(op, target.dims.size(), values,
              [&](TileLoops &loops, llvm::ArrayRef<llvm::Value *> elements,
                  llvm::ArrayRef<llvm::Value *> at) {
                when(views_.contains(target, at), "atomic", [&] {
                  llvm::Value *old = updated(kind, elementOf(views_, target, at), elements);
                  if (!found)
                    return;
                  llvm::Type *element = memoryType(context(), type);
                  b.CreateAlignedStore(arith_.toMemory(type, valueOf(type, old)),
                                       loops.denseAddress(found, element),
                                       llvm::Align(dtypeBytes(type)));
                });
              });
  traceEnd();
}

void BodyLowering::lowerPrint(Op &op) {
  llvm::Value *shown = llvm::ConstantPointerNull::get(b.getPtrTy());
  if (op.numOperands() > 0) {
    Value *value = op.operand(0);
    shown = region(Slot::Source, tileView(value->type(), placeOf(value)));
  }
  call(Runtime::print, {host_.site(op, ""), shown, host_.string(op.get(ir::attr::message))});
}

void BodyLowering::lowerAssert(Op &op) {
  llvm::Value *holds = scalar(op.operand(0));
  when(b.CreateNot(holds), "failed",
       [&] { fail(op, op.get(ir::attr::message), op.operands().drop_front()); });
}

void BodyLowering::checkRank(Op &op, llvm::Value *rank) {
  llvm::Value *outside = b.CreateICmpUGE(rank, fact(OpKind::NumRanks));
  when(outside, "no.rank", [&] {
    for (unsigned i = 0; 2 + 2 * i < op.numOperands(); ++i) {
      llvm::ArrayRef<Value *> given = op.operands().slice(2 + 2 * i, 2);
      when(b.CreateICmpUGE(scalar(given[0]), scalar(given[1])), "outside",
           [&] { fail(op, ir::outsideAxisText(op, i, "{0}", "{1}"), given); });
    }
    call(Runtime::check_rank, {rank, host_.site(op, objectName(op.operand(0)))});
  });
}

void BodyLowering::fail(Op &op, llvm::StringRef message, llvm::ArrayRef<Value *> values) {
  llvm::Value *arguments = llvm::ConstantPointerNull::get(b.getPtrTy());
  if (!values.empty())
    arguments = stackSlot(llvm::ArrayType::get(b.getInt64Ty(), values.size()), "arguments");
  for (auto [i, value] : llvm::enumerate(values))
    b.CreateStore(arith_.cast(value->type().elementOrIndex(), DType::I64, scalar(value)),
                  b.CreateConstGEP1_64(b.getInt64Ty(), arguments, i));
  call(Runtime::fail,
       {host_.site(op, ""), host_.string(message), b.getInt32(values.size()), arguments});
}

} // namespace dtile::backend::host
