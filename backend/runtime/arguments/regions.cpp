// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Copies go by the longest runs that are contiguous on both sides. reduce_add exchanges whole
// 8-byte words, each holding up to eight elements, so that it costs one atomic operation a word and
// agrees with every other atomic operation on the same elements.
#include "backend/runtime/arguments/regions.h"

#include "backend/runtime/float_formats.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

namespace dtile::runtime {

namespace {

/// An element type: its bits and how two of them add.
template <typename Bits, typename Wide, Wide (*widen)(Bits), Bits (*narrow)(Wide)>
struct Converted {
  using Value = Bits;
  static Bits add(Bits a, Bits b) { return narrow(widen(a) + widen(b)); }
  static bool less(Bits a, Bits b) { return widen(a) < widen(b); }
  static bool isNan(Bits a) { return std::isnan(widen(a)); }
};

template <typename T> struct Native {
  using Value = T;
  static T add(T a, T b) {
    if constexpr (std::is_integral_v<T>)
      return T(std::make_unsigned_t<T>(a) + std::make_unsigned_t<T>(b));
    else
      return a + b;
  }
  static bool less(T a, T b) { return a < b; }
  static bool isNan([[maybe_unused]] T a) {
    if constexpr (std::is_floating_point_v<T>)
      return std::isnan(a);
    else
      return false;
  }
};

struct Bool {
  using Value = uint8_t;
  static uint8_t add(uint8_t a, uint8_t b) { return a | b; }
  static bool less(uint8_t a, uint8_t b) { return a < b; }
  static bool isNan(uint8_t) { return false; }
};

using Bf16 = Converted<uint16_t, float, bf16ToF32, f32ToBf16>;
using F16 = Converted<uint16_t, float, f16ToF32, f32ToF16>;
using F8e4m3 = Converted<uint8_t, float, f8e4m3ToF32, f32ToF8e4m3>;
using F8e5m2 = Converted<uint8_t, float, f8e5m2ToF32, f32ToF8e5m2>;

/// Calls `f` with the element type's operations.
template <typename F> auto withElement(int32_t dtype, F f) {
  switch (static_cast<dtile_dtype>(dtype)) {
  case DTILE_BOOL:
    return f(Bool());
  case DTILE_I8:
    return f(Native<int8_t>());
  case DTILE_I16:
    return f(Native<int16_t>());
  case DTILE_I32:
    return f(Native<int32_t>());
  case DTILE_I64:
    return f(Native<int64_t>());
  case DTILE_U8:
    return f(Native<uint8_t>());
  case DTILE_U16:
    return f(Native<uint16_t>());
  case DTILE_U32:
    return f(Native<uint32_t>());
  case DTILE_U64:
    return f(Native<uint64_t>());
  case DTILE_F8E4M3:
    return f(F8e4m3());
  case DTILE_F8E5M2:
    return f(F8e5m2());
  case DTILE_F16:
    return f(F16());
  case DTILE_BF16:
    return f(Bf16());
  case DTILE_F32:
    return f(Native<float>());
  case DTILE_F64:
    return f(Native<double>());
  }
  __builtin_unreachable();
}

template <size_t bytes> struct WordOf;
template <> struct WordOf<1> {
  using type = uint8_t;
};
template <> struct WordOf<2> {
  using type = uint16_t;
};
template <> struct WordOf<4> {
  using type = uint32_t;
};
template <> struct WordOf<8> {
  using type = uint64_t;
};

/// Replaces the word at `address` by update(word) atomically; gives the old word.
template <typename Word, typename Update> Word exchangeWord(void *address, Update update) {
  // Elements of any type lie under the words.
  using Aliased __attribute__((may_alias)) = Word;
  auto *word = static_cast<Aliased *>(address);
  Word old = __atomic_load_n(word, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(word, &old, update(old), true, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED)) {
  }
  return old;
}

/// Adds `Word`-sized groups of elements.
template <typename Element, typename Word> void addWord(char *to, const char *from) {
  using Value = typename Element::Value;
  constexpr size_t kBytes = sizeof(Word), kLanes = kBytes / sizeof(Value);
  Value addend[kLanes];
  std::memcpy(addend, from, sizeof(Word));
  exchangeWord<Word>(to, [&](Word old) {
    Value lanes[kLanes];
    std::memcpy(lanes, &old, sizeof(Word));
    for (size_t i = 0; i < kLanes; ++i)
      lanes[i] = Element::add(lanes[i], addend[i]);
    Word sum;
    std::memcpy(&sum, lanes, sizeof(Word));
    return sum;
  });
}

template <typename Element> void addRunAtomically(char *to, const char *from, int64_t bytes) {
  using Value = typename Element::Value;
  using Single = typename WordOf<sizeof(Value)>::type;
  int64_t at = 0;
  for (; at < bytes && reinterpret_cast<uintptr_t>(to + at) % 8 != 0; at += sizeof(Value))
    addWord<Element, Single>(to + at, from + at);
  for (; at + 8 <= bytes; at += 8)
    addWord<Element, uint64_t>(to + at, from + at);
  for (; at < bytes; at += sizeof(Value))
    addWord<Element, Single>(to + at, from + at);
}

constexpr int64_t kElementBytes[] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 1, 1, 2, 2, 4, 8};
constexpr const char *kNames[] = {"bool", "i8",     "i16",    "i32", "i64",  "u8",  "u16", "u32",
                                  "u64",  "f8e4m3", "f8e5m2", "f16", "bf16", "f32", "f64"};

bool isDtype(int32_t dtype) { return dtype >= DTILE_BOOL && dtype <= DTILE_F64; }

} // namespace

int64_t elementBytes(int32_t dtype) { return isDtype(dtype) ? kElementBytes[dtype] : 1; }

