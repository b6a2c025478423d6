// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The consumer warpgroups: they multiply what the ring's slots hold.
#include "backend/gpu/staged/mma_warpgroups.h"
#include "backend/gpu/cluster_ops.h"
#include "backend/gpu/space_facts.h"
#include "ir/core/op_classes.h"

#include "backend/llvm/sink.h"
#include "frontend/base/check.h"
#include "ir/analysis/communication.h"
#include "ir/analysis/row_gathers.h"

#include <utility>

namespace dtile::backend::gpu {

using ir::Op;
using ir::OpKind;
using llvm::Value;

namespace {

bool areZeros(llvm::ArrayRef<Value *> values) {
  return llvm::all_of(values, [](const Value *value) {
    const auto *constant = llvm::dyn_cast<llvm::Constant>(value);
    return constant && constant->isNullValue();
  });
}

/// Whether a tile is wanted in this layout by products alone, which read it from shared memory.
bool isOnlyKept(const Op &convert) {
  return llvm::all_of(convert.result()->uses(), [](const ir::Use &use) {
    return use.index == 0 && use.user->has(ir::attr::resident);
  });
}

bool isOfGroups(const Op &op) { return op.is(OpKind::Dot) && op.has(ir::attr::warpgroups); }

/// The products of an iteration.
llvm::SmallVector<const Op *, 2> productsIn(const ir::Block &body) {
  llvm::SmallVector<const Op *, 2> products;
  for (const Op &op : body.ops())
    if (isOfGroups(op))
      products.push_back(&op);
  return products;
}

bool isAwaitedProduct(const Op &op) { return isOfGroups(op) && op.get(ir::attr::awaited); }

} // namespace

void MmaWarpgroups::lowerBodies(Op &space, const BodyRange &range) {
  group_ = b.CreateLShr(warp_.uniform(b, kernel_.thread),
                        llvm::Log2_32(unsigned(gpu_.device.facts().groupThreads)), "group");
  place_.begin(0);
  body_.begin(0);
  number_.begin(0);
  // The first group's first part finds nothing in its way: the phase before counts as over.
  if (ring_.output && ring_.output->isInTurns)
    output_.beginAt(b.CreateZExt(b.CreateIsNull(group_), b.getInt32Ty()));
  else
    output_.begin(1);
  prefetched_.begin(0);
  bool areDeferred = true;
  ir::walk(space.body(), [&](Op &op) {
    if (op.hasEffect(ir::Write | ir::RemoteWrite | ir::Signal))
      areDeferred &= isOfEpilogue(op);
  });
  const bool goesOn = !areDeferred && mayShareLoops(space) && ir::canGoOnAfterFailures(space);
  ignoresFailures_ = areDeferred || goesOn;
  failed_ = nullptr;
  if (goesOn) {
    llvm::IRBuilder<> start(kernel_.entry, kernel_.entry->begin());
    failed_ = start.CreateAlloca(b.getInt1Ty(), nullptr, "dot.failed");
    start.CreateStore(b.getFalse(), failed_);
  }
  setParts(range);
  if (paired_) {
    const ClusterOps &clusters = *gpu_.device.clusterOps();
    otherEmpty_ = clusters.address(b, ring_.empty, b.CreateXor(half_, b.getInt32(1)));
  }
  beginTrace(space);
  forEachItem(space, range, [&] {
    traced(space, [&] {
      bodyEnd_ = range.parts || range.divided ? block("body.end") : nullptr;
      lower(space);
      if (!bodyEnd_)
        return;
      b.CreateBr(bodyEnd_);
      b.SetInsertPoint(bodyEnd_);
    });
  });
  whenInCluster([&] { waitPhase(ring_.reusable, lastExchange()); });
  // What is in shared memory has other uses afterwards.
  if (ring_.output)
    waitPhase(ring_.output->ended, b.getInt32(0));
}

bool MmaWarpgroups::isLeftOut(Op &op) const {
  if (!failed_ || isOfEpilogue(op))
    return false;
  if (op.numRegions() == 0)
    return ir::canBeLeftOut(op);
  // A loop that sends has one thread a notify.
  bool acts = false, isAlone = op.is(OpKind::For) && !op.has(ir::attr::stages);
  for (const ir::Value *result : op.results())
    isAlone &= result->type().isToken();
  ir::walk(op, [&](Op &inner) {
    acts |= ir::canBeLeftOut(inner);
    isAlone &= !inner.is(OpKind::Wait) && !isOfEpilogue(inner);
  });
  return isAlone && acts;
}

void MmaWarpgroups::lowerOp(Op &op) {
  if (isLeftOut(op))
    return when(b.CreateNot(b.CreateLoad(b.getInt1Ty(), failed_)), "acts",
                [&] { WarpRole::lowerOp(op); });
  if (isReadLoad(op))
    return readTile(op);
  if (isStagedLoad(op) || isForHelpers(op) || ir::isForRows(op, ir::LoadPath::Rows))
    return;
  if (isScalarLoad(op))
    return readScalars(op);
  if (isPassedNumber(op)) {
    waitPhase(number_.barrier(ring_.numbersFull, number_.slot()), number_.phase());
    return takeNumber(op);
  }
  awaitOperands(op);
  if (isOfGroups(op))
    return multiply(op);
  if (op.is(OpKind::Yield) && llvm::any_of(op.parentBlock()->ops(), isAwaitedProduct))
    return endIteration();
  if (isOfEpilogue(op) || ir::isLoopOfEpilogue(op)) {
    if (Op *store = ir::tileStoreOfEpilogue(op))
      stageOutput(*store);
    return;
  }
  if (op.is(OpKind::Wait) && ignoresFailures_)
    return awaitCells(op);
  // What is inside of it may be emitted where this op is not.
  if (op.numRegions() > 0)
    releasePrefetched();
  if (isEpilogueLoad(op) && ring_.output)
    readPrefetched(op);
  else if (op.is(OpKind::For) && op.has(ir::attr::stages))
    lowerLoop(op);
  else
    BodyLowering::lowerOp(op);
  if (&op == prefetchedUntil_)
    releasePrefetched();
  for (ir::Value *result : op.results())
    storeResident(result);
}

void MmaWarpgroups::storeResident(ir::Value *tile) {
  const auto kept = ring_.kept.find(tile);
  if (kept == ring_.kept.end())
    return;
  // Products of the body before may still read what was there, in other warps.
  sync();
  writeShared(kept->second.shared, info(tile->type()), registers(tile));
  bulk_.sharedProxyFence(b);
  sync();
}

void MmaWarpgroups::lowerLoop(Op &loop) {
  llvm::SmallVector<std::pair<ir::Value *, Registers>, 2> constants;
  const llvm::SmallPtrSet<ir::Value *, 2> around = zeros_;
  for (ir::Value *begin : loop.operands().drop_front(3)) {
    if (!begin->type().isTile())
      continue;
    Registers values(registers(begin));
    if (!areZeros(values))
      continue;
    constants.emplace_back(begin, values);
    mma_.writeZeros(b, values);
    setRegisters(begin, values);
    zeros_.insert(begin);
  }
  BodyLowering::lowerOp(loop);
  // Who else uses them may stand where this loop does not lead.
  for (auto &[begin, values] : constants)
    setRegisters(begin, values);
  zeros_ = around;
  finish(loop);
  if (parts_ && loop.get(ir::attr::split_sums))
    addParts(loop);
  if (item_ && loop.get(ir::attr::split_rounds))
    addPartial(loop);
}

void MmaWarpgroups::awaitCells(Op &op) {
  Value *began = traceBegin();
  pollForAll(op);
  traceWait(op, began);
}

/// What the threads have polled is there for all when they have met. They go on where it never
/// came: the warp that stores learns of it, and so do they where they store or tell anything.
void MmaWarpgroups::pollForAll(Op &op) {
  const auto poll = [&] {
    Value *late = pollCells(op);
    whenRarely(b.CreateIsNotNull(late), "wait.failed",
               [&] { b.CreateStore(b.getInt32(1), shared(ring_.failed)); });
    return late;
  };
  if (!failed_) {
    poll();
    return sync();
  }
  Value *late = stackSlot(b.getInt32Ty(), "late");
  b.CreateStore(b.getInt32(0), late);
  // A check may have failed that the cells are there.
  when(b.CreateNot(b.CreateLoad(b.getInt1Ty(), failed_)), "poll",
       [&] { b.CreateStore(poll(), late); });
  Value *isLate = b.CreateIsNotNull(meet(b.CreateLoad(b.getInt32Ty(), late)));
  b.CreateStore(b.CreateOr(b.CreateLoad(b.getInt1Ty(), failed_), isLate), failed_);
}

void MmaWarpgroups::fail(int32_t site, llvm::ArrayRef<Value *> arguments) {
  if (!failed_)
    return WarpRole::fail(site, arguments);
  // All threads check the same numbers.
  whenRarely(b.CreateIsNull(kernel_.thread), "report", [&] { report(site, arguments); });
  b.CreateStore(b.getInt32(1), shared(ring_.failed));
  b.CreateStore(b.getTrue(), failed_);
}

Value *MmaWarpgroups::nextBody(const BodyRange &) {
  waitPhase(body_.barrier(ring_.bodiesFull, body_.slot()), body_.phase());
  return readBodyNumber();
}

Value *MmaWarpgroups::previousSlot() {
  Value *slot = place_.slot();
  Value *after = b.CreateSelect(b.CreateIsNull(slot), ring_.length, slot);
  return b.CreateSub(after, b.getInt32(1));
}

void MmaWarpgroups::awaitOutputRead() {
  const OutputTile &output = *ring_.output;
  Value *before = b.getInt32(0);
  if (output.isInTurns)
    before = b.CreateSelect(b.CreateIsNull(group_), b.getInt32(uint32_t(output.parts - 1)),
                            b.CreateSub(group_, b.getInt32(1)));
  waitPhase(output_.barrier(output.drained, before), output_.phase());
  output_.next();
}

void MmaWarpgroups::stageOutput(Op &store) {
  const OutputTile &output = *ring_.output;
  if (!ring_.lastLoop)
    awaitOutputRead();
  // Other threads may still be reading what was brought there.
  if (!output.brought.empty())
    sync();
  const llvm::ArrayRef<Value *> elements = registers(store.operand(0));
  const TileInfo &tile = info(store.operand(0)->type());
  if (output.parts == 1)
    return writeOutput(b.getInt32(0), tile, elements);
  if (output.isInTurns)
    return writeOutput(group_, tile, elements);
  for (int64_t part = 0; part < output.parts; ++part) {
    if (part > 0)
      awaitOutputRead();
    const int64_t first = part * output.partRows;
    llvm::SmallVector<unsigned, 64> slots;
    const TileInfo rows = tile.ofRows(first, first + output.partRows, slots);
    Registers own;
    for (const unsigned slot : slots)
      own.push_back(elements[slot]);
    writeOutput(b.getInt32(uint32_t(part)), rows, own);
  }
}

/// Writes a part of the output tile, its number an i32, and says so.
void MmaWarpgroups::writeOutput(Value *part, const TileInfo &rows,
                                llvm::ArrayRef<Value *> elements) {
  const OutputTile &output = *ring_.output;
  // Where the tile would begin, if there were room for all of it.
  SharedTile whole = output.tile;
  const int64_t bytes = output.partRows * whole.strides[0];
  Value *skipped = b.CreateNeg(b.CreateMul(part, b.getInt32(uint32_t(bytes))));
  if (output.parts > 1)
    whole.base = b.CreateGEP(b.getInt8Ty(), whole.base, skipped);
  llvm::BasicBlock &here = *b.GetInsertBlock();
  llvm::Instruction *last = here.empty() ? nullptr : &here.back();
  writeShared(whole, rows, elements);
  sinkToStores(here, last);
  bulk_.sharedProxyFence(b);
  bulk_.arrive(b, output.stored);
}

namespace {

/// The op after which a loaded tile is not needed any more: that uses it, or its cast, where that
/// is all that uses it and elementwise; else the load.
const Op *lastUseOf(const Op &load) {
  const auto next = [&](const Op &op) -> const Op * {
    const Op *user = op.result()->hasOneUse() ? op.result()->uses()[0].user : nullptr;
    const bool isArithmetic = user && ir::isElementwise(user->kind());
    return isArithmetic && user->parentBlock() == load.parentBlock() ? user : nullptr;
  };
  const Op *op = next(load);
  if (op && op->is(OpKind::Cast))
    op = next(*op) ? next(*op) : op;
  return op ? op : &load;
}

} // namespace

/// Says that what was taken last is in registers, once.
void MmaWarpgroups::releasePrefetched() {
  if (std::exchange(prefetchedUntil_, nullptr))
    bulk_.arrive(b, ring_.output->taken);
}

void MmaWarpgroups::readPrefetched(Op &load) {
  const OutputTile &output = *ring_.output;
  // The next one does not come before the last one has been taken.
  releasePrefetched();
  waitPhase(output.arrived, prefetched_.phase());
  prefetched_.next();
  setRegisters(load.result(), readShared(output.tile, info(load.result()->type())));
  // Not before its elements are where they are used: there are not registers for all.
  prefetchedUntil_ = lastUseOf(load);
}

/// The staged load that an operand is, up to the order of its elements; null where it is something
/// else.
const Op *MmaWarpgroups::loadOf(const ir::Value *tile) {
  const Op *op = ir::sourceOfFactor(*tile);
  return op && isStagedLoad(*op) && !isReadLoad(*op) ? op : nullptr;
}

/// Whether all uses lead to what other walkers do, or to nothing. What deferred ops wait for is the
/// groups': who stores waits only for them.
bool MmaWarpgroups::isForHelpers(const Op &op) {
  if (op.is(OpKind::Convert) && isOnlyKept(op))
    return true;
  if (op.is(OpKind::Trans) || op.is(OpKind::Convert))
    return loadOf(op.operand(0)) != nullptr;
  const bool isCell = op.is(OpKind::SigSlice) || op.is(OpKind::SigAt);
  const bool isAcquire =
      (op.is(OpKind::Wait) || op.is(OpKind::TokenJoin)) && op.result()->type().isAcquire();
  return (isCell || isAcquire) && llvm::all_of(op.result()->uses(), [&](const ir::Use &use) {
           return isStagedLoad(*use.user) || isEpilogueLoad(*use.user) ||
                  isPassedNumber(*use.user) || (isCell && isOfEpilogue(*use.user)) ||
                  isForHelpers(*use.user);
         });
}

void MmaWarpgroups::release(Value *slot) {
  Value *lane = b.CreateAnd(kernel_.thread, b.getInt32(31));
  bulk_.arriveWhere(b, b.CreateIsNull(lane), place_.barrier(ring_.empty, slot));
  if (!paired_)
    return;
  Value *acts = b.CreateAnd(paired_, b.CreateICmpEQ(lane, b.getInt32(1)));
  gpu_.device.clusterOps()->arriveWhere(b, acts, place_.barrier(otherEmpty_, slot));
}

namespace {

/// An operand of a product, in its slot.
struct SharedFactor {
  BoxedTile tile;
  /// The tile's last dimension is not the one that is summed over.
  bool isMnMajor;

