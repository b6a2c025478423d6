// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The warps that copy operands which TMA cannot describe, to where TMA would put them.
//
// A lane copies words of 4 bytes by way of registers: cp.async of 4 bytes is slower than that on
// sm_90. Its word has the same place in all rows of a box, so that a warp reads whole rows, as many
// at once as there are registers: what is under way decides how fast it is. Rows are taken in
// groups of 8, the period of the swizzle; what is the same in all groups is computed once.
//
// Where rows do not begin at multiples of 4 bytes, a lane reads the aligned word in which its first
// byte is, and gets the next one from its neighbour. The word after a row's last one has been
// loaded by another lane: one load brings those of 32 rows.
//
// Elements that lie apart in a row (a transposed view, say) are copied one by one.
#include "backend/gpu/staged/copy_warps.h"

#include "frontend/base/check.h"

#include "llvm/ADT/bit.h"

namespace dtile::backend::gpu {

using ir::Op;
using ir::OpKind;
using llvm::Value;

namespace {

/// What a lane copies at once, in bytes.
constexpr int64_t kWord = 4;
/// Groups of rows (a period of the swizzle) whose words are in registers at once; and where
/// registers are few.
constexpr int64_t kMostGroups = 4, kFewGroups = 1;
/// Rows of which the threads of a warp know one word each.
constexpr int64_t kBlockRows = WarpOps::kWarpThreads;
/// Elements of a lane that are in registers at once, where they are copied one by one.
constexpr unsigned kMostElements = 8;

} // namespace

/// How lanes share the words of a box.
struct CopyWarps::Share {
  Share(const StagedTile &tile, int64_t mostGroups)
      : words(tile.swizzle / kWord), rows(WarpOps::kWarpThreads / words),
        rounds(ir::kSwizzleRows / rows), groups(tile.rows / ir::kSwizzleRows),
        groupsOfWarp((groups + kWarps - 1) / kWarps), isEven(groups % kWarps == 0),
        atOnce(std::min(mostGroups, groupsOfWarp & -groupsOfWarp)) {
    DTILE_CHECK(tile.rows % ir::kSwizzleRows == 0, "a staged tile has groups of 8 rows");
  }
  /// 16-byte words of a row in a box; rows that a warp copies in a step; steps of a group.
  int64_t words, rows, rounds;
  /// Groups of a box, and of a warp; whether all warps have as many.
  int64_t groups, groupsOfWarp;
  bool isEven;
  /// Groups of rows of one period of the swizzle whose words are in registers at once.
  int64_t atOnce;
};

/// The rows of a tile in memory.
struct CopyWarps::Rows {
  /// i64: the address of the first row, and bytes from a row to the next one.
  Value *data, *pitch;
  /// i32: how many rows exist, and how many of their bytes.
  Value *count, *bytes;
  /// Of a lane's row in each round of the first group. i64: the address of its word, aligned; i32:
  /// bits by which its bytes lie after it; bytes up to the row's end, from the aligned begin on.
  llvm::SmallVector<Value *, 8> words, shifts, ends;
  /// i1: no row is shifted.
  Value *areAligned;
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
    const Ring::Path path = ring_.paths.lookup(&load);
    Value *isLoaded = path.isFolded ? b.CreateOr(path.isWhole, path.isFolded) : path.isWhole;
    when(b.CreateNot(b.CreateOr(hasFailed(), isLoaded)), "copy", [&] { copyTile(load, slot); });
    // Also where something has failed: the load warp waits for its units.
    if (path.isFolded)
      when(path.isFolded, "shift", [&] { shiftTile(operandOf(load, slot)); });
    if (const StagedTile &tile = ring_.tiles.find(&load)->second; tile.isTransposed()) {
      // Each of these warps has copied a part of each box.
      when(b.CreateNot(path.isWhole), "copied",
           [&] { gpu_.device.barrier(b, kBarrier, kThreads); });
      when(isTurn(), "transpose", [&] {
        when(path.isWhole, "loaded", [&] {
          waitOrLeave(place_.barrier(ring_.loaded, slot),
                      b.CreateXor(place_.phase(), b.getInt32(1)));
        });
        transposeTile(tile, slot);
      });
    }
  }
  if (&load != loads.back())
    return;
  whereActing([&] { publish(slot); });
  place_.next();
  if (ring_.transposes)
    b.CreateStore(b.CreateXor(b.CreateLoad(b.getInt32Ty(), turn_), b.getInt32(1)), turn_);
}

void CopyWarps::publish(Value *slot) {
  bulk_.sharedProxyFence(b);
  warp_.syncWarp(b);
  when(warp_.isElected(b), "publish", [&] { bulk_.arrive(b, place_.barrier(ring_.full, slot)); });
}

