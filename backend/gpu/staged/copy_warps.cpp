// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The warps that copy operands which TMA cannot describe, to where TMA would put them.
//
// A lane copies words of 4 bytes by way of registers: cp.async of 4 bytes is slower than that on
// sm_90. Its word has the same place in all rows of a box, so that a warp reads whole rows, as many
// at once as there are registers: what is under way decides how fast it is. Rows are taken in
// groups of 8, the period of the swizzle; what is the same in all groups is computed once.
//
// As rows may begin at any byte, a lane reads the aligned word in which its first byte is, and gets
// the next one from its neighbour. The word after a row's last one has been loaded by another lane:
// one load brings those of 32 rows.
//
// Elements that lie apart in a row (a transposed view, say) are copied one by one.
//
// Both are much code, so operands of an iteration whose types and swizzles are alike share it: it
// is a loop over these operands, for which the sizes of their tiles are numbers. Tiles that are
// shifted (shift_rows.cpp) come most often: each has code of its own, which is faster.
#include "backend/gpu/staged/copy_warps.h"
#include "backend/gpu/staged/word_shift.h"

#include "frontend/base/check.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/bit.h"

namespace dtile::backend::gpu {

using ir::Op;
using ir::OpKind;
using llvm::Value;

namespace {

/// What a lane copies at once, in bytes.
constexpr int64_t kWord = 4;
/// Groups of rows (a period of the swizzle) whose words are in registers at once; and where
/// registers are few, or tensors whose tiles come here are rare.
constexpr int64_t kMostGroups = 4, kFewGroups = 1;
/// Rows of which the threads of a warp know one word each.
constexpr int64_t kBlockRows = WarpOps::kWarpThreads;
/// Elements of a lane that are in registers at once, where they are copied one by one.
constexpr unsigned kMostElements = 8;

} // namespace

/// How a warp's lanes share the words of a box: so many of a row, so many rows in a step, and steps
/// of a group of rows (a period of the swizzle).
struct CopyWarps::Share {
  Share(const Operand &operand, int64_t mostGroups)
      : words(operand.tile().swizzle / kWord), rows(WarpOps::kWarpThreads / words),
        rounds(ir::kSwizzleRows / rows), atOnce(mostGroups) {
    for (const StagedTile *tile : operand.tiles) {
      DTILE_CHECK(tile->rows % ir::kSwizzleRows == 0, "a staged tile has groups of 8 rows");
      const int64_t ofWarp = int64_t(llvm::divideCeil(uint64_t(groupsOf(*tile)), kWarps));
      atOnce = std::min(atOnce, ofWarp & -ofWarp);
    }
    for (const StagedTile *tile : operand.tiles)
      isEven &= groupsOf(*tile) % (kWarps * atOnce) == 0;
  }
  static int64_t groupsOf(const StagedTile &tile) { return tile.rows / ir::kSwizzleRows; }
  int64_t words, rows, rounds;
  /// Groups whose words are in registers at once; whether all warps always have as many.
  int64_t atOnce;
  bool isEven = true;
};

CopyWarps::CopyWarps(GpuModule &module, const KernelScaffold &kernel, const Ring &ring,
                     bool hasFewRegisters)
    : HelperWarp(module, kernel, ring, "copy"), hasFewRegisters_(hasFewRegisters) {
  llvm::IRBuilder<> start(kernel.entry, kernel.entry->begin());
  turn_ = start.CreateAlloca(b.getInt32Ty(), nullptr, "copy.turn");
  for (Op *load : ring.passed)
    needPassed(*load);
  for (auto &[loop, loads] : ring.loadsOf) {
    need(*loads.front()->parentOp());
    for (Op *load : loads)
      if (isBox(*load))
        need(*load);
  }
}

void CopyWarps::lowerBodies(Op &space, const BodyRange &range) {
  const unsigned before = bodyThreads(*kernel_.kernel) + kFirstWarp * WarpOps::kWarpThreads;
  Value *thread = b.CreateSub(kernel_.thread, b.getInt32(before));
  warpNumber_ = warp_.uniform(b, b.CreateUDiv(thread, b.getInt32(WarpOps::kWarpThreads)));
  lane_ = b.CreateURem(thread, b.getInt32(WarpOps::kWarpThreads));
  setParts(range);
  place_.begin(1);
  unit_.begin(0);
  body_.begin(0);
  number_.begin(0);
  b.CreateStore(b.getFalse(), failed_);
  b.CreateStore(b.getInt32(0), turn_);
  findFolded(space);
  forEachItem(space, range, [&] {
    awaitExchange();
    lowerBlock(space.body());
  });
}

void CopyWarps::lowerOp(Op &op) {
  if (isBox(op) || isScalarLoad(op))
    return lowerLoad(op);
  if (!isNeeded(op))
    return;
  HelperWarp::lowerOp(op);
  if (op.is(OpKind::Wait))
    when(hasFailed(), "copy.failed", [&] { b.CreateStore(b.getInt32(1), shared(ring_.failed)); });
}

Value *CopyWarps::isTurn() {
  return b.CreateICmpEQ(b.CreateLoad(b.getInt32Ty(), turn_), warpNumber_);
}

void CopyWarps::whereActing(llvm::function_ref<void()> body) {
  if (!ring_.transposes)
    return body();
  when(b.CreateOr(isTurn(), b.CreateNot(ring_.areWhole)), "turn", body);
}

void CopyWarps::lowerLoad(Op &load) {
  llvm::ArrayRef<Op *> loads = ring_.loadsOf.find(load.parentOp())->second;
  Value *slot = place_.slot();
  if (&load == loads.front())
    whereActing([&] { waitOrLeave(place_.barrier(ring_.empty, slot), place_.phase()); });
  if (isBox(load)) {
    const llvm::SmallVector<Op *, 2> sharing = sharingLoads(load);
    if (!sharing.empty())
      fillTiles(sharing, slot);
    for (Op *each : sharing)
      if (ring_.tiles.find(each)->second.isTransposed())
        transpose(*each, slot);
  }
  if (&load != loads.back())
    return;
  whereActing([&] { publish(slot); });
  place_.next();
  if (ring_.transposes)
    b.CreateStore(b.CreateXor(b.CreateLoad(b.getInt32Ty(), turn_), b.getInt32(1)), turn_);
}

void CopyWarps::transpose(Op &load, Value *slot) {
  Value *isWhole = ring_.paths.lookup(&load).isWhole;
  // Each of these warps has copied a part of each box.
  when(b.CreateNot(isWhole), "copied", [&] { gpu_.device.barrier(b, kBarrier, kThreads); });
  when(isTurn(), "transpose", [&] {
    when(isWhole, "loaded", [&] {
      waitOrLeave(place_.barrier(ring_.loaded, slot), b.CreateXor(place_.phase(), b.getInt32(1)));
    });
    transposeTile(ring_.tiles.find(&load)->second, slot);
  });
}

void CopyWarps::publish(Value *slot) {
  bulk_.sharedProxyFence(b);
  warp_.syncWarp(b);
  when(warp_.isElected(b), "publish", [&] { bulk_.arrive(b, place_.barrier(ring_.full, slot)); });
}

bool CopyWarps::shareCode(Op &first, Op &second) {
  const StagedTile &one = ring_.tiles.find(&first)->second;
  const StagedTile &other = ring_.tiles.find(&second)->second;
  const auto mayFold = [&](Op &load) { return ring_.paths.lookup(&load).isFolded != nullptr; };
  if (one.dtype != other.dtype || one.swizzle != other.swizzle || one.isTf32() != other.isTf32() ||
      mayFold(first) != mayFold(second))
    return false;
  // The first is not kept waiting for what the second waits for.
  bool isBetween = false, waits = false;
  for (Op &op : first.parentBlock()->ops()) {
    isBetween = &op != &second && (isBetween || &op == &first);
    if (isBetween)
      ir::walk(op, [&](Op &inner) { waits |= inner.is(OpKind::Wait); });
  }
  return !waits;
}

llvm::SmallVector<Op *, 2> CopyWarps::sharingLoads(Op &load) {
  llvm::SmallVector<Op *, 2> boxes;
  llvm::copy_if(ring_.loadsOf.find(load.parentOp())->second, std::back_inserter(boxes),
                [](const Op *its) { return isBox(*its); });
  const size_t last = size_t(llvm::find(boxes, &load) - boxes.begin());
  if (last + 1 < boxes.size() && shareCode(load, *boxes[last + 1]))
    return {};
  size_t first = last;
  while (first > 0 && shareCode(*boxes[first - 1], *boxes[first]))
    --first;
  return {boxes.begin() + first, boxes.begin() + last + 1};
}

void CopyWarps::fillTiles(llvm::ArrayRef<Op *> loads, Value *slot) {
  Value *areWhole = b.getTrue();
  for (const Op *load : loads)
    areWhole = b.CreateAnd(areWhole, ring_.paths.lookup(load).isWhole);
  when(b.CreateNot(areWhole), "unaligned", [&] {
    llvm::SmallVector<Operand, 2> operands;
    for (Op *load : loads)
      operands.push_back(operandOf(*load, slot));
    Value *areCopied = b.getFalse();
    for (const Operand &operand : operands) {
      if (operand.isFolded)
        when(operand.isFolded, "shift", [&] { shiftTile(operand); });
      areCopied = b.CreateOr(areCopied, operand.isCopied);
    }
    when(areCopied, "copies", [&] {
      if (operands.size() == 1)
        return copyTile(operands.front());
      BodyLowering::loop(b.getInt64(operands.size()), "operands", [&](Value *turn) {
        const Operand operand = oneOf(operands, b.CreateTrunc(turn, b.getInt32Ty()));
        when(operand.isCopied, "copy", [&] { copyTile(operand); });
      });
    });
  });
}

CopyWarps::Operand CopyWarps::oneOf(llvm::MutableArrayRef<Operand> operands, Value *turn) {
  Operand one = operands.front();
  for (size_t i = 1; i < operands.size(); ++i) {
    one.tiles.push_back(&operands[i].tile());
    Value *isIt = b.CreateICmpEQ(turn, b.getInt32(uint32_t(i)));
    for (auto [number, its] : llvm::zip_equal(one.numbers(), operands[i].numbers()))
      *number = b.CreateSelect(isIt, *its, *number);
  }
  return one;
}

CopyWarps::Operand CopyWarps::operandOf(Op &load, Value *slot) {
  const StagedTile &tile = ring_.tiles.find(&load)->second;
  Operand operand;
  operand.tiles.push_back(&tile);
  const auto count = [&](int64_t x) { return b.getInt32(uint32_t(x)); };
  operand.to = address(slot, tile.offset);
  operand.rows = count(tile.rows);
  operand.rowBytes = count(tile.rowBytes);
  operand.boxes = count(tile.boxes());
  operand.boxBytes = count(tile.boxBytes());
  const View from = located(load.operand(0));
  const auto clamped = [&](Value *position, int64_t most) {
    position = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, position, b.getInt64(uint64_t(most)));
    position = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, position, b.getInt64(0));
    return b.CreateTrunc(position, b.getInt32Ty());
  };
  const ViewDimension &rows = from.dims[0], &columns = from.dims[1];
  Value *size = b.getInt32(dtypeBytes(tile.dtype));
  operand.window = {clamped(rows.low, tile.rows), clamped(rows.high, tile.rows),
                    b.CreateMul(clamped(columns.low, tile.columns()), size),
                    b.CreateMul(clamped(columns.high, tile.columns()), size)};
  operand.data = b.CreatePtrToInt(from.data, b.getInt64Ty());
  operand.row = b.CreateMul(rows.stride, b.getInt64(dtypeBytes(tile.dtype)));
  operand.column = b.CreateMul(columns.stride, b.getInt64(dtypeBytes(tile.dtype)));
  const Ring::Path path = ring_.paths.lookup(&load);
  Value *isLoaded = path.isFolded ? b.CreateOr(path.isWhole, path.isFolded) : path.isWhole;
  operand.isCopied = b.CreateNot(b.CreateOr(hasFailed(), isLoaded));
  // Also where something has failed: the load warp waits for its units.
  operand.isFolded = path.isFolded;
  if (path.isFolded)
    operand.place = foldedPlace(tile);
  return operand;
}

