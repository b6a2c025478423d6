// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ir/analysis/shared_memory_plan.h"

#include "ir/core/layout.h"

#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

namespace dtile::ir {

namespace {

int64_t aligned(int64_t bytes, int64_t to) {
  return int64_t(llvm::alignTo(uint64_t(bytes), uint64_t(to)));
}

} // namespace

// Room.

int64_t sharedRoom(const TargetFacts &facts, int64_t programs) {
  return facts.sharedBytes / programs - kReservedSharedBytes;
}

int64_t programsInShared(const TargetFacts &facts, int64_t bytes) {
  return facts.sharedBytes / (bytes + kReservedSharedBytes);
}

// Tiles.

int64_t tileBytes(Type tile) { return tile.elements() * int64_t(dtypeBytes(tile.dtype())); }

int64_t paddedRowBytes(int64_t bytes) {
  return bytes < 2 * kSharedWordBytes ? bytes : aligned(bytes, kSharedWordBytes) + kSharedWordBytes;
}

int64_t paddedTileBytes(llvm::ArrayRef<int64_t> shape, int64_t elementBytes) {
  const auto whole = [](int64_t size) { return int64_t(llvm::PowerOf2Ceil(uint64_t(size))); };
  int64_t bytes = whole(shape.back()) * elementBytes;
  if (shape.size() > 1)
    bytes = paddedRowBytes(bytes);
  for (const int64_t size : shape.drop_back())
    bytes *= whole(size);
  return aligned(bytes, kSharedWordBytes);
}

int64_t paddedTileBytes(Type tile) {
  const int64_t element = dtypeBytes(tile.dtype());
  const Layout *layout = tile.layout();
  if (!layout)
    return paddedTileBytes(tile.shape(), element);
  const llvm::SmallVector<uint32_t, 16> registers = layout->inside(tile.shape());
  const unsigned last = tile.rank() - 1;
  int64_t bytes = layout->extent(last, registers) * element;
  if (last > 0)
    bytes = paddedRowBytes(bytes);
  for (unsigned d = 0; d < last; ++d)
    bytes *= layout->extent(d, registers);
  return aligned(bytes, kSharedWordBytes);
}

int64_t paddedSumBytes(Type sums, int64_t elementBytes) {
  return aligned(sums.shape()[0] * paddedRowBytes(sums.shape()[1] * elementBytes),
                 kSharedWordBytes);
}

int64_t rowBufferBytes(Type tile, int64_t threads) {
  const Layout *layout = tile.layout();
  const int64_t element = dtypeBytes(tile.dtype());
  return layout ? int64_t(layout->inside(tile.shape()).size()) * element * threads
                : tileBytes(tile);
}

int64_t copyRingBytes(const TargetFacts &facts, bool besideProducts) {
  return int64_t(facts.copyBytes) * (besideProducts ? 2 : 1);
}

namespace {

/// Whether elements stay in their threads.
bool staysInThreads(const Layout &from, const Layout &to) {
  return from.bits(LayoutBits::Lane) == to.bits(LayoutBits::Lane) &&
         from.bits(LayoutBits::Warp) == to.bits(LayoutBits::Warp);
}

} // namespace

int64_t exchangeBytes(Op &op, llvm::function_ref<bool(const Value &)> isShared) {
  const auto moved = [&](const Value *tile) {
    return tile->type().isTile() && !isShared(*tile)
               ? aligned(paddedTileBytes(tile->type()), kScratchAlignBytes)
               : 0;
  };
  switch (op.kind()) {
  case OpKind::Convert: {
    const Type from = op.operand(0)->type(), to = op.result()->type();
    return staysInThreads(*from.layout(), *to.layout()) ? 0 : moved(op.operand(0));
  }
  case OpKind::Broadcast:
  case OpKind::Reshape:
  case OpKind::Trans:
  case OpKind::Take:
    return moved(op.operand(0));
  case OpKind::Reduce:
  case OpKind::ArgReduce:
  case OpKind::Scan: {
    // What each thread has of the result, with its position, for those of other warps.
    const Type type = op.result()->type();
    const int64_t each = type.isTile() && type.layout() ? type.layout()->registers() : 1;
    return each * kSharedWordBytes * op.enclosing(OpKind::Kernel)->getOr(attr::threads, 1);
  }
  case OpKind::Dot: {
    // A matrix instruction's operands are conversions, which it does by itself.
    int64_t bytes = 0;
    for (unsigned i : {0u, 1u}) {
      Op *source = op.operand(i)->definingOp();
      if (!op.has(attr::matrix))
        bytes += moved(op.operand(i));
      else if (source && source->is(OpKind::Convert))
        bytes += exchangeBytes(*source, isShared);
    }
    return bytes;
  }
  default:
    return 0;
  }
}

// Staged spaces.

int64_t StageBytes::addBox(Type tile) {
  const int64_t offset = boxes;
  boxes += aligned(tileBytes(tile), kBoxAlignBytes);
  return offset;
}

int64_t StageBytes::addScalars(Type tile) {
  constexpr int64_t kScalarBytes = 4;
  const int64_t offset = scalars;
  scalars += aligned(kScalarBytes * tile.elements(), kSharedWordBytes);
  return offset;
}

void StageBytes::unite(const StageBytes &other) {
  boxes = std::max(boxes, other.boxes);
  scalars = std::max(scalars, other.scalars);
}

int64_t StageBytes::bytes() const { return boxes + aligned(scalars, kBoxAlignBytes); }

StageBytes::StageBytes(Op &loop) {
  for (const Op &op : loop.body().ops())
    if (isStagedLoad(op))
      addBox(op.result()->type());
    else if (comesVia(op, LoadPath::Scalars))
      addScalars(op.result()->type());
}

StagedControl::StagedControl(int64_t begin, int64_t stages, int64_t parts,
                             const CopiedTiles &copied)
    : begin(begin), end(begin) {
  constexpr int64_t kFailedBytes = 4;
  const auto add = [&](int64_t bytes, int64_t align) {
    const int64_t offset = aligned(end, align);
    end = offset + bytes;
    return offset;
  };
  const auto barriers = [&](int64_t count) { return add(count * kMbarrierBytes, kMbarrierBytes); };
  full = barriers(stages);
  empty = barriers(stages);
  if (copied.areTransposed)
    loaded = barriers(stages);
  failed = add(kFailedBytes, kFailedBytes);
  for (int64_t *barrier : {&ready, &received, &added, &reusable})
    *barrier = barriers(1);
  unitFull = barriers(kMostUnits);
  unitEmpty = barriers(kMostUnits);
  for (int64_t *ring : {&bodies, &bodiesFull, &bodiesEmpty})
    *ring = barriers(kBodiesAhead);
  if (copied.passesNumbers)
    for (int64_t *ring : {&numbers, &numbersFull, &numbersEmpty})
      *ring = barriers(kNumbersAhead);
  for (const int64_t rows : copied.gathered)
    tables.push_back(add(rowTableBytes(rows), kSharedWordBytes));
  if (parts == 0)
    return;
  stored = barriers(1);
  drained = barriers(parts);
  for (int64_t *barrier : {&ended, &arrived, &taken})
    *barrier = barriers(1);
}

CopiedTiles::CopiedTiles(Op &space) {
  walk(space, [&](const Op &op) {
    if (comesVia(op, LoadPath::Rows))
      gathered.push_back(op.result()->type().shape()[0]);
    areTransposed |= op.is(OpKind::Load) && op.get(attr::transposed);
    passesNumbers |= op.is(OpKind::Load) && op.get(attr::agreed);
  });
}

int64_t controlBegin(Op &space) {
  int64_t begin = 0;
  for (Op &op : space.parentBlock()->ops()) {
    if (&op == &space)
      break;
    if (op.is(OpKind::Space) && op.has(attr::warpgroups))
      begin = StagedControl(begin, kMostStages, op.get(attr::warpgroups), CopiedTiles(op)).end;
  }
  return begin;
}

StagedPlan::StagedPlan(Op &space, int64_t begin, int64_t parts) {
  int64_t stages = 0;
  llvm::SmallPtrSet<const Value *, 2> residents;
  const Value *stored = nullptr;
  walk(space, [&](Op &op) {
    if (op.is(OpKind::For) && op.has(attr::stages)) {
      stage.unite(StageBytes(op));
      stages = std::max(stages, op.get(attr::stages));
    }
    if (op.is(OpKind::Dot) && op.has(attr::resident) &&
        residents.insert(residentOperand(op)).second)
      addResident(op.operand(0)->type());
    if (!stored && op.get(attr::epilogue) && op.numOperands() > 0 && op.operand(0)->type().isTile())
      stored = op.operand(0);
  });
  controlEnd = StagedControl(begin, stages, stored ? parts : 0, CopiedTiles(space)).end;
  if (stored)
    output = (stored->type().layout()
                  ? paddedTileBytes(stored->type())
                  : paddedSumBytes(stored->type(), dtypeBytes(stored->type().dtype()))) /
             parts;
}

void StagedPlan::addResident(Type tile) { resident += aligned(tileBytes(tile), kBoxAlignBytes); }

int64_t StagedPlan::bytes(int64_t stages) const {
  return aligned(controlEnd, kBoxAlignBytes) + stages * stage.bytes() + resident + output;
}

int64_t StagedPlan::stagesIn(int64_t room) const {
  return stage.bytes() == 0 ? 0 : (room - bytes(0)) / stage.bytes();
}

Value *residentOperand(const Op &dot) {
  Value *tile = dot.operand(0);
  while (tile->definingOp() && tile->definingOp()->is(OpKind::Convert))
    tile = tile->definingOp()->operand(0);
  return tile;
}

int64_t carriedElements(const Op &loop) {
  int64_t elements = 0;
  for (const Value *sum : loop.results())
    elements += sum->type().elements();
  return elements;
}

namespace {

/// Of sums of so many elements: each program's own, and what it adds to a part of them from up to
/// `most` programs less one (backend/gpu/staged/exchange_sums.cpp).
int64_t clusterExchangeBytes(int64_t elements, int64_t threads, int64_t most) {
  const int64_t groups = (elements + threads * kExchangeGroup - 1) / (threads * kExchangeGroup);
  int64_t received = 0;
  for (int64_t parts = 2; parts <= most; ++parts)
    received = std::max(received, (parts - 1) * ((groups + parts - 1) / parts));
  return (groups + received) * threads * kExchangeGroupBytes;
}

} // namespace

bool stagesHoldExchange(Op &loop, const TargetFacts &facts) {
  const int64_t threads =
      loop.enclosing(OpKind::Space)->getOr(attr::warpgroups, 1) * facts.groupThreads;
  return clusterExchangeBytes(carriedElements(loop), threads, facts.clusterPrograms) <=
         StageBytes(loop).bytes() * loop.get(attr::stages);
}

// Multistage loops.

int64_t slotRowBytes(int64_t bytes, int64_t swizzle) {
  const bool isEven = bytes / kSharedWordBytes % 2 == 0;
  return swizzle == 0 && isEven ? bytes + kSharedWordBytes : bytes;
}

int64_t MultistageSlot::add(int64_t bytes) {
  const int64_t offset = bytes_;
  bytes_ += aligned(bytes, kScratchAlignBytes);
  return offset;
}

int64_t MultistageSlot::addTile(Type tile, int64_t swizzle) {
  const int64_t row = tile.shape()[1] * int64_t(dtypeBytes(tile.dtype()));
  return add(tile.shape()[0] * slotRowBytes(row, swizzle));
}

bool MultistageSlot::holdsNumbers(size_t count) {
  return int64_t(count) * kNumberBytes <= kScratchAlignBytes;
}

int64_t MultistageSlot::addNumbers(size_t count) { return add(int64_t(count) * kNumberBytes); }

int64_t MultistageSlot::addLookup(Type tile) { return add(tileBytes(tile)); }

} // namespace dtile::ir
