// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One widening and one narrowing for all formats with fewer than eight exponent bits; bf16 is f32's
// upper half.
#include "backend/runtime/float_formats.h"

#include <bit>
#include <cmath>

namespace dtile::runtime {

namespace {

/// A format with a sign, `exponent` and `mantissa` bits; `finite`: the top exponent holds numbers
/// but for the last.
template <int exponent, int mantissa, bool finite> struct Format {
  static constexpr int kBias = (1 << (exponent - 1)) - 1;
  static constexpr uint32_t kMagnitude = (1u << (exponent + mantissa)) - 1;
  static constexpr uint32_t kInfinity = ((1u << exponent) - 1) << mantissa;
  static constexpr uint32_t kNan = finite ? kMagnitude : kInfinity | 1u << (mantissa - 1);
  static constexpr uint32_t kLargest = finite ? kNan - 1 : kInfinity - 1;
  static constexpr uint32_t kBeyond = finite ? kNan : kInfinity;

  static float widen(uint32_t bits) {
    uint32_t sign = (bits >> (exponent + mantissa)) << 31;
    uint32_t magnitude = bits & kMagnitude;
    if (magnitude > kLargest) {
      uint32_t infinity = 0x7f800000u;
      bool isNan = finite || magnitude != kInfinity;
      uint32_t payload =
          isNan ? 0x400000u | (magnitude & ((1u << mantissa) - 1)) << (23 - mantissa) : 0;
      return std::bit_cast<float>(sign | infinity | payload);
    }
    if (magnitude >> mantissa == 0) {
      float value = std::ldexp(float(magnitude), 1 - kBias - mantissa);
      return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
    }
    uint32_t rebias = uint32_t(127 - kBias) << 23;
    return std::bit_cast<float>(sign | ((magnitude << (23 - mantissa)) + rebias));
  }

  static uint32_t narrow(float value) {
    uint32_t bits = std::bit_cast<uint32_t>(value);
    uint32_t sign = (bits >> 31) << (exponent + mantissa);
    uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
      uint32_t payload = finite ? 0 : (magnitude & 0x7fffffu) >> (23 - mantissa);
      return sign | kNan | payload;
    }
    int power = int(magnitude >> 23) - 127;
    if (power < 1 - kBias) {
      // A multiple of the smallest number; when it rounds up to the smallest normal, the bits are
      // right as well.
      float steps = std::ldexp(std::bit_cast<float>(magnitude), kBias - 1 + mantissa);
      return sign | uint32_t(std::nearbyint(steps));
    }
    constexpr int kShift = 23 - mantissa;
    uint32_t rebias = uint32_t(127 - kBias) << 23;
    uint32_t wide = magnitude - rebias;
    uint32_t rounded = (wide + (1u << (kShift - 1)) - 1 + (wide >> kShift & 1)) >> kShift;
    return sign | (rounded > kLargest ? kBeyond : rounded);
  }
};

using F16 = Format<5, 10, false>;
using F8e4m3 = Format<4, 3, true>;
using F8e5m2 = Format<5, 2, false>;

} // namespace

float f16ToF32(uint16_t bits) { return F16::widen(bits); }
uint16_t f32ToF16(float value) { return uint16_t(F16::narrow(value)); }
float f8e4m3ToF32(uint8_t bits) { return F8e4m3::widen(bits); }
uint8_t f32ToF8e4m3(float value) { return uint8_t(F8e4m3::narrow(value)); }
float f8e5m2ToF32(uint8_t bits) { return F8e5m2::widen(bits); }
uint8_t f32ToF8e5m2(float value) { return uint8_t(F8e5m2::narrow(value)); }

float bf16ToF32(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }

uint16_t f32ToBf16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return uint16_t(bits >> 16 | 0x40u);
  return uint16_t((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

} // namespace dtile::runtime
