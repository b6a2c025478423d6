// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The loops of elementwise operations: one function template an operation, instantiated for
// each element type. Narrow floats compute in f32 and round after each operation.
#include "ir/core/op_classes.h"
#include "ir/interpret/elements.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace dtile::interpret {

namespace {

// Rounds of the loop below touch different elements.
#if defined(__clang__)
#define DTILE_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define DTILE_INDEPENDENT _Pragma("GCC ivdep")
#endif

using ir::OpKind;

template <typename T> constexpr bool kIsFloat = std::is_floating_point_v<T>;
template <typename T> using Unsigned = std::make_unsigned_t<T>;

// Integers wrap: they compute as unsigned of at least the same width.
template <typename T, typename Fn> T wrapped(T a, T b, Fn fn) {
  return static_cast<T>(fn(static_cast<uint64_t>(a), static_cast<uint64_t>(b)));
}

template <typename T> T floorDiv(T a, T b) {
  if (b == 0)
    return 0;
  if constexpr (std::is_signed_v<T>) {
    // The one quotient that overflows.
    if (b == T(-1))
      return static_cast<T>(0 - static_cast<uint64_t>(a));
    const T quotient = static_cast<T>(a / b);
    return a % b != 0 && (a < 0) != (b < 0) ? static_cast<T>(quotient - 1) : quotient;
  } else {
    return static_cast<T>(a / b);
  }
}

template <typename T> T floorRem(T a, T b) {
  if constexpr (kIsFloat<T>) {
    const T rest = std::fmod(a, b);
    return rest != 0 && std::signbit(rest) != std::signbit(b) ? rest + b : rest;
  } else {
    if (b == 0)
      return 0;
    if constexpr (std::is_signed_v<T>) {
      if (b == T(-1))
        return 0;
      const T rest = static_cast<T>(a % b);
      return rest != 0 && (rest < 0) != (b < 0) ? static_cast<T>(rest + b) : rest;
    } else {
      return static_cast<T>(a % b);
    }
  }
}

template <typename T> T shiftLeft(T a, T b) {
  const auto amount = static_cast<Unsigned<T>>(b);
  if (amount >= std::numeric_limits<Unsigned<T>>::digits)
    return 0;
  return static_cast<T>(static_cast<uint64_t>(a) << amount);
}

template <typename T> T shiftRight(T a, T b) {
  constexpr int kWidth = std::numeric_limits<Unsigned<T>>::digits;
  const auto amount = static_cast<Unsigned<T>>(b);
  return static_cast<T>(a >> (amount >= kWidth ? kWidth - 1 : int(amount)));
}

// A NaN operand gives the other: a comparison with NaN is false, and b is taken unless it is NaN.
template <typename T> T smaller(T a, T b) {
  if constexpr (kIsFloat<T>)
    return a < b || std::isnan(b) ? a : b;
  else
    return a < b ? a : b;
}
template <typename T> T larger(T a, T b) {
  if constexpr (kIsFloat<T>)
    return a > b || std::isnan(b) ? a : b;
  else
    return a > b ? a : b;
}

template <OpKind K, typename Element> constexpr bool isDefined() {
  using T = typename Element::Computed;
  constexpr bool isBool = std::is_same_v<Element, BoolElement>;
  // Reductions of bools are minima and maxima.
  if constexpr (K == OpKind::Min || K == OpKind::Max)
    return true;
  constexpr std::optional<ElementTypes> kTypes = ir::elementTypes(K);
  static_assert(kTypes, "an operation that has no row in elementwise.def");
  switch (*kTypes) {
  case ElementTypes::Float:
    return kIsFloat<T>;
  case ElementTypes::Integer:
    return !kIsFloat<T> && !isBool;
  case ElementTypes::Bits:
    return !kIsFloat<T>;
  case ElementTypes::Number:
    return !isBool;
  }
  return false;
}

template <OpKind K, typename Element>
typename Element::Computed applyBinary(typename Element::Computed a, typename Element::Computed b) {
  using T = typename Element::Computed;
  if constexpr (K == OpKind::Add) {
    if constexpr (kIsFloat<T>)
      return a + b;
    else
      return wrapped(a, b, [](uint64_t x, uint64_t y) { return x + y; });
  } else if constexpr (K == OpKind::Sub) {
    if constexpr (kIsFloat<T>)
      return a - b;
    else
      return wrapped(a, b, [](uint64_t x, uint64_t y) { return x - y; });
  } else if constexpr (K == OpKind::Mul) {
    if constexpr (kIsFloat<T>)
      return a * b;
    else
      return wrapped(a, b, [](uint64_t x, uint64_t y) { return x * y; });
  } else if constexpr (K == OpKind::Div) {
    if constexpr (kIsFloat<T>)
      return a / b;
    else
      return floorDiv(a, b);
  } else if constexpr (K == OpKind::Rem) {
    return floorRem(a, b);
  } else if constexpr (K == OpKind::Min) {
    return smaller(a, b);
  } else if constexpr (K == OpKind::Max) {
    return larger(a, b);
  } else if constexpr (K == OpKind::Pow) {
    return std::pow(a, b);
  } else if constexpr (K == OpKind::And) {
    return static_cast<T>(a & b);
  } else if constexpr (K == OpKind::Or) {
    return static_cast<T>(a | b);
  } else if constexpr (K == OpKind::Xor) {
    return static_cast<T>(a ^ b);
  } else if constexpr (K == OpKind::Shl) {
    return shiftLeft(a, b);
  } else {
    static_assert(K == OpKind::Shr);
    return shiftRight(a, b);
  }
}

template <OpKind K, typename Element>
typename Element::Computed applyUnary(typename Element::Computed a) {
  using T = typename Element::Computed;
  if constexpr (kIsFloat<T>) {
    constexpr UnaryOp kOp = *unaryOp(K);
    return computeReal(kOp, a);
  } else if constexpr (K == OpKind::Neg) {
    return static_cast<T>(0 - static_cast<uint64_t>(a));
  } else if constexpr (K == OpKind::Not) {
    if constexpr (std::is_same_v<Element, BoolElement>)
      return !a;
    else
      return static_cast<T>(~a);
  } else {
    static_assert(K == OpKind::Abs, "an operation on integers that is not computed");
    return std::is_signed_v<T> && a < 0 ? static_cast<T>(0 - static_cast<uint64_t>(a)) : a;
  }
}

// assume_safety: an output that is also an operand overlaps exactly, which is no dependence between
// iterations.

template <OpKind K, typename Element>
void runBinary(const void *a, const void *b, void *out, int64_t count) {
  using Stored = typename Element::Stored;
  const auto *x = static_cast<const Stored *>(a);
  const auto *y = static_cast<const Stored *>(b);
  auto *z = static_cast<Stored *>(out);
  DTILE_INDEPENDENT
  for (int64_t i = 0; i < count; ++i)
    z[i] = Element::store(applyBinary<K, Element>(Element::load(x[i]), Element::load(y[i])));
}

template <OpKind K, typename Element> void runUnary(const void *in, void *out, int64_t count) {
  using Stored = typename Element::Stored;
  const auto *x = static_cast<const Stored *>(in);
  auto *z = static_cast<Stored *>(out);
  DTILE_INDEPENDENT
  for (int64_t i = 0; i < count; ++i)
    z[i] = Element::store(applyUnary<K, Element>(Element::load(x[i])));
}

template <Predicate P, typename T> bool holds(T a, T b) {
  switch (P) {
  case Predicate::Eq:
    return a == b;
  case Predicate::Ne:
    return a != b;
  case Predicate::Lt:
    return a < b;
  case Predicate::Le:
    return a <= b;
  case Predicate::Gt:
    return a > b;
  case Predicate::Ge:
    return a >= b;
  }
  return false;
}

template <Predicate P, typename Element>
void runCompare(const void *a, const void *b, void *out, int64_t count) {
  using Stored = typename Element::Stored;
  const auto *x = static_cast<const Stored *>(a);
  const auto *y = static_cast<const Stored *>(b);
  auto *z = static_cast<uint8_t *>(out);
  for (int64_t i = 0; i < count; ++i)
    z[i] = holds<P>(Element::load(x[i]), Element::load(y[i]));
}

template <typename T>
void runSelect(const uint8_t *condition, const void *a, const void *b, void *out, int64_t count) {
  const auto *x = static_cast<const T *>(a);
  const auto *y = static_cast<const T *>(b);
  auto *z = static_cast<T *>(out);
  DTILE_INDEPENDENT
  for (int64_t i = 0; i < count; ++i)
    z[i] = condition[i] ? x[i] : y[i];
}

template <typename To, typename From> To saturate(From value) {
  using Limits = std::numeric_limits<To>;
  if (std::isnan(value))
    return 0;
  if (value <= static_cast<From>(Limits::min()))
    return Limits::min();
  if (value >= std::ldexp(From(1), Limits::digits))
    return Limits::max();
  return static_cast<To>(value);
}

template <typename From, typename To> typename To::Stored convert(typename From::Stored stored) {
  using F = typename From::Computed;
  using T = typename To::Computed;
  const F value = From::load(stored);
  if constexpr (std::is_same_v<To, BoolElement>)
    return value != 0;
  else if constexpr (kIsFloat<T>) {
    if constexpr (std::is_same_v<typename To::Stored, T>)
      return static_cast<T>(value);
    else if constexpr (std::is_same_v<F, float>)
      return To::store(value);
    else
      DTILE_UNREACHABLE("rounds twice");
  } else if constexpr (kIsFloat<F>) {
    return saturate<T>(value);
  } else {
    return static_cast<T>(value);
  }
}

/// f64 and integers to formats narrower than f32, which must not round to f32 on the way.
template <DType To, typename From> void runNarrow(const void *in, void *out, int64_t count) {
  const auto *x = static_cast<const typename From::Stored *>(in);
  char *z = static_cast<char *>(out);
  const size_t bytes = dtypeBytes(To);
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (kIsFloat<typename From::Computed>)
      storeFromDouble(To, z + i * bytes, x[i]);
    else if (std::is_unsigned_v<typename From::Stored> && int64_t(x[i]) < 0)
      // Too large for an i64: 53 bits, the last one sticky so that the one rounding is right.
      storeFromDouble(To, z + i * bytes,
                      double(uint64_t(x[i]) >> 11 | ((x[i] & 0x7FF) != 0)) * 0x1p11);
    else
      storeFromInt(To, z + i * bytes, From::load(x[i]));
  }
}