  /// Along the sum, and along the dimension that is summed over.
  [[nodiscard]] int64_t rows() const { return isMnMajor ? tile.columns() : tile.rows; }
  [[nodiscard]] int64_t depth() const { return isMnMajor ? tile.rows : tile.columns(); }
  /// Bytes from the first row to this one, which begins a box where rows lie across.
  [[nodiscard]] int64_t rowOffset(int64_t row) const {
    if (!isMnMajor)
      return row * tile.swizzle;
    return row * int64_t(dtypeBytes(tile.dtype)) / tile.swizzle * tile.boxBytes();
  }
  /// Bytes to an instruction's part of the dimension that is summed over.
  [[nodiscard]] int64_t depthOffset(int64_t depth) const {
    if (isMnMajor)
      return depth * tile.swizzle;
    const int64_t at = depth * int64_t(dtypeBytes(tile.dtype));
    return at / tile.swizzle * tile.boxBytes() + at % tile.swizzle;
  }
  [[nodiscard]] SharedOperand shared(int64_t every = 1) const {
    return {tile.dtype, unsigned(tile.swizzle), isMnMajor, unsigned(tile.boxBytes()),
            unsigned(every)};
  }
};

constexpr int64_t kRows = TargetFacts::kGroupRows;
/// Instructions whose sum may be short.
constexpr int64_t kShortDepth = 4;

bool isTransposed(const ir::Value *tile) {
  bool isOdd = false;
  for (const Op *op = tile->definingOp(); !isStagedLoad(*op); op = op->operand(0)->definingOp())
    isOdd ^= op->is(OpKind::Trans);
  return isOdd;
}

} // namespace

/// What one group multiplies of a slot.
struct MmaWarpgroups::Product {
  /// The first operand, where it is in shared memory too, and the second.
  std::optional<SharedFactor> a;
  SharedFactor right;
  GroupDot shape;
  /// i32: the group's first row of `a`, and its first of `right`.
  Value *aStart = nullptr, *rightStart = nullptr;
  /// Of `a`, from a block of the group's to its next.
  int64_t blockBytes = 0;
  /// Where the first operand is in registers: its fragments, by block and instruction.
  llvm::SmallVector<Fragment, 0> fragments = {};
  unsigned blocks = 0;
  /// Elements of the summed dimension, and of it in one instruction.
  int64_t depth = 0, step = 0;
};

bool MmaWarpgroups::needsPromotion(const Op &dot) {
  return gpu_.device.facts()
      .findGroupProduct(dot.operand(0)->type().dtype(), dot.operand(1)->type().dtype(),
                        dot.result()->type().dtype(), dot.has(ir::attr::precision))
      ->needsPromotion;
}

MmaWarpgroups::Product MmaWarpgroups::productOf(Op &dot) {
  const auto staged = [&](unsigned i) -> const StagedTile & {
    return ring_.tiles.find(loadOf(dot.operand(i)))->second;
  };
  const auto factor = [&](unsigned i) -> SharedFactor {
    const bool isMnMajor = isTransposed(dot.operand(i)) == (i == 0);
    return {staged(i).multiplied(), isMnMajor && !staged(i).isTransposed()};
  };
  const auto kept = ring_.kept.find(residentOperand(dot));
  const bool isStaged = loadOf(dot.operand(0)) != nullptr;
  const bool isShared = isStaged || kept != ring_.kept.end();
  const ir::Type left = dot.operand(0)->type();
  // Of those that share the rows, and of those that share the columns.
  const int64_t sharers = ir::columnSharers(dot);
  const int64_t groups = dot.get(ir::attr::warpgroups) / sharers;
  Product product{.a = std::nullopt, .right = factor(1), .shape = {}};
  if (isStaged)
    product.a = factor(0);
  else if (isShared)
    product.a = {kept->second, /*isMnMajor=*/false};
  product.shape.a = isShared ? product.a->shared() : SharedOperand{left.dtype(), 0};
  product.shape.b = product.right.shared(sharers);
  product.shape.accumulator = dot.result()->type().dtype();
  product.shape.columns = unsigned(product.right.rows() / sharers);
  product.blocks = unsigned(left.shape()[0] / kRows / groups);
  product.depth = left.shape()[1];
  product.step = TargetFacts::kGroupDepthBytes / int64_t(dtypeBytes(left.dtype()));
  DTILE_CHECK(!isShared || mma_.hasDot(product.shape), "stage-loads knows what groups multiply");

  Value *slot = place_.slot();
  // Each block of 8 columns is the next group's, as the sums' layout has it.
  product.rightStart = address(slot, staged(1).offset);
  if (sharers > 1)
    product.rightStart =
        b.CreateAdd(product.rightStart,
                    b.CreateMul(b.CreateAnd(group_, b.getInt32(uint32_t(sharers - 1))),
                                b.getInt32(uint32_t(product.right.rowOffset(ir::kSwizzleRows)))));
  if (!isShared) {
    product.fragments = fragments(dot.operand(0), groups);
    return product;
  }
  // The warpgroups stand above each other, then their next blocks. Of a space with fewer than the
  // kernel has, the others multiply the same.
  Value *group = b.CreateAnd(group_, b.getInt32(uint32_t(groups - 1)));
  Value *rows = b.CreateMul(group, b.getInt32(uint32_t(product.a->rowOffset(kRows))));
  Value *first = isStaged ? address(slot, staged(0).offset)
                          : b.CreatePtrToInt(kept->second.shared.base, b.getInt32Ty());
  product.aStart = b.CreateAdd(first, rows);
  product.blockBytes = product.a->rowOffset(groups * kRows);
  return product;
}

llvm::SmallVector<MmaWarpgroups::Fragment, 0> MmaWarpgroups::fragments(ir::Value *tile,
                                                                       int64_t groups) {
  const ir::Type type = tile->type();
  const TileInfo &from = info(type);
  // As stage-loads has it: words of two elements of two bytes, or one of four. The rows of a word
  // are 8 apart from the next one's, its columns a quarter of the instruction's.
  constexpr int32_t kRowsApart = 8;
  const auto bytes = int32_t(dtypeBytes(type.dtype()));
  DTILE_CHECK(bytes == 2 || bytes == ir::kRegisterBytes, "fragments of words");
  const int64_t step = TargetFacts::kGroupDepthBytes / bytes;
  const bool isTf32 = type.dtype() == DType::F32;
  // TMA has rounded what is nothing but an operand.
  const Op *source = ir::sourceOfFactor(*tile);
  const bool isRounded = source && isReadLoad(*source) && ir::isOnlyTf32Factor(*source->result());
  llvm::Type *element = memoryType(context(), type.dtype());
  llvm::SmallVector<Fragment, 0> result;
  for (int64_t row = 0; row < type.shape()[0]; row += groups * kRows)
    for (int64_t k = 0; k < type.shape()[1]; k += step) {
      Fragment &words = result.emplace_back();
      for (int32_t column : {0, int32_t(step / 2)})
        for (int32_t below : {0, kRowsApart}) {
          llvm::SmallVector<Value *, 2> word;
          for (int32_t i = 0; i < ir::kRegisterBytes / bytes; ++i) {
            const unsigned slot = slotOf(from, {int32_t(row) + below, int32_t(k) + column + i});
            Value *value = registers(tile)[slot];
            if (isTf32 && !isRounded)
              value = gpu_.device.roundToTf32(b, value);
            word.push_back(arith_.toMemory(type.dtype(), value));
          }
          words.push_back(b.CreateBitCast(packed(element, word), b.getInt32Ty()));
        }
    }
  return result;
}

void MmaWarpgroups::multiply(Op &dot) {
  if (dot.get(ir::attr::awaited))
    return multiplyNow(dot);
  // An iteration's products are of one slot.
  const llvm::SmallVector<const Op *, 2> products = productsIn(*dot.parentBlock());
  awaitSlot(dot);
  zeroPastLimits(newOperands(dot));
  const bool isLast = &dot == products.back();
  Value *slot = place_.slot();
  const Product product = productOf(dot);
  Registers sums(registers(dot.operand(2)));
  if (needsPromotion(dot)) {
    promoteAccumulators(product, /*adds=*/true, sums);
    setRegisters(dot.result(), sums);
    if (!isLast)
      return;
    release(slot);
    return place_.next();
  }
  const unsigned each = sums.size() / product.blocks;
  mma_.fence(b);
  for (unsigned block = 0; block < product.blocks; ++block)
    addDots(product, block, 0, 0, product.depth, /*adds=*/true,
            llvm::MutableArrayRef<Value *>(sums).slice(block * each, each));
  mma_.commit(b);
  setRegisters(dot.result(), sums);
  if (!isLast)
    return;
  // Those of the iteration before are done then, and its slot is free.
  mma_.wait(b, unsigned(products.size()), {}, {});
  Op &loop = *dot.parentOp();
  Value *isFirst = b.CreateICmpEQ(scalar(loop.body().argument(0)), loopBegin(loop));
  when(b.CreateNot(isFirst), "previous", [&] { release(previousSlot()); });
  place_.next();
}

void MmaWarpgroups::awaitSlot(const Op &op) {
  const auto looks = [](const Op &other) {
    return isOfGroups(other) || isScalarLoad(other) || isReadLoad(other);
  };
  if (&op != &*llvm::find_if(op.parentBlock()->ops(), looks))
    return;
  waitPhase(place_.barrier(ring_.full, place_.slot()), place_.phase());
  // What threads have put there is the matrix units' to read.
  if (ring_.gathersOf.contains(op.parentOp()))
    bulk_.sharedProxyFence(b);
}

void MmaWarpgroups::readScalars(Op &load) {
  awaitSlot(load);
  const ir::Type type = load.result()->type();
  Value *there = shared(address(place_.slot(), ring_.fetched.lookup(&load)));
  if (!type.isTile())
    return set(load.result(), {b.CreateLoad(memoryType(context(), type.dtype()), there)});
  SharedTile tile;
  tile.base = there;
  tile.dtype = type.dtype();
  tile.fastest = type.rank() - 1;
  tile.bytes = type.elements() * int64_t(dtypeBytes(tile.dtype));
  tile.strides.resize(type.rank());
  int64_t stride = dtypeBytes(tile.dtype);
  for (unsigned d = type.rank(); d-- > 0; stride *= type.shape()[d])
    tile.strides[d] = stride;
  setRegisters(load.result(), readShared(tile, info(type)));
}

/// What is computed with a tile of the slot begins with its elements in registers.
void MmaWarpgroups::readTile(Op &load) {
  awaitSlot(load);
  const Op *const one = &load;
  zeroPastLimits(one);
  const StagedTile &tile = ring_.tiles.find(&load)->second;
  SharedTile there = tile.layout();
  there.base = shared(address(place_.slot(), tile.offset));
  setRegisters(load.result(), readShared(there, info(load.result()->type())));
}

void MmaWarpgroups::multiplyNow(Op &dot) {
  // The slot is this iteration's until its end.
  awaitSlot(dot);
  zeroPastLimits(newOperands(dot));
  const Product product = productOf(dot);
  Registers sums(registers(dot.operand(2)));
  const bool adds = !zeros_.contains(dot.operand(2)) && !areZeros(sums);
  if (needsPromotion(dot)) {
    awaitProducts(begun_.size());
    promoteAccumulators(product, adds, sums);
    setRegisters(dot.result(), sums);
    return;
  }
  if (!adds)
    sums.assign(sums.size(), llvm::UndefValue::get(sums.front()->getType()));
  const unsigned each = sums.size() / product.blocks;
  // Elements of a tile that is read are converted right before they are multiplied.
  const bool isOfRead = !product.a && llvm::any_of(dot.parentBlock()->ops(), isReadLoad);
  llvm::BasicBlock &here = *b.GetInsertBlock();
  llvm::Instruction *last = here.empty() ? nullptr : &here.back();
  if (!isOfRead)
    mma_.fence(b);
  for (unsigned block = 0; block < product.blocks; ++block)
    addDots(product, block, 0, 0, product.depth, adds,
            llvm::MutableArrayRef<Value *>(sums).slice(block * each, each), isOfRead);
  mma_.commit(b);
  if (isOfRead) {
    sinkToAssembly(here, last);
    for (const Fragment &fragment : product.fragments)
      fragments_[&dot].append(fragment);
  }
  setRegisters(dot.result(), sums);
  begun_.push_back(&dot);
}

void MmaWarpgroups::awaitProducts(size_t count) {
  if (count == 0)
    return;
  // They end in the order in which they began.
  const auto left = unsigned(begun_.size() - count);
  for (Op *dot : llvm::ArrayRef(begun_).take_front(count)) {
    Registers sums(registers(dot->result()));
    mma_.wait(b, left, sums, fragments_[dot]);
    fragments_.erase(dot);
    setRegisters(dot->result(), sums);
  }
  begun_.erase(begun_.begin(), begun_.begin() + ptrdiff_t(count));
}

void MmaWarpgroups::awaitOperands(Op &op) {
  size_t count = 0;
  const auto use = [&](const Op &user) {
    for (auto [i, dot] : llvm::enumerate(begun_))
      if (llvm::is_contained(user.operands(), dot->result()))
        count = std::max(count, i + 1);
  };
  use(op);
  for (unsigned i = 0; i < op.numRegions(); ++i)
    ir::walk(op.body(i), use);
  awaitProducts(count);
}

/// At the end of an iteration whose products it uses: the slot is free.
void MmaWarpgroups::endIteration() {
  awaitProducts(begun_.size());
  // What all threads of a warp have read there is told by one of them.
  if (ring_.hasReads)
    warp_.syncWarp(b);
  release(place_.slot());
  place_.next();
}

/// The instructions of a block of rows, from one column and for a part of the summed dimension.
void MmaWarpgroups::addDots(const Product &product, unsigned block, int64_t column, int64_t first,
                            int64_t end, bool adds, llvm::MutableArrayRef<llvm::Value *> sums,
                            bool fencesEach) {
  const int64_t row = column * product.shape.b.every;
  Value *rightStart =
      b.CreateAdd(product.rightStart, b.getInt32(uint32_t(product.right.rowOffset(row))));
  Value *right = mma_.descriptor(b, product.shape.b, rightStart);
  Value *a = nullptr;
  if (product.a)
    a = mma_.descriptor(
        b, product.shape.a,
        b.CreateAdd(product.aStart, b.getInt32(uint32_t(block * product.blockBytes))));
  for (int64_t k = first; k < end; k += product.step) {
    const Fragment left =
        a ? Fragment{mma_.advance(b, a, uint64_t(product.a->depthOffset(k)))}
          : product.fragments[size_t(block * (product.depth / product.step) + k / product.step)];
    mma_.dot(b, product.shape, left, mma_.advance(b, right, uint64_t(product.right.depthOffset(k))),
             sums, adds, fencesEach);
    adds = true;
  }
}

/// Sums of a few products each, which the threads add; of as many columns at once as there are
/// registers for.
void MmaWarpgroups::promoteAccumulators(Product product, bool adds, Registers &sums) {
  const auto columns = int64_t(product.shape.columns);
  const int64_t parts = columns / TargetFacts::columnsOfPart(columns);
  product.shape.columns = unsigned(TargetFacts::columnsOfPart(columns));
  const size_t each = sums.size() / size_t(product.blocks * parts);
  const int64_t run = kShortDepth * product.step;
  auto part = llvm::MutableArrayRef<Value *>(sums);
  for (unsigned block = 0; block < product.blocks; ++block)
    for (int64_t half = 0; half < parts; ++half, part = part.drop_front(each))
      for (int64_t k = 0; k < product.depth; k += run) {
        Registers few(each, llvm::UndefValue::get(part.front()->getType()));
        mma_.fence(b);
        addDots(product, block, half * columns / parts, k, std::min(k + run, product.depth),
                /*adds=*/false, few);
        mma_.commit(b);
        mma_.wait(b, 0, few, {});
        for (auto [sum, addend] : llvm::zip_equal(part.take_front(each), few))
          sum = adds || k != 0 ? b.CreateFAdd(sum, addend) : addend;
      }
}

/// After a loop: its last products.
void MmaWarpgroups::finish(Op &loop) {
  // While products are in flight: ptxas would serialize them for a loop between their end and the
  // use of the sums (C7514).
  if (ring_.output && ring_.lastLoop == &loop) {
    // Where programs share the loop, one of them has an output tile, and waits after their sums
    // have been added up: warpgroups meet there, and of those that take turns with their rows, one
    // would wait here for another.
    Value *isAlone = nullptr;
    const auto add = [&](Value *parts) {
      Value *isOne = b.CreateICmpEQ(parts, b.getInt32(1));
      isAlone = isAlone ? b.CreateAnd(isAlone, isOne) : isOne;
    };
    if (item_ && loop.get(ir::attr::split_rounds))
      add(item_->parts);
    if (parts_ && loop.get(ir::attr::split_sums))
      add(parts_);
    isAlone ? when(isAlone, "whole", [&] { awaitOutputRead(); }) : awaitOutputRead();
  }
  const llvm::SmallVector<const Op *, 2> products = productsIn(loop.body());
  // Nothing is in flight.
  if (products.empty() || products.front()->get(ir::attr::awaited))
    return;
  for (const Op *dot : products) {
    if (needsPromotion(*dot))
      continue;
    ir::Value *result = loop.result(dot->result()->uses()[0].index);
    Registers sums(registers(result));
    mma_.wait(b, 0, sums, {});
    setRegisters(result, sums);
  }
  if (needsPromotion(*products.back()))
    return;
  Value *ran = b.CreateICmpSLT(loopBegin(loop), loopEnd(loop));
  when(ran, "last", [&] { release(previousSlot()); });
}

} // namespace dtile::backend::gpu
