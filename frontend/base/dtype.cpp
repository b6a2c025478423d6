// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Element types: names, and exact conversions with one rounding.
#include "frontend/base/dtype.h"

#include "frontend/base/check.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace dtile {

namespace {

struct DTypeRow {
  llvm::StringLiteral name;
  unsigned bits;
  DTypeClass kind;
};

constexpr DTypeRow kRows[] = {
#define DTYPE(ID, NAME, BITS, CLASS) {NAME, BITS, DTypeClass::CLASS},
#include "frontend/base/dtypes.def"
};

// A binary format narrower than double. Without infinity (OCP e4m3), the largest exponent holds
// numbers and only the all-ones pattern is NaN.
struct Format {
  int exponentBits;
  int mantissaBits;
  bool hasInfinity;

  [[nodiscard]] constexpr int bias() const { return (1 << (exponentBits - 1)) - 1; }
  [[nodiscard]] constexpr uint32_t infinity() const {
    return ((1u << exponentBits) - 1) << mantissaBits;
  }
  [[nodiscard]] constexpr uint32_t quietNan() const {
    return hasInfinity ? infinity() | 1u << (mantissaBits - 1)
                       : (1u << (exponentBits + mantissaBits)) - 1;
  }
  [[nodiscard]] constexpr uint32_t sign() const { return 1u << (exponentBits + mantissaBits); }
};

constexpr Format kF16{5, 10, true};
constexpr Format kBf16{8, 7, true};
constexpr Format kF8E4M3{4, 3, false};
constexpr Format kF8E5M2{5, 2, true};

// Rounds magnitude * 2^exponent to nearest, ties to even; overflow gives infinity or NaN.
template <Format F> uint32_t roundMagnitude(uint64_t magnitude, int exponent) {
  if (magnitude == 0)
    return 0;
  const int topBit = 63 - std::countl_zero(magnitude);
  const int smallestNormal = 1 - F.bias();
  const int valueExponent = topBit + exponent;
  const bool isNormal = valueExponent >= smallestNormal;
  const int lastBit = (isNormal ? valueExponent : smallestNormal) - F.mantissaBits;
  const int shift = lastBit - exponent;
  uint64_t kept = 0;
  if (shift <= 0) {
    kept = magnitude << -shift;
  } else if (shift <= 64) {
    kept = shift == 64 ? 0 : magnitude >> shift;
    const uint64_t half = uint64_t(1) << (shift - 1);
    const uint64_t rest = shift == 64 ? magnitude : magnitude & ((half << 1) - 1);
    kept += rest > half || (rest == half && (kept & 1));
  }
  // A carry out of the mantissa counts the exponent up, as it should.
  uint64_t bits = kept;
  if (isNormal) {
    if (valueExponent + F.bias() >= 1 << F.exponentBits)
      return F.hasInfinity ? F.infinity() : F.quietNan();
    bits = (uint64_t(valueExponent + F.bias()) << F.mantissaBits) + kept -
           (uint64_t(1) << F.mantissaBits);
  }
  if (F.hasInfinity && bits >= F.infinity())
    return F.infinity();
  if (!F.hasInfinity && bits >= F.quietNan())
    return F.quietNan();
  return static_cast<uint32_t>(bits);
}

template <Format F> uint32_t fromDouble(double value) {
  const uint64_t bits = std::bit_cast<uint64_t>(value);
  const uint32_t sign = bits >> 63 ? F.sign() : 0;
  const int exponent = int(bits >> 52 & 0x7FF);
  const uint64_t mantissa = bits & ((uint64_t(1) << 52) - 1);
  if (exponent == 0x7FF) {
    if (mantissa == 0)
      return sign | (F.hasInfinity ? F.infinity() : F.quietNan());
    // Keep what fits of the payload, as hardware does.
    return sign | F.quietNan() | uint32_t(mantissa >> (52 - F.mantissaBits));
  }
  const bool isNormal = exponent != 0;
  return sign | roundMagnitude<F>(isNormal ? mantissa | uint64_t(1) << 52 : mantissa,
                                  (isNormal ? exponent : 1) - 1075);
}

template <Format F> uint32_t fromInt(int64_t value) {
  const uint64_t magnitude = value < 0 ? 0 - uint64_t(value) : uint64_t(value);
  return (value < 0 ? F.sign() : 0) | roundMagnitude<F>(magnitude, 0);
}

template <Format F> float toFloat(uint32_t bits) {
  const uint32_t sign = bits & F.sign() ? 0x80000000u : 0;
  const uint32_t magnitude = bits & (F.sign() - 1);
  const uint32_t mantissa = magnitude & ((1u << F.mantissaBits) - 1);
  const uint32_t exponent = magnitude >> F.mantissaBits;
  const bool isSpecial = F.hasInfinity ? magnitude >= F.infinity() : magnitude == F.quietNan();
  if (isSpecial) {
    // A NaN stays a quiet NaN; infinity has no payload.
    const uint32_t payload = mantissa << (23 - F.mantissaBits);
    const uint32_t quiet = magnitude == F.infinity() && F.hasInfinity ? 0 : 1u << 22;
    return std::bit_cast<float>(sign | 0x7F800000u | payload | quiet);
  }
  if (exponent == 0) {
    const float value =
        static_cast<float>(mantissa) * std::ldexp(1.0f, 1 - F.bias() - F.mantissaBits);
    return sign ? -value : value;
  }
  const uint32_t rebased = exponent + 127 - F.bias();
  return std::bit_cast<float>(sign | rebased << 23 | mantissa << (23 - F.mantissaBits));
}

template <typename T> T read(const void *element) {
  T value;
  std::memcpy(&value, element, sizeof(T));
  return value;
}

template <typename T> void write(void *element, T value) {
  std::memcpy(element, &value, sizeof(T));
}

// Truncates toward zero, saturates; NaN is zero.
template <typename T> T saturate(double value) {
  using Limits = std::numeric_limits<T>;
  if (std::isnan(value))
    return 0;
  if (value <= static_cast<double>(Limits::min()))
    return Limits::min();
  // The largest 64-bit values are no doubles: the comparison is against the next power of two.
  if (value >= std::ldexp(1.0, Limits::digits))
    return Limits::max();
  return static_cast<T>(value);
}

} // namespace

