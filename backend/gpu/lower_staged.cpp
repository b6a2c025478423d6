// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Staged loops. Shared memory holds a ring of slots, each with the boxes of one iteration, a
// barrier `full` (the copies have arrived) and a barrier `empty` (all warps have multiplied them).
// The thread that copies and the groups that multiply walk the same bodies and loops, each with its
// own place in the ring:
//
//   copies:      wait empty[slot] · announce the bytes · copy · next slot
//   multiplies:  wait full[slot] · issue the products · await those of the iteration before ·
//                arrive at empty[its slot] · next slot
//
// Where programs take bodies as they come, the thread that copies takes them, and tells the groups
// the numbers through a second, smaller ring of the same kind.
//
// When a wait for a signal fails, the thread that copies goes on to announce slots without copying:
// the groups come to their end over whatever is there, and meet the failure where they next meet.
#include "backend/gpu/lower_staged.h"

#include "backend/gpu/staging_ops.h"
#include "frontend/base/check.h"
#include "ir/analysis/communication.h"
#include "ir/analysis/tensor_box.h"

#include "llvm/ADT/DenseSet.h"

namespace dtile::backend::gpu {

using ir::Op;
using ir::OpKind;
using llvm::Value;

namespace {

constexpr int64_t kSlotAlign = 1024;
/// Bodies that the thread that copies may be ahead.
constexpr int64_t kBodiesAhead = 4;
/// Where those threads meet that run bodies, when they are not all.
constexpr unsigned kBodyBarrier = 1;

bool isStagedLoad(const Op &op) { return op.is(OpKind::Load) && op.hasAttr("swizzle"); }

/// How a staged load's tile lies in a slot.
struct StagedTile {
  Op *load = nullptr;
  ir::TensorBox box;
  int64_t rows = 0;
  /// Bytes of the summed dimension, in all and of one box.
  int64_t depthBytes = 0;
  int64_t swizzle = 0;
  /// Of the tile in its slot.
  int64_t offset = 0;

  [[nodiscard]] int64_t bytes() const { return rows * depthBytes; }
  [[nodiscard]] int64_t boxes() const { return depthBytes / swizzle; }
  [[nodiscard]] DType dtype() const { return load->result()->type().dtype(); }
};

StagedTile stagedTile(Op &load) {
  std::optional<ir::TensorBox> box = ir::tensorBox(load.operand(0));
  DTILE_CHECK(box, "a staged load is a box");
  const ir::Type type = load.result()->type();
  return {.load = &load,
          .box = *box,
          .rows = type.shape()[0],
          .depthBytes = type.shape()[1] * int64_t(dtypeBytes(type.dtype())),
          .swizzle = load.intAttr("swizzle")};
}

/// Sizes of a box, innermost dimension last.
llvm::SmallVector<int32_t, 4> boxSizes(const StagedTile &tile) {
  llvm::SmallVector<int32_t, 4> sizes;
  for (const ir::TensorBox::Dim &dim : tile.box.dims)
    sizes.push_back(!dim.viewDim         ? 1
                    : *dim.viewDim == 0 ? int32_t(tile.rows)
                                        : int32_t(tile.swizzle / dtypeBytes(tile.dtype())));
  return sizes;
}

/// The staged loads of each loop of a space, and the ring that all its loops share.
struct Ring {
  llvm::DenseMap<const Op *, StagedTile> tiles;
  llvm::DenseMap<const Op *, llvm::SmallVector<Op *, 2>> loadsOf;
  int64_t stages = 0;
  int64_t slotBytes = 0;
  /// i32, in shared memory.
  Value *slots = nullptr, *full = nullptr, *empty = nullptr;
  /// Numbers of the bodies that were taken, and their barriers.
  Value *bodies = nullptr, *bodiesFull = nullptr, *bodiesEmpty = nullptr;

  [[nodiscard]] int64_t bytes() const { return stages * slotBytes; }

