// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tiles that came by folded maps (ring.h): the copy warps shift their rows to where TMA would have
// put them.
//
// All rows of a copy begin at the same place in a word of 16 bytes, so the shift is the same for a
// warp that takes one copy after the other, and by how many words of 4 bytes is a branch. A lane
// reads a word of 16 bytes and the next one, and writes what lies across them; it has some such
// pairs in registers at once. The words of 8 lanes are one row's, so neither reads nor writes have
// bank conflicts.
//
// Past the edges of a tensor TMA has read what stands there, or zeros. Where a tile has such parts,
// each warp then writes zeros over those of the rows that it has shifted: the shift of most tiles,
// which have none, needs no masks.
#include "backend/gpu/staged/copy_warps.h"
#include "backend/gpu/staged/word_shift.h"

#include "frontend/base/check.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::backend::gpu {

using llvm::Value;

namespace {

/// Words of a lane that are in registers at once; and where registers are few.
constexpr int64_t kMostWords = 8, kFewWords = 2;

/// Words of 16 bytes of a copy's row that go to the tile.
int64_t wordsOfRow(const StagedTile &tile, const ir::FoldedTile &folded) {
  return folded.unitBoxes * tile.swizzle / ir::kSharedWordBytes;
}

/// Words of a copy for a lane.
int64_t wordsOfLane(const StagedTile &tile, const ir::FoldedTile &folded) {
  return int64_t(llvm::divideCeil(uint64_t(folded.copyRows * wordsOfRow(tile, folded)),
                                  uint64_t(WarpOps::kWarpThreads)));
}

} // namespace

/// A copy in its unit.
struct CopyWarps::Shift {
  /// i32: its address, and that of its first box in the tile; the tile's row that is its first.
  Value *from, *to, *row;
  /// i32: by how many bytes its rows begin late in their words.
  Value *bytes;
};

void CopyWarps::shiftTile(const Operand &operand) {
  const StagedTile &tile = operand.tile();
  const auto count = [&](int64_t x) { return b.getInt32(uint32_t(x)); };
  const auto ofUnits = [&](int64_t ir::FoldedTile::*size) {
    return numberOf(operand, [&](const StagedTile &its) { return its.folded().*size; });
  };
  const int64_t fold = tile.folded().fold;
  const int64_t ofWarp = fold / kWarps, most = hasFewRegisters_ ? kFewWords : kMostWords;
  int64_t ofCopy = most;
  for (const StagedTile *its : operand.tiles)
    ofCopy = std::min(ofCopy, wordsOfLane(*its, its->folded()));
  // A power of two, as the number of copies is.
  const int64_t copiesAtOnce = std::min(most / ofCopy, ofWarp);
  Value *unitBoxes = ofUnits(&ir::FoldedTile::unitBoxes);
  Value *unitRows = ofUnits(&ir::FoldedTile::unitRows);
  Value *copyBytes = ofUnits(&ir::FoldedTile::copyBytes);
  const auto shiftUnit = [&](Value *firstBox, Value *firstRow) {
    Value *unit = unit_.slot();
    waitOrLeave(unit_.barrier(ring_.unitFull, unit), unit_.phase());
    Value *to = b.CreateAdd(operand.to, b.CreateMul(firstBox, operand.boxBytes));
    BodyLowering::loop(b.getInt64(uint64_t(ofWarp / copiesAtOnce)), "copies", [&](Value *number) {
      Value *first = b.CreateMul(b.CreateTrunc(number, b.getInt32Ty()), count(copiesAtOnce));
      llvm::SmallVector<Shift, kMostWords> shifts;
      for (int64_t i = 0; i < copiesAtOnce; ++i) {
        Value *copy = b.CreateMul(b.CreateAdd(first, count(i)), count(kWarps));
        copy = b.CreateAdd(copy, warpNumber_);
        Value *row = b.CreateAdd(firstRow, copy);
        Value *inFold = b.CreateAdd(b.CreateTrunc(operand.place.row, b.getInt32Ty()), row);
        inFold = b.CreateAnd(inFold, count(fold - 1));
        // Boxes begin at multiples of words from each other.
        Value *begin = b.CreateAdd(b.CreateMul(inFold, operand.place.pitch), operand.place.column);
        Value *bytes =
            b.CreateMul(b.CreateAnd(begin, count(fold - 1)), count(dtypeBytes(tile.dtype)));
        Value *from = b.CreateAdd(unitAddress(), b.CreateMul(copy, copyBytes));
        shifts.push_back({.from = from, .to = to, .row = row, .bytes = bytes});
      }
      shiftCopies(operand, shifts, ofCopy);
    });
    warp_.syncWarp(b);
    when(warp_.isElected(b), "shifted",
         [&] { bulk_.arrive(b, unit_.barrier(ring_.unitEmpty, unit)); });
    unit_.next();
  };
  // Units in the order in which the load warp fills them.
  const auto eachOf = [&](Value *all, Value *step, llvm::function_ref<void(Value *)> body) {
    BodyLowering::loop(
        b.CreateZExt(b.CreateUDiv(all, step), b.getInt64Ty()), "units",
        [&](Value *number) { body(b.CreateMul(b.CreateTrunc(number, b.getInt32Ty()), step)); });
  };
  eachOf(operand.boxes, unitBoxes, [&](Value *firstBox) {
    eachOf(operand.rows, unitRows, [&](Value *firstRow) { shiftUnit(firstBox, firstRow); });
  });
  const Window &window = operand.window;
  Value *isWhole =
      b.CreateAnd(b.CreateAnd(b.CreateIsNull(window.lowRow), b.CreateIsNull(window.lowByte)),
                  b.CreateAnd(b.CreateICmpEQ(window.highRow, operand.rows),
                              b.CreateICmpEQ(window.highByte, operand.rowBytes)));
  // The warp has met after its last unit: what other lanes have written is there.
  when(b.CreateNot(isWhole), "cut", [&] { zeroOutside(operand); });
}