template <typename From, typename To> void runCast(const void *in, void *out, int64_t count) {
  const auto *x = static_cast<const typename From::Stored *>(in);
  auto *z = static_cast<typename To::Stored *>(out);
  for (int64_t i = 0; i < count; ++i)
    z[i] = convert<From, To>(x[i]);
}

template <typename From> UnaryKernel castFrom(DType to) {
  constexpr bool viaF32 = std::is_same_v<typename From::Computed, float>;
  return withElement(to, [&](auto element) -> UnaryKernel {
    using To = decltype(element);
    using Computed = typename To::Computed;
    constexpr bool isNarrow = kIsFloat<Computed> && !std::is_same_v<typename To::Stored, Computed>;
    if constexpr (!isNarrow || viaF32)
      return runCast<From, To>;
    else if constexpr (std::is_same_v<To, Bf16Element>)
      return runNarrow<DType::BF16, From>;
    else if constexpr (std::is_same_v<To, F16Element>)
      return runNarrow<DType::F16, From>;
    else if constexpr (std::is_same_v<To, F8E4M3Element>)
      return runNarrow<DType::F8E4M3, From>;
    else
      return runNarrow<DType::F8E5M2, From>;
  });
}

template <OpKind K> BinaryKernel binaryFor(DType type) {
  return withElement(type, [](auto element) -> BinaryKernel {
    using Element = decltype(element);
    if constexpr (isDefined<K, Element>())
      return runBinary<K, Element>;
    DTILE_UNREACHABLE("an arithmetic operation on a type that it does not have");
  });
}