  explicit Ring(Op &space);
};

Ring::Ring(Op &space) {
  ir::walk(space, [&](Op &op) {
    if (isStagedLoad(op)) {
      tiles[&op] = stagedTile(op);
      loadsOf[op.parentOp()].push_back(&op);
    }
    if (op.is(OpKind::For) && op.hasAttr("stages"))
      stages = std::max(stages, op.intAttr("stages"));
  });
  for (auto &[loop, loads] : loadsOf) {
    int64_t bytes = 0;
    for (Op *load : loads) {
      StagedTile &tile = tiles[load];
      tile.offset = bytes;
      bytes += int64_t(llvm::alignTo(tile.bytes(), kSlotAlign));
    }
    slotBytes = std::max(slotBytes, bytes);
  }
}

/// A walker's place in the ring: which slot, and in which phase its barriers are.
class RingPosition {
public:
  RingPosition(llvm::IRBuilder<> &b, llvm::BasicBlock *entry, int64_t length, llvm::StringRef who)
      : b(b), length_(length) {
    llvm::IRBuilder<> start(entry, entry->begin());
    slot_ = start.CreateAlloca(b.getInt32Ty(), nullptr, who + ".slot");
    phase_ = start.CreateAlloca(b.getInt32Ty(), nullptr, who + ".phase");
  }
  void begin(unsigned phase) {
    b.CreateStore(b.getInt32(0), slot_);
    b.CreateStore(b.getInt32(phase), phase_);
  }
  [[nodiscard]] Value *slot() { return b.CreateLoad(b.getInt32Ty(), slot_); }
  [[nodiscard]] Value *phase() { return b.CreateLoad(b.getInt32Ty(), phase_); }
  void next() {
    Value *next = b.CreateAdd(slot(), b.getInt32(1));
    Value *isLast = b.CreateICmpEQ(next, b.getInt32(length_));
    b.CreateStore(b.CreateSelect(isLast, b.getInt32(0), next), slot_);
    b.CreateStore(b.CreateXor(phase(), b.CreateZExt(isLast, b.getInt32Ty())), phase_);
  }
  /// i32 address of a barrier of a slot.
  [[nodiscard]] Value *barrier(Value *first, Value *slot) {
    return b.CreateAdd(first, b.CreateShl(slot, 3));
  }

private:
  llvm::IRBuilder<> &b;
  int64_t length_;
  llvm::AllocaInst *slot_;
  llvm::AllocaInst *phase_;
};

/// What both kinds of threads share.
class StagedWalker : public BodyLowering {
public:
  StagedWalker(GpuModule &module, const KernelScaffold &kernel, const Ring &ring,
               llvm::StringRef who)
      : BodyLowering(module, kernel), ring_(ring), ops_(*module.device.staging()),
        place_(b, kernel.entry, ring.stages, who), body_(b, kernel.entry, kBodiesAhead, who) {
    threads_ = bodyThreads(*kernel.kernel);
    barrier_ = kBodyBarrier;
  }

protected:
  /// Spins until a phase of a barrier is over.
  void waitPhase(Value *barrier, Value *phase) {
    llvm::BasicBlock *again = block("phase");
    llvm::BasicBlock *done = block("phase.done");
    b.CreateBr(again);
    b.SetInsertPoint(again);
    b.CreateCondBr(ops_.tryWait(b, barrier, phase), done, again);
    b.SetInsertPoint(done);
  }

  /// i32 address in a slot.
  [[nodiscard]] Value *address(Value *slot, int64_t offset) {
    Value *start = b.CreateMul(slot, b.getInt32(ring_.slotBytes));
    return b.CreateAdd(ring_.slots, b.CreateAdd(start, b.getInt32(offset)));
  }
  [[nodiscard]] Value *shared(Value *address) {
    return b.CreateIntToPtr(address, llvm::PointerType::get(context(), Device::kShared));
  }
  /// Where the number of the current body is.
  [[nodiscard]] Value *bodyNumber() {
    return shared(b.CreateAdd(ring_.bodies, b.CreateShl(body_.slot(), 3)));
  }

