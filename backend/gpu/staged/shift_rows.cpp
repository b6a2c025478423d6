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
/// The same of words that are cut; and rounds of rows of zeros in a round of their loop.
constexpr int64_t kMostCutWords = 4, kZeroedRounds = 4;

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
  const ir::FoldedTile folded = tile.folded();
  const auto count = [&](int64_t x) { return b.getInt32(uint32_t(x)); };
  const int64_t ofWarp = folded.fold / kWarps, most = hasFewRegisters_ ? kFewWords : kMostWords;
  const int64_t ofCopy = std::min(most, wordsOfLane(tile, folded));
  // A power of two, as the number of copies is.
  const int64_t copiesAtOnce = std::min(most / ofCopy, ofWarp);
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
        inFold = b.CreateAnd(inFold, count(folded.fold - 1));
        // Boxes begin at multiples of words from each other.
        Value *begin = b.CreateAdd(b.CreateMul(inFold, operand.place.pitch), operand.place.column);
        Value *bytes =
            b.CreateMul(b.CreateAnd(begin, count(folded.fold - 1)), count(dtypeBytes(tile.dtype)));
        Value *from = b.CreateAdd(unitAddress(), b.CreateMul(copy, count(folded.copyBytes)));
        shifts.push_back({.from = from, .to = to, .row = row, .bytes = bytes});
      }
      shiftCopies(tile, shifts, ofCopy);
    });
    warp_.syncWarp(b);
    when(warp_.isElected(b), "shifted",
         [&] { bulk_.arrive(b, unit_.barrier(ring_.unitEmpty, unit)); });
    unit_.next();
  };
  // Units in the order in which the load warp fills them.
  const auto eachOf = [&](int64_t all, int64_t step, llvm::function_ref<void(Value *)> body) {
    BodyLowering::loop(b.getInt64(uint64_t(all / step)), "units", [&](Value *number) {
      body(b.CreateMul(b.CreateTrunc(number, b.getInt32Ty()), count(step)));
    });
  };
  eachOf(tile.boxes(), folded.unitBoxes, [&](Value *firstBox) {
    eachOf(tile.rows, folded.unitRows, [&](Value *firstRow) { shiftUnit(firstBox, firstRow); });
  });
  const Window &window = operand.window;
  Value *isWhole =
      b.CreateAnd(b.CreateAnd(b.CreateIsNull(window.lowRow), b.CreateIsNull(window.lowByte)),
                  b.CreateAnd(b.CreateICmpEQ(window.highRow, operand.rows),
                              b.CreateICmpEQ(window.highByte, operand.rowBytes)));
  // The warp has met after its last unit: what other lanes have written is there.
  when(b.CreateNot(isWhole), "cut", [&] { zeroOutside(operand); });
}