CopyWarps::Operand CopyWarps::operandOf(Op &load, Value *slot) {
  const StagedTile &tile = ring_.tiles.find(&load)->second;
  Operand operand;
  operand.tiles.push_back(&tile);
  const auto number = [&](llvm::function_ref<int64_t(const StagedTile &)> of) {
    return numberOf(operand, of);
  };
  operand.to = b.CreateAdd(address(slot, 0), number([](const auto &its) { return its.offset; }));
  operand.rows = number([](const auto &its) { return its.rows; });
  operand.rowBytes = number([](const auto &its) { return its.rowBytes; });
  operand.boxes = number([](const auto &its) { return its.boxes(); });
  operand.boxBytes = number([](const auto &its) { return its.boxBytes(); });
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
  if (ring_.paths.lookup(&load).isFolded)
    operand.place = foldedPlace(tile);
  return operand;
}

Value *CopyWarps::numberOf(const Operand &operand,
                           llvm::function_ref<int64_t(const StagedTile &)> of) {
  Value *number = b.getInt32(uint32_t(of(operand.tile())));
  for (size_t i = 1; i < operand.tiles.size(); ++i)
    number = b.CreateSelect(b.CreateICmpEQ(operand.turn, b.getInt32(uint32_t(i))),
                            b.getInt32(uint32_t(of(*operand.tiles[i]))), number);
  return number;
}

void CopyWarps::copyTile(Op &load, Value *slot) {
  const StagedTile &tile = ring_.tiles.find(&load)->second;
  const View from = located(load.operand(0));
  Value *isWhole = b.CreateAnd(b.CreateICmpSLE(from.dims[0].low, b.getInt64(0)),
                               b.CreateICmpSLE(from.dims[1].low, b.getInt64(0)));
  Value *inRows = b.CreateAnd(b.CreateICmpEQ(from.dims[1].stride, b.getInt64(1)), isWhole);
  when(inRows, "rows", [&] { copyRows(tile, from, slot); });
  when(b.CreateNot(inRows), "elements", [&] { copyElements(tile, from, slot); });
}

namespace {

/// i32: how many of the first `most` positions of a dimension exist.
Value *countOf(llvm::IRBuilder<> &b, const ViewDimension &dim, int64_t most) {
  Value *count =
      b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, dim.high, b.getInt64(uint64_t(most)));
  count = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, count, b.getInt64(0));
  return b.CreateTrunc(count, b.getInt32Ty());
}

/// i32: how many bytes of a word that begins at `byte` lie before `end`.
Value *validBytes(llvm::IRBuilder<> &b, Value *end, Value *byte) {
  Value *valid =
      b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b.CreateSub(end, byte), b.getInt32(kWord));
  return b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, valid, b.getInt32(0));
}

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

void CopyWarps::copyRows(const StagedTile &tile, const View &from, Value *slot) {
  const Share share(tile, hasFewRegisters_ ? kFewGroups : kMostGroups);
  const uint64_t size = dtypeBytes(tile.dtype);
  Rows rows;
  rows.data = b.CreatePtrToInt(from.data, b.getInt64Ty());
  rows.pitch = b.CreateMul(from.dims[0].stride, b.getInt64(size));
  rows.count = countOf(b, from.dims[0], tile.rows);
  rows.bytes = b.CreateMul(countOf(b, from.dims[1], tile.columns()), b.getInt32(uint32_t(size)));
  rows.areAligned =
      b.CreateIsNull(b.CreateAnd(b.CreateOr(rows.data, rows.pitch), b.getInt64(kWord - 1)));
  // Groups follow on each other by multiples of 8 bytes: rows begin at the same places in words.
  Value *word = b.CreateURem(lane_, b.getInt32(uint32_t(share.words)));
  Value *byte = b.CreateMul(word, b.getInt32(kWord));
  for (int64_t round = 0; round < share.rounds; ++round) {
    Value *row = b.CreateAdd(b.CreateUDiv(lane_, b.getInt32(uint32_t(share.words))),
                             b.getInt32(uint32_t(round * share.rows)));
    Value *begin =
        b.CreateAdd(rows.data, b.CreateMul(b.CreateZExt(row, b.getInt64Ty()), rows.pitch));
    Value *aligned = alignedDown(b, begin);
    Value *skipped = b.CreateTrunc(b.CreateSub(begin, aligned), b.getInt32Ty());
    rows.words.push_back(b.CreateAdd(aligned, b.CreateZExt(byte, b.getInt64Ty())));
    rows.shifts.push_back(b.CreateShl(skipped, 3));
    rows.ends.push_back(b.CreateAdd(skipped, rows.bytes));
  }
  for (int64_t box = 0; box < tile.boxes(); ++box)
    BodyLowering::loop(
        b.getInt64(uint64_t(share.groupsOfWarp / share.atOnce)), "groups", [&](Value *part) {
          Value *first =
              b.CreateMul(b.CreateTrunc(part, b.getInt32Ty()), b.getInt32(uint32_t(share.atOnce)));
          copyGroups(tile, share, rows, box, first, slot);
        });
}