void CopyWarps::copyTile(const Operand &operand) {
  const Window &window = operand.window;
  Value *isFromFirst = b.CreateIsNull(b.CreateOr(window.lowRow, window.lowByte));
  Value *areNeighbours =
      b.CreateICmpEQ(operand.column, b.getInt64(dtypeBytes(operand.tile().dtype)));
  Value *inRows = b.CreateAnd(areNeighbours, isFromFirst);
  when(inRows, "rows", [&] { copyRows(operand); });
  when(b.CreateNot(inRows), "elements", [&] { copyElements(operand); });
}

namespace {

/// The word (i32) at an address (i64) where it exists, else zero.
Value *loadWord(llvm::IRBuilder<> &b, Value *address, Value *exists) {
  Value *there = b.CreateIntToPtr(address, b.getPtrTy(Device::kGlobal));
  there = b.CreateSelect(exists, there, zeroBytes(b));
  return b.CreateAlignedLoad(b.getInt32Ty(), there, llvm::Align(kWord));
}

Value *alignedDown(llvm::IRBuilder<> &b, Value *address) {
  return b.CreateAnd(address, b.getInt64(~uint64_t(kWord - 1)));
}

} // namespace

void CopyWarps::copyRows(const Operand &operand) {
  // Most of the tensors that TMA cannot describe have folded maps, where there is room for these.
  const bool isRare = operand.isFolded;
  const Share share(operand, hasFewRegisters_ || isRare ? kFewGroups : kMostGroups);
  const auto both = uint32_t(kWarps * share.atOnce * ir::kSwizzleRows);
  Value *parts = b.CreateUDiv(b.CreateAdd(operand.rows, b.getInt32(both - 1)), b.getInt32(both));
  BodyLowering::loop(b.CreateZExt(operand.boxes, b.getInt64Ty()), "boxes", [&](Value *box) {
    box = b.CreateTrunc(box, b.getInt32Ty());
    BodyLowering::loop(b.CreateZExt(parts, b.getInt64Ty()), "groups", [&](Value *part) {
      part = b.CreateTrunc(part, b.getInt32Ty());
      copyGroups(operand, share, box, b.CreateMul(part, b.getInt32(uint32_t(share.atOnce))));
    });
  });
}