void CopyWarps::shiftCopies(const Operand &operand, llvm::ArrayRef<Shift> shifts, int64_t atOnce) {
  const StagedTile &tile = operand.tile();
  const int64_t fold = tile.folded().fold, wordsOfBox = tile.swizzle / ir::kSharedWordBytes;
  bool areAllThere = true;
  for (const StagedTile *its : operand.tiles) {
    const ir::FoldedTile folded = its->folded();
    const int64_t words = wordsOfRow(*its, folded);
    // Rows of the next rounds are multiples of 8 rows further, the period of the swizzle.
    DTILE_CHECK(WarpOps::kWarpThreads / words * fold % ir::kSwizzleRows == 0,
                "elements of staged tiles have 4 bytes at most");
    areAllThere &= folded.copyRows * words % (atOnce * WarpOps::kWarpThreads) == 0;
  }
  const auto count = [&](int64_t x) { return b.getInt32(uint32_t(x)); };
  const auto ofCopies =
      [&](llvm::function_ref<int64_t(const StagedTile &, const ir::FoldedTile &)> of) {
        return numberOf(operand, [&](const StagedTile &its) { return of(its, its.folded()); });
      };
  Value *rowBytes = ofCopies([](const auto &, const auto &folded) { return folded.rowBytes; });
  Value *copyRows = ofCopies([](const auto &, const auto &folded) { return folded.copyRows; });
  Value *words = ofCopies(wordsOfRow);
  Value *rowsAtOnce = ofCopies([](const auto &its, const auto &folded) {
    return WarpOps::kWarpThreads / wordsOfRow(its, folded);
  });
  Value *rounds = ofCopies([&](const auto &its, const auto &folded) {
    return int64_t(llvm::divideCeil(uint64_t(wordsOfLane(its, folded)), uint64_t(atOnce)));
  });
  Value *laneRow = b.CreateUDiv(lane_, words);
  Value *laneWord = b.CreateURem(lane_, words);
  Value *inBox =
      b.CreateMul(b.CreateURem(laneWord, count(wordsOfBox)), count(ir::kSharedWordBytes));
  Value *box = b.CreateMul(b.CreateUDiv(laneWord, count(wordsOfBox)), operand.boxBytes);
  Value *inCopy = b.CreateAdd(b.CreateMul(laneRow, rowBytes),
                              b.CreateMul(laneWord, count(ir::kSharedWordBytes)));
  const auto placeOf = [&](const Shift &shift) {
    Value *row = b.CreateAdd(shift.row, b.CreateMul(laneRow, count(fold)));
    Value *to =
        tile.layout().swizzled(b, b.CreateAdd(b.CreateMul(row, count(tile.swizzle)), inBox));
    return b.CreateAdd(b.CreateAdd(shift.to, to), box);
  };
  struct Word {
    Value *exists = nullptr, *to = nullptr;
    TwoWords parts;
  };
  const auto load = [&](const Shift &shift, Value *place, Value *rows) {
    Word word;
    Value *there = b.CreateAdd(b.CreateAdd(shift.from, inCopy), b.CreateMul(rows, rowBytes));
    if (!areAllThere) {
      word.exists = b.CreateICmpULT(b.CreateAdd(laneRow, rows), copyRows);
      there = b.CreateSelect(word.exists, there, shift.from);
    }
    word.parts = loadWords(b, there, b.CreateAdd(there, count(ir::kSharedWordBytes)));
    word.to = b.CreateAdd(place, b.CreateMul(rows, count(fold * tile.swizzle)));
    return word;
  };
  const auto store = [&](llvm::ArrayRef<Word> words, const Shift &shift) {
    Value *bits = b.CreateShl(b.CreateAnd(shift.bytes, count(kPartBytes - 1)), 3);
    if (int64_t(dtypeBytes(tile.dtype)) == kPartBytes)
      bits = count(0);
    const auto storeFrom = [&](unsigned part) {
      for (const Word &word : words) {
        const auto put = [&] {
          b.CreateAlignedStore(wordOf(b, across(b, word.parts, part, bits)), shared(word.to),
                               llvm::Align(ir::kSharedWordBytes));
        };
        word.exists ? when(word.exists, "word", put) : put();
      }
    };
    const auto either = [&](unsigned parts, llvm::function_ref<void(unsigned)> body) {
      Value *moves = b.CreateIsNotNull(b.CreateAnd(shift.bytes, count(parts * kPartBytes)));
      when(moves, "late", [&] { body(parts); });
      when(b.CreateNot(moves), "early", [&] { body(0); });
    };
    either(2, [&](unsigned two) { either(1, [&](unsigned one) { storeFrom(two + one); }); });
  };
  BodyLowering::loop(b.CreateZExt(rounds, b.getInt64Ty()), "words", [&](Value *number) {
    Value *first =
        b.CreateMul(b.CreateTrunc(number, b.getInt32Ty()), b.CreateMul(rowsAtOnce, count(atOnce)));
    llvm::SmallVector<Word, kMostWords> some;
    for (const Shift &shift : shifts) {
      Value *place = placeOf(shift);
      for (int64_t i = 0; i < atOnce; ++i)
        some.push_back(load(shift, place, b.CreateAdd(first, b.CreateMul(rowsAtOnce, count(i)))));
    }
    for (auto [i, shift] : llvm::enumerate(shifts))
      store(llvm::ArrayRef(some).slice(i * size_t(atOnce), size_t(atOnce)), shift);
  });
}

