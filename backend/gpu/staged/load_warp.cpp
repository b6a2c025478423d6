// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The warp that copies operands to the slots of the ring: all its threads walk alike, and one of
// them acts; or all, where TMA cannot read the tensors.
#include "backend/gpu/staged/load_warp.h"
#include "backend/gpu/async_copies.h"

#include "frontend/base/check.h"

#include "llvm/ADT/bit.h"

namespace dtile::backend::gpu {

using ir::Op;
using ir::OpKind;
using llvm::Value;

/// Of an element that is fetched, and how many of them are a word.
constexpr unsigned kFetchedBytes = 4;
constexpr unsigned kWordElements = kWordBytes / kFetchedBytes;

LoadWarp::LoadWarp(GpuModule &module, const KernelScaffold &kernel, const Ring &ring,
                   bool byThreads)
    : HelperWarp(module, kernel, ring, byThreads ? "copy.by.hand" : "copy"), byThreads_(byThreads) {
  for (auto &[loop, loads] : ring.loadsOf)
    for (Op *load : loads)
      need(*load);
  llvm::IRBuilder<> start(kernel.entry, kernel.entry->begin());
  next_ = start.CreateAlloca(b.getInt64Ty(), nullptr, "copy.next");
  hasNext_ = start.CreateAlloca(b.getInt1Ty(), nullptr, "copy.has.next");
}

void LoadWarp::lowerBodies(Op &space, const BodyRange &range) {
  // The first round finds every slot empty: the phase before the first counts as over.
  place_.begin(1);
  body_.begin(1);
  b.CreateStore(b.getFalse(), failed_);
  b.CreateStore(b.getFalse(), hasNext_);
  // None: what a thread would tell that is elected because others have left.
  b.CreateStore(range.count, next_);
  range_ = &range;
  setParts(range);
  // Once, not in each iteration: which copy of a scratch object it is takes a load and a division.
  ir::walk(space, [&](Op &op) {
    if (!isBox(op))
      return;
    const StagedTile &tile = ring_.tiles.find(&op)->second;
    for (const ir::TensorBox &box : tile.source.boxes)
      maps_[&box] = tensorMap(tile, box);
  });
  forEachBody(space, range, [&] { lowerBlock(space.body()); });
}

/// The number of the next body comes from memory: asked for while operands of the last iterations
/// are still to be copied, it is here when they have been. Not earlier: another program may be done
/// before this one.
void LoadWarp::claimNext(Op &loop) {
  if (!range_->taken || ring_.lastLoop != &loop)
    return;
  constexpr uint64_t kIterationsBefore = 2;
  Value *lead = b.CreateMul(scalar(loop.operand(2)), b.getInt64(kIterationsBefore));
  Value *isNearEnd =
      b.CreateICmpSGE(b.CreateAdd(scalar(loop.body().argument(0)), lead), loopEnd(loop));
  Value *isKnown = b.CreateLoad(b.getInt1Ty(), hasNext_);
  when(b.CreateAnd(isNearEnd, b.CreateNot(isKnown)), "take.ahead", [&] { storeNext(); });
}

void LoadWarp::storeNext() {
  when(warp_.isElected(b), "count", [&] { b.CreateStore(claimBody(*range_), next_); });
  b.CreateStore(b.getTrue(), hasNext_);
}

Value *LoadWarp::nextBody(const BodyRange &) {
  when(b.CreateNot(b.CreateLoad(b.getInt1Ty(), hasNext_)), "take", [&] { storeNext(); });
  Value *slot = body_.slot();
  waitOrLeave(body_.barrier(ring_.bodiesEmpty, slot), body_.phase());
  b.CreateStore(b.getFalse(), hasNext_);
  when(warp_.isElected(b), "tell", [&] {
    b.CreateStore(b.CreateLoad(b.getInt64Ty(), next_), bodyNumber());
    bulk_.arrive(b, body_.barrier(ring_.bodiesFull, slot));
  });
  warp_.syncWarp(b);
  Value *number = warp_.uniform(b, b.CreateLoad(b.getInt64Ty(), bodyNumber()));
  body_.next();
  return number;
}

void LoadWarp::lowerOp(Op &op) {
  if (isBox(op) || isScalarLoad(op))
    return load(op);
  if (!isNeeded(op))
    return;
  HelperWarp::lowerOp(op);
  if (op.is(OpKind::Wait))
    when(hasFailed(), "copy.failed", [&] { b.CreateStore(b.getInt32(1), shared(ring_.failed)); });
}

Value *LoadWarp::tensorMap(const StagedTile &tile, const ir::TensorBox &box) {
  const launch::Frame::TensorMap *found = nullptr;
  for (const auto &map : kernel_.layout->tensorMaps())
    if (map->param == box.object && map->box == boxSizes(tile, box) && map->swizzle == tile.swizzle)
      found = map.get();
  DTILE_CHECK(found, "a staged load has its tensor map");
  Value *address = frameAddress(found->offset);
  if (found->copies > 1) {
    Value *copy = scratchTurn(*box.object);
    address = b.CreateGEP(b.getInt8Ty(), address,
                          b.CreateMul(copy, b.getInt64(launch::Frame::kTensorMapBytes)));
  }
  return b.CreatePtrToInt(address, b.getInt64Ty());
}

void LoadWarp::loadBoxes(const StagedTile &tile, const ir::TensorBox &box, Value *slot,
                         Value *full) {
  Value *map = maps_.lookup(&box);
  for (int64_t i = 0; i < tile.boxes(); ++i) {
    llvm::SmallVector<Value *, 5> coordinates;
    for (const ir::TensorBox::Dim &dim : llvm::reverse(box.dims)) {
      Value *at = b.getInt64(dim.viewDim == 1u ? i * tile.swizzle / dtypeBytes(tile.dtype) : 0);
      for (ir::Value *first : dim.firsts)
        at = b.CreateAdd(at, scalar(first));
      coordinates.push_back(b.CreateTrunc(at, b.getInt32Ty()));
    }
    bulk_.loadBox(b, address(slot, tile.offset + i * tile.rows * tile.swizzle), map, coordinates,
                  full);
  }
}

void LoadWarp::load(Op &load) {
  llvm::ArrayRef<Op *> loads = ring_.loadsOf.find(load.parentOp())->second;
  Value *slot = place_.slot();
  Value *full = place_.barrier(ring_.full, slot);
  if (&load == loads.front()) {
    claimNext(*load.parentOp());
    waitOrLeave(place_.barrier(ring_.empty, slot), place_.phase());
    unsigned bytes = 0;
    for (Op *each : loads)
      if (isBox(*each))
        bytes += ring_.tiles.find(each)->second.bytes();
    // One arrival either way.
    Value *acts = warp_.isElected(b);
    Value *failed = hasFailed();
    when(b.CreateAnd(acts, failed), "copy.skipped", [&] {
      b.CreateStore(b.getInt32(1), shared(ring_.failed));
      bulk_.arrive(b, full);
    });
    Value *isRight = b.CreateNot(failed);
    copies_ = byThreads_ ? isRight : b.CreateAnd(acts, isRight);
    if (!byThreads_)
      when(copies_, "copy.announced", [&] { bulk_.arriveExpecting(b, full, b.getInt32(bytes)); });
  }
  const bool isLast = &load == loads.back();
  when(isScalarLoad(load) ? b.CreateNot(hasFailed()) : copies_, "copy", [&] {
    isScalarLoad(load) ? loadScalars(load, slot) : loadTile(load, slot, full);
    if (isLast && byThreads_)
      publish(full);
  });
  if (!isLast)
    return;
  if (!ring_.fetched.empty())
    bulk_.arriveAfterAsyncCopies(b, full);
  place_.next();
}

void LoadWarp::loadTile(Op &load, Value *slot, Value *full) {
  if (byThreads_)
    return copyByThreads(load, slot);
  const StagedTile &tile = ring_.tiles.find(&load)->second;
  const ir::TensorBoxes &source = tile.source;
  if (!source.isFirst)
    return loadBoxes(tile, source.boxes[0], slot, full);
  Value *isFirst = scalar(source.isFirst);
  when(isFirst, "copy.first", [&] { loadBoxes(tile, source.boxes[0], slot, full); });
  when(b.CreateNot(isFirst), "copy.second", [&] { loadBoxes(tile, source.boxes[1], slot, full); });
}

void LoadWarp::loadScalars(Op &load, Value *slot) {
  const View from = view(load.operand(0));
  const ir::Type type = load.result()->type();
  if (!type.isTile() || type.rank() != 1 || type.elements() % kWordElements != 0)
    return loadScalarElements(load, from, slot);
  const ViewDimension &dim = from.dims[0];
  const auto within = [&](Value *value, int64_t most) {
    value = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, value, b.getInt64(most));
    return b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, value, b.getInt64(0));
  };
  // How many exist; the address and they are whole words.
  Value *count = within(dim.high, type.elements());
  Value *rest = b.CreateAnd(b.CreateOr(b.CreatePtrToInt(from.data, b.getInt64Ty()),
                                       b.CreateMul(count, b.getInt64(kFetchedBytes))),
                            b.getInt64(kWordBytes - 1));
  Value *isInWords = b.CreateAnd(b.CreateAnd(b.CreateICmpEQ(dim.stride, b.getInt64(1)),
                                             b.CreateICmpSLE(dim.low, b.getInt64(0))),
                                 b.CreateICmpEQ(rest, b.getInt64(0)));
  when(isInWords, "words",
       [&] { loadScalarWords(load, from.data, b.CreateTrunc(count, b.getInt32Ty()), slot); });
  when(b.CreateNot(isInWords), "elements", [&] { loadScalarElements(load, from, slot); });
}