CopyWarps::RowWord CopyWarps::wordOfRow(const Operand &operand, Value *row, Value *begin,
                                        Value *byte) {
  Value *rest = b.CreateSExt(b.CreateSub(operand.window.highByte, byte), b.getInt64Ty());
  Value *aligned = alignedDown(b, begin);
  Value *exists = b.CreateAnd(b.CreateICmpULT(row, operand.window.highRow),
                              b.CreateICmpULT(aligned, b.CreateAdd(begin, rest)));
  return {.bits = loadWord(b, aligned, exists),
          .shift = b.CreateShl(b.CreateTrunc(begin, b.getInt32Ty()), 3)};
}

llvm::SmallVector<Value *, 4> CopyWarps::wordsBehind(const Operand &operand, const Share &share,
                                                     Value *box, Value *first) {
  const auto count = [&](int64_t x) { return b.getInt32(uint32_t(x)); };
  Value *byte = b.CreateMul(b.CreateAdd(box, count(1)), count(operand.tile().swizzle));
  const int64_t rows = share.atOnce * ir::kSwizzleRows;
  llvm::SmallVector<Value *, 4> words;
  for (int64_t block = 0; block < rows; block += kBlockRows) {
    // The lane's row among those of its warp.
    Value *own = b.CreateURem(lane_, count(std::min(rows, kBlockRows)));
    own = b.CreateAdd(own, b.CreateAdd(b.CreateMul(first, count(ir::kSwizzleRows)), count(block)));
    Value *group = b.CreateMul(b.CreateUDiv(own, count(ir::kSwizzleRows)), count(kWarps));
    Value *row = b.CreateAdd(b.CreateMul(b.CreateAdd(group, warpNumber_), count(ir::kSwizzleRows)),
                             b.CreateURem(own, count(ir::kSwizzleRows)));
    words.push_back(wordOfRow(operand, row, addressIn(operand, row, byte), byte).bits);
  }
  return words;
}

