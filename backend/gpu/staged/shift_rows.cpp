// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tiles that came by folded maps (ring.h): the copy warps shift their rows to where TMA would have
// put them.
//
// All rows of a copy begin at the same place in a word of 16 bytes, so the shift is the same for a
// warp that takes one copy after the other, and by how many words of 4 bytes is a branch. A lane
// reads a word of 16 bytes and the next one, and writes what lies across them; it has some such
// pairs in registers at once. The words of 8 lanes are one row's, so neither reads nor writes have
// bank conflicts.
#include "backend/gpu/staged/copy_warps.h"
#include "backend/gpu/staged/word_shift.h"

#include "frontend/base/check.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::backend::gpu {

using ir::Op;
using llvm::Value;

namespace {

/// Words of a lane that are in registers at once; and where registers are few.
constexpr int64_t kMostWords = 8, kFewWords = 2;

} // namespace

/// What of a tile exists: rows and bytes of rows from `low` on, before `high` (i32).
struct CopyWarps::Window {
  Value *lowRow, *highRow, *lowByte, *highByte;
};

/// A copy in its unit.
struct CopyWarps::Shift {
  /// i32: its address, and that of its first box in the tile; the tile's row that is its first.
  Value *from, *to, *row;
  /// i32: where its rows begin in the tile's; by how many bytes they begin late in their words.
  Value *byte, *bytes;
};

void CopyWarps::shiftTile(Op &load, Value *slot) {
  const StagedTile &tile = ring_.tiles.find(&load)->second;
  const ir::FoldedTile folded = tile.folded();
  const FoldedPlace place = foldedPlace(tile);
  const View from = located(load.operand(0));
  const auto count = [&](int64_t x) { return b.getInt32(uint32_t(x)); };
  const int64_t size = dtypeBytes(tile.dtype);
  const auto clamped = [&](Value *position, int64_t most) {
    position = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, position, b.getInt64(uint64_t(most)));
    position = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, position, b.getInt64(0));
    return b.CreateTrunc(position, b.getInt32Ty());
  };
  const ViewDimension &rows = from.dims[0], &columns = from.dims[1];
  const Window window = {clamped(rows.low, tile.rows), clamped(rows.high, tile.rows),
                         b.CreateMul(clamped(columns.low, tile.columns()), count(size)),
                         b.CreateMul(clamped(columns.high, tile.columns()), count(size))};
  Value *isWhole =
      b.CreateAnd(b.CreateAnd(b.CreateIsNull(window.lowRow), b.CreateIsNull(window.lowByte)),
                  b.CreateAnd(b.CreateICmpEQ(window.highRow, count(tile.rows)),
                              b.CreateICmpEQ(window.highByte, count(tile.rowBytes))));
  const int64_t parts = tile.rows / folded.unitRows;
  BodyLowering::loop(b.getInt64(uint64_t(folded.units)), "units", [&](Value *number) {
    number = b.CreateTrunc(number, b.getInt32Ty());
    Value *unit = unit_.slot();
    waitOrLeave(unit_.barrier(ring_.unitFull, unit), unit_.phase());
    Value *firstBox = b.CreateMul(b.CreateUDiv(number, count(parts)), count(folded.unitBoxes));
    Value *firstRow = b.CreateMul(b.CreateURem(number, count(parts)), count(folded.unitRows));
    Value *byte = b.CreateMul(firstBox, count(tile.swizzle));
    Value *to =
        b.CreateAdd(address(slot, tile.offset), b.CreateMul(firstBox, count(tile.boxBytes())));
    const auto shiftOf = [&](Value *copy) {
      Value *row = b.CreateAdd(firstRow, copy);
      Value *inFold = b.CreateAdd(b.CreateTrunc(place.row, b.getInt32Ty()), row);
      inFold = b.CreateAnd(inFold, count(folded.fold - 1));
      // Boxes begin at multiples of words from each other.
      Value *begin = b.CreateAdd(b.CreateMul(inFold, place.pitch), place.column);
      Value *bytes = b.CreateMul(b.CreateAnd(begin, count(folded.fold - 1)), count(size));
      return Shift{b.CreateAdd(unitAddress(), b.CreateMul(copy, count(folded.copyBytes))), to, row,
                   byte, bytes};
    };
    const int64_t ofWarp = folded.fold / kWarps;
    const int64_t atOnce = std::clamp<int64_t>(mostWords() / wordsOfLane(tile, folded), 1, ofWarp);
    BodyLowering::loop(b.getInt64(uint64_t(ofWarp / atOnce)), "copies", [&](Value *round) {
      Value *first = b.CreateMul(b.CreateTrunc(round, b.getInt32Ty()), count(atOnce));
      llvm::SmallVector<Shift, 4> shifts;
      for (int64_t i = 0; i < atOnce; ++i)
        shifts.push_back(shiftOf(
            b.CreateAdd(b.CreateMul(b.CreateAdd(first, count(i)), count(kWarps)), warpNumber_)));
      when(isWhole, "whole", [&] { shiftRows(tile, folded, shifts, nullptr); });
      when(b.CreateNot(isWhole), "cut", [&] { shiftRows(tile, folded, shifts, &window); });
    });
    warp_.syncWarp(b);
    when(warp_.isElected(b), "shifted",
         [&] { bulk_.arrive(b, unit_.barrier(ring_.unitEmpty, unit)); });
    unit_.next();
  });
}

