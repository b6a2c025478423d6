// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every one-byte float widened to a half by the code that GPUs get, folded to a constant.
#include "backend/gpu/bodies/narrow_floats.h"
#include "ir/core/layout.h"
#include "ir/machine/matrix_products.h"

#include "llvm/Analysis/ConstantFolding.h"
#include "llvm/Analysis/TargetFolder.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/DataLayout.h"

#include "gtest/gtest.h"

#include <cmath>
#include <map>

namespace dtile::backend::gpu {
namespace {

TEST(NarrowFloats, HalvesAreTheSameNumbers) {
  llvm::LLVMContext context;
  const llvm::DataLayout layout("e");
  llvm::IRBuilder<llvm::TargetFolder> b(context, llvm::TargetFolder(layout));
  for (DType dtype : {DType::F8E4M3, DType::F8E5M2})
    for (uint32_t first = 0; first < 256; ++first) {
      // The neighbours differ, so that nothing may leak.
      const uint8_t codes[4] = {uint8_t(first), uint8_t(first * 7 + 1), uint8_t(~first),
                                uint8_t(first ^ 0x7f)};
      const uint32_t word = codes[0] | codes[1] << 8 | codes[2] << 16 | uint32_t(codes[3]) << 24;
      llvm::SmallVector<llvm::Value *, 2> words;
      appendHalves(b, dtype, b.getInt32(word), words);
      ASSERT_EQ(words.size(), 2u);
      for (unsigned i = 0; i < 4; ++i) {
        const auto *pair = llvm::dyn_cast<llvm::ConstantInt>(words[i / 2]);
        ASSERT_TRUE(pair);
        const float got = f16ToF32(uint16_t(pair->getZExtValue() >> (16 * (i % 2))));
        const float wanted = dtype == DType::F8E4M3 ? f8E4M3ToF32(codes[i]) : f8E5M2ToF32(codes[i]);
        if (std::isnan(wanted))
          EXPECT_TRUE(std::isnan(got)) << unsigned(codes[i]);
        else
          EXPECT_EQ(got, wanted) << unsigned(codes[i]);
        EXPECT_EQ(std::signbit(got), std::signbit(wanted)) << unsigned(codes[i]);
      }
    }
}

/// The halves of words, taken by two instructions, stand where these have elements of one row and
/// column; which one of the summed dimension it is, both operands agree on.
TEST(NarrowFloats, InstructionsForHalvesFindThem) {
  const auto fragment = [](llvm::StringRef text) { return *ir::Layout::parse(text, 2); };
  const MatrixProduct &whole = *llvm::find_if(
      kMmaSm80, [](const MatrixProduct &product) { return product.name.ends_with(".halves"); });
  const MatrixProduct &half = *llvm::find_if(
      kMmaSm80, [](const MatrixProduct &product) { return product.a == DType::F16; });
  EXPECT_EQ(whole.fragmentSum, half.fragmentSum);
  // By instruction and its place in the summed dimension: which element it gets.
  std::map<std::pair<int, int>, int> depth;
  for (bool isB : {false, true}) {
    const ir::Layout bytes = fragment(isB ? whole.fragmentB : whole.fragmentA);
    const ir::Layout halves = fragment(isB ? half.fragmentB : half.fragmentA);
    const unsigned summed = isB ? 0 : 1;
    ASSERT_EQ(bytes.registers(), 2 * halves.registers());
    for (uint32_t lane = 0; lane < 32; ++lane)
      for (uint32_t index = 0; index < bytes.registers(); ++index) {
        const int which = int(index / 2 % 2);
        const auto from = bytes.at(index, lane);
        const auto to = halves.at(2 * (index / 4) + index % 2, lane);
        EXPECT_EQ(from[1 - summed], to[1 - summed]);
        const auto [known, isNew] = depth.insert({{which, to[summed]}, from[summed]});
        EXPECT_EQ(known->second, from[summed]) << "lane " << lane << ", element " << index;
      }
  }
  EXPECT_EQ(depth.size(), size_t(whole.depth));
}

} // namespace
} // namespace dtile::backend::gpu
