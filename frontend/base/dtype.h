// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Element types, and their values as bits.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>

namespace dtile {

/// The element types, one enumerator a row of dtypes.def.
enum class DType : uint8_t {
#define DTYPE(ID, NAME, BITS, CLASS) ID,
#include "frontend/base/dtypes.def"
};

/// How values of an element type compute.
enum class DTypeClass : uint8_t { Bool, Int, UInt, Float };

[[nodiscard]] llvm::StringRef dtypeName(DType type);
[[nodiscard]] std::optional<DType> dtypeFromName(llvm::StringRef name);
[[nodiscard]] DTypeClass dtypeClass(DType type);
/// Bits in memory. bool takes a byte.
[[nodiscard]] unsigned dtypeBits(DType type);
[[nodiscard]] inline unsigned dtypeBytes(DType type) { return dtypeBits(type) / 8; }
[[nodiscard]] inline bool isFloat(DType t) { return dtypeClass(t) == DTypeClass::Float; }
[[nodiscard]] inline bool isInteger(DType t) {
  return dtypeClass(t) == DTypeClass::Int || dtypeClass(t) == DTypeClass::UInt;
}

/// Reads one element as a double (integers beyond 2^53 round).
[[nodiscard]] double loadAsDouble(DType type, const void *element);
/// Writes one element from a double: floats round to nearest even, overflow to infinity (f8e4m3,
/// which has none: to NaN), integers truncate toward zero and saturate, bool is `value != 0`.
void storeFromDouble(DType type, void *element, double value);
/// Reads one element as a 64-bit integer (floats truncate and saturate; u64 is bit-cast).
[[nodiscard]] int64_t loadAsInt(DType type, const void *element);
/// Writes the low bits of an integer (floats: converted).
void storeFromInt(DType type, void *element, int64_t value);

/// f32 to the narrow formats and back, rounding to nearest even. OCP f8 (e4m3 is the FN kind).
[[nodiscard]] uint16_t f32ToBf16(float value);
[[nodiscard]] uint16_t f32ToF16(float value);
[[nodiscard]] uint8_t f32ToF8E4M3(float value);
[[nodiscard]] uint8_t f32ToF8E5M2(float value);
[[nodiscard]] float bf16ToF32(uint16_t bits);
[[nodiscard]] float f16ToF32(uint16_t bits);
[[nodiscard]] float f8E4M3ToF32(uint8_t bits);
[[nodiscard]] float f8E5M2ToF32(uint8_t bits);
/// Rounded to tf32, which has 10 mantissa bits: to the nearest value, ties to even. NaN stays NaN.
[[nodiscard]] float roundToTf32(float value);

} // namespace dtile