  const Ring &ring_;
  const StagingOps &ops_;
  RingPosition place_, body_;
};

/// The thread that copies. Of the bodies it lowers only what the copies depend on.
class CopyLowering : public StagedWalker {
public:
  CopyLowering(GpuModule &module, const KernelScaffold &kernel, const Ring &ring)
      : StagedWalker(module, kernel, ring, "copy") {
    // It polls cells by itself.
    threads_ = 1;
    thread_ = b.getInt32(0);
    llvm::IRBuilder<> start(kernel.entry, kernel.entry->begin());
    failed_ = start.CreateAlloca(b.getInt1Ty(), nullptr, "copy.failed");
    for (auto &[load, tile] : ring.tiles)
      need(*tile.load);
  }

  void lowerBodies(Op &space, const BodyRange &range) override {
    // The first round finds every slot empty: the phase before the first counts as over.
    place_.begin(1);
    body_.begin(1);
    b.CreateStore(b.getFalse(), failed_);
    forEachBody(space, range, [&] { lowerBlock(space.body()); });
  }

protected:
  Value *takeBody(const BodyRange &range) override {
    Value *slot = body_.slot();
    waitEmpty(body_.barrier(ring_.bodiesEmpty, slot), body_.phase());
    Value *number = countBody(range);
    b.CreateStore(number, bodyNumber());
    ops_.arrive(b, body_.barrier(ring_.bodiesFull, slot));
    body_.next();
    return number;
  }
  llvm::SmallVector<llvm::Type *, 4> partTypes(ir::Type type) override {
    return type.isTile() ? llvm::SmallVector<llvm::Type *, 4>() : BodyLowering::partTypes(type);
  }
  void lowerOp(Op &op) override {
    if (isStagedLoad(op))
      return copy(op);
    if (!needed_.contains(&op))
      return;
    if (op.is(OpKind::Wait))
      return lowerWait(op);
    BodyLowering::lowerOp(op);
  }

private:
  void need(Op &op);
  void needValue(ir::Value *value);
  void copy(Op &load);
  void lowerWait(Op &op);
  [[nodiscard]] Value *map(const StagedTile &tile);
  void waitEmpty(Value *barrier, Value *phase);