llvm::SmallVector<Value *, 4> CopyWarps::wordsBehind(const Share &share, const Rows &rows,
                                                     int64_t behind, Value *first) {
  const auto count = [&](int64_t x) { return b.getInt32(uint32_t(x)); };
  llvm::SmallVector<Value *, 4> words;
  for (int64_t block = 0; block < share.atOnce * ir::kSwizzleRows; block += kBlockRows) {
    // The lane's row among those of its warp.
    Value *own =
        b.CreateAdd(lane_, b.CreateAdd(b.CreateMul(first, count(ir::kSwizzleRows)), count(block)));
    Value *group = b.CreateMul(b.CreateUDiv(own, count(ir::kSwizzleRows)), count(kWarps));
    Value *row = b.CreateAdd(b.CreateMul(b.CreateAdd(group, warpNumber_), count(ir::kSwizzleRows)),
                             b.CreateURem(own, count(ir::kSwizzleRows)));
    Value *begin =
        b.CreateAdd(rows.data, b.CreateMul(b.CreateZExt(row, b.getInt64Ty()), rows.pitch));
    Value *aligned = alignedDown(b, begin);
    Value *end =
        b.CreateAdd(b.CreateTrunc(b.CreateSub(begin, aligned), b.getInt32Ty()), rows.bytes);
    Value *exists =
        b.CreateAnd(b.CreateICmpULT(row, rows.count), b.CreateICmpUGT(end, count(behind)));
    words.push_back(loadWord(b, b.CreateAdd(aligned, b.getInt64(uint64_t(behind))), exists));
  }
  return words;
}

void CopyWarps::copyGroups(const StagedTile &tile, const Share &share, const Rows &rows,
                           int64_t box, Value *first, Value *slot) {
  const auto count = [&](int64_t x) { return b.getInt32(uint32_t(x)); };
  const auto inBox = uint64_t(box * tile.swizzle);
  const SharedTile to = tile.layout();
  Value *start = shared(address(slot, tile.offset + box * tile.boxBytes()));
  Value *laneRow = b.CreateUDiv(lane_, count(share.words));
  Value *byte = b.CreateMul(b.CreateURem(lane_, count(share.words)), count(kWord));
  Value *offset = b.CreateAdd(b.CreateMul(laneRow, count(tile.swizzle)), byte);
  byte = b.CreateAdd(byte, count(int64_t(inBox)));
  llvm::SmallVector<Value *, 8> places, masks;
  for (int64_t round = 0; round < share.rounds; ++round) {
    places.push_back(to.swizzled(b, b.CreateAdd(offset, count(round * share.rows * tile.swizzle))));
    // Of the word as it goes to the tile, the bytes before the row's end.
    Value *bits = b.CreateShl(validBytes(b, rows.bytes, byte), 3);
    Value *ones = b.CreateSub(b.CreateShl(count(1), bits), count(1));
    masks.push_back(b.CreateSelect(b.CreateICmpEQ(bits, count(8 * kWord)), b.getInt32(~0u), ones));
  }
  llvm::SmallVector<Value *, 4> behind;
  const bool shifts = tile.dtype != DType::F32;
  if (shifts)
    behind = wordsBehind(share, rows, (box + 1) * tile.swizzle, first);
  struct Word {
    Value *bits, *place, *isOfTile;
    int64_t row, round;
  };
  llvm::SmallVector<Word, 64> words;
  for (int64_t i = 0; i < share.atOnce; ++i) {
    Value *group =
        b.CreateAdd(b.CreateMul(b.CreateAdd(first, count(i)), count(kWarps)), warpNumber_);
    Value *isOfTile = share.isEven ? nullptr : b.CreateICmpULT(group, count(share.groups));
    Value *there = b.CreateGEP(b.getInt8Ty(), start,
                               b.CreateMul(group, count(ir::kSwizzleRows * tile.swizzle)));
    Value *skipped = b.CreateMul(b.CreateZExt(group, b.getInt64Ty()),
                                 b.CreateMul(rows.pitch, b.getInt64(ir::kSwizzleRows)));
    skipped = b.CreateAdd(skipped, b.getInt64(inBox));
    Value *firstRow = b.CreateAdd(b.CreateMul(group, count(ir::kSwizzleRows)), laneRow);
    for (int64_t round = 0; round < share.rounds; ++round) {
      const auto at = size_t(round);
      Value *row = b.CreateAdd(firstRow, count(round * share.rows));
      Value *exists =
          b.CreateAnd(b.CreateICmpULT(row, rows.count), b.CreateICmpULT(byte, rows.ends[at]));
      words.push_back({loadWord(b, b.CreateAdd(rows.words[at], skipped), exists),
                       b.CreateGEP(b.getInt8Ty(), there, places[at]), isOfTile,
                       i * ir::kSwizzleRows + round * share.rows, round});
    }
  }
  const auto store = [&](const Word &word, Value *bits) {
    bits = b.CreateAnd(bits, masks[size_t(word.round)]);
    if (tile.isTf32()) // as TMA would
      bits = gpu_.device.roundToTf32(b, b.CreateBitCast(bits, b.getFloatTy()));
    const auto put = [&] { b.CreateAlignedStore(bits, word.place, llvm::Align(kWord)); };
    word.isOfTile ? when(word.isOfTile, "word", put) : put();
  };
  const auto storeAsTheyAre = [&] {
    for (const Word &word : words)
      store(word, word.bits);
  };
  if (!shifts)
    return storeAsTheyAre();
  when(rows.areAligned, "aligned", storeAsTheyAre);
  when(b.CreateNot(rows.areAligned), "shifted", [&] {
    Value *isLast = b.CreateICmpEQ(b.CreateURem(lane_, count(share.words)), count(share.words - 1));
    Value *neighbour = b.CreateAnd(b.CreateAdd(lane_, count(1)), WarpOps::kWarpThreads - 1);
    for (const Word &word : words) {
      Value *next = warp_.fromLane(b, word.bits, neighbour);
      Value *last = warp_.fromLane(b, behind[size_t(word.row / kBlockRows)],
                                   b.CreateAdd(laneRow, count(word.row % kBlockRows)));
      store(word, b.CreateIntrinsic(llvm::Intrinsic::fshr, {b.getInt32Ty()},
                                    {b.CreateSelect(isLast, last, next), word.bits,
                                     rows.shifts[size_t(word.round)]}));
    }
  });
}

