// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The warp that loads operands into the slots of the ring: all its threads walk alike, and one of
// them acts.
#include "backend/gpu/staged/load_warp.h"
#include "backend/gpu/async_copies.h"
#include "ir/analysis/shared_memory_plan.h"

namespace dtile::backend::gpu {

using ir::Op;
using ir::OpKind;
using llvm::Value;

namespace {

/// Bytes of a scalar that is staged by cp.async, and such scalars in one 16-byte copy.
int64_t fetchedBytes(const Op &load) {
  return int64_t(dtypeBytes(load.result()->type().elementOrIndex()));
}
int64_t wordElements(const Op &load) { return ir::kSharedWordBytes / fetchedBytes(load); }

} // namespace

LoadWarp::LoadWarp(GpuModule &module, const KernelScaffold &kernel, const Ring &ring)
    : HelperWarp(module, kernel, ring, "load") {
  for (Op *load : ring.passed)
    need(*load);
  for (auto &[loop, loads] : ring.loadsOf)
    for (Op *load : loads)
      need(*load);
  llvm::IRBuilder<> start(kernel.entry, kernel.entry->begin());
  next_ = start.CreateAlloca(b.getInt64Ty(), nullptr, "load.next");
  hasNext_ = start.CreateAlloca(b.getInt1Ty(), nullptr, "load.has.next");
}

void LoadWarp::lowerBodies(Op &space, const BodyRange &range) {
  // The first round finds every slot empty: the phase before the first counts as over.
  place_.begin(1);
  unit_.begin(1);
  body_.begin(1);
  number_.begin(1);
  b.CreateStore(b.getFalse(), failed_);
  b.CreateStore(b.getFalse(), hasNext_);
  // None: what a thread would tell that is elected because others have left.
  b.CreateStore(range.count, next_);
  range_ = &range;
  setParts(range);
  beginTrace(space);
  // Once, not in each iteration: which copy of a scratch object it is takes a load and a division.
  ir::walk(space, [&](Op &op) {
    if (!isBox(op))
      return;
    const StagedTile &tile = ring_.tiles.find(&op)->second;
    for (const ir::TensorBox &box : tile.source.boxes) {
      maps_[&box] = tensorMap(tile, box, tile.rows);
      if (paired_ && tile.isMulticast())
        halfMaps_[&box] = tensorMap(tile, box, tile.rows / 2);
    }
    LoadedBytes &loaded =
        bytes_.try_emplace(op.parentOp(), LoadedBytes{b.getInt32(0), b.getInt32(0)}).first->second;
    Value *&bytes = tile.isTransposed() ? loaded.transposed : loaded.ready;
    bytes = b.CreateAdd(bytes, b.CreateSelect(ring_.paths.lookup(&op).isWhole,
                                              b.getInt32(uint32_t(tile.bytes())), b.getInt32(0)));
  });
  forEachItem(space, range, [&] {
    awaitExchange();
    lowerBlock(space.body());
  });
  // The other program of a pair arrives at barriers here until both have multiplied everything.
  if (paired_)
    when(paired_, "pair.end", [&] {
      loop(b.CreateZExt(ring_.length, b.getInt64Ty()), "slots", [&](Value *) {
        waitOrLeave(place_.barrier(ring_.empty, place_.slot()), place_.phase());
        place_.next();
      });
    });
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
  if (isPassedNumber(op))
    return passNumber(op);
  if (!isNeeded(op))
    return;
  HelperWarp::lowerOp(op);
  if (op.is(OpKind::Wait))
    whenRarely(hasFailed(), "copy.failed",
               [&] { b.CreateStore(b.getInt32(1), shared(ring_.failed)); });
}

/// Of a launch in which something has failed, zero: loops end soon.
void LoadWarp::passNumber(Op &load) {
  readNumber(load);
  Value *number = b.CreateSExt(scalar(load.result()), b.getInt64Ty());
  number = warp_.uniform(b, b.CreateSelect(hasFailed(), b.getInt64(0), number));
  Value *slot = number_.slot();
  waitOrLeave(number_.barrier(ring_.numbersEmpty, slot), number_.phase());
  when(warp_.isElected(b), "pass", [&] {
    b.CreateStore(number, passedNumber(slot));
    bulk_.arrive(b, number_.barrier(ring_.numbersFull, slot));
  });
  warp_.syncWarp(b);
  number_.next();
  set(load.result(), {b.CreateTrunc(number, partTypes(load.result()->type()).front())});
}

Value *LoadWarp::tensorMap(const StagedTile &tile, const ir::TensorBox &box, int64_t rows) {
  const launch::Frame::TensorMap &map = tensorMapOf(*kernel_.layout, tile, box, rows);
  Value *address = frameAddress(map.offset);
  if (map.copies > 1) {
    Value *copy = scratchTurn(*box.object);
    address = b.CreateGEP(b.getInt8Ty(), address,
                          b.CreateMul(copy, b.getInt64(launch::Frame::kTensorMapBytes)));
  }
  return b.CreatePtrToInt(address, b.getInt64Ty());
}

void LoadWarp::eachBox(const StagedTile &tile, const ir::TensorBox &box, Value *slot, Value *first,
                       llvm::function_ref<void(Value *, llvm::ArrayRef<Value *>)> issue) {
  for (int64_t i = 0; i < tile.boxes(); ++i) {
    llvm::SmallVector<Value *, 5> coordinates;
    for (const ir::TensorBox::Dim &dim : llvm::reverse(box.dims)) {
      Value *at = b.getInt64(dim.viewDim == 1u ? i * tile.swizzle / dtypeBytes(tile.dtype) : 0);
      if (dim.viewDim == 0u)
        at = b.CreateAdd(at, b.CreateZExt(first, b.getInt64Ty()));
      for (ir::Value *position : dim.firsts)
        at = b.CreateAdd(at, scalar(position));
      coordinates.push_back(b.CreateTrunc(at, b.getInt32Ty()));
    }
    Value *before = b.CreateMul(first, b.getInt32(uint32_t(tile.swizzle)));
    issue(b.CreateAdd(address(slot, tile.offset + i * tile.boxBytes()), before), coordinates);
  }
}

void LoadWarp::loadBoxes(const StagedTile &tile, const ir::TensorBox &box, Value *slot,
                         Value *full) {
  eachBox(tile, box, slot, b.getInt32(0), [&](Value *to, llvm::ArrayRef<Value *> coordinates) {
    bulk_.loadBox(b, to, maps_.lookup(&box), coordinates, full);
  });
}

void LoadWarp::multicastBoxes(const StagedTile &tile, const ir::TensorBox &box, Value *slot,
                              Value *full) {
  constexpr uint16_t kBoth = 3;
  Value *first = b.CreateMul(half_, b.getInt32(uint32_t(tile.rows / 2)));
  eachBox(tile, box, slot, first, [&](Value *to, llvm::ArrayRef<Value *> coordinates) {
    bulk_.multicastBox(b, to, halfMaps_.lookup(&box), coordinates, full, kBoth);
  });
}

void LoadWarp::load(Op &load) {
  llvm::ArrayRef<Op *> loads = ring_.loadsOf.find(load.parentOp())->second;
  Value *slot = place_.slot();
  Value *full = place_.barrier(ring_.full, slot);
  Value *transposable = ring_.transposes ? place_.barrier(ring_.loaded, slot) : nullptr;
  if (&load == loads.front()) {
    claimNext(*load.parentOp());
    if (foldedComeFirst(loads))
      for (const Op *each : loads)
        loadIfFolded(*each);
    // Where all tiles are folded, this warp fills units alone, and is ahead as far as there are
    // units.
    when(ring_.isLoaded, "copy.slot",
         [&] { waitOrLeave(place_.barrier(ring_.empty, slot), place_.phase()); });
    // One arrival either way.
    Value *acts = warp_.isElected(b);
    Value *failed = hasFailed();
    whenRarely(b.CreateAnd(acts, failed), "copy.skipped", [&] {
      b.CreateStore(b.getInt32(1), shared(ring_.failed));
      bulk_.arriveWhere(b, ring_.isLoaded, full);
      if (transposable)
        bulk_.arriveWhere(b, ring_.isLoaded, transposable);
    });
    copies_ = b.CreateAnd(acts, b.CreateNot(failed));
    when(b.CreateAnd(copies_, ring_.isLoaded), "copy.announced", [&] {
      const LoadedBytes bytes = bytes_.lookup(load.parentOp());
      bulk_.arriveExpecting(b, full, bytes.ready);
      if (transposable)
        bulk_.arriveExpecting(b, transposable, bytes.transposed);
    });
  }
  if (isScalarLoad(load))
    when(b.CreateNot(hasFailed()), "copy", [&] { loadScalars(load, slot); });
  else {
    const Ring::Path path = ring_.paths.lookup(&load);
    Value *arrives = ring_.tiles.find(&load)->second.isTransposed() ? transposable : full;
    when(b.CreateAnd(copies_, path.isWhole), "copy", [&] { loadTile(load, slot, arrives); });
    if (!foldedComeFirst(loads))
      loadIfFolded(load);
  }
  if (&load != loads.back())
    return;
  if (!ring_.fetched.empty())
    bulk_.arriveAfterAsyncCopies(b, full);
  place_.next();
}

void LoadWarp::loadTile(Op &load, Value *slot, Value *full) {
  const StagedTile &tile = ring_.tiles.find(&load)->second;
  const ir::TensorBoxes &source = tile.source;
  if (!source.isFirst && paired_ && tile.isMulticast()) {
    when(paired_, "copy.half", [&] { multicastBoxes(tile, source.boxes[0], slot, full); });
    when(b.CreateNot(paired_), "copy.whole", [&] { loadBoxes(tile, source.boxes[0], slot, full); });
    return;
  }
  if (!source.isFirst)
    return loadBoxes(tile, source.boxes[0], slot, full);
  Value *isFirst = scalar(source.isFirst);
  when(isFirst, "copy.first", [&] { loadBoxes(tile, source.boxes[0], slot, full); });
  when(b.CreateNot(isFirst), "copy.second", [&] { loadBoxes(tile, source.boxes[1], slot, full); });
}

bool LoadWarp::foldedComeFirst(llvm::ArrayRef<Op *> loads) {
  const ir::Block &body = *loads.front()->parentBlock();
  const auto isKnown = [&](const ir::Value *value) {
    return !value || !value->definingOp() || value->definingOp()->parentBlock() != &body;
  };
  const auto isOf = [&](const ir::TensorBox &box) {
    return llvm::all_of(box.dims,
                        [&](const auto &dim) { return llvm::all_of(dim.firsts, isKnown); });
  };
  return llvm::none_of(body.ops(), [](const Op &op) { return op.is(OpKind::Wait); }) &&
         llvm::all_of(loads, [&](const Op *load) {
           if (!isBox(*load))
             return true;
           const ir::TensorBoxes &source = ring_.tiles.find(load)->second.source;
           return isKnown(source.isFirst) && llvm::all_of(source.boxes, isOf);
         });
}

void LoadWarp::loadIfFolded(const Op &load) {
  if (Value *isFolded = ring_.paths.lookup(&load).isFolded)
    whenRarely(isFolded, "copy.folded", [&] { loadFolded(ring_.tiles.find(&load)->second); });
}

void LoadWarp::loadFolded(const StagedTile &tile) {
  const ir::FoldedTile folded = tile.folded();
  const FoldedPlace place = foldedPlace(tile);
  const auto count = [&](int64_t x) { return b.getInt32(uint32_t(x)); };
  const int64_t parts = tile.rows / folded.unitRows;
  const int64_t columns = folded.unitBoxes * tile.swizzle / int64_t(dtypeBytes(tile.dtype));
  const unsigned shift = llvm::Log2_64(uint64_t(folded.fold));
  loop(b.getInt64(uint64_t(folded.units)), "units", [&](Value *number) {
    number = b.CreateTrunc(number, b.getInt32Ty());
    Value *full = unit_.barrier(ring_.unitFull, unit_.slot());
    waitOrLeave(unit_.barrier(ring_.unitEmpty, unit_.slot()), unit_.phase());
    Value *failed = hasFailed();
    const auto copy = [&] {
      Value *begin = b.CreateMul(b.CreateUDiv(number, count(parts)), count(columns));
      begin = b.CreateAdd(begin, place.column);
      Value *firstRow = b.CreateMul(b.CreateURem(number, count(parts)), count(folded.unitRows));
      firstRow = b.CreateAdd(place.row, b.CreateZExt(firstRow, b.getInt64Ty()));
      for (int64_t i = 0; i < folded.fold; ++i) {
        Value *row = b.CreateAdd(firstRow, b.getInt64(uint64_t(i)));
        Value *inFold = b.CreateAnd(b.CreateTrunc(row, b.getInt32Ty()), count(folded.fold - 1));
        Value *isRest = b.CreateICmpULT(inFold, place.rest);
        Value *map = b.CreateSelect(isRest, place.lastMap, place.firstMap);
        Value *column = b.CreateAdd(begin, b.CreateMul(inFold, place.pitch));
        column = b.CreateAnd(column, count(-folded.fold));
        Value *foldedRow = b.CreateTrunc(b.CreateAShr(row, shift), b.getInt32Ty());
        Value *to = b.CreateAdd(unitAddress(), count(i * folded.copyBytes));
        bulk_.loadBox(b, to, map, {column, foldedRow}, full);
      }
    };
    when(warp_.isElected(b), "unit", [&] {
      bulk_.arriveExpecting(b, full, b.CreateSelect(failed, count(0), count(folded.loadedBytes())));
      when(b.CreateNot(failed), "unit.copies", copy);
    });
    unit_.next();
  });
}

void LoadWarp::loadScalars(Op &load, Value *slot) {
  const View from = view(load.operand(0));
  const ir::Type type = load.result()->type();
  if (!type.isTile() || type.rank() != 1 || type.elements() % wordElements(load) != 0)
    return loadScalarElements(load, from, slot);
  const ViewDimension &dim = from.dims[0];
  const auto within = [&](Value *value, int64_t most) {
    value = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, value, b.getInt64(most));
    return b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, value, b.getInt64(0));
  };
  // How many exist; the address and they are whole words.
  Value *count = within(dim.high, type.elements());
  Value *rest = b.CreateAnd(b.CreateOr(b.CreatePtrToInt(from.data, b.getInt64Ty()),
                                       b.CreateMul(count, b.getInt64(fetchedBytes(load)))),
                            b.getInt64(ir::kSharedWordBytes - 1));
  Value *isInWords = b.CreateAnd(b.CreateAnd(b.CreateICmpEQ(dim.stride, b.getInt64(1)),
                                             b.CreateICmpSLE(dim.low, b.getInt64(0))),
                                 b.CreateICmpEQ(rest, b.getInt64(0)));
  when(isInWords, "words",
       [&] { loadScalarWords(load, from.data, b.CreateTrunc(count, b.getInt32Ty()), slot); });
  whenRarely(b.CreateNot(isInWords), "elements", [&] { loadScalarElements(load, from, slot); });
}