void CopyWarps::zeroOutside(const Operand &operand) {
  const StagedTile &tile = operand.tile();
  const Window &window = operand.window;
  const auto count = [&](int64_t x) { return b.getInt32(uint32_t(x)); };
  const int64_t wordsOfBox = tile.swizzle / ir::kSharedWordBytes;
  const int64_t rowsAtOnce = WarpOps::kWarpThreads / wordsOfBox;
  Value *laneRow = b.CreateUDiv(lane_, count(wordsOfBox));
  Value *inBox = b.CreateMul(b.CreateURem(lane_, count(wordsOfBox)), count(ir::kSharedWordBytes));
  const auto rounds = [&](Value *rows) {
    const int64_t both = rowsAtOnce * kWarps;
    return b.CreateZExt(b.CreateUDiv(b.CreateAdd(rows, count(both - 1)), count(both)),
                        b.getInt64Ty());
  };
  BodyLowering::loop(b.CreateZExt(operand.boxes, b.getInt64Ty()), "boxes", [&](Value *number) {
    Value *box = b.CreateTrunc(number, b.getInt32Ty());
    Value *byte = b.CreateAdd(b.CreateMul(box, count(tile.swizzle)), inBox);
    Value *to = b.CreateAdd(operand.to, b.CreateMul(box, operand.boxBytes));
    Value *isIn = b.CreateAnd(
        b.CreateICmpUGE(byte, window.lowByte),
        b.CreateICmpULE(b.CreateAdd(byte, count(ir::kSharedWordBytes)), window.highByte));
    WordParts kept;
    for (unsigned i = 0; i < kParts; ++i) {
      Value *at = b.CreateAdd(byte, count(i * kPartBytes));
      kept.push_back(b.CreateAnd(firstBytes(b, b.CreateSub(window.highByte, at)),
                                 b.CreateNot(firstBytes(b, b.CreateSub(window.lowByte, at)))));
    }
    BodyLowering::loop(rounds(operand.rows), "rows", [&](Value *round) {
      // The warp has every second row.
      Value *row = b.CreateMul(b.CreateTrunc(round, b.getInt32Ty()), count(rowsAtOnce));
      row = b.CreateAdd(b.CreateMul(b.CreateAdd(row, laneRow), count(kWarps)), warpNumber_);
      Value *isInRows =
          b.CreateAnd(b.CreateICmpUGE(row, window.lowRow), b.CreateICmpULT(row, window.highRow));
      Value *isCut = b.CreateNot(b.CreateAnd(isInRows, isIn));
      when(b.CreateAnd(isCut, b.CreateICmpULT(row, operand.rows)), "word", [&] {
        Value *offset = b.CreateAdd(b.CreateMul(row, count(tile.swizzle)), inBox);
        Value *place = shared(b.CreateAdd(to, tile.layout().swizzled(b, offset)));
        auto *type = llvm::FixedVectorType::get(b.getInt32Ty(), kParts);
        const llvm::Align align(ir::kSharedWordBytes);
        Value *word = b.CreateAlignedLoad(type, place, align);
        Value *ones = b.CreateSelect(isInRows, wordOf(b, kept), llvm::Constant::getNullValue(type));
        b.CreateAlignedStore(b.CreateAnd(word, ones), place, align);
      });
    });
  });
  warp_.syncWarp(b);
}

} // namespace dtile::backend::gpu
