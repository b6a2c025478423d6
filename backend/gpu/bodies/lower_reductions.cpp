// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions and scans along a dimension, bit by bit of the positions: bits of a register's number
// combine registers, bits of a lane's number combine lanes by shuffles, bits of a warp's number go
// through shared memory.
#include "backend/gpu/bodies/lower_body.h"
#include "backend/llvm/reductions.h"

#include "frontend/base/check.h"

#include <limits>

namespace dtile::backend::gpu {

using ir::Layout;
using ir::LayoutBits;
using ir::Op;
using ir::OpKind;

namespace {

/// Some values that belong together: an element, or an element and where it is.
using Group = llvm::SmallVector<llvm::Value *, 2>;
/// Combines the group of lower positions with that of higher ones.
using Combine = llvm::function_ref<Group(const Group &low, const Group &high)>;

} // namespace

llvm::Value *BodyLowering::fromLane(llvm::Value *value, unsigned mask) {
  llvm::Type *type = value->getType();
  const unsigned bits = type->getScalarSizeInBits();
  if (bits == 64) {
    llvm::Value *halves = b.CreateBitCast(value, llvm::FixedVectorType::get(b.getInt32Ty(), 2));
    for (uint64_t i : {0, 1})
      halves = b.CreateInsertElement(
          halves, gpu_.device.shuffleXor(b, b.CreateExtractElement(halves, i), mask), i);
    return b.CreateBitCast(halves, type);
  }
  llvm::Value *word = b.CreateBitCast(value, b.getIntNTy(bits));
  word = gpu_.device.shuffleXor(b, b.CreateZExt(word, b.getInt32Ty()), mask);
  return b.CreateBitCast(b.CreateTrunc(word, b.getIntNTy(bits)), type);
}

namespace {

/// Reduces groups of values along one dimension of a tile.
class Reducer {
public:
  Reducer(BodyLowering &body, const TileInfo &from, unsigned axis)
      : body_(body), b(body.builder()), from_(from), axis_(axis) {}

  /// i1: a slot's element is inside along the axis; null where all threads' are.
  [[nodiscard]] llvm::Value *isInside(unsigned slot) {
    const Layout::Position at = from_.at(slot);
    int64_t last = at[axis_];
    for (LayoutBits which : {LayoutBits::Lane, LayoutBits::Warp})
      for (const Layout::Position &way : from_.layout.bits(which))
        last += way[axis_];
    if (last < from_.shape[axis_])
      return nullptr;
    return b.CreateICmpULT(position(slot), b.getInt32(uint32_t(from_.shape[axis_])));
  }
  [[nodiscard]] llvm::Value *position(unsigned slot) {
    return b.CreateAdd(body_.threadPosition(from_.layout, axis_),
                       b.getInt32(uint32_t(from_.at(slot)[axis_])));
  }

  /// One group for each slot of `to`, which is the layout without the axis. `together` combines
  /// what two lanes have, and must give both of them one result.
  [[nodiscard]] llvm::SmallVector<Group> run(llvm::ArrayRef<Group> groups, const TileInfo &to,
                                             Combine combine, Combine together);

private:
  [[nodiscard]] llvm::SmallVector<unsigned, 5> bitsAlong(LayoutBits which) {
    llvm::SmallVector<unsigned, 5> result;
    for (auto [i, way] : llvm::enumerate(from_.layout.bits(which)))
      if (way[axis_] != 0)
        result.push_back(unsigned(i));
    return result;
  }
  void acrossLanes(llvm::SmallVectorImpl<Group> &groups, Combine combine);
  void acrossWarps(llvm::SmallVectorImpl<Group> &groups, Combine combine);
  /// Through shared memory, between warps that differ in some bits.
  void exchange(llvm::MutableArrayRef<Group> groups, llvm::ArrayRef<unsigned> bits,
                Combine combine);

