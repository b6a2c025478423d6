// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The epilogue warp's stores of rows that begin at no multiple of 16 bytes in memory, which bulk
// stores want. Words of 16 bytes that a row has in memory lie across two such words in shared
// memory; what is left at both ends of a row goes element by element.
#include "backend/gpu/staged/epilogue_warp.h"
#include "backend/gpu/staged/word_shift.h"

namespace dtile::backend::gpu {

using llvm::Value;

namespace {

/// Words of a lane that are under way at once.
constexpr uint32_t kAtOnce = 4;

} // namespace

EpilogueWarp::ShiftedRow EpilogueWarp::shiftedRow(const RowRuns &rows, Value *number) {
  const auto count = [&](int64_t x) { return b.getInt32(uint32_t(x)); };
  ShiftedRow row;
  row.there =
      b.CreateAdd(rows.there, b.CreateMul(b.CreateZExt(number, b.getInt64Ty()), rows.stride));
  row.here = b.CreateAdd(rows.here, b.CreateMul(number, count(ring_.output->tile.strides[0])));
  Value *past = b.CreateTrunc(row.there, b.getInt32Ty());
  row.head = b.CreateAnd(b.CreateNeg(past), count(ir::kSharedWordBytes - 1));
  row.head = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, row.head, rows.length);
  return row;
}

void EpilogueWarp::storeShifted(const TileRegion &to) {
  const RowRuns rows = this->rows(to);
  storeWords(rows);
  storeEnds(rows);
}

void EpilogueWarp::storeWords(const RowRuns &rows) {
  const auto count = [&](int64_t x) { return b.getInt32(uint32_t(x)); };
  // A row has so many words at most; where it begins late in one, one less.
  Value *ofRow = b.CreateUDiv(rows.length, count(ir::kSharedWordBytes));
  Value *all = b.CreateMul(rows.count, ofRow);
  Value *rounds = b.CreateUDiv(b.CreateAdd(all, count(kAtOnce * WarpOps::kWarpThreads - 1)),
                               count(kAtOnce * WarpOps::kWarpThreads));
  // The word that has the row's last byte.
  Value *last = b.CreateAnd(b.CreateSub(rows.length, count(1)), count(-ir::kSharedWordBytes));
  loop(b.CreateZExt(rounds, b.getInt64Ty()), "words", [&](Value *round) {
    struct Word {
      Value *exists, *there, *bytes;
      TwoWords parts;
    };
    llvm::SmallVector<Word, kAtOnce> words;
    Value *first =
        b.CreateMul(b.CreateTrunc(round, b.getInt32Ty()), count(kAtOnce * WarpOps::kWarpThreads));
    for (uint32_t i = 0; i < kAtOnce; ++i) {
      Value *number = b.CreateAdd(b.CreateAdd(first, count(i * WarpOps::kWarpThreads)), lane_);
      Value *exists = b.CreateICmpULT(number, all);
      number = b.CreateSelect(exists, number, count(0));
      const ShiftedRow row = shiftedRow(rows, b.CreateUDiv(number, ofRow));
      Value *begin = b.CreateAdd(
          row.head, b.CreateMul(b.CreateURem(number, ofRow), count(ir::kSharedWordBytes)));
      exists = b.CreateAnd(
          exists, b.CreateICmpULE(b.CreateAdd(begin, count(ir::kSharedWordBytes)), rows.length));
      Value *before = b.CreateAnd(begin, count(-ir::kSharedWordBytes));
      Value *after = b.CreateAdd(before, count(ir::kSharedWordBytes));
      const auto here = [&](Value *byte) {
        return b.CreateAdd(row.here, b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, byte, last));
      };
      words.push_back({exists, b.CreateAdd(row.there, b.CreateZExt(begin, b.getInt64Ty())),
                       b.CreateAnd(begin, count(ir::kSharedWordBytes - 1)),
                       loadWords(b, here(before), here(after))});
    }
    for (const Word &word : words)
      when(word.exists, "word", [&] {
        b.CreateAlignedStore(wordOf(b, across(b, word.parts, word.bytes)),
                             b.CreateIntToPtr(word.there, b.getPtrTy(Device::kGlobal)),
                             llvm::Align(ir::kSharedWordBytes));
      });
  });
}

void EpilogueWarp::storeEnds(const RowRuns &rows) {
  const auto count = [&](int64_t x) { return b.getInt32(uint32_t(x)); };
  const DType dtype = ring_.output->tile.dtype;
  const int64_t size = dtypeBytes(dtype);
  Value *rounds = b.CreateUDiv(b.CreateAdd(rows.count, count(WarpOps::kWarpThreads - 1)),
                               count(WarpOps::kWarpThreads));
  loop(b.CreateZExt(rounds, b.getInt64Ty()), "ends", [&](Value *round) {
    Value *number = b.CreateAdd(
        b.CreateMul(b.CreateTrunc(round, b.getInt32Ty()), count(WarpOps::kWarpThreads)), lane_);
    Value *exists = b.CreateICmpULT(number, rows.count);
    const ShiftedRow row = shiftedRow(rows, b.CreateSelect(exists, number, count(0)));
    Value *words = b.CreateAnd(b.CreateSub(rows.length, row.head), count(-ir::kSharedWordBytes));
    const auto some = [&](Value *begin, Value *end) {
      for (int64_t byte = 0; byte < ir::kSharedWordBytes - size; byte += size) {
        Value *at = b.CreateAdd(begin, count(byte));
        when(b.CreateAnd(exists, b.CreateICmpULT(at, end)), "element", [&] {
          moveElement(shared(b.CreateAdd(row.here, at)),
                      b.CreateIntToPtr(b.CreateAdd(row.there, b.CreateZExt(at, b.getInt64Ty())),
                                       b.getPtrTy(Device::kGlobal)));
        });
      }
    };
    some(count(0), row.head);
    some(b.CreateAdd(row.head, words), rows.length);
  });
}

} // namespace dtile::backend::gpu