const char *dtypeName(int32_t dtype) { return isDtype(dtype) ? kNames[dtype] : "?"; }

int64_t elementCount(const dtile_region &region) {
  int64_t count = 1;
  for (int32_t d = 0; d < region.ndim; ++d)
    count *= std::max<int64_t>(region.size[d], 0);
  return count;
}

bool sameShape(const dtile_region &a, const dtile_region &b) {
  return a.dtype == b.dtype && a.ndim == b.ndim &&
         std::equal(a.size, a.size + std::max(a.ndim, 0), b.size);
}

RunPlan planRuns(const dtile_region &a, const dtile_region &b) {
  RunPlan plan;
  int64_t bytes = elementBytes(a.dtype);
  for (int32_t d = 0; d < a.ndim; ++d) {
    if (a.size[d] <= 0)
      return plan;
    if (a.size[d] == 1)
      continue;
    int64_t strideA = a.stride[d] * bytes;
    int64_t strideB = b.stride[d] * bytes;
    int32_t last = plan.ndim - 1;
    if (last >= 0 && plan.strideA[last] == strideA * a.size[d] &&
        plan.strideB[last] == strideB * a.size[d]) {
      plan.count[last] *= a.size[d];
      plan.strideA[last] = strideA;
      plan.strideB[last] = strideB;
      continue;
    }
    plan.count[plan.ndim] = a.size[d];
    plan.strideA[plan.ndim] = strideA;
    plan.strideB[plan.ndim] = strideB;
    ++plan.ndim;
  }
  plan.runBytes = bytes;
  int32_t last = plan.ndim - 1;
  if (last >= 0 && plan.strideA[last] == bytes && plan.strideB[last] == bytes) {
    plan.runBytes *= plan.count[last];
    --plan.ndim;
  }
  return plan;
}

void copyRegion(const dtile_region &source, const void *from, const dtile_region &destination,
                void *to) {
  RunPlan plan = planRuns(source, destination);
  auto *in = static_cast<const char *>(from);
  auto *out = static_cast<char *>(to);
  // A put to the own rank may name the very same place: memmove.
  switch (plan.runBytes) {
  case 1:
    return forEachRun(plan, [&](int64_t a, int64_t b) { out[b] = in[a]; });
  case 2:
    return forEachRun(plan, [&](int64_t a, int64_t b) { std::memmove(out + b, in + a, 2); });
  case 4:
    return forEachRun(plan, [&](int64_t a, int64_t b) { std::memmove(out + b, in + a, 4); });
  case 8:
    return forEachRun(plan, [&](int64_t a, int64_t b) { std::memmove(out + b, in + a, 8); });
  default:
    return forEachRun(
        plan, [&](int64_t a, int64_t b) { std::memmove(out + b, in + a, size_t(plan.runBytes)); });
  }
}

void reduceAddRegion(const dtile_region &source, const void *from, const dtile_region &destination,
                     void *to) {
  RunPlan plan = planRuns(source, destination);
  auto *in = static_cast<const char *>(from);
  auto *out = static_cast<char *>(to);
  withElement(source.dtype, [&](auto element) {
    forEachRun(plan, [&](int64_t a, int64_t b) {
      addRunAtomically<decltype(element)>(out + b, in + a, plan.runBytes);
    });
  });
}

void addElements(int32_t dtype, void *to, const void *from, int64_t count) {
  withElement(dtype, [&](auto element) {
    using Value = typename decltype(element)::Value;
    auto *out = static_cast<char *>(to);
    auto *in = static_cast<const char *>(from);
    for (int64_t i = 0; i < count * int64_t(sizeof(Value)); i += sizeof(Value)) {
      Value a, b;
      std::memcpy(&a, out + i, sizeof a);
      std::memcpy(&b, in + i, sizeof b);
      a = decltype(element)::add(a, b);
      std::memcpy(out + i, &a, sizeof a);
    }
  });
}

uint64_t combineElement(int32_t kind, int32_t dtype, uint64_t oldBits, uint64_t operandBits,
                        uint64_t expectedBits) {
  return withElement(dtype, [&](auto element) -> uint64_t {
    using Element = decltype(element);
    using Value = typename Element::Value;
    using Word = typename WordOf<sizeof(Value)>::type;
    auto value = [](uint64_t bits) { return std::bit_cast<Value>(Word(bits)); };
    auto bits = [](Value v) { return uint64_t(std::bit_cast<Word>(v)); };
    Value old = value(oldBits);
    Value operand = value(operandBits);
    switch (kind) {
    case 0:
      return bits(Element::add(old, operand));
    case 1:
    case 2: {
      // As minnum and maxnum: a NaN loses.
      if (Element::isNan(old))
        return bits(operand);
      bool take = kind == 1 ? Element::less(operand, old) : Element::less(old, operand);
      return bits(take ? operand : old);
    }
    case 3:
      return Word(oldBits) & Word(operandBits);
    case 4:
      return Word(oldBits) | Word(operandBits);
    case 5:
      return Word(operandBits);
    default:
      return Word(oldBits) == Word(expectedBits) ? Word(operandBits) : Word(oldBits);
    }
  });
}

uint64_t atomicElement(int32_t kind, int32_t dtype, void *cell, uint64_t operand,
                       uint64_t expected) {
  auto update = [&](auto word) -> uint64_t {
    using Word = decltype(word);
    return exchangeWord<Word>(
        cell, [&](Word old) { return Word(combineElement(kind, dtype, old, operand, expected)); });
  };
  switch (elementBytes(dtype)) {
  case 1:
    return update(uint8_t());
  case 2:
    return update(uint16_t());
  case 4:
    return update(uint32_t());
  default:
    return update(uint64_t());
  }
}

} // namespace dtile::runtime