/// The warp that copies has little time: a word where neighbours are one. `count` (i32) elements
/// exist, the others are zeros.
void LoadWarp::loadScalarWords(Op &load, Value *from, Value *count, Value *slot) {
  Value *lane = b.CreateAnd(kernel_.thread, b.getInt32(WarpOps::kWarpThreads - 1));
  const auto words = uint32_t(load.result()->type().elements() / kWordElements);
  for (uint32_t first = 0; first < words; first += WarpOps::kWarpThreads) {
    Value *number = b.CreateAdd(lane, b.getInt32(first));
    Value *exists = b.CreateICmpULT(b.CreateMul(number, b.getInt32(kWordElements)), count);
    Value *offset = b.CreateMul(number, b.getInt32(kWordBytes));
    Value *there =
        b.CreateGEP(b.getInt8Ty(), b.CreateAddrSpaceCast(from, b.getPtrTy(Device::kGlobal)),
                    b.CreateZExt(offset, b.getInt64Ty()));
    Value *to =
        b.CreateGEP(b.getInt8Ty(), shared(address(slot, ring_.fetched.lookup(&load))), offset);
    const auto copy = [&] {
      gpu_.device.asyncCopies()->copy(
          b, to, there, kWordBytes, b.CreateSelect(exists, b.getInt32(kWordBytes), b.getInt32(0)));
    };
    if (first + WarpOps::kWarpThreads <= words)
      copy();
    else
      when(b.CreateICmpULT(number, b.getInt32(words)), "word", copy);
  }
}