llvm::StringRef dtypeName(DType type) { return kRows[size_t(type)].name; }

std::optional<DType> dtypeFromName(llvm::StringRef name) {
  for (size_t i = 0; i < std::size(kRows); ++i)
    if (kRows[i].name == name)
      return DType(i);
  return std::nullopt;
}

DTypeClass dtypeClass(DType type) { return kRows[size_t(type)].kind; }
unsigned dtypeBits(DType type) { return kRows[size_t(type)].bits; }

uint16_t f32ToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u)
    return uint16_t(bits >> 16 | 0x40);
  // Half of the last kept bit, minus one when that bit is even.
  return uint16_t((bits + 0x7FFFu + (bits >> 16 & 1)) >> 16);
}

float roundToTf32(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  constexpr uint32_t kKept = ~uint32_t(0) << 13;
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u)
    return std::bit_cast<float>((bits | 0x400000u) & kKept);
  return std::bit_cast<float>((bits + 0xFFFu + (bits >> 13 & 1)) & kKept);
}

uint16_t f32ToF16(float value) { return uint16_t(fromDouble<kF16>(value)); }
uint8_t f32ToF8E4M3(float value) { return uint8_t(fromDouble<kF8E4M3>(value)); }
uint8_t f32ToF8E5M2(float value) { return uint8_t(fromDouble<kF8E5M2>(value)); }
float bf16ToF32(uint16_t bits) { return toFloat<kBf16>(bits); }
float f16ToF32(uint16_t bits) { return toFloat<kF16>(bits); }
float f8E4M3ToF32(uint8_t bits) { return toFloat<kF8E4M3>(bits); }
float f8E5M2ToF32(uint8_t bits) { return toFloat<kF8E5M2>(bits); }

