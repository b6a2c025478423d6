// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loops whose loads are copied ahead. Shared memory has a ring of slots, each with the tiles of one
// iteration; all threads of the program copy, and all read:
//
//   await the thread's copies of this iteration · all threads meet · start the copies of the
//   iteration `slots` - 1 further, to the slot of the iteration before · the loop's body
//
// That one meeting says both that the slot to read is full and that the slot to fill is free. What
// the body does with a tile does not wait for memory; operands of products are read where they lie.
//
// Numbers that say where tiles are (pages) come by copies of their own, `slots` - 1 iterations
// before the tiles' copies are started: with the tiles that are started then, so that they have
// arrived together with these. Where one of them cannot come so (canPrefetchIndices), all are
// loaded when the tiles' copies are started. So do the numbers of rows that are picked (gathers),
// an element for each row: the threads that copy a row compute where it is from what has come.
//
// Copies are of 16 bytes where rows begin at multiples of that, else of the fewest that there are,
// or by loads and stores, asked at run time: what stands in shared memory is the same. What a view
// does not have is zeros. Where it is known before the loop that all rows do (isAligned), the body
// has no branches for it, and copies stand between the instructions of its first product, which
// leave most of a program's issue slots free. If that product is all that reads the slots, its last
// step stands after the meeting for the next iteration, with the loads of that one's first step
// before it: matrix units do not wait for a meeting.
#include "backend/gpu/bodies/multistage_loop.h"

#include "frontend/base/check.h"
#include "ir/analysis/row_gathers.h"
#include "ir/analysis/shared_memory_plan.h"
#include "ir/core/view_dims.h"

#include "llvm/Support/MathExtras.h"