  BodyLowering &body_;
  llvm::IRBuilder<> &b;
  const TileInfo &from_;
  unsigned axis_;
};

llvm::SmallVector<Group> Reducer::run(llvm::ArrayRef<Group> groups, const TileInfo &to,
                                      Combine combine, Combine together) {
  llvm::SmallVector<Group> result(to.size());
  for (unsigned slot = 0; slot < from_.size(); ++slot) {
    if (from_.isCopy(slot))
      continue;
    Layout::Position at = from_.at(slot);
    for (unsigned d = axis_; d + 1 < from_.shape.size(); ++d)
      at[d] = at[d + 1];
    at[from_.shape.size() - 1] = 0;
    Group &sum = result[BodyLowering::slotOf(to, at)];
    sum = sum.empty() ? groups[slot] : combine(sum, groups[slot]);
  }
  acrossLanes(result, together);
  acrossWarps(result, combine);
  return result;
}

void Reducer::acrossLanes(llvm::SmallVectorImpl<Group> &groups, Combine combine) {
  for (unsigned bit : bitsAlong(LayoutBits::Lane))
    for (Group &group : groups) {
      Group other;
      for (llvm::Value *value : group)
        other.push_back(body_.fromLane(value, 1u << bit));
      group = combine(group, other);
    }
}

void Reducer::acrossWarps(llvm::SmallVectorImpl<Group> &groups, Combine combine) {
  const llvm::SmallVector<unsigned, 5> bits = bitsAlong(LayoutBits::Warp);
  if (bits.empty())
    return;
  // As many at a time as there is room for.
  const int64_t bytes =
      int64_t(from_.layout.lanes()) * from_.layout.warps() * 8 * int64_t(groups.front().size());
  const auto most = size_t(std::max<int64_t>(body_.gpu().sharedRoom() / bytes, 1));
  for (size_t first = 0; first < groups.size(); first += most)
    exchange(llvm::MutableArrayRef(groups).drop_front(first).take_front(most), bits, combine);
}

void Reducer::exchange(llvm::MutableArrayRef<Group> groups, llvm::ArrayRef<unsigned> bits,
                       Combine combine) {
  // Each thread leaves its values, and takes those of the threads that differ in these bits.
  const unsigned values = groups.front().size();
  const unsigned threads = from_.layout.lanes() * from_.layout.warps();
  const int64_t each = int64_t(threads) * 8;
  llvm::Value *base = body_.sharedScratch(each * values * int64_t(groups.size()));
  llvm::Value *own = b.CreateAnd(body_.thread(), b.getInt32(threads - 1));
  auto place = [&](llvm::Value *thread, size_t group, unsigned value) {
    llvm::Value *at = b.CreateGEP(b.getInt64Ty(), base, thread);
    return b.CreateConstGEP1_64(b.getInt8Ty(), at, (group * values + value) * uint64_t(each));
  };
  auto stored = [&](llvm::Type *type) {
    return type->isIntegerTy(1) ? static_cast<llvm::Type *>(b.getInt8Ty()) : type;
  };
  for (auto [g, group] : llvm::enumerate(groups))
    for (auto [v, value] : llvm::enumerate(group))
      b.CreateAlignedStore(b.CreateZExtOrBitCast(value, stored(value->getType())),
                           place(own, g, unsigned(v)), llvm::Align(8));
  body_.programBarrier();
  const unsigned laneBits = llvm::Log2_32(from_.layout.lanes());
  uint32_t mask = 0;
  for (unsigned bit : bits)
    mask |= 1u << (bit + laneBits);
  llvm::Value *first = b.CreateAnd(own, b.getInt32(~mask));
  for (auto [g, group] : llvm::enumerate(groups)) {
    Group sum;
    // In the order of the warps' numbers, in all threads alike.
    for (uint32_t part = 0; part < 1u << bits.size(); ++part) {
      uint32_t which = 0;
      for (auto [i, bit] : llvm::enumerate(bits))
        which |= (part >> i & 1) << (bit + laneBits);
      Group other;
      for (auto [v, value] : llvm::enumerate(group)) {
        llvm::Type *type = value->getType();
        llvm::Value *read = b.CreateAlignedLoad(
            stored(type), place(b.CreateOr(first, which), g, unsigned(v)), llvm::Align(8));
        other.push_back(stored(type) == type ? read : b.CreateTrunc(read, type));
      }
      sum = sum.empty() ? other : combine(sum, other);
    }
    group = sum;
  }
  body_.sharedRead();
}

} // namespace

void BodyLowering::lowerReduction(Op &op) {
  const ir::Type type = op.operand(0)->type();
  const TileInfo &from = info(type);
  const auto axis = unsigned(op.get(ir::attr::axis));
  const DType dtype = type.dtype();
  llvm::ArrayRef<llvm::Value *> values = registers(op.operand(0));
  Reducer reducer(*this, from, axis);
  const bool isArg = op.is(OpKind::ArgReduce);
  const DType sumType = isArg ? dtype : accumulatorType(dtype);
  const OpKind kind = combinerOf(op.get(ir::attr::kind));

  llvm::SmallVector<Group> groups;
  // Positions outside are past all others.
  llvm::Value *nowhere = b.getInt32(std::numeric_limits<int32_t>::max());
  for (unsigned slot = 0; slot < from.size(); ++slot) {
    llvm::Value *value = values[slot];
    llvm::Value *inside = reducer.isInside(slot);
    if (isArg) {
      llvm::Value *at = reducer.position(slot);
      groups.push_back({value, inside ? b.CreateSelect(inside, at, nowhere) : at});
    } else {
      groups.push_back(
          {inside ? b.CreateSelect(inside, value, neutralOf(context(), kind, sumType)) : value});
    }
  }

  auto combine = [&](const Group &x, const Group &y) -> Group {
    if (!isArg)
      return {arith_.binary(kind, sumType, x[0], y[0])};
    // The second wins when it is better, or as good and earlier. A NaN gives way to any number.
    llvm::Value *better = arith_.compare(kind == OpKind::Max ? "gt" : "lt", dtype, y[0], x[0]);
    llvm::Value *equal = arith_.compare("eq", dtype, y[0], x[0]);
    if (isFloat(dtype)) {
      llvm::Value *xNan = b.CreateFCmpUNO(x[0], x[0]), *yNan = b.CreateFCmpUNO(y[0], y[0]);
      better = b.CreateOr(better, b.CreateAnd(xNan, b.CreateNot(yNan)));
      equal = b.CreateOr(equal, b.CreateAnd(xNan, yNan));
    }
    llvm::Value *wins = b.CreateOr(better, b.CreateAnd(equal, b.CreateICmpSLT(y[1], x[1])));
    // Who is nowhere loses, whatever it holds.
    wins = b.CreateAnd(wins, b.CreateICmpNE(y[1], nowhere));
    wins = b.CreateOr(wins, b.CreateICmpEQ(x[1], nowhere));
    return {b.CreateSelect(wins, y[0], x[0]), b.CreateSelect(wins, y[1], x[1])};
  };

  // A product that its own lane adds before it is rounded is not what the other lane was given.
  auto together = [&](const Group &x, const Group &y) {
    const bool contracted = arith_.contract(false);
    Group both = combine(x, y);
    arith_.contract(contracted);
    return both;
  };

  llvm::SmallVector<int64_t, 4> shape(type.shape());
  shape.erase(shape.begin() + axis);
  const Layout layout = from.layout.withoutDim(axis).withoutRegisterCopies();
  const TileInfo to(layout, shape);
  Registers result;
  for (const Group &group : reducer.run(groups, to, combine, together))
    result.push_back(isArg ? group[1] : arith_.round(dtype, group[0]));
  const ir::Type out = op.result()->type();
  if (!out.isTile())
    return set(op.result(), {result.front()});
  setRegisters(op.result(), convert(out.dtype(), shape, layout, result, *out.layout()));
}

void BodyLowering::lowerScan(Op &op) {
  const ir::Type type = op.operand(0)->type();
  const TileInfo &from = info(type);
  const auto axis = unsigned(op.get(ir::attr::axis));
  const DType sumType = accumulatorType(type.dtype());
  const OpKind kind = combinerOf(op.get(ir::attr::kind));
  Reducer reducer(*this, from, axis);
  // Of the positions up to this one, and of all that differ from it in the bits so far.
  Registers running, total;
  for (unsigned slot = 0; slot < from.size(); ++slot) {
    llvm::Value *value = registers(op.operand(0))[slot];
    if (llvm::Value *inside = reducer.isInside(slot))
      value = b.CreateSelect(inside, value, neutralOf(context(), kind, sumType));
    running.push_back(value);
    total.push_back(value);
  }
  auto combine = [&](llvm::Value *low, llvm::Value *high) {
    return arith_.binary(kind, sumType, low, high);
  };
  const unsigned laneBits = llvm::Log2_32(from.layout.lanes());
  // From the lowest bit of the positions to the highest.
  for (int32_t distance = 1; distance < from.extent(axis); distance *= 2) {
    Layout::Position way{};
    way[axis] = distance;
    auto bitOf = [&](LayoutBits which) -> std::optional<unsigned> {
      llvm::ArrayRef<Layout::Position> ways = from.layout.bits(which);
      auto it = llvm::find(ways, way);
      return it == ways.end() ? std::nullopt : std::optional(unsigned(it - ways.begin()));
    };
    if (auto bit = bitOf(LayoutBits::Register)) {
      for (unsigned low = 0; low < from.size(); ++low) {
        if (from.indices[low] >> *bit & 1)
          continue;
        // Registers past the end do not exist.
        const int32_t high = from.slots[from.indices[low] | 1u << *bit];
        if (high < 0)
          continue;
        running[high] = combine(total[low], running[high]);
        total[low] = total[high] = combine(total[low], total[high]);
      }
      continue;
    }
    std::optional<unsigned> lane = bitOf(LayoutBits::Lane), warp = bitOf(LayoutBits::Warp);
    if (!lane && !warp)
      continue;
    const unsigned bit = lane ? *lane : *warp + laneBits;
    Registers others = lane ? Registers() : fromThread(total, 1u << bit, sumType);
    llvm::Value *isHigh =
        b.CreateICmpNE(b.CreateAnd(thread_, b.getInt32(1u << bit)), b.getInt32(0));
    for (unsigned slot = 0; slot < from.size(); ++slot) {
      llvm::Value *other = lane ? fromLane(total[slot], 1u << *lane) : others[slot];
      running[slot] = b.CreateSelect(isHigh, combine(other, running[slot]), running[slot]);
      total[slot] = combine(b.CreateSelect(isHigh, other, total[slot]),
                            b.CreateSelect(isHigh, total[slot], other));
    }
  }
  Registers result;
  for (llvm::Value *value : running)
    result.push_back(arith_.round(type.dtype(), value));
  setRegisters(op.result(), convert(type.dtype(), type.shape(), from.layout, result,
                                    *op.result()->type().layout()));
}

Registers BodyLowering::fromThread(llvm::ArrayRef<llvm::Value *> values, uint32_t mask,
                                   DType type) {
  const int64_t each = int64_t(threads_) * 8;
  // As many at a time as there is room for.
  if (const auto most = size_t(std::max<int64_t>(gpu_.sharedRoom() / each, 1));
      most < values.size()) {
    Registers result = fromThread(values.take_front(most), mask, type);
    llvm::append_range(result, fromThread(values.drop_front(most), mask, type));
    return result;
  }
  llvm::Value *base = sharedScratch(each * int64_t(values.size()));
  llvm::Type *memory = memoryType(context(), type);
  auto place = [&](llvm::Value *thread, size_t i) {
    return b.CreateConstGEP1_64(b.getInt8Ty(), b.CreateGEP(b.getInt64Ty(), base, thread),
                                i * uint64_t(each));
  };
  for (auto [i, value] : llvm::enumerate(values))
    b.CreateAlignedStore(arith_.toMemory(type, value), place(thread_, i), llvm::Align(8));
  programBarrier();
  llvm::Value *other = b.CreateXor(thread_, b.getInt32(mask));
  Registers result;
  for (size_t i = 0; i < values.size(); ++i)
    result.push_back(
        arith_.fromMemory(type, b.CreateAlignedLoad(memory, place(other, i), llvm::Align(8))));
  sharedRead();
  return result;
}

} // namespace dtile::backend::gpu