double loadAsDouble(DType type, const void *element) {
  switch (type) {
  case DType::Bool:
    return read<uint8_t>(element) != 0;
  case DType::I8:
    return read<int8_t>(element);
  case DType::I16:
    return read<int16_t>(element);
  case DType::I32:
    return read<int32_t>(element);
  case DType::I64:
    return static_cast<double>(read<int64_t>(element));
  case DType::U8:
    return read<uint8_t>(element);
  case DType::U16:
    return read<uint16_t>(element);
  case DType::U32:
    return read<uint32_t>(element);
  case DType::U64:
    return static_cast<double>(read<uint64_t>(element));
  case DType::F8E4M3:
    return f8E4M3ToF32(read<uint8_t>(element));
  case DType::F8E5M2:
    return f8E5M2ToF32(read<uint8_t>(element));
  case DType::F16:
    return f16ToF32(read<uint16_t>(element));
  case DType::BF16:
    return bf16ToF32(read<uint16_t>(element));
  case DType::F32:
    return read<float>(element);
  case DType::F64:
    return read<double>(element);
  }
  DTILE_UNREACHABLE("not an element type");
}

void storeFromDouble(DType type, void *element, double value) {
  switch (type) {
  case DType::Bool:
    return write<uint8_t>(element, value != 0);
  case DType::I8:
    return write(element, saturate<int8_t>(value));
  case DType::I16:
    return write(element, saturate<int16_t>(value));
  case DType::I32:
    return write(element, saturate<int32_t>(value));
  case DType::I64:
    return write(element, saturate<int64_t>(value));
  case DType::U8:
    return write(element, saturate<uint8_t>(value));
  case DType::U16:
    return write(element, saturate<uint16_t>(value));
  case DType::U32:
    return write(element, saturate<uint32_t>(value));
  case DType::U64:
    return write(element, saturate<uint64_t>(value));
  case DType::F8E4M3:
    return write(element, uint8_t(fromDouble<kF8E4M3>(value)));
  case DType::F8E5M2:
    return write(element, uint8_t(fromDouble<kF8E5M2>(value)));
  case DType::F16:
    return write(element, uint16_t(fromDouble<kF16>(value)));
  case DType::BF16:
    return write(element, uint16_t(fromDouble<kBf16>(value)));
  case DType::F32:
    return write(element, static_cast<float>(value));
  case DType::F64:
    return write(element, value);
  }
  DTILE_UNREACHABLE("not an element type");
}

int64_t loadAsInt(DType type, const void *element) {
  switch (type) {
  case DType::Bool:
    return read<uint8_t>(element) != 0;
  case DType::I8:
    return read<int8_t>(element);
  case DType::I16:
    return read<int16_t>(element);
  case DType::I32:
    return read<int32_t>(element);
  case DType::I64:
    return read<int64_t>(element);
  case DType::U8:
    return read<uint8_t>(element);
  case DType::U16:
    return read<uint16_t>(element);
  case DType::U32:
    return read<uint32_t>(element);
  case DType::U64:
    return static_cast<int64_t>(read<uint64_t>(element));
  case DType::F8E4M3:
  case DType::F8E5M2:
  case DType::F16:
  case DType::BF16:
  case DType::F32:
  case DType::F64:
    return saturate<int64_t>(loadAsDouble(type, element));
  }
  DTILE_UNREACHABLE("not an element type");
}

void storeFromInt(DType type, void *element, int64_t value) {
  switch (type) {
  case DType::Bool:
    return write<uint8_t>(element, value != 0);
  case DType::I8:
  case DType::U8:
    return write(element, static_cast<uint8_t>(value));
  case DType::I16:
  case DType::U16:
    return write(element, static_cast<uint16_t>(value));
  case DType::I32:
  case DType::U32:
    return write(element, static_cast<uint32_t>(value));
  case DType::I64:
  case DType::U64:
    return write(element, value);
  case DType::F8E4M3:
    return write(element, uint8_t(fromInt<kF8E4M3>(value)));
  case DType::F8E5M2:
    return write(element, uint8_t(fromInt<kF8E5M2>(value)));
  case DType::F16:
    return write(element, uint16_t(fromInt<kF16>(value)));
  case DType::BF16:
    return write(element, uint16_t(fromInt<kBf16>(value)));
  case DType::F32:
    return write(element, static_cast<float>(value));
  case DType::F64:
    return write(element, static_cast<double>(value));
  }
  DTILE_UNREACHABLE("not an element type");
}

} // namespace dtile