namespace dtile::backend::gpu {

using ir::Op;
using ir::OpKind;
using llvm::Value;

namespace {

/// Whether all that is made of a tile are operands of one product.
bool isOnlyFor(const Op &dot, const ir::Value *tile) {
  return llvm::all_of(tile->uses(), [&](const ir::Use &use) {
    if (use.user == &dot)
      return use.index < 2;
    return (use.user->is(OpKind::Convert) || use.user->is(OpKind::Trans)) &&
           isOnlyFor(dot, use.user->result());
  });
}

/// What a slice asks for as ranges, or the begins and ends of windows.
llvm::SmallVector<const ir::Value *, 4> rangesOf(const Op &slice) {
  llvm::SmallVector<const ir::Value *, 4> ranges;
  for (const ir::ViewDim &dim : ir::viewDims(slice))
    if (dim.isRange())
      ranges.append({slice.operand(dim.operand), slice.operand(dim.operand + 1)});
  return ranges;
}

} // namespace

bool isAsyncLoad(const Op &op) { return comesVia(op, ir::LoadPath::Threads); }

MultistageLoop::MultistageLoop(BodyLowering &body, Op &loop)
    : body_(body), b(body.builder()), loop_(loop), copies_(*body.gpu().device.asyncCopies()),
      slots_(loop.get(ir::attr::async_stages)) {
  DTILE_CHECK(slots_ >= 2, "a slot to read and one to fill");
  ir::MultistageSlot slot;
  int64_t overhang = 0;
  for (Op &op : loop.body().ops()) {
    if (!isAsyncLoad(op))
      continue;
    loads_.push_back(&op);
    const SharedTile place = placeOf(op);
    places_[&op] = place;
    offsets_[&op] = slot.addTile(op.result()->type(), op.get(ir::attr::swizzle));
    overhang = std::max(overhang, overhangOf(op.result(), place));
  }
  llvm::copy_if(chain(), std::back_inserter(lookups_),
                [](const Op *op) { return ir::isLookup(*op); });
  prefetchesIndices_ = canPrefetchIndices();
  numbersOffset_ = slot.addNumbers(prefetchesIndices_ ? lookups_.size() : 0);
  for (Op *load : loads_) {
    if (!load->is(OpKind::Gather))
      continue;
    const auto lookups = ir::tileLookups(*load);
    DTILE_CHECK(lookups, "rows of copied gathers are found by look-ups");
    for (Op *lookup : *lookups)
      if (!tileLookups_.contains(lookup))
        tileLookups_[lookup] = slot.addLookup(lookup->result()->type());
  }
  slotBytes_ = slot.bytes();
  const auto product = llvm::find_if(
      loop.body().ops(), [](Op &op) { return op.is(OpKind::Dot) && op.has(ir::attr::matrix); });
  if (product != loop.body().ops().end())
    spreadOver_ = &*product;
  ring_ = body.gpu().shared(b, slots_ * slotBytes_ + overhang, ir::kScratchAlignBytes);
}

/// How a load's tile lies in a slot.
SharedTile MultistageLoop::placeOf(const Op &load) const {
  const ir::Type type = load.result()->type();
  SharedTile place;
  place.dtype = type.dtype();
  place.fastest = 1;
  const int64_t element = dtypeBytes(type.dtype());
  int64_t row = type.shape()[1] * element;
  DTILE_CHECK(row % ir::kSharedWordBytes == 0, "rows of whole words");
  if (const int64_t period = load.get(ir::attr::swizzle); period != 0) {
    // Eight rows that are read at once have their words in different banks: rows of fewer banks
    // than all count together.
    DTILE_CHECK(llvm::isPowerOf2_64(uint64_t(row)) && llvm::isPowerOf2_64(uint64_t(period)) &&
                    period <= std::min(row, ir::kBankLineBytes),
                "words of a row that change places");
    place.swizzleBits = llvm::Log2_64(uint64_t(period / ir::kSharedWordBytes));
    place.swizzleShift = llvm::Log2_64(uint64_t(std::max(row, ir::kBankLineBytes)));
  }
  row = ir::slotRowBytes(row, load.get(ir::attr::swizzle));
  place.strides = {row, element};
  place.bytes = row * type.shape()[0];
  return place;
}

/// Bytes after a tile that threads may read which have nothing of it: layouts cover more.
int64_t MultistageLoop::overhangOf(const ir::Value *tile, const SharedTile &place) const {
  const TileInfo &info = body_.info(tile->type());
  int64_t last = dtypeBytes(place.dtype);
  for (unsigned d : {0u, 1u})
    last += (info.extent(d) - 1) * place.strides[d];
  int64_t most = std::max<int64_t>(0, last - place.bytes);
  for (const ir::Use &use : tile->uses()) {
    if (use.user->is(OpKind::Dot) && use.index < 2) {
      const int64_t past = body_.linesRead(*use.user, use.index) - tile->type().shape()[use.index];
      most = std::max(most, past * place.strides[use.index]);
    } else if (use.user->is(OpKind::Convert))
      most = std::max(most, overhangOf(use.user->result(), place));
    else if (use.user->is(OpKind::Trans))
      most = std::max(
          most, overhangOf(use.user->result(), place.permuted(use.user->get(ir::attr::perm))));
  }
  return most;
}

SharedTile MultistageLoop::placeIn(Value *slot, const Op &load) const {
  SharedTile tile = places_.lookup(&load);
  tile.base = b.CreateConstInBoundsGEP1_32(b.getInt8Ty(), b.CreateGEP(b.getInt8Ty(), ring_, slot),
                                           unsigned(offsets_.lookup(&load)));
  return tile;
}

SharedTile MultistageLoop::tile(const Op &load) const {
  DTILE_CHECK(slot_, "a tile of an iteration");
  return placeIn(slot_, load);
}

// Iterations.

void MultistageLoop::enter() {
  // Others may still read what was there.
  if (std::exchange(body_.sharedInUse_, false))
    body_.programBarrier();
  for (Op *load : loads_)
    body_.beforeRead(load->operand(0));
}

Value *MultistageLoop::slotBehind(Value *slot) {
  Value *isLast = b.CreateICmpEQ(slot, b.getInt32(uint32_t((slots_ - 1) * slotBytes_)));
  Value *next = b.CreateAdd(slot, b.getInt32(uint32_t(slotBytes_)));
  return b.CreateSelect(isLast, b.getInt32(0), next);
}

Value *MultistageLoop::slotBefore(Value *slot) {
  Value *isFirst = b.CreateICmpEQ(slot, b.getInt32(0));
  Value *before = b.CreateSub(slot, b.getInt32(uint32_t(slotBytes_)));
  return b.CreateSelect(isFirst, b.getInt32(uint32_t((slots_ - 1) * slotBytes_)), before);
}

void MultistageLoop::begin(bool isAligned) {
  isAligned_ = isAligned;
  readsAhead_ = isAligned && canReadAhead();
  nextSlot_ = body_.stackSlot(b.getInt32Ty(), "slot");
  b.CreateStore(b.getInt32(0), nextSlot_);
  Value *first = body_.scalar(loop_.operand(0)), *step = body_.scalar(loop_.operand(2));
  body_.loop(b.getInt64(uint64_t(slots_ - 1)), "ahead", [&](Value *round) {
    Value *position = b.CreateAdd(first, b.CreateMul(round, step));
    start(position,
          b.CreateMul(b.CreateTrunc(round, b.getInt32Ty()), b.getInt32(uint32_t(slotBytes_))),
          lookUp(position), /*haveArrived=*/false);
    startAll();
  });
  if (!readsAhead_)
    return;
  copies_.await(b, unsigned(slots_ - 2));
  body_.programBarrier();
  slot_ = b.getInt32(0);
  body_.readFirstWords(*spreadOver_);
}

void MultistageLoop::beginIteration() {
  if (!readsAhead_) {
    copies_.await(b, unsigned(slots_ - 2));
    body_.programBarrier();
  }
  slot_ = b.CreateLoad(b.getInt32Ty(), nextSlot_);
  if (!readsAhead_)
    b.CreateStore(slotBehind(slot_), nextSlot_);
  ir::Value *argument = loop_.body().argument(0);
  Value *position = body_.scalar(argument);
  Value *distance = b.CreateMul(body_.scalar(loop_.operand(2)), b.getInt64(uint64_t(slots_ - 1)));
  Value *later = b.CreateAdd(position, distance), *freed = slotBefore(slot_);
  start(later, freed, prefetchesIndices_ ? arrivedNumbers(freed) : lookUp(later),
        /*haveArrived=*/true);
  if (!isAligned_ || !spreadOver_)
    startAll();
  body_.set(argument, {position});
  for (Op *load : loads_)
    body_.beforeRead(load->operand(0));
}

void MultistageLoop::end() { copies_.await(b, 0); }

void MultistageLoop::turn() {
  startAll();
  copies_.await(b, unsigned(slots_ - 2));
  body_.programBarrier();
  slot_ = slotBehind(slot_);
  b.CreateStore(slot_, nextSlot_);
}

/// Whether both operands of one product, and nothing else, come from the slots, in more than one
/// step, and registers have room for those of two.
bool MultistageLoop::canReadAhead() const {
  if (!spreadOver_ || loads_.size() != 2 || !body_.hasRoomToReadAhead(*spreadOver_))
    return false;
  return llvm::all_of(loads_, [&](const Op *load) {
    return load->result()->hasUses() && isOnlyFor(*spreadOver_, load->result());
  });
}

/// What the places of all loads follow from.
ir::PositionChain MultistageLoop::chain() const {
  ir::PositionChain chain;
  for (Op *load : loads_) {
    bool isVarying = false;
    const bool follows = load->is(OpKind::Gather)
                             ? ir::rowsFollowFromPosition(*load, chain, isVarying)
                             : ir::followsFromPosition(*load, chain, isVarying);
    DTILE_CHECK(follows, "copied loads are of places that follow from the position");
  }
  return chain;
}

/// Whether the addresses of all loads are linear in the position and in the numbers that are looked
/// up: then what holds of two neighbours of each holds of all. Where ranges and windows begin and
/// end must not follow from numbers. Which rows are picked does not matter: all are as far apart.
bool MultistageLoop::isAffine() const {
  const ir::PositionChain ops = chain();
  // How numbers are found does not matter.
  llvm::SmallPtrSet<const Op *, 8> needed(loads_.begin(), loads_.end());
  for (const Op *op : llvm::reverse(ops))
    if (needed.contains(op) && !ir::isLookup(*op))
      for (const ir::Value *operand : op->operands().take_front(isAsyncLoad(*op) ? 1 : ~0u))
        needed.insert(operand->definingOp());
  llvm::SmallPtrSet<const Op *, 8> lookedUp;
  const auto isLookedUp = [&](const ir::Value *value) {
    return lookedUp.contains(value->definingOp());
  };
  return llvm::all_of(ops, [&](const Op *op) {
    if (!needed.contains(op))
      return true;
    const auto varies = [&](const ir::Value *operand) {
      return operand == loop_.body().argument(0) || llvm::is_contained(ops, operand->definingOp());
    };
    if (ir::isLookup(*op) || llvm::any_of(op->operands(), isLookedUp))
      lookedUp.insert(op);
    switch (op->kind()) {
    case OpKind::Cast:
      return isLookedUp(op->operand(0)) && op->result()->type().isIndex();
    case OpKind::Mul:
      return !varies(op->operand(0)) || !varies(op->operand(1));
    case OpKind::ViewSelect:
      return !varies(op->operand(0));
    case OpKind::ViewTile:
    case OpKind::ViewSlice:
      return llvm::none_of(rangesOf(*op), isLookedUp);
    case OpKind::Const:
    case OpKind::Add:
    case OpKind::Sub:
    case OpKind::Load:
    case OpKind::Gather:
      return true;
    default:
      return false;
    }
  });
}

MultistageLoop::Numbers MultistageLoop::lookUp(Value *position) {
  if (lookups_.empty())
    return {};
  body_.set(loop_.body().argument(0), {position});
  for (Op *op : chain())
    if (!isAsyncLoad(*op))
      body_.lowerOp(*op);
  return Numbers(llvm::map_range(lookups_, [&](Op *op) { return body_.scalar(op->result()); }));
}

/// Whether numbers can be copied, and nothing has to be looked up to know where they are.
bool MultistageLoop::canPrefetchIndices() const {
  if (!ir::MultistageSlot::holdsNumbers(lookups_.size()))
    return false;
  return llvm::all_of(lookups_, [](Op *op) {
    ir::PositionChain chain;
    bool isVarying = false;
    return dtypeBytes(op->result()->type().elementOrIndex()) >= ir::kLeastAsyncBytes &&
           ir::followsFromPosition(*op, chain, isVarying) &&
           llvm::count_if(chain, [](const Op *each) { return ir::isLookup(*each); }) == 1;
  });
}

Value *MultistageLoop::placeOfNumber(Value *slot, size_t i) {
  return b.CreateConstInBoundsGEP1_32(
      b.getInt8Ty(), b.CreateGEP(b.getInt8Ty(), ring_, slot),
      unsigned(numbersOffset_ + int64_t(i) * ir::MultistageSlot::kNumberBytes));
}

MultistageLoop::Numbers MultistageLoop::arrivedNumbers(Value *slot) {
  Numbers numbers;
  for (auto [i, op] : llvm::enumerate(lookups_))
    numbers.push_back(
        b.CreateLoad(computeType(b.getContext(), op->result()->type().elementOrIndex()),
                     placeOfNumber(slot, i)));
  return numbers;
}

Value *MultistageLoop::placeOfNumber(Value *slot, Op &lookup, Value *element) {
  Value *from = b.CreateAdd(slot, b.getInt32(uint32_t(tileLookups_.lookup(&lookup))));
  const auto bytes = uint32_t(dtypeBytes(lookup.result()->type().dtype()));
  Value *place = b.CreateAdd(from, b.CreateMul(element, b.getInt32(bytes)));
  return b.CreateInBoundsGEP(b.getInt8Ty(), ring_, place);
}

void MultistageLoop::prefetchIndices(Value *position, Value *slot) {
  body_.set(loop_.body().argument(0), {position});
  if (!tileLookups_.empty()) {
    for (Op *op : chain())
      if (!isAsyncLoad(*op))
        body_.lowerOp(*op);
    prefetchTileIndices(slot);
  }
  if (!prefetchesIndices_ || lookups_.empty())
    return;
  ir::PositionChain places;
  bool isVarying = false;
  for (Op *op : lookups_)
    (void)ir::followsFromPosition(*op, places, isVarying);
  for (Op *op : places)
    if (!ir::isLookup(*op))
      body_.lowerOp(*op);
  body_.when(b.CreateICmpEQ(body_.thread(), b.getInt32(0)), "numbers", [&] {
    for (auto [i, op] : llvm::enumerate(lookups_)) {
      Value *place = body_.located(op->operand(0)).data;
      Value *exists = b.CreateIsNotNull(place);
      Value *global = b.CreateAddrSpaceCast(place, b.getPtrTy(Device::kGlobal));
      const unsigned bytes = dtypeBytes(op->result()->type().elementOrIndex());
      copies_.copy(b, placeOfNumber(slot, i), b.CreateSelect(exists, global, zeroBytes(b)), bytes,
                   b.CreateSelect(exists, b.getInt32(bytes), b.getInt32(0)));
    }
  });
}

/// What else they follow from has been lowered for their position.
void MultistageLoop::prefetchTileIndices(Value *slot) {
  for (const auto &[op, offset] : tileLookups_) {
    const ir::Type type = op->result()->type();
    const unsigned bytes = dtypeBytes(type.dtype());
    eachOfThread(type.elements(), [&](Value *element) {
      BodyLowering::Elements known;
      const auto [place, exists] =
          body_.placeOfElement(*op, b.CreateZExt(element, b.getInt64Ty()), known);
      copies_.copy(b, placeOfNumber(slot, *op, element),
                   b.CreateSelect(exists, place, zeroBytes(b)), bytes,
                   b.CreateSelect(exists, b.getInt32(bytes), b.getInt32(0)));
    });
  }
}

MultistageLoop::Numbers MultistageLoop::unitNumbers(std::optional<size_t> one) const {
  Numbers numbers;
  for (auto [i, op] : llvm::enumerate(lookups_))
    numbers.push_back(llvm::ConstantInt::get(
        computeType(b.getContext(), op->result()->type().elementOrIndex()), one == i ? 1 : 0));
  return numbers;
}

std::vector<MultistageLoop::Source> MultistageLoop::sources(Value *position, const Numbers &numbers,
                                                            Value *arrived) {
  body_.set(loop_.body().argument(0), {position});
  size_t next = 0;
  for (Op *op : chain()) {
    if (ir::isLookup(*op))
      body_.set(op->result(), {numbers[next++]});
    else if (!isAsyncLoad(*op))
      body_.lowerOp(*op);
  }
  std::vector<Source> result;
  for (Op *load : loads_) {
    result.push_back(source(*load));
    if (load->is(OpKind::Gather)) {
      // As they were before they were rearranged for the load.
      ir::Value *rows = load->operand(1);
      while (rows->definingOp()->is(OpKind::Convert))
        rows = rows->definingOp()->operand(0);
      result.back().rows = rows;
      result.back().numbers = arrived;
    }
  }
  return result;
}

Value *MultistageLoop::isAligned() {
  if (!isAffine())
    return nullptr;
  Value *first = body_.scalar(loop_.operand(0)), *end = body_.scalar(loop_.operand(1));
  Value *second = b.CreateAdd(first, body_.scalar(loop_.operand(2)));
  Value *all = b.getTrue();
  const auto require = [&](Value *condition) { all = b.CreateAnd(all, condition); };
  // Of a window that begins inside at both ends, no element is before the view's first.
  const auto beginsInside = [&](const Source &from) {
    return b.CreateICmpSLE(from.view.dims[1].low, b.getInt64(0));
  };
  for (Value *position : {first, second})
    for (const Source &from : sources(position, unitNumbers(std::nullopt))) {
      require(isAligned(from, ir::kSharedWordBytes));
      require(beginsInside(from));
    }
  for (size_t i = 0; i < lookups_.size(); ++i)
    for (const Source &from : sources(first, unitNumbers(i)))
      require(isAligned(from, ir::kSharedWordBytes));
  for (const Source &from : sources(end, unitNumbers(std::nullopt)))
    require(beginsInside(from));
  return all;
}

void MultistageLoop::start(Value *position, Value *slot, const Numbers &numbers, bool haveArrived) {
  pieces_.clear();
  started_ = 0;
  isGroup_ = false;
  if ((prefetchesIndices_ && !lookups_.empty()) || !tileLookups_.empty())
    prefetchIndices(b.CreateAdd(position, b.CreateMul(body_.scalar(loop_.operand(2)),
                                                      b.getInt64(uint64_t(slots_ - 1)))),
                    slotBefore(slot));
  Value *arrived = haveArrived ? slot : nullptr;
  if (isAligned_)
    return prepare(position, slot, numbers, arrived);
  body_.when(b.CreateICmpSLT(position, body_.scalar(loop_.operand(1))), "copies", [&] {
    for (auto [load, from] : llvm::zip_equal(loads_, sources(position, numbers, arrived)))
      copy(*load, from, placeIn(slot, *load));
  });
}

void MultistageLoop::prepare(Value *position, Value *slot, const Numbers &numbers, Value *arrived) {
  Value *isThere = b.CreateICmpSLT(position, body_.scalar(loop_.operand(1)));
  // Numbers that are found for one load are there for others, too.
  std::map<std::tuple<const ir::Value *, int64_t, unsigned>, Value *> found;
  for (auto [load, from] : llvm::zip_equal(loads_, sources(position, numbers, arrived))) {
    from.low[1] = b.getInt32(0);
    from.span[1] = b.CreateSelect(isThere, from.span[1], b.getInt32(0));
    const SharedTile to = placeIn(slot, *load);
    const llvm::ArrayRef<int64_t> shape = load->result()->type().shape();
    const int64_t bytes = shape[1] * int64_t(dtypeBytes(from.dtype));
    for (unsigned number = 0; number < wordsOf(*load); ++number) {
      Value *picked = nullptr;
      if (from.rows) {
        Value *&known = found[{from.rows, bytes, number}];
        if (!known)
          known = numberOfWord(from, shape, number);
        picked = known;
      }
      pieces_.push_back(
          [this, from, to, shape, number, picked] { copyWord(from, to, shape, number, picked); });
    }
  }
}

void MultistageLoop::startUpTo(size_t number) {
  while (started_ < std::min(number, pieces_.size()))
    pieces_[started_++]();
}

void MultistageLoop::startAll() {
  startUpTo(pieces_.size());
  if (!std::exchange(isGroup_, true))
    copies_.commit(b);
}

void MultistageLoop::duringProduct(unsigned done, unsigned all) {
  if (done >= all)
    return startAll();
  startUpTo(llvm::divideCeil(pieces_.size() * done, all));
}

// In a body.

void BodyLowering::lowerOp(Op &op) {
  gpu_.lowersOp(op);
  if (lowerNotifyingLoop(op))
    return;
  if (op.is(OpKind::For) && op.has(ir::attr::async_stages) && gpu_.device.asyncCopies())
    return lowerMultistageLoop(op);
  // Threads that copy rows find their numbers by themselves.
  const bool isLine =
      op.numResults() == 1 && op.result()->type().isTile() && op.result()->type().rank() == 1;
  if (isLine && gpu_.device.asyncCopies() && ir::isForRows(op, ir::LoadPath::Threads))
    return;
  KernelFunction::lowerOp(op);
}

/// The loop twice where most tensors are aligned: for those, and for all.
void BodyLowering::lowerMultistageLoop(Op &op) {
  const int64_t mark = gpu_.sharedMark();
  MultistageLoop loop(*this, op);
  multistageLoops_[&op] = &loop;
  loop.enter();
  Value *const thread = thread_;
  const auto lower = [&](bool isAligned) {
    // Addresses that only this way needs are not for all bodies to keep in registers.
    thread_ = gpu_.device.opaque(b, thread);
    loop.begin(isAligned);
    KernelFunction::lowerOp(op);
    loop.end();
    thread_ = thread;
  };
  if (Value *isAligned = loop.isAligned()) {
    llvm::BasicBlock *ways[] = {block("straight"), block("crooked")};
    llvm::BasicBlock *end = block("copied.end"), *exits[2] = {};
    llvm::SmallVector<Parts, 4> results[2];
    b.CreateCondBr(isAligned, ways[0], ways[1]);
    const Pending before = pending_;
    for (unsigned way : {0u, 1u}) {
      b.SetInsertPoint(ways[way]);
      pending_ = before;
      lower(way == 0);
      for (ir::Value *result : op.results())
        results[way].emplace_back(parts(result));
      exits[way] = b.GetInsertBlock();
      b.CreateBr(end);
    }
    b.SetInsertPoint(end);
    for (auto [i, result] : llvm::enumerate(op.results())) {
      Parts merged;
      for (auto [x, y] : llvm::zip_equal(results[0][i], results[1][i])) {
        llvm::PHINode *phi = b.CreatePHI(x->getType(), 2);
        phi->addIncoming(x, exits[0]);
        phi->addIncoming(y, exits[1]);
        merged.push_back(phi);
      }
      set(result, std::move(merged));
    }
  } else {
    lower(false);
  }
  multistageLoops_.erase(&op);
  gpu_.releaseShared(mark);
  sharedRead();
  // Neither are those of what follows, all through the loop.
  if (op.parentOp()->is(OpKind::Space))
    thread_ = gpu_.device.opaque(b, thread);
}

MultistageLoop *BodyLowering::copiesDuring(const Op &dot) {
  auto it = multistageLoops_.find(dot.parentOp());
  return it != multistageLoops_.end() && it->second->spreadsOver(dot) ? it->second : nullptr;
}

std::optional<SharedTile> BodyLowering::asyncTile(const Op &load) {
  if (!isAsyncLoad(load))
    return std::nullopt;
  auto it = multistageLoops_.find(load.parentOp());
  if (it == multistageLoops_.end())
    return std::nullopt;
  return it->second->tile(load);
}

std::optional<SharedTile> BodyLowering::asyncOperand(const ir::Value *tile) {
  llvm::SmallVector<const Op *, 2> path;
  const Op *op = tile->definingOp();
  for (; op && (op->is(OpKind::Convert) || op->is(OpKind::Trans));
       op = op->operand(0)->definingOp())
    path.push_back(op);
  if (!op)
    return std::nullopt;
  std::optional<SharedTile> found = asyncTile(*op);
  for (const Op *way : llvm::reverse(path))
    if (found && way->is(OpKind::Trans))
      found = found->permuted(way->get(ir::attr::perm));
  return found;
}

bool BodyLowering::isReadByProducts(const ir::Value *tile) {
  return llvm::all_of(tile->uses(), [&](const ir::Use &use) {
    if (use.user->is(OpKind::Dot))
      return use.index < 2 && readsShared(*use.user, *asyncOperand(tile));
    return (use.user->is(OpKind::Convert) || use.user->is(OpKind::Trans)) &&
           isReadByProducts(use.user->result());
  });
}

} // namespace dtile::backend::gpu
