// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The warps that fetch rows which index tiles pick (pass gather-rows), word by word, to where the
// TMA would put them.
//
// Each lane fetches, of every so many rows, the same word: its places in a slot are then one apart
// from the other by what the words that change places repeat in. Where the rows are is found out
// once before a loop. The words arrive at `full` of their slot by themselves; the warpgroups fence
// what threads have put there against the matrix units.
#include "backend/gpu/staged/gather_warps.h"
#include "backend/gpu/async_copies.h"

#include "frontend/base/check.h"

namespace dtile::backend::gpu {

using ir::Op;
using ir::OpKind;
using llvm::Value;

/// How the lanes share the words of a tile's boxes.
struct GatherWarps::Share {
  explicit Share(const StagedTile &tile)
      : words(tile.swizzle / ir::kSharedWordBytes), rowsOfWarp(WarpOps::kWarpThreads / words),
        rows(kWarps * rowsOfWarp), rounds((tile.rows + rows - 1) / rows),
        isWhole(tile.rows % rows == 0) {}
  /// 16-byte words of a row in a box.
  int64_t words;
  /// Rows that one gather warp, and all of them, fetch in a step; steps of a tile.
  int64_t rowsOfWarp, rows, rounds;
  /// Whether no lane has less to do in the last round.
  bool isWhole;
};

GatherWarps::GatherWarps(GpuModule &module, const KernelScaffold &kernel, const Ring &ring)
    : HelperWarp(module, kernel, ring, "rows") {
  for (Op *load : ring.passed)
    needPassed(*load);
  for (auto &[loop, loads] : ring.loadsOf)
    need(*loads.front()->parentOp());
  for (auto &[loop, gathers] : ring.gathersOf)
    for (Op *gather : gathers) {
      need(*gather);
      needElements(gather->operand(1));
    }
}

void GatherWarps::lowerBodies(Op &space, const BodyRange &range) {
  inWarp_ = b.CreateAnd(kernel_.thread, b.getInt32(WarpOps::kWarpThreads - 1));
  const unsigned before = bodyThreads(*kernel_.kernel) + kFirstWarp * WarpOps::kWarpThreads;
  lane_ = b.CreateSub(kernel_.thread, b.getInt32(before), "lane");
  setParts(range);
  place_.begin(1);
  body_.begin(0);
  number_.begin(0);
  b.CreateStore(b.getFalse(), failed_);
  forEachItem(space, range, [&] {
    awaitExchange();
    lowerBlock(space.body());
  });
}

void GatherWarps::lowerOp(Op &op) {
  if (isGathered(op))
    return gather(op);
  // All loops share the ring, and these warps arrive at each of its slots.
  const bool isEpilogueLoad = isBox(op) || isScalarLoad(op);
  if (isEpilogueLoad && !ring_.gathersOf.contains(op.parentOp()) &&
      &op == ring_.loadsOf.find(op.parentOp())->second.front()) {
    waitOrLeave(place_.barrier(ring_.empty, place_.slot()), place_.phase());
    bulk_.arrive(b, place_.barrier(ring_.full, place_.slot()));
    return place_.next();
  }
  if (!isNeeded(op))
    return;
  if (const auto gathers = ring_.gathersOf.find(&op); gathers != ring_.gathersOf.end())
    for (Op *gather : gathers->second)
      findRows(*gather);
  HelperWarp::lowerOp(op);
  if (op.is(OpKind::Wait))
    when(hasFailed(), "rows.failed", [&] { b.CreateStore(b.getInt32(1), shared(ring_.failed)); });
}

// Where rows are.

void GatherWarps::needElements(ir::Value *tile) {
  if (!elementsOf_.insert(tile).second)
    return;
  for (ir::Value *operand : tile->definingOp()->operands())
    operand->type().isTile() ? needElements(operand) : needValue(operand);
}

Value *GatherWarps::gatheredRow(Op &gather, Value *row) {
  // Those of one lane stand next to each other.
  const Share share(ring_.tiles.find(&gather)->second);
  Value *first = b.CreateURem(row, b.getInt32(uint32_t(share.rows)));
  Value *round = b.CreateUDiv(row, b.getInt32(uint32_t(share.rows)));
  Value *number = b.CreateAdd(b.CreateMul(first, b.getInt32(uint32_t(share.rounds))), round);
  return shared(b.CreateAdd(ring_.picked.lookup(&gather), b.CreateShl(number, 2)));
}

void GatherWarps::findRows(Op &gather) {
  const StagedTile &tile = ring_.tiles.find(&gather)->second;
  const Share share(tile);
  const View object = located(gather.operand(0)->definingOp()->operand(0));
  Value *pitch = b.CreateMul(object.dims[0].stride, b.getInt64(uint64_t(dtypeBytes(tile.dtype))));
  Value *warp = b.CreateUDiv(lane_, b.getInt32(WarpOps::kWarpThreads));
  const auto count = [&](int64_t x) { return b.getInt32(uint32_t(x)); };
  // Of the loop before, all have been read.
  warp_.syncWarp(b);
  for (int64_t first = 0; first < share.rounds * share.rowsOfWarp; first += WarpOps::kWarpThreads) {
    Value *number = b.CreateAdd(inWarp_, count(first));
    Value *row = b.CreateMul(b.CreateUDiv(number, count(share.rowsOfWarp)), count(share.rows));
    row = b.CreateAdd(row, b.CreateMul(warp, count(share.rowsOfWarp)));
    row = b.CreateAdd(row, b.CreateURem(number, count(share.rowsOfWarp)));
    when(b.CreateICmpULT(row, count(tile.rows)), "row", [&] {
      ir::Value *numbers = gather.operand(1);
      Elements known;
      Value *number = element(numbers, b.CreateZExt(row, b.getInt64Ty()), known);
      Value *picked = arith_.cast(numbers->type().dtype(), DType::I64, number);
      Value *exists = b.CreateAnd(b.CreateICmpSGE(picked, object.dims[0].low),
                                  b.CreateICmpSLT(picked, object.dims[0].high));
      Value *skipped = b.CreateTrunc(b.CreateMul(picked, pitch), b.getInt32Ty());
      b.CreateStore(b.CreateSelect(exists, skipped, count(kNoRow)), gatheredRow(gather, row));
    });
  }
  warp_.syncWarp(b);
}

// Their words.

void GatherWarps::gather(Op &gather) {
  llvm::ArrayRef<Op *> gathers = ring_.gathersOf.find(gather.parentOp())->second;
  Value *slot = place_.slot();
  if (&gather == gathers.front())
    waitOrLeave(place_.barrier(ring_.empty, slot), place_.phase());
  when(b.CreateNot(hasFailed()), "fetch", [&] { copyRows(gather, slot); });
  if (&gather != gathers.back())
    return;
  bulk_.arriveAfterAsyncCopies(b, place_.barrier(ring_.full, slot));
  place_.next();
}

void GatherWarps::copyRows(Op &gather, Value *slot) {
  // So many words of a lane are started one after the other; where they are is read before: the
  // assembler would not read on beside a copy, which might be what is read.
  constexpr int64_t kMostAtOnce = 8;
  const StagedTile &tile = ring_.tiles.find(&gather)->second;
  const Share share(tile);
  SharedTile to = tile.layout();
  const View from = located(gather.operand(0));
  const auto bytes = uint64_t(dtypeBytes(tile.dtype));
  const int64_t atOnce = std::min<int64_t>(kMostAtOnce, share.rounds & -share.rounds);
  // What all fetch at once, in bytes: words change places within it.
  const int64_t step = share.rows * tile.swizzle;
  DTILE_CHECK(step % (int64_t(1) << (to.swizzleShift + to.swizzleBits)) == 0,
              "the lanes fetch 1 KiB at once");
  const auto count = [&](int64_t x) { return b.getInt32(uint32_t(x)); };
  Value *firstRow = b.CreateUDiv(lane_, count(share.words));
  Value *word = b.CreateShl(b.CreateURem(lane_, count(share.words)), 4);
  Value *place = to.swizzled(b, b.CreateAdd(b.CreateMul(firstRow, count(tile.swizzle)), word));
  llvm::Type *skips = llvm::FixedVectorType::get(b.getInt32Ty(), unsigned(atOnce));
  const llvm::Align align(uint64_t(std::min<int64_t>(4 * atOnce, ir::kSharedWordBytes)));
  for (int64_t box = 0; box < tile.boxes(); ++box) {
    // Whole words exist, or nothing of them (StagedSpace::canCopy).
    Value *column = b.CreateZExt(b.CreateAdd(word, count(box * tile.swizzle)), b.getInt64Ty());
    Value *end = b.CreateMul(from.dims[1].high, b.getInt64(bytes));
    Value *size =
        b.CreateSelect(b.CreateICmpSLT(column, end), count(ir::kSharedWordBytes), count(0));
    Value *start = b.CreateGEP(b.getInt8Ty(), from.data, column);
    loop(b.getInt64(uint64_t(share.rounds / atOnce)), "rows", [&](Value *part) {
      Value *round = b.CreateMul(b.CreateTrunc(part, b.getInt32Ty()), count(atOnce));
      Value *top = b.CreateAdd(firstRow, b.CreateMul(round, count(share.rows)));
      Value *skipped = b.CreateAlignedLoad(skips, gatheredRow(gather, top), align);
      Value *offset =
          b.CreateAdd(b.CreateMul(round, count(step)), count(tile.offset + box * tile.boxBytes()));
      to.base = shared(b.CreateAdd(address(slot, 0), offset));
      for (int64_t i = 0; i < atOnce; ++i) {
        Value *skip = b.CreateExtractElement(skipped, uint64_t(i));
        Value *valid = b.CreateSelect(b.CreateICmpEQ(skip, count(kNoRow)), count(0), size);
        skip = b.CreateZExt(skip, b.getInt64Ty());
        Value *there = b.CreateAddrSpaceCast(b.CreateGEP(b.getInt8Ty(), start, skip),
                                             b.getPtrTy(Device::kGlobal));
        const auto copy = [&] {
          gpu_.device.asyncCopies()->copy(b, to.address(b, place, i * step), there,
                                          ir::kSharedWordBytes, valid);
        };
        Value *row = b.CreateAdd(top, count(i * share.rows));
        share.isWhole ? copy() : when(b.CreateICmpULT(row, count(tile.rows)), "exists", copy);
      }
    });
  }
}

} // namespace dtile::backend::gpu