Value *CopyWarps::addressIn(const Operand &operand, Value *row, Value *byte) {
  Value *before = b.CreateMul(b.CreateZExt(row, b.getInt64Ty()), operand.row);
  return b.CreateAdd(b.CreateAdd(operand.data, before), b.CreateZExt(byte, b.getInt64Ty()));
}

void CopyWarps::copyGroups(const Operand &operand, const Share &share, Value *box, Value *first) {
  const auto count = [&](int64_t x) { return b.getInt32(uint32_t(x)); };
  const StagedTile &tile = operand.tile();
  // In tiles of words of 4 bytes all rows begin at such words.
  const bool shifts = tile.dtype != DType::F32;
  Value *laneRow = b.CreateUDiv(lane_, count(share.words));
  Value *laneWord = b.CreateURem(lane_, count(share.words));
  Value *inBox = b.CreateMul(laneWord, count(kWord));
  Value *byte = b.CreateAdd(b.CreateMul(box, count(tile.swizzle)), inBox);
  Value *start = b.CreateAdd(operand.to, b.CreateMul(box, operand.boxBytes));
  Value *offset = b.CreateAdd(b.CreateMul(laneRow, count(tile.swizzle)), inBox);
  // Of the word as it goes to the tile, the bytes before the row's end.
  Value *mask = firstBytes(b, b.CreateSub(operand.window.highByte, byte));
  Value *apart = b.CreateMul(operand.row, b.getInt64(uint64_t(share.rows)));
  llvm::SmallVector<Value *, 4> behind;
  if (shifts)
    behind = wordsBehind(operand, share, box, first);
  llvm::SmallVector<Value *, 4> groups;
  llvm::SmallVector<RowWord, 32> words;
  for (int64_t i = 0; i < share.atOnce; ++i) {
    Value *group =
        b.CreateAdd(b.CreateMul(b.CreateAdd(first, count(i)), count(kWarps)), warpNumber_);
    groups.push_back(group);
    Value *row = b.CreateAdd(b.CreateMul(group, count(ir::kSwizzleRows)), laneRow);
    Value *begin = addressIn(operand, row, byte);
    for (int64_t round = 0; round < share.rounds; ++round) {
      words.push_back(wordOfRow(operand, row, begin, byte));
      row = b.CreateAdd(row, count(share.rows));
      begin = b.CreateAdd(begin, apart);
    }
  }
  if (shifts) {
    Value *isLast = b.CreateICmpEQ(laneWord, count(share.words - 1));
    Value *neighbour = b.CreateAnd(b.CreateAdd(lane_, count(1)), WarpOps::kWarpThreads - 1);
    for (auto [i, word] : llvm::enumerate(words)) {
      const int64_t row = int64_t(i) * share.rows;
      Value *next = warp_.fromLane(b, word.bits, neighbour);
      Value *last = warp_.fromLane(b, behind[size_t(row / kBlockRows)],
                                   b.CreateAdd(laneRow, count(row % kBlockRows)));
      word.bits = b.CreateIntrinsic(llvm::Intrinsic::fshr, {b.getInt32Ty()},
                                    {b.CreateSelect(isLast, last, next), word.bits, word.shift});
    }
  }
  const auto store = [&](size_t number) {
    Value *there =
        b.CreateAdd(start, b.CreateMul(groups[number], count(ir::kSwizzleRows * tile.swizzle)));
    for (int64_t round = 0; round < share.rounds; ++round) {
      Value *bits = b.CreateAnd(words[number * size_t(share.rounds) + size_t(round)].bits, mask);
      if (tile.isTf32()) // as TMA would
        bits = gpu_.device.roundToTf32(b, b.CreateBitCast(bits, b.getFloatTy()));
      Value *place =
          tile.layout().swizzled(b, b.CreateAdd(offset, count(round * share.rows * tile.swizzle)));
      b.CreateAlignedStore(bits, shared(b.CreateAdd(there, place)), llvm::Align(kWord));
    }
  };
  for (size_t i = 0; i < groups.size(); ++i) {
    Value *exists = b.CreateICmpULT(b.CreateMul(groups[i], count(ir::kSwizzleRows)), operand.rows);
    share.isEven ? store(i) : when(exists, "group", [&] { store(i); });
  }
}