void LoadWarp::loadScalarElements(Op &load, const View &from, Value *slot) {
  const ir::Type type = load.result()->type();
  Value *lane = b.CreateAnd(kernel_.thread, b.getInt32(WarpOps::kWarpThreads - 1));
  const llvm::SmallVector<int64_t, 4> shape(type.isTile() ? type.shape()
                                                          : llvm::ArrayRef<int64_t>());
  for (int64_t first = 0; first < type.elements(); first += WarpOps::kWarpThreads) {
    Value *number = b.CreateAdd(lane, b.getInt32(uint32_t(first)));
    Value *exists = b.CreateICmpULT(number, b.getInt32(uint32_t(type.elements())));
    llvm::SmallVector<Value *, 4> positions(shape.size());
    Value *rest = b.CreateZExt(number, b.getInt64Ty());
    for (size_t d = shape.size(); d-- > 0; rest = b.CreateUDiv(rest, b.getInt64(shape[d])))
      positions[d] = d == 0 ? rest : b.CreateURem(rest, b.getInt64(shape[d]));
    Value *there = views_.address(from, positions);
    Value *isThere = shape.empty() ? b.CreateIsNotNull(there) : views_.contains(from, positions);
    there = b.CreateSelect(isThere, b.CreateAddrSpaceCast(there, b.getPtrTy(Device::kGlobal)),
                           zeroBytes(b));
    Value *offset =
        b.CreateAdd(b.getInt32(uint32_t(ring_.fetched.lookup(&load))), b.CreateShl(number, 2));
    when(exists, "word", [&] {
      gpu_.device.asyncCopies()->copy(
          b, b.CreateGEP(b.getInt8Ty(), shared(address(slot, 0)), offset), there, 4,
          b.CreateSelect(isThere, b.getInt32(4), b.getInt32(0)));
    });
  }
}

