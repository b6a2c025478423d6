// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A body: the dispatch of ops that touch tiles and memory, where the program's threads must meet,
// and what one thread does for all.
#include "backend/gpu/bodies/lower_body.h"

#include "backend/gpu/bodies/multistage_loop.h"
#include "frontend/base/check.h"
#include "ir/analysis/communication.h"
#include "ir/analysis/loop_positions.h"
#include "ir/analysis/shared_memory_plan.h"

#include "llvm/IR/Module.h"

namespace dtile::backend::gpu {

using ir::Layout;
using ir::LayoutBits;
using ir::Op;
using ir::OpKind;

namespace {

/// Registers of one tile in a thread: beyond this everything would go through memory.
constexpr unsigned kMostTileRegisters = 1024;

} // namespace

BodyLowering::BodyLowering(GpuModule &module, const KernelScaffold &kernel)
    : KernelFunction(module, kernel), thread_(kernel.thread), threads_(kernel.threads) {
  arith_.useBfloat();
  arith_.contract(true);
  arith_.useUnits({module.device.exp2(), module.device.hasMinimum()});
  arith_.useTruncation(module.device.truncation(/*isSigned=*/true),
                       module.device.truncation(/*isSigned=*/false));
}

BodyLowering::~BodyLowering() = default;

void BodyLowering::lower(Op &space) {
  // The body before it may still be reading and writing. What bodies have in common, they wait for,
  // unless they run in order.
  pending_ = space.get(ir::attr::ordered) ? accesses(space) : Pending();
  sharedInUse_ = true;
  llvm::Value *const thread = thread_;
  lowerBlock(space.body());
  thread_ = thread;
}

// Ops.

namespace {

/// Whether what an op does comes after something sent.
bool usesCompletion(const Op &op) {
  return !op.is(OpKind::TokenJoin) && llvm::any_of(op.operands(), [](const ir::Value *operand) {
    const Op *producer = operand->definingOp();
    return operand->type().isToken() && !(producer && producer->is(OpKind::TokenDone));
  });
}

} // namespace

void BodyLowering::lowerTargetOp(Op &op) {
  if (usesCompletion(op))
    finishSends();
  for (ir::Value *value : op.results())
    if (value->type().isTile() && value->type().layout() &&
        info(value->type()).size() > kMostTileRegisters)
      return giveUp(op, "makes a tile of " + llvm::Twine(value->type().elements()) +
                            " elements, which the registers of " + llvm::Twine(threads_) +
                            " threads do not hold; use smaller blocks");
  switch (op.kind()) {
  case OpKind::Load:
  case OpKind::Store:
  case OpKind::Gather:
  case OpKind::Scatter:
  case OpKind::Atomic:
  case OpKind::AtomicScatter:
  case OpKind::ReduceAddScatter:
    return lowerMemoryOp(op);
  case OpKind::TokenDone:
  case OpKind::TokenJoin:
  case OpKind::Put:
  case OpKind::PutSignal:
  case OpKind::Get:
  case OpKind::ReduceAdd:
  case OpKind::Notify:
  case OpKind::Wait:
  case OpKind::Poll:
  case OpKind::Await:
  case OpKind::Quiet:
  case OpKind::Fence:
  case OpKind::MemoryFence:
  case OpKind::Barrier:
  case OpKind::Assert:
    return lowerCommunication(op);
  default:
    break;
  }
  for (ir::Value *value : llvm::concat<ir::Value *const>(op.operands(), op.results()))
    if (value->type().isTile() && !value->type().layout())
      return giveUp(op, "has a tile without a layout (pass infer-layouts)");
  switch (op.kind()) {
  case OpKind::Print:
    return lowerPrint(op);
  case OpKind::Reduce:
  case OpKind::ArgReduce:
    return lowerReduction(op);
  case OpKind::Scan:
    return lowerScan(op);
  case OpKind::Dot:
    return lowerDot(op);
  default:
    break;
  }
  if (op.numResults() == 1 && op.result()->type().isTile())
    return lowerTileOp(op);
  giveUp(op, "cannot stand in a tile space");
}

// Tiles.

const TileInfo &BodyLowering::info(ir::Type tile) {
  DTILE_CHECK(tile.isTile() && tile.layout(), "a tile in a layout");
  std::unique_ptr<TileInfo> &known = infos_[tile.storage()];
  if (!known)
    known = std::make_unique<TileInfo>(*tile.layout(), tile.shape());
  return *known;
}

Registers BodyLowering::registers(ir::Value *tile, const Layout &layout) {
  const ir::Type type = tile->type();
  if (*type.layout() == layout)
    return Registers(registers(tile));
  return convert(type.dtype(), type.shape(), *type.layout(), registers(tile), layout);
}

llvm::Value *BodyLowering::threadPosition(const Layout &layout, unsigned dim) {
  llvm::SmallVector<Layout::Position, 12> ways(layout.bits(LayoutBits::Lane));
  llvm::append_range(ways, layout.bits(LayoutBits::Warp));
  DTILE_CHECK(threads_ >= 1u << ways.size() &&
                  layout.lanes() == unsigned(gpu_.device.facts().lanes),
              "threads for the layout");
  return positionOf(ways, 0, dim);
}

llvm::Value *BodyLowering::warpPosition(const Layout &layout, unsigned dim) {
  return positionOf(layout.bits(LayoutBits::Warp), layout.bits(LayoutBits::Lane).size(), dim);
}

llvm::Value *BodyLowering::positionOf(llvm::ArrayRef<Layout::Position> ways, unsigned firstBit,
                                      unsigned dim) {
  llvm::Value *sum = nullptr;
  // Runs of bits that lead to neighbouring bits of the position move together.
  for (unsigned i = 0; i < ways.size();) {
    const int32_t distance = ways[i][dim];
    unsigned length = 1;
    while (i + length < ways.size() && distance != 0 && ways[i + length][dim] == distance << length)
      ++length;
    if (distance != 0) {
      const unsigned bit = i + firstBit;
      llvm::Value *part = b.CreateAnd(thread_, ((uint64_t(1) << length) - 1) << bit);
      const int by = int(llvm::Log2_32(uint32_t(distance))) - int(bit);
      part = by >= 0 ? b.CreateShl(part, uint64_t(by)) : b.CreateLShr(part, uint64_t(-by));
      sum = sum ? b.CreateOr(sum, part) : part;
    }
    i += length;
  }
  return sum ? sum : b.getInt32(0);
}

llvm::Value *BodyLowering::isOriginal(const Layout &layout) {
  uint32_t copies = 0;
  unsigned bit = 0;
  for (LayoutBits which : {LayoutBits::Lane, LayoutBits::Warp})
    for (const Layout::Position &way : layout.bits(which)) {
      if (way == Layout::Position{})
        copies |= 1u << bit;
      ++bit;
    }
  // Threads that the layout does not know of.
  if (threads_ > 1u << bit)
    copies |= ~((1u << bit) - 1);
  if (copies == 0)
    return nullptr;
  return b.CreateICmpEQ(b.CreateAnd(thread_, copies), b.getInt32(0));
}

// Order.

void BodyLowering::Pending::add(const Pending &other) {
  read.insert(other.read.begin(), other.read.end());
  written.insert(other.written.begin(), other.written.end());
}

const BodyLowering::Pending &BodyLowering::accesses(Op &op) {
  std::unique_ptr<Pending> &known = accesses_[&op];
  if (known)
    return *known;
  known = std::make_unique<Pending>();
  ir::walk(op, [&](Op &inner) {
    for (ir::Value *operand : inner.operands()) {
      if (!operand->type().isView())
        continue;
      for (const Op *object : ir::objectsOf(operand)) {
        if (inner.hasEffect(ir::Read | ir::RemoteRead))
          known->read.insert(object);
        if (inner.hasEffect(ir::Write | ir::RemoteWrite))
          known->written.insert(object);
      }
    }
  });
  return *known;
}

/// What an iteration of a loop may meet of those before it. Not what one op alone writes, further
/// on each time.
BodyLowering::Pending BodyLowering::accessesOfIterations(Op &loop) {
  Pending met = accesses(loop);
  llvm::SmallDenseMap<const Op *, unsigned> count;
  llvm::SmallPtrSet<const Op *, 4> apart;
  ir::walk(loop, [&](Op &inner) {
    for (ir::Value *operand : inner.operands()) {
      if (&inner == &loop || !operand->type().isView() ||
          !inner.hasEffect(ir::Read | ir::RemoteRead | ir::Write | ir::RemoteWrite))
        continue;
      for (const Op *object : ir::objectsOf(operand)) {
        ++count[object];
        if (inner.is(OpKind::Store) && ir::movesPast(loop, *operand))
          apart.insert(object);
      }
    }
  });
  for (const Op *object : apart)
    if (count[object] == 1)
      met.written.erase(object);
  return met;
}

void BodyLowering::beforeRead(ir::Value *view) {
  const auto objects = ir::objectsOf(view);
  if (llvm::any_of(objects, [&](const Op *object) { return pending_.written.contains(object); }))
    programBarrier();
  pending_.read.insert(objects.begin(), objects.end());
}

void BodyLowering::beforeWrite(ir::Value *view) {
  const auto objects = ir::objectsOf(view);
  const bool isMet = llvm::any_of(objects, [&](const Op *object) {
    return pending_.written.contains(object) || pending_.read.contains(object);
  });
  if (isMet)
    programBarrier();
  pending_.written.insert(objects.begin(), objects.end());
}

void BodyLowering::programBarrier() {
  if (barrier_ == 0 && threads_ == kernel_.threads)
    gpu_.device.barrier(b);
  else
    gpu_.device.barrier(b, barrier_, threads_);
  pending_ = {};
  sharedInUse_ = false;
}

void BodyLowering::enterRegion(Op &op, unsigned region) {
  const bool isLoop = !op.is(OpKind::If);
  if (region == 0) {
    Fork fork{pending_, {}, sharedInUse_, false};
    if (isLoop) {
      fork.before.add(accessesOfIterations(op));
      fork.sharedBefore = true;
    }
    forks_.push_back(std::move(fork));
  } else {
    forks_.back().after.add(pending_);
    forks_.back().sharedAfter |= sharedInUse_;
  }
  // Region 1 of a loop follows region 0.
  if (region == 0 || !isLoop) {
    pending_ = forks_.back().before;
    sharedInUse_ = forks_.back().sharedBefore;
  }
  if (auto it = multistageLoops_.find(&op); it != multistageLoops_.end())
    it->second->beginIteration();
}

void BodyLowering::leaveRegions(Op &op) {
  Fork fork = forks_.pop_back_val();
  // A loop may not have run at all.
  if (!op.is(OpKind::If)) {
    pending_.add(fork.before);
    sharedInUse_ |= fork.sharedBefore;
  }
  pending_.add(fork.after);
  sharedInUse_ |= fork.sharedAfter;
}

// One for all.

unsigned BodyLowering::sumsTogether(ir::Type tile) {
  const Layout &layout = *tile.layout();
  if (!gpu_.device.hasSumVectors() || tile.rank() != 2 ||
      partTypes(tile).size() != layout.registers())
    return 1;
  unsigned count = 1;
  for (const MatrixProduct &product : gpu_.device.facts().products) {
    const Layout atom = *Layout::parse(product.fragmentSum, 2);
    const auto registers = atom.bits(LayoutBits::Register);
    const auto has = layout.bits(LayoutBits::Register);
    if (product.sum == tile.dtype() && registers.size() <= has.size() &&
        has.take_front(registers.size()) == registers &&
        layout.bits(LayoutBits::Lane) == atom.bits(LayoutBits::Lane))
      count = std::max(count, unsigned(atom.registers()));
  }
  return count;
}

unsigned BodyLowering::carriedTogether(ir::Type type) {
  if (!type.isTile() || type.dtype() == DType::Bool)
    return 1;
  if (dtypeBytes(type.dtype()) >= 4)
    return sumsTogether(type);
  const unsigned count = 4 / dtypeBytes(type.dtype());
  return partTypes(type).size() % count == 0 ? count : 1;
}

llvm::SmallVector<llvm::Type *, 4> BodyLowering::carriedTypes(ir::Type type) {
  const unsigned count = carriedTogether(type);
  if (count == 1)
    return KernelFunction::carriedTypes(type);
  return llvm::SmallVector<llvm::Type *, 4>(partTypes(type).size() / count,
                                            packedType(memoryType(context(), type.dtype()), count));
}

Registers BodyLowering::carried(ir::Type type, llvm::ArrayRef<llvm::Value *> parts) {
  const unsigned count = carriedTogether(type);
  if (count == 1)
    return KernelFunction::carried(type, parts);
  Registers words;
  for (; !parts.empty(); parts = parts.drop_front(count)) {
    Registers elements;
    for (llvm::Value *part : parts.take_front(count))
      elements.push_back(arith_.toMemory(type.dtype(), part));
    llvm::Value *word = packed(memoryType(context(), type.dtype()), elements);
    if (auto *sums = llvm::dyn_cast<llvm::Constant>(word); sums && word->getType()->isVectorTy())
      word = gpu_.device.initialAccumulator(b, sums);
    words.push_back(word);
  }
  return words;
}

Registers BodyLowering::fromCarried(ir::Type type, llvm::ArrayRef<llvm::Value *> carried) {
  const unsigned count = carriedTogether(type);
  if (count == 1)
    return KernelFunction::fromCarried(type, carried);
  Registers parts;
  for (llvm::Value *word : carried)
    for (llvm::Value *element : unpacked(memoryType(context(), type.dtype()), word, count))
      parts.push_back(arith_.fromMemory(type.dtype(), element));
  return parts;
}

llvm::Value *BodyLowering::isLeader() { return b.CreateICmpEQ(thread_, b.getInt32(0)); }

void BodyLowering::asLeader(llvm::StringRef name, llvm::function_ref<void()> body) {
  when(isLeader(), name, body);
}

llvm::Value *BodyLowering::sharedScratch(int64_t bytes) {
  const int64_t mark = gpu_.sharedMark();
  llvm::Value *address = gpu_.shared(b, bytes, ir::kScratchAlignBytes);
  gpu_.releaseShared(mark);
  if (std::exchange(sharedInUse_, false))
    programBarrier();
  return address;
}

llvm::Value *BodyLowering::fromLeader(llvm::Value *value) {
  llvm::Type *type = value->getType();
  llvm::Type *stored = type->isIntegerTy(1) ? b.getInt8Ty() : type;
  llvm::Value *place = sharedScratch(8);
  asLeader("tell", [&] {
    b.CreateAlignedStore(b.CreateZExtOrBitCast(value, stored), place, llvm::Align(8));
  });
  programBarrier();
  llvm::Value *told = b.CreateAlignedLoad(stored, place, llvm::Align(8));
  sharedRead();
  return stored == type ? told : b.CreateTrunc(told, type);
}

} // namespace dtile::backend::gpu