void CopyWarps::copyElements(const Operand &operand) {
  const StagedTile &tile = operand.tile();
  const auto count = [&](int64_t x) { return b.getInt32(uint32_t(x)); };
  const auto size = int64_t(dtypeBytes(tile.dtype));
  unsigned atOnce = kMostElements;
  for (const StagedTile *its : operand.tiles) {
    const auto each = uint64_t(its->rows * its->columns() / kThreads);
    DTILE_CHECK(each * kThreads == uint64_t(its->rows * its->columns()),
                "tiles have 8 rows of 32 bytes, or multiples of that");
    atOnce = std::min(atOnce, 1u << llvm::countr_zero(each));
  }
  // Neighbours in memory are read by neighbours: threads go along the dimension `inner`.
  struct Dim {
    Value *length, *low, *span, *stride;
  };
  const Window &window = operand.window;
  const auto dimOf = [&](Value *length, Value *low, Value *high, Value *stride) {
    // Empty where the limits have crossed.
    high = b.CreateBinaryIntrinsic(llvm::Intrinsic::umax, high, low);
    return Dim{length, low, b.CreateSub(high, low), stride};
  };
  const auto elements = [&](Value *bytes) { return b.CreateUDiv(bytes, count(size)); };
  const Dim rows = dimOf(operand.rows, window.lowRow, window.highRow, operand.row);
  const Dim columns = dimOf(elements(operand.rowBytes), elements(window.lowByte),
                            elements(window.highByte), operand.column);
  Value *isDown = b.CreateICmpEQ(operand.row, b.getInt64(uint64_t(size)));
  const auto pick = [&](const Dim &ifDown, const Dim &ifNot) {
    const auto part = [&](Value *Dim::*of) {
      return b.CreateSelect(isDown, ifDown.*of, ifNot.*of);
    };
    return Dim{part(&Dim::length), part(&Dim::low), part(&Dim::span), part(&Dim::stride)};
  };
  const Dim inner = pick(rows, columns), outer = pick(columns, rows);
  // From an element of a thread to its next one: so many positions, and one of `outer` more where
  // `inner` has no more.
  Value *outerStep = b.CreateUDiv(count(kThreads), inner.length);
  Value *innerStep = b.CreateURem(count(kThreads), inner.length);
  const auto bytesTo = [&](const Dim &dim, Value *positions) {
    return b.CreateMul(b.CreateSExt(positions, b.getInt64Ty()), dim.stride);
  };
  Value *step = b.CreateAdd(bytesTo(inner, innerStep), bytesTo(outer, outerStep));
  Value *over = b.CreateSub(outer.stride, bytesTo(inner, inner.length));
  Value *thread = b.CreateAdd(b.CreateMul(warpNumber_, count(WarpOps::kWarpThreads)), lane_);
  Value *rounds = b.CreateUDiv(b.CreateMul(inner.length, outer.length), count(atOnce * kThreads));
  llvm::Type *element = memoryType(context(), tile.dtype);
  const llvm::Align align{uint64_t(size)};
  BodyLowering::loop(b.CreateZExt(rounds, b.getInt64Ty()), "elements", [&](Value *round) {
    Value *number = b.CreateAdd(
        b.CreateMul(b.CreateTrunc(round, b.getInt32Ty()), count(atOnce * kThreads)), thread);
    Value *in = b.CreateURem(number, inner.length), *out = b.CreateUDiv(number, inner.length);
    Value *there = b.CreateAdd(operand.data, b.CreateAdd(bytesTo(inner, in), bytesTo(outer, out)));
    llvm::SmallVector<std::pair<Value *, Value *>, kMostElements> moved;
    for (unsigned i = 0; i < atOnce; ++i) {
      const auto isIn = [&](const Dim &dim, Value *position) {
        return b.CreateICmpULT(b.CreateSub(position, dim.low), dim.span);
      };
      Value *from =
          b.CreateSelect(b.CreateAnd(isIn(inner, in), isIn(outer, out)),
                         b.CreateIntToPtr(there, b.getPtrTy(Device::kGlobal)), zeroBytes(b));
      Value *row = b.CreateSelect(isDown, in, out), *column = b.CreateSelect(isDown, out, in);
      Value *byte = b.CreateMul(column, count(size));
      Value *box = b.CreateMul(b.CreateUDiv(byte, count(tile.swizzle)), operand.boxBytes);
      Value *offset = b.CreateAdd(b.CreateMul(row, count(tile.swizzle)),
                                  b.CreateURem(byte, count(tile.swizzle)));
      Value *to = b.CreateAdd(operand.to, b.CreateAdd(box, tile.layout().swizzled(b, offset)));
      moved.emplace_back(b.CreateAlignedLoad(element, from, align), to);
      in = b.CreateAdd(in, innerStep);
      Value *isOver = b.CreateICmpUGE(in, inner.length);
      in = b.CreateSub(in, b.CreateSelect(isOver, inner.length, count(0)));
      out = b.CreateAdd(b.CreateAdd(out, outerStep), b.CreateZExt(isOver, b.getInt32Ty()));
      there = b.CreateAdd(b.CreateAdd(there, step), b.CreateSelect(isOver, over, b.getInt64(0)));
    }
    for (auto &[value, to] : moved) {
      // As TMA would.
      if (tile.isTf32())
        value = gpu_.device.roundToTf32(b, value);
      b.CreateAlignedStore(value, shared(to), align);
    }
  });
}

} // namespace dtile::backend::gpu