void CopyWarps::shiftCopies(const StagedTile &tile, llvm::ArrayRef<Shift> shifts, int64_t atOnce) {
  const ir::FoldedTile folded = tile.folded();
  const auto count = [&](int64_t x) { return b.getInt32(uint32_t(x)); };
  const int64_t words = wordsOfRow(tile, folded), wordsOfBox = tile.swizzle / ir::kSharedWordBytes;
  const int64_t rowsAtOnce = WarpOps::kWarpThreads / words;
  // Rows of the next rounds are multiples of 8 rows further, the period of the swizzle.
  DTILE_CHECK(rowsAtOnce * folded.fold % ir::kSwizzleRows == 0,
              "elements of staged tiles have 4 bytes at most");
  const bool areAllThere = folded.copyRows * words % (atOnce * WarpOps::kWarpThreads) == 0;
  Value *laneRow = b.CreateUDiv(lane_, count(words));
  Value *laneWord = b.CreateURem(lane_, count(words));
  Value *inBox =
      b.CreateMul(b.CreateURem(laneWord, count(wordsOfBox)), count(ir::kSharedWordBytes));
  Value *box = b.CreateMul(b.CreateUDiv(laneWord, count(wordsOfBox)), count(tile.boxBytes()));
  Value *inCopy = b.CreateAdd(b.CreateMul(laneRow, count(folded.rowBytes)),
                              b.CreateMul(laneWord, count(ir::kSharedWordBytes)));
  const auto placeOf = [&](const Shift &shift) {
    Value *row = b.CreateAdd(shift.row, b.CreateMul(laneRow, count(folded.fold)));
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
    Value *there =
        b.CreateAdd(b.CreateAdd(shift.from, inCopy), b.CreateMul(rows, count(folded.rowBytes)));
    if (!areAllThere) {
      word.exists = b.CreateICmpULT(b.CreateAdd(laneRow, rows), count(folded.copyRows));
      there = b.CreateSelect(word.exists, there, shift.from);
    }
    word.parts = loadWords(b, there, b.CreateAdd(there, count(ir::kSharedWordBytes)));
    word.to = b.CreateAdd(place, b.CreateMul(rows, count(folded.fold * tile.swizzle)));
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
  const auto rounds = llvm::divideCeil(uint64_t(wordsOfLane(tile, folded)), uint64_t(atOnce));
  BodyLowering::loop(b.getInt64(rounds), "words", [&](Value *number) {
    Value *first = b.CreateMul(b.CreateTrunc(number, b.getInt32Ty()), count(rowsAtOnce * atOnce));
    llvm::SmallVector<Word, kMostWords> some;
    for (const Shift &shift : shifts) {
      Value *place = placeOf(shift);
      for (int64_t i = 0; i < atOnce; ++i)
        some.push_back(load(shift, place, b.CreateAdd(first, count(rowsAtOnce * i))));
    }
    for (auto [i, shift] : llvm::enumerate(shifts))
      store(llvm::ArrayRef(some).slice(i * size_t(atOnce), size_t(atOnce)), shift);
  });
}

void CopyWarps::zeroOutside(const Operand &operand) {
  zeroRows(operand, b.getInt32(0), operand.window.lowRow);
  zeroRows(operand, operand.window.highRow, operand.rows);
  // Lanes read what others have written.
  warp_.syncWarp(b);
  zeroColumns(operand);
  warp_.syncWarp(b);
}

void CopyWarps::zeroRows(const Operand &operand, Value *begin, Value *end) {
  const StagedTile &tile = operand.tile();
  const auto count = [&](int64_t x) { return b.getInt32(uint32_t(x)); };
  const int64_t wordsOfBox = tile.swizzle / ir::kSharedWordBytes;
  // The warp has every second row. A round's rows are a multiple of 8, the period of the swizzle.
  const int64_t ofRound = WarpOps::kWarpThreads / wordsOfBox * kWarps;
  DTILE_CHECK(ofRound % ir::kSwizzleRows == 0, "a box has 128 bytes of a row at most");
  Value *first = b.CreateAnd(begin, count(-ofRound));
  Value *rounds =
      b.CreateUDiv(b.CreateAdd(b.CreateSub(end, first), count(ofRound * kZeroedRounds - 1)),
                   count(ofRound * kZeroedRounds));
  Value *row = b.CreateMul(b.CreateUDiv(lane_, count(wordsOfBox)), count(kWarps));
  row = b.CreateAdd(b.CreateAdd(row, warpNumber_), first);
  Value *offset = b.CreateMul(b.CreateURem(lane_, count(wordsOfBox)), count(ir::kSharedWordBytes));
  offset = b.CreateAdd(offset, b.CreateMul(row, count(tile.swizzle)));
  Value *to = b.CreateAdd(operand.to, tile.layout().swizzled(b, offset));
  Value *fromBegin = b.CreateSub(row, begin), *number = b.CreateSub(end, begin);
  auto *zeros = llvm::Constant::getNullValue(llvm::FixedVectorType::get(b.getInt32Ty(), kParts));
  BodyLowering::loop(b.CreateZExt(rounds, b.getInt64Ty()), "rows", [&](Value *round) {
    Value *skipped = b.CreateMul(b.CreateTrunc(round, b.getInt32Ty()), count(kZeroedRounds));
    for (int64_t i = 0; i < kZeroedRounds; ++i) {
      Value *before = b.CreateMul(b.CreateAdd(skipped, count(i)), count(ofRound));
      Value *isOut = b.CreateICmpULT(b.CreateAdd(fromBegin, before), number);
      when(isOut, "outside", [&] {
        Value *there = b.CreateAdd(to, b.CreateMul(before, count(tile.swizzle)));
        for (int64_t box = 0; box < tile.boxes(); ++box)
          b.CreateAlignedStore(zeros, shared(b.CreateAdd(there, count(box * tile.boxBytes()))),
                               llvm::Align(ir::kSharedWordBytes));
      });
    }
  });
}

void CopyWarps::zeroColumns(const Operand &operand) {
  const StagedTile &tile = operand.tile();
  const Window &window = operand.window;
  const auto count = [&](int64_t x) { return b.getInt32(uint32_t(x)); };
  const int64_t wordsOfBox = tile.swizzle / ir::kSharedWordBytes;
  const int64_t rowsAtOnce = WarpOps::kWarpThreads / wordsOfBox, ofWarp = tile.rows / kWarps;
  // Rounds of rows whose words are in registers at once.
  const bool isEven = ofWarp % rowsAtOnce == 0;
  const auto rounds = int64_t(llvm::divideCeil(uint64_t(ofWarp), uint64_t(rowsAtOnce)));
  const int64_t atOnce = std::min(kMostCutWords, rounds & -rounds);
  Value *laneRow = b.CreateUDiv(lane_, count(wordsOfBox));
  Value *inBox = b.CreateMul(b.CreateURem(lane_, count(wordsOfBox)), count(ir::kSharedWordBytes));
  BodyLowering::loop(b.CreateZExt(operand.boxes, b.getInt64Ty()), "boxes", [&](Value *number) {
    Value *box = b.CreateTrunc(number, b.getInt32Ty());
    Value *byte = b.CreateAdd(b.CreateMul(box, count(tile.swizzle)), inBox);
    Value *start = b.CreateAdd(operand.to, b.CreateMul(box, operand.boxBytes));
    Value *isWhole = b.CreateAnd(
        b.CreateICmpUGE(byte, window.lowByte),
        b.CreateICmpULE(b.CreateAdd(byte, count(ir::kSharedWordBytes)), window.highByte));
    when(b.CreateNot(isWhole), "columns", [&] {
      WordParts kept;
      for (unsigned i = 0; i < kParts; ++i) {
        Value *at = b.CreateAdd(byte, count(i * kPartBytes));
        kept.push_back(b.CreateAnd(firstBytes(b, b.CreateSub(window.highByte, at)),
                                   b.CreateNot(firstBytes(b, b.CreateSub(window.lowByte, at)))));
      }
      Value *ones = wordOf(b, kept);
      BodyLowering::loop(b.getInt64(uint64_t(rounds / atOnce)), "rows", [&](Value *round) {
        Value *first =
            b.CreateMul(b.CreateTrunc(round, b.getInt32Ty()), count(rowsAtOnce * atOnce));
        first = b.CreateAdd(first, laneRow);
        const llvm::Align align(ir::kSharedWordBytes);
        llvm::SmallVector<std::pair<Value *, Value *>, kMostCutWords> words;
        for (int64_t i = 0; i < atOnce; ++i) {
          Value *own = b.CreateAdd(first, count(i * rowsAtOnce));
          Value *row = b.CreateAdd(b.CreateMul(own, count(kWarps)), warpNumber_);
          if (!isEven) // Lanes that have no row take the warp's first one, as another lane does.
            row = b.CreateSelect(b.CreateICmpULT(own, count(ofWarp)), row, warpNumber_);
          Value *offset = b.CreateAdd(b.CreateMul(row, count(tile.swizzle)), inBox);
          Value *place = shared(b.CreateAdd(start, tile.layout().swizzled(b, offset)));
          words.emplace_back(b.CreateAlignedLoad(ones->getType(), place, align), place);
        }
        for (auto &[word, place] : words)
          b.CreateAlignedStore(b.CreateAnd(word, ones), place, align);
      });
    });
  });
}

} // namespace dtile::backend::gpu
