// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Conversions between element types, against LLVM's arbitrary-precision floats.
#include "frontend/base/dtype.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/APInt.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

namespace dtile {
namespace {

using llvm::APFloat;
using llvm::APInt;

struct Format {
  DType type;
  const llvm::fltSemantics &semantics;
};

const Format kFormats[] = {{DType::BF16, APFloat::BFloat()},
                           {DType::F16, APFloat::IEEEhalf()},
                           {DType::F8E4M3, APFloat::Float8E4M3FN()},
                           {DType::F8E5M2, APFloat::Float8E5M2()}};

uint32_t readBits(DType type, const void *element) {
  if (dtypeBits(type) == 8)
    return *static_cast<const uint8_t *>(element);
  return *static_cast<const uint16_t *>(element);
}

// The bits that LLVM rounds a double to.
uint32_t expectedBits(const Format &format, double value) {
  APFloat exact(value);
  bool losesInfo = false;
  exact.convert(format.semantics, APFloat::rmNearestTiesToEven, &losesInfo);
  return uint32_t(exact.bitcastToAPInt().getZExtValue());
}

uint32_t storedBits(DType type, double value) {
  uint16_t element = 0;
  storeFromDouble(type, &element, value);
  return readBits(type, &element);
}

TEST(DType, EveryNarrowValueWidensExactly) {
  for (const Format &format : kFormats) {
    const unsigned bits = dtypeBits(format.type);
    for (uint32_t i = 0; i < 1u << bits; ++i) {
      const APFloat exact(format.semantics, APInt(bits, i));
      const uint16_t element = uint16_t(i);
      const double got = loadAsDouble(format.type, &element);
      if (exact.isNaN()) {
        EXPECT_TRUE(std::isnan(got)) << dtypeName(format.type).str() << ' ' << i;
        EXPECT_EQ(std::signbit(got), exact.isNegative());
        continue;
      }
      ASSERT_EQ(std::bit_cast<uint64_t>(got), std::bit_cast<uint64_t>(exact.convertToDouble()))
          << dtypeName(format.type).str() << ' ' << i;
    }
  }
}

TEST(DType, EveryNarrowValueSurvivesTheWayThere) {
  for (const Format &format : kFormats)
    for (uint32_t i = 0; i < 1u << dtypeBits(format.type); ++i) {
      const uint16_t element = uint16_t(i);
      const double value = loadAsDouble(format.type, &element);
      if (!std::isnan(value))
        ASSERT_EQ(storedBits(format.type, value), i) << dtypeName(format.type).str();
    }
}

TEST(DType, RandomFloatsRoundToNearestEven) {
  std::mt19937 random(7);
  for (int i = 0; i < 400000; ++i) {
    const float value = std::bit_cast<float>(uint32_t(random()));
    const bool isNan = std::isnan(value);
    const uint32_t got[] = {f32ToBf16(value), f32ToF16(value), f32ToF8E4M3(value),
                            f32ToF8E5M2(value)};
    for (size_t f = 0; f < std::size(kFormats); ++f) {
      if (isNan) {
        const uint16_t element = uint16_t(got[f]);
        ASSERT_TRUE(std::isnan(loadAsDouble(kFormats[f].type, &element)));
        continue;
      }
      ASSERT_EQ(got[f], expectedBits(kFormats[f], value))
          << dtypeName(kFormats[f].type).str() << ' ' << value;
    }
  }
}

TEST(DType, RandomDoublesRoundOnce) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 200000; ++i) {
    // Exponents near the narrow formats' ranges, so that few are trivially zero or infinite.
    const int exponent = int(random() % 300) - 150;
    const double value =
        std::ldexp(1.0 + double(random() >> 12) * 0x1p-52, exponent) * (random() & 1 ? 1 : -1);
    for (const Format &format : kFormats)
      ASSERT_EQ(storedBits(format.type, value), expectedBits(format, value))
          << dtypeName(format.type).str() << ' ' << value;
  }
}

TEST(DType, TiesBetweenNeighboursGoToEven) {
  for (const Format &format : kFormats) {
    const unsigned positive = (1u << (dtypeBits(format.type) - 1)) - 1;
    for (uint32_t i = 0; i < positive; ++i) {
      const uint16_t low = uint16_t(i);
      const uint16_t high = uint16_t(i + 1);
      const double a = loadAsDouble(format.type, &low);
      const double b = loadAsDouble(format.type, &high);
      if (!std::isfinite(a) || !std::isfinite(b))
        continue;
      const double middle = a + (b - a) / 2;
      ASSERT_EQ(storedBits(format.type, middle), i % 2 == 0 ? i : i + 1)
          << dtypeName(format.type).str() << ' ' << i;
      ASSERT_EQ(storedBits(format.type, std::nextafter(middle, 1e300)), i + 1);
      ASSERT_EQ(storedBits(format.type, std::nextafter(middle, 0)), i);
    }
  }
}