  llvm::DenseSet<const Op *> needed_;
  llvm::AllocaInst *failed_;
};

/// Spins until the groups are done with a slot. They may have left, when the launch was given up:
/// then so does this thread, after a time in which groups that are there would have come. (They
/// themselves never leave while products are in flight: an exit on their way would make ptxas
/// serialize those.)
void CopyLowering::waitEmpty(Value *barrier, Value *phase) {
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
  b.CreateCondBr(ops_.tryWait(b, barrier, phase), done, count);
  b.SetInsertPoint(count);
  Value *next = b.CreateAdd(round, b.getInt32(1));
  Value *isTime = b.CreateIsNull(b.CreateAnd(next, b.getInt32(kLookAround - 1)));
  b.CreateCondBr(isTime, ask, again);
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

void CopyLowering::need(Op &op) {
  if (!needed_.insert(&op).second)
    return;
  for (ir::Value *operand : op.operands())
    needValue(operand);
  // What a loop carries, but for tiles, comes along.
  if (op.is(OpKind::For))
    for (ir::Value *next : op.body().terminator()->operands())
      needValue(next);
  if (Op *parent = op.parentOp(); parent && !parent->is(OpKind::Space))
    need(*parent);
}

void CopyLowering::needValue(ir::Value *value) {
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

Value *CopyLowering::map(const StagedTile &tile) {
  const launch::Frame::TensorMap *found = nullptr;
  for (const auto &map : kernel_.layout->tensorMaps())
    if (map->param == tile.box.object && map->box == boxSizes(tile) &&
        map->swizzle == tile.swizzle)
      found = map.get();
  DTILE_CHECK(found, "a staged load has its tensor map");
  Value *address = frameAddress(found->offset);
  if (found->copies > 1) {
    Value *copy = scratchTurn(*tile.box.object);
    address = b.CreateGEP(b.getInt8Ty(), address,
                          b.CreateMul(copy, b.getInt64(launch::Frame::kTensorMapBytes)));
  }
  return b.CreatePtrToInt(address, b.getInt64Ty());
}

void CopyLowering::copy(Op &load) {
  const StagedTile &tile = ring_.tiles.find(&load)->second;
  llvm::ArrayRef<Op *> loads = ring_.loadsOf.find(load.parentOp())->second;
  Value *slot = place_.slot();
  Value *full = place_.barrier(ring_.full, slot);
  if (&load == loads.front()) {
    waitEmpty(place_.barrier(ring_.empty, slot), place_.phase());
    unsigned bytes = 0;
    for (Op *each : loads)
      bytes += ring_.tiles.find(each)->second.bytes();
    // One arrival either way.
    Value *failed = b.CreateLoad(b.getInt1Ty(), failed_);
    when(failed, "copy.skipped", [&] { ops_.arrive(b, full); });
    when(b.CreateNot(failed), "copy.announced", [&] { ops_.arriveExpecting(b, full, bytes); });
  }
  when(b.CreateNot(b.CreateLoad(b.getInt1Ty(), failed_)), "copy", [&] {
    Value *map = this->map(tile);
    for (int64_t i = 0; i < tile.boxes(); ++i) {
      llvm::SmallVector<Value *, 5> coordinates;
      for (const ir::TensorBox::Dim &dim : llvm::reverse(tile.box.dims)) {
        Value *at = b.getInt64(dim.viewDim == 1u ? i * tile.swizzle / dtypeBytes(tile.dtype()) : 0);
        for (ir::Value *first : dim.firsts)
          at = b.CreateAdd(at, scalar(first));
        coordinates.push_back(b.CreateTrunc(at, b.getInt32Ty()));
      }
      ops_.copyBox(b, address(slot, tile.offset + i * tile.rows * tile.swizzle), map,
                   coordinates, full);
    }
  });
  if (&load == loads.back())
    place_.next();
}

/// By this thread alone; the copies behind it see what the notifies published.
void CopyLowering::lowerWait(Op &op) {
  when(b.CreateNot(b.CreateLoad(b.getInt1Ty(), failed_)), "copy.wait", [&] {
    b.CreateStore(b.CreateIsNotNull(pollCells(op)), failed_);
    ops_.proxyFence(b);
  });
}

/// The groups that multiply, and everything else of the bodies.
class GroupLowering : public StagedWalker {
public:
  GroupLowering(GpuModule &module, const KernelScaffold &kernel, const Ring &ring)
      : StagedWalker(module, kernel, ring, "dot") {}

  void lowerBodies(Op &space, const BodyRange &range) override {
    place_.begin(0);
    body_.begin(0);
    BodyLowering::lowerBodies(space, range);
  }

protected:
  void lowerOp(Op &op) override {
    if (isStagedLoad(op) || isOnlyForCopies(op))
      return;
    if (op.is(OpKind::Dot) && op.hasAttr("groups"))
      return multiply(op);
    BodyLowering::lowerOp(op);
    if (op.is(OpKind::For) && op.hasAttr("stages"))
      finish(op);
  }

  Value *takeBody(const BodyRange &) override {
    Value *slot = body_.slot();
    waitPhase(body_.barrier(ring_.bodiesFull, slot), body_.phase());
    Value *number = b.CreateLoad(b.getInt64Ty(), bodyNumber());
    // One arrival a thread: each has read it.
    ops_.arrive(b, body_.barrier(ring_.bodiesEmpty, slot));
    body_.next();
    return number;
  }

private:
  [[nodiscard]] static bool isOnlyForCopies(const Op &op);
  [[nodiscard]] static const Op *loadOf(const ir::Value *tile);
  void multiply(Op &dot);
  void finish(Op &loop);
  /// One thread a warp says that the warp is done with a slot.
  void release(Value *slot);
  [[nodiscard]] Value *previousSlot() {
    Value *slot = place_.slot();
    return b.CreateSelect(b.CreateICmpEQ(slot, b.getInt32(0)), b.getInt32(ring_.stages - 1),
                          b.CreateSub(slot, b.getInt32(1)));
  }
};

/// The load that a tile is, up to the order of its elements; null where it is something else.
const Op *GroupLowering::loadOf(const ir::Value *tile) {
  const Op *op = tile->definingOp();
  while (op && (op->is(OpKind::Trans) || op->is(OpKind::Convert)))
    op = op->operand(0)->definingOp();
  return op && isStagedLoad(*op) ? op : nullptr;
}

/// Whether all uses lead to staged loads, or to nothing.
bool GroupLowering::isOnlyForCopies(const Op &op) {
  if (op.is(OpKind::Trans) || op.is(OpKind::Convert))
    return loadOf(op.operand(0)) != nullptr;
  const bool isWait = op.is(OpKind::Wait) || op.is(OpKind::TokenJoin);
  if (!isWait || !op.result()->type().isAcquire())
    return false;
  return llvm::all_of(op.result()->uses(), [](const ir::Use &use) {
    return isStagedLoad(*use.user) ||
           (use.user->is(OpKind::TokenJoin) && isOnlyForCopies(*use.user));
  });
}

void GroupLowering::release(Value *slot) {
  Value *lane = b.CreateAnd(kernel_.thread, b.getInt32(31));
  when(b.CreateICmpEQ(lane, b.getInt32(0)), "release",
       [&] { ops_.arrive(b, place_.barrier(ring_.empty, slot)); });
}

void GroupLowering::multiply(Op &dot) {
  const StagedTile &a = ring_.tiles.find(loadOf(dot.operand(0)))->second;
  const StagedTile &bTile = ring_.tiles.find(loadOf(dot.operand(1)))->second;
  const GroupDot shape = {.a = {a.dtype(), unsigned(a.swizzle)},
                          .b = {bTile.dtype(), unsigned(bTile.swizzle)},
                          .accumulator = dot.result()->type().dtype(),
                          .columns = unsigned(bTile.rows)};
  const unsigned groups = dot.intAttr("groups");
  const unsigned blocks = a.rows / 64 / groups;

  Value *slot = place_.slot();
  waitPhase(place_.barrier(ring_.full, slot), place_.phase());
  Registers sums(registers(dot.operand(2)));
  const unsigned each = sums.size() / blocks;
  // The groups stand above each other, then their next blocks.
  Value *group = b.CreateLShr(kernel_.thread, 7);
  Value *rows = b.CreateMul(group, b.getInt32(64 * a.swizzle));
  Value *aStart = b.CreateAdd(address(slot, a.offset), rows);
  Value *bDescriptor =
      ops_.descriptor(b, shape.b, address(slot, bTile.offset));
  ops_.beginDots(b);
  for (unsigned block = 0; block < blocks; ++block) {
    Value *start = b.CreateAdd(aStart, b.getInt32(block * groups * 64 * a.swizzle));
    Value *aDescriptor = ops_.descriptor(b, shape.a, start);
    auto part = llvm::MutableArrayRef<Value *>(sums).slice(block * each, each);
    for (int64_t at = 0; at < a.depthBytes; at += GroupDot::kDepthBytes) {
      const auto within = [&](const StagedTile &tile) {
        return uint64_t(at / tile.swizzle * tile.rows * tile.swizzle + at % tile.swizzle);
      };
      ops_.dot(b, shape, ops_.advance(b, aDescriptor, within(a)),
               ops_.advance(b, bDescriptor, within(bTile)), part);
    }
  }
  ops_.endDots(b);
  setRegisters(dot.result(), sums);
  // Those of the iteration before are done then, and its slot is free.
  ops_.awaitDots(b, 1, {});
  Op &loop = *dot.parentOp();
  Value *isFirst = b.CreateICmpEQ(scalar(loop.body().argument(0)), scalar(loop.operand(0)));
  when(b.CreateNot(isFirst), "previous", [&] { release(previousSlot()); });
  place_.next();
}

/// Behind a loop: its last products.
void GroupLowering::finish(Op &loop) {
  for (Op &op : loop.body().ops()) {
    if (!op.is(OpKind::Dot) || !op.hasAttr("groups"))
      continue;
    ir::Value *result = loop.result(op.result()->uses()[0].index);
    Registers sums(registers(result));
    ops_.awaitDots(b, 0, sums);
    setRegisters(result, sums);
  }
  Value *ran = b.CreateICmpSLT(scalar(loop.operand(0)), scalar(loop.operand(1)));
  when(ran, "last", [&] { release(previousSlot()); });
}

/// Bodies that leave the warps that copy alone.
class BodiesOnly : public BodyLowering {
public:
  BodiesOnly(GpuModule &module, const KernelScaffold &kernel) : BodyLowering(module, kernel) {
    threads_ = bodyThreads(*kernel.kernel);
    barrier_ = kBodyBarrier;
  }
  void lowerBodies(Op &space, const BodyRange &range) override {
    when(b.CreateICmpULT(kernel_.thread, b.getInt32(threads_)), "bodies",
         [&] { BodyLowering::lowerBodies(space, range); });
  }
};

/// A staged space: who does what.
class StagedSpace : public BodyLowering {
public:
  StagedSpace(GpuModule &module, const KernelScaffold &kernel) : BodyLowering(module, kernel) {
    threads_ = bodyThreads(*kernel.kernel);
  }
  void lowerBodies(Op &space, const BodyRange &range) override;

private:
  void makeRing(Ring &ring);
  /// Gives the groups that multiply registers of the one that copies, where all have few. (ptxas
  /// does so only where the rest of the kernel needs few as well.)
  void moveRegisters(bool copies);
  [[nodiscard]] Value *areMapsUsable(const Ring &ring);
  /// Emits the bodies as another lowering does, here.
  void lowerAs(BodyLowering &other, Op &space, const BodyRange &range) {
    other.builder().SetInsertPoint(b.GetInsertBlock());
    other.builder().SetCurrentDebugLocation(b.getCurrentDebugLocation());
    other.lowerCaptured(space);
    other.lowerBodies(space, range);
    b.SetInsertPoint(other.builder().GetInsertBlock());
  }
};

void StagedSpace::makeRing(Ring &ring) {
  const StagingOps &ops = *gpu_.device.staging();
  const auto address = [&](int64_t bytes, int64_t align) {
    return b.CreatePtrToInt(gpu_.shared(b, bytes, align), b.getInt32Ty());
  };
  ring.slots = address(ring.bytes(), kSlotAlign);
  ring.full = address(8 * ring.stages, 8);
  ring.empty = address(8 * ring.stages, 8);
  ring.bodies = address(8 * kBodiesAhead, 8);
  ring.bodiesFull = address(8 * kBodiesAhead, 8);
  ring.bodiesEmpty = address(8 * kBodiesAhead, 8);
  when(isLeader(), "barriers", [&] {
    for (int64_t slot = 0; slot < kBodiesAhead; ++slot) {
      ops.initBarrier(b, b.CreateAdd(ring.bodiesFull, b.getInt32(8 * slot)), 1);
      ops.initBarrier(b, b.CreateAdd(ring.bodiesEmpty, b.getInt32(8 * slot)), threads_);
    }
    for (int64_t slot = 0; slot < ring.stages; ++slot) {
      ops.initBarrier(b, b.CreateAdd(ring.full, b.getInt32(8 * slot)), 1);
      // One arrival a warp.
      ops.initBarrier(b, b.CreateAdd(ring.empty, b.getInt32(8 * slot)), threads_ / 32);
    }
    ops.publishBarriers(b);
  });
  gpu_.device.barrier(b, 0, threads_ + kCopyThreads);
}

void StagedSpace::moveRegisters(bool copies) {
  // What each thread has at first, in the unit of allocation; what the copies need.
  constexpr unsigned kRegisters = 65536, kUnit = 8, kMost = 240, kForCopies = 40;
  const unsigned all = threads_ + kCopyThreads;
  const unsigned each = kRegisters / all / kUnit * kUnit;
  if (each >= kMost)
    return;
  const unsigned more = each + (each - kForCopies) * kCopyThreads / threads_ / kUnit * kUnit;
  gpu_.device.staging()->setRegisters(b, copies ? kForCopies : std::min(more, kMost), !copies);
}

Value *StagedSpace::areMapsUsable(const Ring &ring) {
  Value *usable = b.getInt64(1);
  for (const auto &map : kernel_.layout->tensorMaps())
    usable = b.CreateAnd(usable, loadFrame(map->usable, b.getInt64Ty()));
  return b.CreateIsNotNull(usable);
}

void StagedSpace::lowerBodies(Op &space, const BodyRange &range) {
  const int64_t mark = gpu_.sharedMark();
  Ring ring(space);
  makeRing(ring);
  llvm::BasicBlock *staged = block("staged");
  llvm::BasicBlock *plain = block("plain");
  llvm::BasicBlock *copies = block("copies");
  llvm::BasicBlock *groups = block("groups");
  llvm::BasicBlock *end = block("staged.end");
  b.CreateCondBr(areMapsUsable(ring), staged, plain);

  b.SetInsertPoint(staged);
  b.CreateCondBr(b.CreateICmpUGE(kernel_.thread, b.getInt32(threads_)), copies, groups);
  b.SetInsertPoint(copies);
  moveRegisters(/*copies=*/true);
  when(b.CreateICmpEQ(kernel_.thread, b.getInt32(threads_)), "copier", [&] {
    CopyLowering copier(gpu_, kernel_, ring);
    lowerAs(copier, space, range);
  });
  b.CreateBr(end);
  b.SetInsertPoint(groups);
  moveRegisters(/*copies=*/false);
  GroupLowering multiplier(gpu_, kernel_, ring);
  lowerAs(multiplier, space, range);
  b.CreateBr(end);

  // Nothing is staged there: its tiles may stand where the ring is.
  gpu_.releaseShared(mark);
  b.SetInsertPoint(plain);
  BodiesOnly bodies(gpu_, kernel_);
  lowerAs(bodies, space, range);
  b.CreateBr(end);
  b.SetInsertPoint(end);
}

} // namespace

bool hasStagedLoads(Op &kernel) {
  return llvm::any_of(kernel.body().ops(), [](const Op &op) {
    return op.is(OpKind::Space) && op.hasAttr("groups");
  });
}

void requestTensorMaps(Op &kernel, launch::Frame &frame) {
  ir::walk(kernel, [&](Op &op) {
    if (isStagedLoad(op)) {
      const StagedTile tile = stagedTile(op);
      frame.addTensorMap(*tile.box.object, boxSizes(tile), int32_t(tile.swizzle));
    }
  });
}

std::unique_ptr<BodyLowering> makeStagedLowering(GpuModule &module, const KernelScaffold &kernel,
                                                 Op &space) {
  if (space.hasAttr("groups"))
    return std::make_unique<StagedSpace>(module, kernel);
  return std::make_unique<BodiesOnly>(module, kernel);
}

} // namespace dtile::backend::gpu
