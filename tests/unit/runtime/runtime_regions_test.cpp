// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Strided copies, atomic additions and float formats, against plain loops and the compiler's own
// conversions.
#include "backend/runtime/arguments/regions.h"
#include "backend/runtime/float_formats.h"
#include "backend/runtime/symmetric_heap.h"
#include "frontend/base/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

namespace dtile::test {
namespace {

using namespace dtile::runtime;

/// A region of random shape inside `elements` elements.
dtile_region randomRegion(std::mt19937 &random, int32_t dtype, int32_t ndim, const int64_t *size,
                          int64_t elements) {
  dtile_region region = {};
  region.rank = -1;
  region.dtype = dtype;
  region.ndim = ndim;
  int64_t stride = 1;
  // Dimensions in any order in memory, with gaps now and then.
  std::vector<int32_t> order;
  for (int32_t d = ndim; d-- > 0;)
    order.push_back(d);
  if (random() % 3 == 0)
    std::shuffle(order.begin(), order.end(), random);
  for (int32_t d : order) {
    region.size[d] = size[d];
    region.stride[d] = stride;
    stride *= std::max<int64_t>(size[d], 1) + (random() % 3 == 0 ? 1 : 0);
  }
  EXPECT_LE(stride, elements);
  return region;
}

/// Offsets in bytes of all elements in row-major order.
std::vector<int64_t> offsets(const dtile_region &region) {
  std::vector<int64_t> found;
  forEachElement(region, nullptr, [&](char *address) {
    found.push_back(int64_t(reinterpret_cast<uintptr_t>(address)));
    return true;
  });
  return found;
}

TEST(RuntimeRegions, CopiesMoveEachElementAndNothingElse) {
  std::mt19937 random(1);
  constexpr int64_t kElements = 1 << 16;
  for (int32_t dtype : {DTILE_I8, DTILE_BF16, DTILE_F32, DTILE_F64}) {
    auto width = size_t(elementBytes(dtype));
    for (int round = 0; round < 300; ++round) {
      int32_t ndim = int32_t(random() % 5);
      int64_t size[DTILE_MAX_RANK];
      for (int32_t d = 0; d < ndim; ++d)
        size[d] = random() % 7;
      dtile_region from = randomRegion(random, dtype, ndim, size, kElements);
      dtile_region to = randomRegion(random, dtype, ndim, size, kElements);
      std::vector<char> source(kElements * width), target(kElements * width, 'x');
      for (char &byte : source)
        byte = char(random());
      std::vector<char> expected = target;
      std::vector<int64_t> in = offsets(from), out = offsets(to);
      ASSERT_EQ(int64_t(in.size()), elementCount(from));
      for (size_t i = 0; i < in.size(); ++i)
        std::memcpy(&expected[size_t(out[i])], &source[size_t(in[i])], width);
      copyRegion(from, source.data(), to, target.data());
      ASSERT_TRUE(target == expected);
    }
  }
}

TEST(RuntimeRegions, ContiguousCopiesAreOneRun) {
  int64_t size[] = {4, 5, 6};
  std::mt19937 random(2);
  dtile_region region = {};
  region.dtype = DTILE_F32;
  region.ndim = 3;
  int64_t stride = 1;
  for (int d = 3; d-- > 0; stride *= size[d]) {
    region.size[d] = size[d];
    region.stride[d] = stride;
  }
  RunPlan plan = planRuns(region, region);
  EXPECT_EQ(plan.ndim, 0);
  EXPECT_EQ(plan.runBytes, 4 * 5 * 6 * 4);
  dtile_region rows = region;
  rows.stride[0] = 100;
  plan = planRuns(region, rows);
  EXPECT_EQ(plan.ndim, 1);
  EXPECT_EQ(plan.runBytes, 5 * 6 * 4);
}

class EachType : public ::testing::TestWithParam<int32_t> {};
INSTANTIATE_TEST_SUITE_P(RuntimeRegions, EachType,
                         ::testing::Range(int32_t(DTILE_BOOL), int32_t(DTILE_F64) + 1),
                         [](const auto &info) { return dtypeName(info.param); });

TEST_P(EachType, ReduceAddLosesNothingUnderConcurrency) {
  int32_t dtype = GetParam();
  auto type = DType(dtype);
  auto width = size_t(elementBytes(dtype));
  // Odd numbers of elements at odd places, so that words have neighbours that others change.
  constexpr int64_t kColumns = 37, kRows = 3;
  int threads = dtype == DTILE_F8E5M2 ? 2 : 4;
  int rounds = elementBytes(dtype) == 1 ? 2 : 25;
  std::vector<char> sum((kColumns * kRows + 8) * width, 0), ones(kColumns * kRows * width);
  for (size_t i = 0; i < kColumns * kRows; ++i)
    storeFromDouble(type, &ones[i * width], 1);
  dtile_region source = {};
  source.dtype = dtype;
  source.ndim = 2;
  source.size[0] = kRows;
  source.size[1] = kColumns;
  source.stride[0] = kColumns;
  source.stride[1] = 1;
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t)
    workers.emplace_back([&] {
      for (int i = 0; i < rounds; ++i)
        reduceAddRegion(source, ones.data(), source, &sum[3 * width]);
    });
  for (std::thread &worker : workers)
    worker.join();
  double expected = dtype == DTILE_BOOL ? 1 : threads * rounds;
  for (size_t i = 0; i < kColumns * kRows + 8; ++i) {
    bool inside = i >= 3 && i < 3 + kColumns * kRows;
    ASSERT_EQ(loadAsDouble(type, &sum[i * width]), inside ? expected : 0) << i;
  }
}

TEST_P(EachType, AtomicsGiveTheOldValueAndStoreTheNew) {
  int32_t dtype = GetParam();
  auto type = DType(dtype);
  auto bits = [&](double value) {
    uint64_t result = 0;
    storeFromDouble(type, &result, value);
    return result;
  };
  if (dtype == DTILE_BOOL)
    return;
  struct {
    int32_t kind;
    double operand, result;
  } cases[] = {{0, 2, 7}, {1, 2, 2}, {1, 6, 5}, {2, 2, 5}, {2, 6, 6}, {5, 3, 3}};
  for (auto &c : cases) {
    alignas(8) char memory[16];
    std::memset(memory, 0x55, sizeof memory);
    storeFromDouble(type, memory, 5);
    EXPECT_EQ(atomicElement(c.kind, dtype, memory, bits(c.operand), 0), bits(5));
    EXPECT_EQ(loadAsDouble(type, memory), c.result);
    EXPECT_EQ(memory[elementBytes(dtype)], 0x55);
  }
  alignas(8) char memory[8] = {};
  storeFromDouble(type, memory, 5);
  EXPECT_EQ(atomicElement(6, dtype, memory, bits(1), bits(4)), bits(5));
  EXPECT_EQ(loadAsDouble(type, memory), 5);
  EXPECT_EQ(atomicElement(6, dtype, memory, bits(1), bits(5)), bits(5));
  EXPECT_EQ(loadAsDouble(type, memory), 1);
  EXPECT_EQ(atomicElement(4, dtype, memory, bits(3), 0), bits(1));
}

TEST(RuntimeRegions, SignedAndUnsignedCompareDifferently) {
  int8_t low = -1;
  atomicElement(1, DTILE_I8, &low, 1, 0);
  EXPECT_EQ(low, -1);
  uint8_t high = 255;
  atomicElement(1, DTILE_U8, &high, 1, 0);
  EXPECT_EQ(high, 1);
}

/// Equal bits, or both NaN.
void expectSameFloat(float a, float b) {
  if (std::isnan(a) && std::isnan(b))
    EXPECT_EQ(std::signbit(a), std::signbit(b));
  else
    EXPECT_EQ(std::bit_cast<uint32_t>(a), std::bit_cast<uint32_t>(b));
}

TEST(RuntimeFloatFormats, AgreeWithTheCompilers) {
  for (uint32_t bits = 0; bits < 1 << 16; ++bits) {
    expectSameFloat(runtime::f16ToF32(uint16_t(bits)), dtile::f16ToF32(uint16_t(bits)));
    expectSameFloat(runtime::bf16ToF32(uint16_t(bits)), dtile::bf16ToF32(uint16_t(bits)));
  }
  for (uint32_t bits = 0; bits < 1 << 8; ++bits) {
    expectSameFloat(f8e4m3ToF32(uint8_t(bits)), f8E4M3ToF32(uint8_t(bits)));
    expectSameFloat(f8e5m2ToF32(uint8_t(bits)), f8E5M2ToF32(uint8_t(bits)));
  }
  // Every 251st f32, and the halves between neighbours of each format.
  auto check = [](float value) {
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(runtime::f16ToF32(runtime::f32ToF16(value))));
      EXPECT_TRUE(std::isnan(runtime::bf16ToF32(runtime::f32ToBf16(value))));
      EXPECT_TRUE(std::isnan(f8e4m3ToF32(f32ToF8e4m3(value))));
      EXPECT_TRUE(std::isnan(f8e5m2ToF32(f32ToF8e5m2(value))));
      return;
    }
    EXPECT_EQ(runtime::f32ToF16(value), dtile::f32ToF16(value)) << value;
    EXPECT_EQ(runtime::f32ToBf16(value), dtile::f32ToBf16(value)) << value;
    EXPECT_EQ(f32ToF8e4m3(value), f32ToF8E4M3(value)) << value;
    EXPECT_EQ(f32ToF8e5m2(value), f32ToF8E5M2(value)) << value;
  };
  for (uint64_t bits = 0; bits < uint64_t(1) << 32; bits += 20011)
    check(std::bit_cast<float>(uint32_t(bits)));
  for (uint32_t bits = 0; bits + 1 < 1 << 15; ++bits) {
    float half = (runtime::f16ToF32(uint16_t(bits)) + runtime::f16ToF32(uint16_t(bits + 1))) / 2;
    check(half);
    check(-half);
    check(std::nextafter(half, 1e30f));
  }
}

TEST(RuntimeSymmetricHeap, GapsJoinAndFitsAreBest) {
  SymmetricHeap heap(100, 100'000);
  int64_t a = heap.allocate(1000), b = heap.allocate(1), c = heap.allocate(5000);
  EXPECT_EQ(a, 256);
  EXPECT_EQ(b, 256 + 1024);
  EXPECT_EQ(heap.sizeAt(b), 256);
  EXPECT_TRUE(heap.release(a));
  EXPECT_FALSE(heap.release(a));
  // The small gap fits best.
  EXPECT_EQ(heap.allocate(300), a);
  EXPECT_TRUE(heap.release(b));
  EXPECT_TRUE(heap.release(a));
  EXPECT_TRUE(heap.release(c));
  EXPECT_EQ(heap.usedBytes(), 0);
  EXPECT_EQ(heap.allocate(99'000), 256);
  EXPECT_EQ(heap.allocate(1'000), -1);
  EXPECT_EQ(heap.allocate(-1), -1);
}

} // namespace
} // namespace dtile::test
