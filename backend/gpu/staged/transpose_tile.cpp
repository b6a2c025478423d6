// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The copy warps transpose tiles of 4-byte elements, of which wgmma takes only K-major ones (PTX
// ISA, "wgmma.mma_async": transposition is for 2-byte types), in their stage.
//
// TMA has written boxes of 32 columns, each of all 32 rows of the tile, with the 128-byte swizzle.
// Such a box is a square of 4 KiB, and its transpose are 32 rows of the K-major tile, in the same
// place. A warp reads one box or two into registers, and writes them. The warps take turns, from
// stage to stage. A box:
//
//               word of 16 bytes                      word of 16 bytes
//         0   1   2   3   4   5   6   7         0   1   2   3   4   5   6   7
//   k 0   a0 ...                          n 0   a0 b0 c0 d0 ...
//     1   b0 ...                            1   a1 b1 c1 d1
//     2   c0                                2   a2 ...
//     3   d0                                3   a3
//
// A lane has two blocks of 4 by 4 elements: a block is 4 words of 4 rows of the box, and 4 words of
// 4 rows of its transpose. The lanes of a quarter of a warp, which access all banks at once, have
// blocks of different rows and words, so that neither reads nor writes have bank conflicts: lane c
// of its quarter s has the blocks of rows 4 c and words c ^ s and c ^ s ^ 4.
#include "backend/gpu/staged/copy_warps.h"

#include "frontend/base/check.h"

namespace dtile::backend::gpu {

using llvm::Value;

namespace {

/// Elements of a word, and rows and columns of a block.
constexpr int64_t kBlock = 4;
/// Rows and columns of a box, and bytes of a row.
constexpr int64_t kBox = 32, kRowBytes = ir::kBankLineBytes;
constexpr int64_t kBlockBytes = kBlock * kRowBytes, kBlocks = kBox / kBlock;
/// Blocks of a lane; from the first one's word and row in the transpose to those of the second.
constexpr int64_t kOfLane = 2, kApart = 4;
/// Boxes that a warp has in registers at once; and where registers are few.
constexpr int64_t kMostBoxes = 2, kFewBoxes = 1;

} // namespace

void CopyWarps::transposeTile(const StagedTile &tile, Value *slot) {
  DTILE_CHECK(tile.rows == kBox && tile.swizzle == kRowBytes && tile.boxBytes() == kBox * kRowBytes,
              "stage-loads transposes tiles of squares");
  const auto count = [&](int64_t x) { return b.getInt32(uint32_t(x)); };
  const auto bytesOfWord = [&](Value *word) {
    return b.CreateMul(word, count(ir::kSharedWordBytes));
  };
  // Of the lane's first block, its row and word in the box; in the transpose they change places.
  Value *row = b.CreateAnd(lane_, count(kBlocks - 1));
  Value *word = b.CreateXor(row, b.CreateUDiv(lane_, count(kBlocks)));
  // Where the swizzle puts a word of the first row of a block: rows 4 and 0 of its period of 8.
  const auto place = [&](Value *blockRow, Value *blockWord) {
    Value *half = b.CreateMul(b.CreateAnd(blockRow, count(1)), count(kApart));
    return b.CreateAdd(b.CreateMul(blockRow, count(kBlockBytes)),
                       bytesOfWord(b.CreateXor(blockWord, half)));
  };
  Value *from = place(row, word), *to = place(word, row);
  Value *otherTo = b.CreateXor(to, count(kApart * kBlockBytes));
  // Words of the next rows of a block, and of the other block, are exchanged by their numbers.
  // Computed from what differs from box to box: there are no registers for sixteen addresses.
  const auto at = [&](Value *first, int64_t i, int64_t exchanged) {
    Value *there = shared(b.CreateXor(first, count(exchanged * ir::kSharedWordBytes)));
    return b.CreateConstGEP1_64(b.getInt8Ty(), there, uint64_t(i * kRowBytes));
  };
  const llvm::Align align(ir::kSharedWordBytes);
  auto *type = llvm::FixedVectorType::get(b.getInt32Ty(), unsigned(kBlock));
  Value *begin = address(slot, tile.offset);
  const auto transposeBoxes = [&](llvm::ArrayRef<Value *> boxes) {
    llvm::SmallVector<Value *, kMostBoxes * kOfLane * kBlock> words;
    for (Value *box : boxes) {
      Value *source = b.CreateAdd(box, from);
      for (const int64_t apart : {int64_t(0), kApart})
        for (int64_t i = 0; i < kBlock; ++i)
          words.push_back(b.CreateAlignedLoad(type, at(source, i, i ^ apart), align));
    }
    warp_.syncWarp(b);
    const auto *block = words.begin();
    for (Value *box : boxes)
      for (Value *first : {to, otherTo}) {
        Value *target = b.CreateAdd(box, first);
        for (int64_t column = 0; column < kBlock; ++column) {
          Value *transposed = llvm::PoisonValue::get(type);
          for (int64_t i = 0; i < kBlock; ++i)
            transposed = b.CreateInsertElement(
                transposed, b.CreateExtractElement(block[i], uint64_t(column)), uint64_t(i));
          b.CreateAlignedStore(transposed, at(target, column, column), align);
        }
        block += kBlock;
      }
  };
  const auto boxAt = [&](Value *number) {
    return b.CreateAdd(begin, b.CreateMul(number, count(tile.boxBytes())));
  };
  const int64_t atOnce = hasFewRegisters_ ? kFewBoxes : kMostBoxes;
  const auto boxesFrom = [&](Value *first, int64_t boxes) {
    llvm::SmallVector<Value *, kMostBoxes> those;
    for (int64_t i = 0; i < boxes; ++i)
      those.push_back(boxAt(b.CreateAdd(first, count(i))));
    transposeBoxes(those);
  };
  BodyLowering::loop(b.getInt64(uint64_t(tile.boxes() / atOnce)), "boxes", [&](Value *round) {
    boxesFrom(b.CreateMul(b.CreateTrunc(round, b.getInt32Ty()), count(atOnce)), atOnce);
  });
  if (const int64_t rest = tile.boxes() % atOnce; rest > 0)
    boxesFrom(count(tile.boxes() - rest), rest);
}

} // namespace dtile::backend::gpu
