// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is read from the assembler's messages.
#include "backend/nvptx/ptxas.h"

#include "gtest/gtest.h"

namespace dtile::backend::nvptx {
namespace {

TEST(PtxasStatsTest, KernelsKeepTheirNumbersBesideThoseOfFunctionsThatTheyCall) {
  const auto stats = parseStats(
      "ptxas info    : (C7515) Potential Performance Loss: wgmma.mma_async instructions are "
      "serialized due to something in the function 'second'\n"
      "ptxas info    : 16 bytes gmem\n"
      "ptxas info    : Compiling entry function 'first' for 'sm_90a'\n"
      "ptxas info    : Function properties for first\n"
      "    768 bytes stack frame, 948 bytes spill stores, 1040 bytes spill loads\n"
      "ptxas info    : Used 168 registers, used 2 barriers, 768 bytes cumulative stack size\n"
      "ptxas info    : Compile time = 882.036 ms\n"
      "ptxas info    : Compiling entry function 'second' for 'sm_90a'\n"
      "ptxas info    : Function properties for second\n"
      "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 32 registers, 64 bytes smem\n"
      "ptxas info    : Function properties for spin\n"
      "    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\n");
  ASSERT_EQ(stats.size(), 2u);
  EXPECT_EQ(stats[0].entry, "first");
  EXPECT_EQ(stats[0].registers, 168);
  EXPECT_EQ(stats[0].stack, 768);
  EXPECT_EQ(stats[0].spillStores, 948);
  EXPECT_EQ(stats[0].spillLoads, 1040);
  EXPECT_EQ(stats[1].entry, "second");
  EXPECT_EQ(stats[1].registers, 32);
  EXPECT_EQ(stats[1].shared, 64);
  EXPECT_EQ(stats[1].stack, 0);
  EXPECT_EQ(stats[1].spillStores, 0);
  EXPECT_EQ(stats[0].loss, "");
  EXPECT_EQ(stats[1].loss, "wgmma.mma_async instructions are serialized due to something");
}

} // namespace
} // namespace dtile::backend::nvptx