/// The warp that copies has little time: a word where neighbours are one. `count` (i32) elements
/// exist, the others are zeros.
void LoadWarp::loadScalarWords(Op &load, Value *from, Value *count, Value *slot) {
  Value *lane = b.CreateAnd(kernel_.thread, b.getInt32(WarpOps::kWarpThreads - 1));
  const auto words = uint32_t(load.result()->type().elements() / wordElements(load));
  for (uint32_t first = 0; first < words; first += WarpOps::kWarpThreads) {
    Value *number = b.CreateAdd(lane, b.getInt32(first));
    Value *exists =
        b.CreateICmpULT(b.CreateMul(number, b.getInt32(uint32_t(wordElements(load)))), count);
    Value *offset = b.CreateMul(number, b.getInt32(ir::kSharedWordBytes));
    Value *there =
        b.CreateGEP(b.getInt8Ty(), b.CreateAddrSpaceCast(from, b.getPtrTy(Device::kGlobal)),
                    b.CreateZExt(offset, b.getInt64Ty()));
    Value *to =
        b.CreateGEP(b.getInt8Ty(), shared(address(slot, ring_.fetched.lookup(&load))), offset);
    const auto copy = [&] {
      gpu_.device.asyncCopies()->copy(
          b, to, there, ir::kSharedWordBytes,
          b.CreateSelect(exists, b.getInt32(ir::kSharedWordBytes), b.getInt32(0)));
    };
    if (first + WarpOps::kWarpThreads <= words)
      copy();
    else
      when(b.CreateICmpULT(number, b.getInt32(words)), "word", copy);
  }
}

void LoadWarp::loadScalarElements(Op &load, const View &from, Value *slot) {
  const auto bytes = unsigned(fetchedBytes(load));
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
    Value *offset = b.CreateAdd(b.getInt32(uint32_t(ring_.fetched.lookup(&load))),
                                b.CreateMul(number, b.getInt32(uint32_t(bytes))));
    Value *to = b.CreateGEP(b.getInt8Ty(), shared(address(slot, 0)), offset);
    when(exists, "word", [&] {
      if (bytes == ir::kLeastAsyncBytes)
        return gpu_.device.asyncCopies()->copy(
            b, to, there, bytes, b.CreateSelect(isThere, b.getInt32(bytes), b.getInt32(0)));
      b.CreateStore(b.CreateLoad(b.getIntNTy(8 * bytes), there), to);
    });
  }
  // Those who wait see what was stored, too, and not only what was copied.
  if (bytes < ir::kLeastAsyncBytes)
    b.CreateFence(llvm::AtomicOrdering::AcquireRelease,
                  context().getOrInsertSyncScopeID(gpu_.device.rankScope()));
}

} // namespace dtile::backend::gpu
