// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Element types as C++ sees them, and the loops that run one operation over many elements. Private
// to ir/interpret. A scalar is a run of one element.
#pragma once

#include "frontend/base/check.h"
#include "frontend/base/dtype.h"
#include "ir/core/ir.h"

#include <bit>
#include <cstdint>
#include <type_traits>

namespace dtile::interpret {

/// An integer or bool element: stored as it computes.
template <typename T> struct PlainElement {
  using Stored = T;
  using Computed = T;
  static Computed load(Stored value) { return value; }
  static Stored store(Computed value) { return value; }
};
/// A bool is a byte, 0 or 1.
struct BoolElement : PlainElement<uint8_t> {
  static Computed load(Stored value) { return value != 0; }
};
/// bf16 inline, so that loops over it vectorize; the same bits as bf16ToF32 and f32ToBf16.
struct Bf16Element {
  using Stored = uint16_t;
  using Computed = float;
  static float load(uint16_t bits) {
    uint32_t wide = uint32_t(bits) << 16;
    const bool isNan = (wide & 0x7FFFFFFFu) > 0x7F800000u;
    wide |= isNan ? 0x00400000u : 0;
    return std::bit_cast<float>(wide);
  }
  static uint16_t store(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const bool isNan = (bits & 0x7FFFFFFFu) > 0x7F800000u;
    const uint32_t rounded = (bits + 0x7FFFu + (bits >> 16 & 1)) >> 16;
    return uint16_t(isNan ? (bits >> 16 | 0x40) : rounded);
  }
};
struct F16Element {
  using Stored = uint16_t;
  using Computed = float;
  static float load(uint16_t bits) { return f16ToF32(bits); }
  static uint16_t store(float value) { return f32ToF16(value); }
};
struct F8E4M3Element {
  using Stored = uint8_t;
  using Computed = float;
  static float load(uint8_t bits) { return f8E4M3ToF32(bits); }
  static uint8_t store(float value) { return f32ToF8E4M3(value); }
};
struct F8E5M2Element {
  using Stored = uint8_t;
  using Computed = float;
  static float load(uint8_t bits) { return f8E5M2ToF32(bits); }
  static uint8_t store(float value) { return f32ToF8E5M2(value); }
};

/// Calls fn(Element{}) with the type above that belongs to a dtype.
template <typename Fn> decltype(auto) withElement(DType type, Fn &&fn) {
  switch (type) {
  case DType::Bool:
    return fn(BoolElement{});
  case DType::I8:
    return fn(PlainElement<int8_t>{});
  case DType::I16:
    return fn(PlainElement<int16_t>{});
  case DType::I32:
    return fn(PlainElement<int32_t>{});
  case DType::I64:
    return fn(PlainElement<int64_t>{});
  case DType::U8:
    return fn(PlainElement<uint8_t>{});
  case DType::U16:
    return fn(PlainElement<uint16_t>{});
  case DType::U32:
    return fn(PlainElement<uint32_t>{});
  case DType::U64:
    return fn(PlainElement<uint64_t>{});
  case DType::F8E4M3:
    return fn(F8E4M3Element{});
  case DType::F8E5M2:
    return fn(F8E5M2Element{});
  case DType::F16:
    return fn(F16Element{});
  case DType::BF16:
    return fn(Bf16Element{});
  case DType::F32:
    return fn(PlainElement<float>{});
  case DType::F64:
    return fn(PlainElement<double>{});
  }
  DTILE_UNREACHABLE("not an element type");
}

/// Loops over `count` elements. `out` may be one of the operands, or not overlap them at all.
using UnaryKernel = void (*)(const void *in, void *out, int64_t count);
using BinaryKernel = void (*)(const void *a, const void *b, void *out, int64_t count);
/// `condition` holds bool bytes.
using SelectKernel = void (*)(const uint8_t *condition, const void *a, const void *b, void *out,
                              int64_t count);

enum class Predicate : uint8_t { Eq, Ne, Lt, Le, Gt, Ge };
[[nodiscard]] Predicate predicateFromName(llvm::StringRef name);

/// The loop of Neg … Ceil; a type that the operation does not have is a bug.
[[nodiscard]] UnaryKernel unaryKernel(ir::OpKind kind, DType type);
/// The loop of Add … Shr.
[[nodiscard]] BinaryKernel binaryKernel(ir::OpKind kind, DType type);
/// Writes bool bytes.
[[nodiscard]] BinaryKernel compareKernel(Predicate predicate, DType type);
/// By the size of an element.
[[nodiscard]] SelectKernel selectKernel(size_t elementBytes);
/// Null where the bits stay the same.
[[nodiscard]] UnaryKernel castKernel(DType from, DType to);

} // namespace dtile::interpret
