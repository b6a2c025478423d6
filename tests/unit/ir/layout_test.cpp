// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Layouts: places and elements are each other's inverse, shapes change as tiles do, and text reads
// back.
#include "ir/core/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

namespace dtile::ir {
namespace {

Layout read(llvm::StringRef text, unsigned rank) {
  std::optional<Layout> layout = Layout::parse(text, rank);
  EXPECT_TRUE(layout.has_value()) << text.str();
  return layout.value_or(Layout(rank));
}

/// Every element of the shape, with the number of places that hold it.
std::map<Layout::Position, int> census(const Layout &layout) {
  std::map<Layout::Position, int> found;
  for (uint32_t r = 0; r < layout.registers(); ++r)
    for (uint32_t l = 0; l < layout.lanes(); ++l)
      for (uint32_t w = 0; w < layout.warps(); ++w)
        ++found[layout.at(r, l, w)];
  return found;
}

TEST(Layout, PlacesAndElementsAreInverse) {
  const Layout layout = read("[1:1 0:8 | 1:2 1:4 0:1 0:2 0:4 | 0:16]", 2);
  std::set<std::array<uint32_t, 3>> seen;
  for (int32_t row = 0; row < 32; ++row)
    for (int32_t column = 0; column < 8; ++column) {
      std::optional<Layout::Place> place = layout.find({row, column});
      ASSERT_TRUE(place);
      EXPECT_EQ(layout.at(*place), (Layout::Position{row, column}));
      seen.insert({place->index, place->lane, place->warp});
    }
  EXPECT_EQ(seen.size(), 4u * 32 * 2);
  EXPECT_FALSE(layout.find({0, 8}));
}

TEST(Layout, CrookedWaysAreFound) {
  const Layout layout = read("[0:1+1:1 | 1:1 0:2+1:2 | 1:2+0:1]", 2);
  for (int32_t row = 0; row < 4; ++row)
    for (int32_t column = 0; column < 4; ++column) {
      std::optional<Layout::Place> place = layout.find({row, column});
      ASSERT_TRUE(place);
      EXPECT_EQ(layout.at(*place), (Layout::Position{row, column}));
    }
  EXPECT_FALSE(layout.isSimple());
  EXPECT_TRUE(layout.covers({4, 4}));
  EXPECT_FALSE(layout.covers({8, 4}));
}

// What a wgmma sum of bf16 or f32 becomes for stores of 16 bytes, in segments of 128.
TEST(Layout, RunsComeFromLanes) {
  const Layout sum = read("[1:1 0:8 1:8 1:16 1:32 1:64 | 1:2 1:4 0:1 0:2 0:4 | 0:16 0:32]", 2);
  const Layout halves = sum.withRuns(1, 8, 8), far = sum.withRuns(1, 8, 64);
  EXPECT_EQ(halves.str(), "[1:1 1:2 1:4 0:8 1:32 1:64 | 1:8 1:16 0:1 0:2 0:4 | 0:16 0:32]");
  EXPECT_EQ(far.str(), "[1:1 1:2 1:4 0:8 0:1 1:64 | 1:8 1:16 1:32 0:2 0:4 | 0:16 0:32]");
  EXPECT_EQ(sum.withRuns(1, 4, 32).str(),
            "[1:1 1:2 0:8 0:1 1:32 1:64 | 1:8 1:4 1:16 0:2 0:4 | 0:16 0:32]");
  for (const Layout &layout : {halves, far}) {
    EXPECT_EQ(layout.contiguous(1), 8u);
    EXPECT_EQ(census(layout), census(sum));
    // No element changes warps.
    for (const auto &[position, count] : census(sum))
      EXPECT_EQ(layout.find(position)->warp, sum.find(position)->warp);
  }
}

TEST(Layout, RunsAreAsLongAsLanesHaveThem) {
  // Another warp has what would come next, or no register along the dimension is left to give.
  const Layout warps = read("[1:1 1:4 | 0:1 | 1:2]", 2);
  EXPECT_EQ(warps.withRuns(1, 4, 4), warps);
  const Layout full = read("[1:1 0:2 | 1:2 0:1 | -]", 2);
  EXPECT_EQ(full.withRuns(1, 4, 8), full);
  // What is a run already stays.
  const Layout run = read("[1:1 1:2 0:1 | 1:4 0:2 | -]", 2);
  EXPECT_EQ(run.withRuns(1, 4, 8), run);
}

TEST(Layout, CopiesAreFoundInTheFirstPlace) {
  const Layout layout = read("[0:1 -| - 0:2 | -]", 1);
  EXPECT_EQ(layout.find({3}), (Layout::Place{1, 2, 0}));
  EXPECT_EQ(layout.withoutRegisterCopies().str(), "[0:1 | - 0:2 | -]");
}

TEST(Layout, TextReadsBack) {
  for (const char *text : {"[| |]", "[1:1 | - 0:2 | 0:4+1:8 -]", "[| 1:1 |]"})
    EXPECT_EQ(read(text, 2).str(), text);
  for (const char *text :
       {"", "[|]", "[| | |]", "[2:1 | |]", "[0:0 | |]", "[0:1+0:2 | |]", "[x | |]"})
    EXPECT_FALSE(Layout::parse(text, 2)) << text;
}

TEST(Layout, ShapesChangeAsTilesDo) {
  const Layout layout = read("[1:1 0:1 | 1:2 1:4 0:2 | 0:4]", 2);
  EXPECT_EQ(layout.permuted({1, 0}).str(), "[0:1 1:1 | 0:2 0:4 1:2 | 1:4]");
  EXPECT_EQ(layout.withoutDim(1).str(), "[- 0:1 | - - 0:2 | 0:4]");
  EXPECT_EQ(layout.withoutDim(1).withDim(1).str(), layout.collapsed(1).str());
  EXPECT_EQ(layout.reshaped({8, 8}, {64})->str(), "[0:1 0:8 | 0:2 0:4 0:16 | 0:32]");
  EXPECT_EQ(layout.reshaped({8, 8}, {8, 1, 8})->str(), "[2:1 0:1 | 2:2 2:4 0:2 | 0:4]");
  EXPECT_FALSE(layout.reshaped({7, 8}, {56}));
  // What is outside of a dimension of 1 would come to be inside.
  EXPECT_FALSE(layout.reshaped({1, 8}, {8}));
}

TEST(Layout, RegistersPastTheShapeDoNotExist) {
  const Layout layout = read("[0:1 0:64 0:128 | 0:2 0:4 0:8 0:16 0:32 |]", 1);
  EXPECT_THAT(layout.inside({192}), testing::ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(layout.contiguous(0), 2u);
}

TEST(Layout, BlocksCoverTheirShapeOnceWhereThereIsEnoughOfIt) {
  const Layout layout = blockedLayout({64, 128}, {1, 0}, 8, {32, 4});
  EXPECT_TRUE(layout.isSimple());
  EXPECT_EQ(layout.contiguous(1), 8u);
  for (auto [position, places] : census(layout))
    EXPECT_EQ(places, 1);
  EXPECT_EQ(census(layout).size(), 64u * 128);
}

TEST(Layout, SmallTilesAreCopied) {
  const Layout layout = blockedLayout({3}, {0}, 4, {32, 2});
  EXPECT_TRUE(layout.covers({3}));
  EXPECT_EQ(layout.registers(), 1u);
  EXPECT_EQ(layout.find({2}), (Layout::Place{0, 2, 0}));
}

TEST(Layout, OuterProductsGiveEachThreadASquare) {
  // Eight lanes side by side read as many lines, then come a thread's next ones.
  EXPECT_EQ(outerProductLayout({64, 64}, {32, 4}, {1, 1}).str(),
            "[1:8 1:16 1:32 0:16 0:32 | 1:1 0:1 1:2 0:2 1:4 | 0:4 0:8]");
  // Where four columns stand together, a thread has four; its part is 8 by 8 with them.
  EXPECT_EQ(outerProductLayout({128, 128}, {32, 8}, {1, 4}).str(),
            "[1:1 1:2 1:64 0:16 0:32 0:64 | 1:4 0:1 1:8 0:2 1:16 | 0:4 0:8 1:32]");
  for (const int64_t run : {1, 4}) {
    const Layout few = outerProductLayout({1, 7}, {32, 8}, {run, run});
    EXPECT_TRUE(few.isSimple());
    EXPECT_TRUE(few.covers({1, 7}));
  }
}

TEST(Layout, FragmentsRepeatOverWarpsAndRegisters) {
  const Layout atom = read("[1:1 0:8 | 1:2 1:4 0:1 0:2 0:4 |]", 2);
  EXPECT_EQ(repeatedLayout(atom, {64, 32}, {0, 1}).str(),
            "[1:1 0:8 1:16 0:32 | 1:2 1:4 0:1 0:2 0:4 | 0:16 1:8]");
  // No register is past the end in some warps only.
  EXPECT_EQ(repeatedLayout(atom, {16, 48}, {1, 0}).str(),
            "[1:1 0:8 1:16 1:32 | 1:2 1:4 0:1 0:2 0:4 | 1:8 -]");
}

TEST(Layout, OperandsStandWhereTheirSumsDo) {
  const Layout sumAtom = read("[1:1 0:8 | 1:2 1:4 0:1 0:2 0:4 |]", 2);
  const Layout a = read("[1:1 0:8 1:8 | 1:2 1:4 0:1 0:2 0:4 |]", 2);
  const Layout b = read("[0:1 0:8 | 0:2 0:4 1:1 1:2 1:4 |]", 2);
  const Layout sum = repeatedLayout(sumAtom, {64, 32}, {0, 1});
  EXPECT_EQ(operandLayout(sum, sumAtom, a, 0, 32).str(),
            "[1:1 0:8 1:8 0:32 1:16 | 1:2 1:4 0:1 0:2 0:4 | 0:16 -]");
  EXPECT_EQ(operandLayout(sum, sumAtom, b, 1, 32).str(),
            "[0:1 0:8 1:16 0:16 | 0:2 0:4 1:1 1:2 1:4 | - 1:8]");
}

} // namespace
} // namespace dtile::ir
