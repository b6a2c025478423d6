// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The fragments of AMD's matrix instructions, against what AMD's Matrix Instruction Calculator says
// where the hardware has its operands. The instructions are done by hand here.
#include "ir/core/layout.h"
#include "ir/machine/target_facts.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace dtile {
namespace {

using ir::Layout;

constexpr unsigned kLanes = 64;
/// Registers of all lanes.
using Registers = std::vector<std::vector<int64_t>>;

/// How much of a fragment one instruction takes: bytes of a lane.
unsigned bytesOfInstruction(const MatrixProduct &product, bool isCdna4) {
  if (product.a == DType::F32)
    return product.isTf32 ? 8 : 4;
  if (product.a == DType::F64)
    return 8;
  if (!isCdna4)
    return product.a == DType::I8 ? 4 : 8;
  return product.depth * product.rows == 64 * 32 || product.depth == 128 ? 32 : 16;
}

/// D += A · B of one instruction. Lane l has row or column l % size and a run of the summed
/// dimension, of which element j is number run * (l / size) + j.
void multiply(int size, bool isDouble, unsigned run, const Registers &a, const Registers &b,
              Registers &d) {
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    for (unsigned v = 0; v < d[lane].size(); ++v) {
      const int column = int(lane) % size;
      int row;
      if (isDouble)
        row = 4 * int(v) + int(lane) / 16;
      else if (size == 32)
        row = 8 * (int(v) / 4) + 4 * (int(lane) / 32) + int(v) % 4;
      else
        row = 4 * (int(lane) / 16) + int(v);
      for (unsigned group = 0; group < kLanes / unsigned(size); ++group)
        for (unsigned j = 0; j < run; ++j)
          d[lane][v] += a[group * size + row][j] * b[group * size + column][j];
    }
  }
}

Registers slice(const Registers &all, unsigned first, unsigned count) {
  Registers part;
  for (const std::vector<int64_t> &lane : all)
    part.emplace_back(lane.begin() + first, lane.begin() + first + count);
  return part;
}

class CdnaProducts : public ::testing::TestWithParam<const char *> {};

TEST_P(CdnaProducts, FragmentsMultiply) {
  const TargetFacts &facts = *findMachine(GetParam());
  const bool isCdna4 = facts.name == "mi355x";
  ASSERT_EQ(facts.lanes, 64);
  ASSERT_FALSE(facts.products.empty());
  for (const MatrixProduct &product : facts.products) {
    SCOPED_TRACE(product.name.str());
    const auto a = Layout::parse(product.fragmentA, 2), b = Layout::parse(product.fragmentB, 2),
               sum = Layout::parse(product.fragmentSum, 2);
    ASSERT_TRUE(a && b && sum);
    for (const auto &layout : {a, b, sum}) {
      EXPECT_TRUE(layout->isSimple());
      EXPECT_EQ(layout->lanes(), kLanes);
      EXPECT_EQ(layout->warps(), 1u);
    }
    EXPECT_TRUE(a->covers({product.rows, product.depth}));
    EXPECT_TRUE(b->covers({product.depth, product.columns}));
    EXPECT_TRUE(sum->covers({product.rows, product.columns}));

    // Numbers that no two places share the product of by accident.
    auto x = [](int row, int k) { return int64_t(row * 131 + k * 17 + 1); };
    auto y = [](int k, int column) { return int64_t(column * 71 + k * 29 + 3); };
    Registers ours(kLanes), theirs(kLanes), result(kLanes);
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      for (unsigned index = 0; index < a->registers(); ++index) {
        const Layout::Position at = a->at(index, lane), bt = b->at(index, lane);
        ours[lane].push_back(x(at[0], at[1]));
        theirs[lane].push_back(y(bt[0], bt[1]));
      }
      result[lane].resize(sum->registers());
    }
    const unsigned run = bytesOfInstruction(product, isCdna4) / dtypeBytes(product.a);
    // One-byte floats that are multiplied as halves: 8 bytes of those.
    const bool asHalves = !isCdna4 && dtypeBytes(product.a) == 1 && product.a != DType::I8;
    const unsigned step = asHalves ? 4 : run;
    ASSERT_EQ(a->registers() % step, 0u);
    for (unsigned first = 0; first < a->registers(); first += step)
      // b is the instruction's first operand.
      multiply(product.rows, product.a == DType::F64, step, slice(theirs, first, step),
               slice(ours, first, step), result);

    for (unsigned lane = 0; lane < kLanes; ++lane)
      for (unsigned index = 0; index < sum->registers(); ++index) {
        const Layout::Position at = sum->at(index, lane);
        int64_t wanted = 0;
        for (int k = 0; k < product.depth; ++k)
          wanted += x(at[0], k) * y(k, at[1]);
        EXPECT_EQ(result[lane][index], wanted) << "lane " << lane << ", register " << index;
      }
  }
}

INSTANTIATE_TEST_SUITE_P(Machines, CdnaProducts, ::testing::Values("mi250x", "mi300x", "mi355x"));

} // namespace
} // namespace dtile
