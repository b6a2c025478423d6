// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The sizes that passes and code generation agree on, against figures worked out by hand.
#include "ir/analysis/boxes/folded_tiles.h"
#include "ir/analysis/shared_memory_plan.h"

#include "ir/core/layout.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <vector>

namespace dtile::ir {
namespace {

class SharedMemoryPlanTest : public testing::Test {
protected:
  Type tile(llvm::ArrayRef<int64_t> shape, DType dtype = DType::BF16) {
    return types_.tile(shape, dtype);
  }

  TypeContext types_;
};

TEST_F(SharedMemoryPlanTest, BarriersAndTablesDoNotOverlap) {
  CopiedTiles copied;
  copied.gathered = {48, 128};
  copied.areTransposed = true;
  const StagedControl control(8, 4, 2, copied);
  struct Part {
    int64_t offset, bytes;
  };
  std::vector<Part> parts = {
      {control.full, 32},       {control.empty, 32},       {control.loaded, 32},
      {control.failed, 4},      {control.ready, 8},        {control.received, 8},
      {control.added, 8},       {control.reusable, 8},     {control.bodies, 32},
      {control.bodiesFull, 32}, {control.bodiesEmpty, 32}, {control.tables[0], 256},
      {control.tables[1], 512}, {control.unitFull, 64},    {control.unitEmpty, 64},
      {control.stored, 8},      {control.drained, 16},     {control.ended, 8},
      {control.arrived, 8},     {control.taken, 8}};
  std::ranges::sort(parts, {}, &Part::offset);
  int64_t end = control.begin;
  for (const Part &part : parts) {
    EXPECT_GE(part.offset, end);
    end = part.offset + part.bytes;
  }
  EXPECT_EQ(control.end, end);
  for (const int64_t table : control.tables)
    EXPECT_EQ(table % kSharedWordBytes, 0);
  for (const int64_t barrier : {control.full, control.ready, control.bodiesFull, control.stored})
    EXPECT_EQ(barrier % kMbarrierBytes, 0);
}

TEST_F(SharedMemoryPlanTest, FourStagesBesideHalfOfTheOutputFillHopper) {
  // 128x256x64 in bf16: two warpgroups hand over 64 rows of 528 bytes each.
  StagedPlan plan;
  plan.stage.addBox(tile({128, 64}));
  EXPECT_EQ(plan.stage.addBox(tile({256, 64})), 128 * 64 * 2);
  plan.output = paddedTileBytes({128, 256}, 2) / 2;
  EXPECT_EQ(plan.output, 64 * (256 * 2 + 16));
  plan.controlEnd = StagedControl(0, 4, 2, {}).end;
  const TargetFacts &machine = *findMachine("h200");
  EXPECT_EQ(plan.stagesIn(sharedRoom(machine)), 4);
  EXPECT_EQ(plan.bytes(4), sharedRoom(machine));
  // Not one byte is left: more barriers than their 1 KiB holds take a stage.
  plan.controlEnd = kBoxAlignBytes + 1;
  EXPECT_EQ(plan.stagesIn(sharedRoom(machine)), 3);
}

TEST_F(SharedMemoryPlanTest, ScalarsStandBehindTheBoxesOfAllLoops) {
  StageBytes first, second;
  first.addBox(tile({64, 64}));
  EXPECT_EQ(first.addScalars(tile({3}, DType::F32)), 0);
  EXPECT_EQ(first.addScalars(tile({64}, DType::F32)), 16);
  second.addBox(tile({64, 128}));
  first.unite(second);
  EXPECT_EQ(first.boxes, 64 * 128 * 2);
  EXPECT_EQ(first.bytes(), first.boxes + kBoxAlignBytes);
}

TEST_F(SharedMemoryPlanTest, RowsBeginInOtherBanks) {
  EXPECT_EQ(paddedRowBytes(16), 16);
  EXPECT_EQ(paddedRowBytes(128), 144);
  EXPECT_EQ(paddedRowBytes(200), 224);
  // Of slots: an even number of words gets one more, unless its words change places.
  EXPECT_EQ(slotRowBytes(64, 0), 80);
  EXPECT_EQ(slotRowBytes(48, 0), 48);
  EXPECT_EQ(slotRowBytes(64, 64), 64);
}

TEST_F(SharedMemoryPlanTest, UnknownLayoutsCountInPowersOfTwo) {
  EXPECT_EQ(paddedTileBytes(tile({64, 96})), 64 * (128 * 2 + 16));
  const unsigned order[] = {1, 0};
  const Layout layout = blockedLayout({64, 96}, order, 8, {});
  const Type known = types_.tile({64, 96}, DType::BF16, &layout);
  EXPECT_LE(paddedTileBytes(known), paddedTileBytes(tile({64, 96})));
  EXPECT_GE(paddedTileBytes(known), 64 * (96 * 2 + 16));
}

TEST_F(SharedMemoryPlanTest, SlotsOfMultistageLoops) {
  MultistageSlot slot;
  EXPECT_EQ(slot.addTile(tile({64, 32}), 64), 0);
  EXPECT_EQ(slot.addTile(tile({16, 32}), 0), 64 * 64);
  EXPECT_EQ(slot.addNumbers(3), 64 * 64 + 16 * 80);
  EXPECT_EQ(slot.addLookup(tile({16}, DType::I32)), 64 * 64 + 16 * 80 + kScratchAlignBytes);
  EXPECT_EQ(slot.bytes(), 64 * 64 + 16 * 80 + 2 * kScratchAlignBytes);
  EXPECT_TRUE(MultistageSlot::holdsNumbers(16));
  EXPECT_FALSE(MultistageSlot::holdsNumbers(17));
}

TEST_F(SharedMemoryPlanTest, ProgramsShareAProcessor) {
  const TargetFacts &machine = *findMachine("h200");
  EXPECT_EQ(sharedRoom(machine, 2), machine.sharedBytes / 2 - kReservedSharedBytes);
  EXPECT_EQ(programsInShared(machine, sharedRoom(machine, 2)), 2);
  EXPECT_EQ(programsInShared(machine, sharedRoom(machine, 2) + 1), 1);
}

TEST_F(SharedMemoryPlanTest, FoldedTilesComeInUnits) {
  // 128 rows of 64 elements: eight copies of 16 rows, each of 128 bytes and a word more.
  const FoldedTile whole(tile({128, 64}), 128);
  EXPECT_EQ(whole.fold, 8);
  EXPECT_EQ(whole.copyRows, 16);
  EXPECT_EQ(whole.rowBytes, 144);
  EXPECT_EQ(whole.copyBytes, 16 * 144);
  EXPECT_EQ(whole.units, 1);
  // A copy begins at a multiple of 128 bytes: two rows of 144 have room of 384.
  const FoldedTile small(tile({16, 64}), 128);
  EXPECT_EQ(small.copyBytes, 384);
  EXPECT_EQ(small.loadedBytes(), 16 * 144);
  // Tall tiles come in several units, wide ones in units of two boxes.
  EXPECT_EQ(FoldedTile(tile({256, 64}), 128).units, 2);
  const FoldedTile wide(tile({64, 256}), 128);
  EXPECT_EQ(wide.unitBoxes, 2);
  EXPECT_EQ(wide.rowBytes, 272);
  EXPECT_EQ(wide.units, 2);
  // 192 rows cannot be halved twice by whole copies of each remainder.
  EXPECT_EQ(FoldedTile(tile({192, 64}), 128).unitRows, 96);
  // A box has 256 elements a row at most.
  EXPECT_EQ(FoldedTile(tile({64, 256}, DType::F8E4M3), 128).unitBoxes, 1);
  EXPECT_EQ(FoldedTile(tile({64, 64}, DType::F32), 128).fold, 4);
}

} // namespace
} // namespace dtile::ir