void LoadWarp::publish(Value *full) {
  bulk_.sharedProxyFence(b);
  warp_.syncWarp(b);
  when(warp_.isElected(b), "copied", [&] { bulk_.arrive(b, full); });
}

void LoadWarp::copyByThreads(Op &load, Value *slot) {
  // So many elements of a lane are on their way at once.
  constexpr unsigned kMostAtOnce = 8;
  const StagedTile &tile = ring_.tiles.find(&load)->second;
  SharedTile to = ResidentTile(load.result()->type(), tile.swizzle).shared;
  to.base = shared(address(slot, tile.offset));
  const View from = located(load.operand(0));
  llvm::Type *element = memoryType(context(), tile.dtype);
  const llvm::Align align(dtypeBytes(tile.dtype));
  Value *columns = b.getInt32(uint32_t(tile.columns()));
  Value *lane = b.CreateAnd(kernel_.thread, b.getInt32(WarpOps::kWarpThreads - 1));
  const auto each = uint64_t(tile.rows * tile.columns() / WarpOps::kWarpThreads);
  const unsigned atOnce = std::min<unsigned>(kMostAtOnce, 1u << llvm::countr_zero(each));
  DTILE_CHECK(each * WarpOps::kWarpThreads == uint64_t(tile.rows * tile.columns()),
              "tiles have 16 rows and 32 bytes, or multiples of that");
  loop(b.getInt64(each / atOnce), "elements", [&](Value *round) {
    Value *first = b.CreateAdd(b.CreateMul(b.CreateTrunc(round, b.getInt32Ty()),
                                           b.getInt32(atOnce * WarpOps::kWarpThreads)),
                               lane);
    llvm::SmallVector<std::pair<Value *, Value *>, kMostAtOnce> moved;
    for (unsigned i = 0; i < atOnce; ++i) {
      Value *number = b.CreateAdd(first, b.getInt32(i * WarpOps::kWarpThreads));
      Value *at[] = {b.CreateUDiv(number, columns), b.CreateURem(number, columns)};
      Value *positions[] = {b.CreateZExt(at[0], b.getInt64Ty()),
                            b.CreateZExt(at[1], b.getInt64Ty())};
      Value *there =
          b.CreateAddrSpaceCast(views_.address(from, positions), b.getPtrTy(Device::kGlobal));
      there = b.CreateSelect(views_.contains(from, positions), there, zeroBytes(b));
      Value *offset = b.CreateAdd(to.offset(b, 0, at[0]), to.offset(b, 1, at[1]));
      moved.emplace_back(b.CreateAlignedLoad(element, there, align), to.swizzled(b, offset));
    }
    for (auto &[value, offset] : moved) {
      // As the engine would.
      if (tile.dtype == DType::F32)
        value = gpu_.device.roundToTf32(b, value);
      b.CreateAlignedStore(value, b.CreateGEP(b.getInt8Ty(), to.base, offset), align);
    }
  });
}

} // namespace dtile::backend::gpu