namespace {

/// Ones (i32) in the first `bytes` bytes, of 4.
Value *firstBytes(llvm::IRBuilder<> &b, Value *bytes) {
  bytes = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, bytes, b.getInt32(uint32_t(kPartBytes)));
  bytes = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, bytes, b.getInt32(0));
  Value *ones = b.CreateShl(b.getInt64(1), b.CreateZExt(b.CreateShl(bytes, 3), b.getInt64Ty()));
  return b.CreateTrunc(b.CreateSub(ones, b.getInt64(1)), b.getInt32Ty());
}

} // namespace

namespace {

/// Words of 16 bytes of a copy's row that go to the tile.
int64_t wordsOfRow(const StagedTile &tile, const ir::FoldedTile &folded) {
  return folded.unitBoxes * tile.swizzle / ir::kSharedWordBytes;
}

} // namespace

int64_t CopyWarps::mostWords() const { return hasFewRegisters_ ? kFewWords : kMostWords; }

int64_t CopyWarps::wordsOfLane(const StagedTile &tile, const ir::FoldedTile &folded) {
  const int64_t words = folded.copyRows * wordsOfRow(tile, folded);
  return (words + WarpOps::kWarpThreads - 1) / WarpOps::kWarpThreads;
}

void CopyWarps::shiftRows(const StagedTile &tile, const ir::FoldedTile &folded,
                          llvm::ArrayRef<Shift> shifts, const Window *window) {
  const auto count = [&](int64_t x) { return b.getInt32(uint32_t(x)); };
  const int64_t words = wordsOfRow(tile, folded), wordsOfBox = tile.swizzle / ir::kSharedWordBytes;
  const int64_t rowsAtOnce = WarpOps::kWarpThreads / words;
  // Rows of the next rounds are multiples of 8 rows further, the period of the swizzle.
  const int64_t apart = rowsAtOnce * folded.fold;
  DTILE_CHECK(apart % ir::kSwizzleRows == 0, "elements of staged tiles have 4 bytes at most");
  const SharedTile place = tile.layout();
  Value *laneRow = b.CreateUDiv(lane_, count(words)), *laneWord = b.CreateURem(lane_, count(words));
  Value *byte = b.CreateMul(laneWord, count(ir::kSharedWordBytes));
  Value *box = b.CreateUDiv(laneWord, count(wordsOfBox));
  Value *inBox =
      b.CreateMul(b.CreateURem(laneWord, count(wordsOfBox)), count(ir::kSharedWordBytes));
  Value *inCopy = b.CreateAdd(b.CreateMul(laneRow, count(folded.rowBytes)), byte);
  /// Null: all lanes have a row of the copy.
  const auto exists = [&](int64_t round) -> Value * {
    return (round + 1) * rowsAtOnce <= folded.copyRows
               ? nullptr
               : b.CreateICmpULT(laneRow, count(folded.copyRows - round * rowsAtOnce));
  };
  struct Word {
    const Shift *shift;
    int64_t round;
    TwoWords parts;
  };
  const auto rowOf = [&](const Shift &shift) {
    return b.CreateAdd(shift.row, b.CreateMul(laneRow, count(folded.fold)));
  };
  const auto load = [&](Word &word) {
    const Shift &shift = *word.shift;
    Value *there = b.CreateAdd(b.CreateAdd(shift.from, inCopy),
                               count(word.round * rowsAtOnce * folded.rowBytes));
    if (Value *isThere = exists(word.round))
      there = b.CreateSelect(isThere, there, shift.from);
    word.parts = loadWords(b, there, b.CreateAdd(there, count(ir::kSharedWordBytes)));
  };
  const auto cut = [&](llvm::MutableArrayRef<Value *> parts, const Word &word) {
    Value *row = b.CreateAdd(rowOf(*word.shift), count(word.round * apart));
    Value *isIn =
        b.CreateAnd(b.CreateICmpUGE(row, window->lowRow), b.CreateICmpULT(row, window->highRow));
    Value *first = b.CreateAdd(word.shift->byte, byte);
    for (auto [i, part] : llvm::enumerate(parts)) {
      Value *at = b.CreateAdd(first, count(int64_t(i) * kPartBytes));
      Value *ones = b.CreateAnd(firstBytes(b, b.CreateSub(window->highByte, at)),
                                b.CreateNot(firstBytes(b, b.CreateSub(window->lowByte, at))));
      part = b.CreateAnd(part, b.CreateSelect(isIn, ones, count(0)));
    }
  };
  const auto store = [&](const Word &word, unsigned first) {
    Value *bits =
        b.CreateShl(b.CreateAnd(word.shift->bytes, b.getInt32(uint32_t(kPartBytes - 1))), 3);
    if (int64_t(dtypeBytes(tile.dtype)) == kPartBytes)
      bits = b.getInt32(0);
    WordParts parts = across(b, word.parts, first, bits);
    if (window)
      cut(parts, word);
    Value *to =
        place.swizzled(b, b.CreateAdd(b.CreateMul(rowOf(*word.shift), count(tile.swizzle)), inBox));
    to = b.CreateAdd(to, b.CreateMul(box, count(tile.boxBytes())));
    to = b.CreateAdd(b.CreateAdd(word.shift->to, to), count(word.round * apart * tile.swizzle));
    const auto put = [&] {
      b.CreateAlignedStore(wordOf(b, parts), shared(to), llvm::Align(ir::kSharedWordBytes));
    };
    Value *isThere = exists(word.round);
    isThere ? when(isThere, "word", put) : put();
  };
  llvm::SmallVector<Word, kMostWords> all;
  for (const Shift &shift : shifts)
    for (int64_t round = 0; round < wordsOfLane(tile, folded); ++round)
      all.push_back({&shift, round, {}});
  for (size_t begin = 0; begin < all.size(); begin += size_t(mostWords())) {
    const llvm::MutableArrayRef<Word> some =
        llvm::MutableArrayRef(all).slice(begin, std::min(size_t(mostWords()), all.size() - begin));
    for (Word &word : some)
      load(word);
    for (const Shift &shift : shifts) {
      const auto storeAll = [&](unsigned first) {
        for (const Word &word : some)
          if (word.shift == &shift)
            store(word, first);
      };
      if (llvm::none_of(some, [&](const Word &word) { return word.shift == &shift; }))
        continue;
      const auto isBy = [&](unsigned parts) {
        return b.CreateIsNotNull(
            b.CreateAnd(shift.bytes, b.getInt32(parts * uint32_t(kPartBytes))));
      };
      const auto either = [&](unsigned parts, llvm::function_ref<void(bool)> body) {
        Value *moves = isBy(parts);
        when(moves, "late", [&] { body(true); });
        when(b.CreateNot(moves), "early", [&] { body(false); });
      };
      either(2, [&](bool byTwo) {
        either(1, [&](bool byOne) { storeAll((byTwo ? 2u : 0u) + (byOne ? 1u : 0u)); });
      });
    }
  }
}

} // namespace dtile::backend::gpu