template <OpKind K> UnaryKernel unaryFor(DType type) {
  return withElement(type, [](auto element) -> UnaryKernel {
    using Element = decltype(element);
    if constexpr (isDefined<K, Element>())
      return runUnary<K, Element>;
    DTILE_UNREACHABLE("an arithmetic operation on a type that it does not have");
  });
}

template <Predicate P> BinaryKernel compareFor(DType type) {
  return withElement(type,
                     [](auto element) -> BinaryKernel { return runCompare<P, decltype(element)>; });
}

} // namespace

BinaryKernel binaryKernel(OpKind kind, DType type) {
  switch (kind) {
#define DTILE_Binary(K)                                                                            \
  case OpKind::K:                                                                                  \
    return binaryFor<OpKind::K>(type);
#define DTILE_Unary(K)
#define ELEMENTWISE(K, TEXT, ARITY, TYPES, CALL, DOC) DTILE_##ARITY(K)
#include "frontend/base/elementwise.def"
#undef DTILE_Binary
#undef DTILE_Unary
  default:
    DTILE_UNREACHABLE("not an operation on two elements");
  }
}

UnaryKernel unaryKernel(OpKind kind, DType type) {
  switch (kind) {
#define DTILE_Unary(K)                                                                             \
  case OpKind::K:                                                                                  \
    return unaryFor<OpKind::K>(type);
#define DTILE_Binary(K)
#define ELEMENTWISE(K, TEXT, ARITY, TYPES, CALL, DOC) DTILE_##ARITY(K)
#include "frontend/base/elementwise.def"
#undef DTILE_Unary
#undef DTILE_Binary
  default:
    DTILE_UNREACHABLE("not an operation on one element");
  }
}

Predicate predicateFromName(llvm::StringRef name) {
  constexpr llvm::StringLiteral kNames[] = {"eq", "ne", "lt", "le", "gt", "ge"};
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (kNames[i] == name)
      return Predicate(i);
  DTILE_UNREACHABLE("an unknown comparison");
}

BinaryKernel compareKernel(Predicate predicate, DType type) {
  switch (predicate) {
  case Predicate::Eq:
    return compareFor<Predicate::Eq>(type);
  case Predicate::Ne:
    return compareFor<Predicate::Ne>(type);
  case Predicate::Lt:
    return compareFor<Predicate::Lt>(type);
  case Predicate::Le:
    return compareFor<Predicate::Le>(type);
  case Predicate::Gt:
    return compareFor<Predicate::Gt>(type);
  case Predicate::Ge:
    return compareFor<Predicate::Ge>(type);
  }
  DTILE_UNREACHABLE("an unknown comparison");
}

SelectKernel selectKernel(size_t elementBytes) {
  switch (elementBytes) {
  case 1:
    return runSelect<uint8_t>;
  case 2:
    return runSelect<uint16_t>;
  case 4:
    return runSelect<uint32_t>;
  case 8:
    return runSelect<uint64_t>;
  default:
    DTILE_UNREACHABLE("elements are 1, 2, 4 or 8 bytes");
  }
}

UnaryKernel castKernel(DType from, DType to) {
  if (from == to)
    return nullptr;
  return withElement(from, [&](auto element) { return castFrom<decltype(element)>(to); });
}

} // namespace dtile::interpret