TEST(DType, OverflowGivesInfinityOrNan) {
  const double huge = 1e30;
  EXPECT_EQ(storedBits(DType::F16, huge), 0x7C00u);
  EXPECT_EQ(storedBits(DType::F16, -huge), 0xFC00u);
  EXPECT_EQ(storedBits(DType::F16, 65519.0), 0x7BFFu);
  EXPECT_EQ(storedBits(DType::F16, 65520.0), 0x7C00u);
  EXPECT_EQ(storedBits(DType::F8E5M2, huge), 0x7Cu);
  EXPECT_EQ(storedBits(DType::F8E4M3, 464.0), 0x7Eu) << "448 is the largest";
  EXPECT_EQ(storedBits(DType::F8E4M3, 465.0), 0x7Fu) << "there is no infinity";
  EXPECT_EQ(storedBits(DType::F8E4M3, std::numeric_limits<double>::infinity()), 0x7Fu);
}

template <typename T> T storedInt(DType type, double value) {
  T element{};
  storeFromDouble(type, &element, value);
  return element;
}

TEST(DType, FloatsToIntegersTruncateAndSaturate) {
  EXPECT_EQ(storedInt<int8_t>(DType::I8, -1.9), -1);
  EXPECT_EQ(storedInt<int8_t>(DType::I8, 200), 127);
  EXPECT_EQ(storedInt<int8_t>(DType::I8, -200), -128);
  EXPECT_EQ(storedInt<uint8_t>(DType::U8, -1), 0);
  EXPECT_EQ(storedInt<uint8_t>(DType::U8, 255.9), 255);
  EXPECT_EQ(storedInt<int64_t>(DType::I64, 1e300), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(storedInt<int64_t>(DType::I64, -1e300), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(storedInt<uint64_t>(DType::U64, 1e300), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(storedInt<uint64_t>(DType::U64, 0x1p63), uint64_t(1) << 63);
  EXPECT_EQ(storedInt<int32_t>(DType::I32, std::nan("")), 0);
  EXPECT_EQ(storedInt<uint8_t>(DType::Bool, 0.25), 1);
  EXPECT_EQ(storedInt<uint8_t>(DType::Bool, -0.0), 0);
}

TEST(DType, IntegersWrapAndFloatsOfIntegersRoundOnce) {
  int8_t narrow = 0;
  storeFromInt(DType::I8, &narrow, 0x1FF);
  EXPECT_EQ(narrow, -1);
  // Rounding to double first would make a tie of it, and round that down.
  const int64_t value = (int64_t(1) << 60) + (int64_t(1) << 52) + 1;
  uint16_t bits = 0;
  storeFromInt(DType::BF16, &bits, value);
  APFloat exact(APFloat::BFloat());
  exact.convertFromAPInt(APInt(64, uint64_t(value)), /*IsSigned=*/true,
                         APFloat::rmNearestTiesToEven);
  EXPECT_EQ(bits, exact.bitcastToAPInt().getZExtValue());
  storeFromInt(DType::F16, &bits, std::numeric_limits<int64_t>::min());
  EXPECT_EQ(bits, 0xFC00);
}

TEST(DType, LoadAsIntTruncatesAndSaturates) {
  const float f = -3.7f;
  EXPECT_EQ(loadAsInt(DType::F32, &f), -3);
  const double d = 1e30;
  EXPECT_EQ(loadAsInt(DType::F64, &d), std::numeric_limits<int64_t>::max());
  const uint64_t u = ~uint64_t(0);
  EXPECT_EQ(loadAsInt(DType::U64, &u), -1) << "bit-cast";
}

TEST(DType, NamesRoundTrip) {
  EXPECT_EQ(dtypeFromName("bf16"), DType::BF16);
  EXPECT_EQ(dtypeFromName("f8e4m3"), DType::F8E4M3);
  EXPECT_EQ(dtypeFromName("float"), std::nullopt);
  EXPECT_EQ(dtypeName(DType::U16), "u16");
  EXPECT_EQ(dtypeBytes(DType::Bool), 1u);
  EXPECT_TRUE(isFloat(DType::F8E5M2));
  EXPECT_TRUE(isInteger(DType::U8));
  EXPECT_FALSE(isInteger(DType::Bool));
}

TEST(DType, Tf32IsTheNearest) {
  std::mt19937 engine(3);
  auto check = [](float value) {
    APFloat exact(value);
    bool losesInfo = false;
    exact.convert(APFloat::FloatTF32(), APFloat::rmNearestTiesToEven, &losesInfo);
    const bool isNan = exact.isNaN();
    exact.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven, &losesInfo);
    const float got = roundToTf32(value);
    EXPECT_EQ(std::isnan(got), isNan);
    EXPECT_EQ(std::bit_cast<uint32_t>(got) & 0x1FFF, 0u);
    if (!isNan)
      EXPECT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(exact.convertToFloat()))
          << std::hexfloat << value;
  };
  for (int i = 0; i < 100000; ++i)
    check(std::bit_cast<float>(uint32_t(engine())));
  // Ties, the largest and the smallest numbers, NaN whose payload is cut off.
  for (uint32_t bits :
       {0x3F801000u, 0x3F803000u, 0x3F800FFFu, 0x3F801001u, 0x7F7FFFFFu, 0x7F7FE000u, 0x7F7FEFFFu,
        0x00000001u, 0x00001000u, 0x007FFFFFu, 0x7F800000u, 0x7F800001u, 0x7FFFFFFFu, 0u})
    for (uint32_t sign : {0u, 0x80000000u})
      check(std::bit_cast<float>(bits | sign));
}

} // namespace
} // namespace dtile