void CopyWarps::copyElements(const StagedTile &tile, const View &from, Value *slot) {
  SharedTile to = tile.layout();
  to.base = shared(address(slot, tile.offset));
  llvm::Type *element = memoryType(context(), tile.dtype);
  const llvm::Align align(dtypeBytes(tile.dtype));
  const auto count = [&](int64_t x) { return b.getInt32(uint32_t(x)); };
  const auto each = uint64_t(tile.rows * tile.columns() / kThreads);
  const unsigned atOnce = std::min<unsigned>(kMostElements, 1u << llvm::countr_zero(each));
  DTILE_CHECK(each * kThreads == uint64_t(tile.rows * tile.columns()),
              "tiles have 8 rows of 32 bytes, or multiples of that");
  Value *thread = b.CreateAdd(b.CreateMul(warpNumber_, b.getInt32(WarpOps::kWarpThreads)), lane_);
  // Neighbours in memory are read by neighbours.
  Value *isDown = b.CreateICmpEQ(from.dims[0].stride, b.getInt64(1));
  BodyLowering::loop(b.getInt64(each / atOnce), "elements", [&](Value *round) {
    Value *first = b.CreateAdd(
        b.CreateMul(b.CreateTrunc(round, b.getInt32Ty()), b.getInt32(atOnce * kThreads)), thread);
    llvm::SmallVector<std::pair<Value *, Value *>, kMostElements> moved;
    for (unsigned i = 0; i < atOnce; ++i) {
      Value *number = b.CreateAdd(first, b.getInt32(i * kThreads));
      Value *row = b.CreateSelect(isDown, b.CreateURem(number, count(tile.rows)),
                                  b.CreateUDiv(number, count(tile.columns())));
      Value *column = b.CreateSelect(isDown, b.CreateUDiv(number, count(tile.rows)),
                                     b.CreateURem(number, count(tile.columns())));
      Value *positions[] = {b.CreateZExt(row, b.getInt64Ty()),
                            b.CreateZExt(column, b.getInt64Ty())};
      Value *there =
          b.CreateAddrSpaceCast(views_.address(from, positions), b.getPtrTy(Device::kGlobal));
      there = b.CreateSelect(views_.contains(from, positions), there, zeroBytes(b));
      Value *offset = b.CreateAdd(to.offset(b, 0, row), to.offset(b, 1, column));
      moved.emplace_back(b.CreateAlignedLoad(element, there, align), to.swizzled(b, offset));
    }
    for (auto &[value, offset] : moved) {
      // As TMA would.
      if (tile.isTf32())
        value = gpu_.device.roundToTf32(b, value);
      b.CreateAlignedStore(value, b.CreateGEP(b.getInt8Ty(), to.base, offset), align);
    }
  });
}

} // namespace dtile::backend::gpu
