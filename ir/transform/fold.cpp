// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arithmetic on constants. Integers wrap at the width of their type; floats are computed in double
// and rounded once, which for one operation on formats up to f32 is the same as computing in the
// format.
#include "ir/transform/fold.h"

#include "frontend/base/check.h"

#include <cmath>
#include <limits>

namespace dtile::passes {

using ir::OpKind;

namespace {

bool isUnsigned(DType type) { return dtypeClass(type) == DTypeClass::UInt; }

int64_t wrapInt(DType type, uint64_t bits) {
  alignas(8) char element[8] = {};
  storeFromInt(type, element, int64_t(bits));
  return loadAsInt(type, element);
}

double roundTo(DType type, double value) {
  alignas(8) char element[8] = {};
  storeFromDouble(type, element, value);
  return loadAsDouble(type, element);
}

int64_t intOf(const Constant &constant) { return std::get<int64_t>(constant); }
double doubleOf(const Constant &constant) { return std::get<double>(constant); }
bool boolOf(const Constant &constant) { return std::get<bool>(constant); }

int64_t divide(DType type, int64_t a, int64_t b) {
  if (b == 0)
    return 0;
  if (isUnsigned(type))
    return int64_t(uint64_t(a) / uint64_t(b));
  // The one quotient that overflows.
  if (b == -1)
    return int64_t(0 - uint64_t(a));
  const int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

int64_t remainder(DType type, int64_t a, int64_t b) {
  if (b == 0)
    return 0;
  if (isUnsigned(type))
    return int64_t(uint64_t(a) % uint64_t(b));
  if (b == -1)
    return 0;
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

bool isLess(DType type, int64_t a, int64_t b) {
  return isUnsigned(type) ? uint64_t(a) < uint64_t(b) : a < b;
}

std::optional<Constant> foldInts(OpKind kind, DType type, int64_t a, int64_t b) {
  const uint64_t x = uint64_t(a), y = uint64_t(b);
  const unsigned width = dtypeBits(type);
  // A shift amount counts as unsigned of the type's width.
  const uint64_t amount = width == 64 ? y : y & ((uint64_t(1) << width) - 1);
  switch (kind) {
  case OpKind::Add:
    return wrapInt(type, x + y);
  case OpKind::Sub:
    return wrapInt(type, x - y);
  case OpKind::Mul:
    return wrapInt(type, x * y);
  case OpKind::Div:
    return wrapInt(type, uint64_t(divide(type, a, b)));
  case OpKind::Rem:
    return wrapInt(type, uint64_t(remainder(type, a, b)));
  case OpKind::Min:
    return isLess(type, a, b) ? a : b;
  case OpKind::Max:
    return isLess(type, a, b) ? b : a;
  case OpKind::And:
    return wrapInt(type, x & y);
  case OpKind::Or:
    return wrapInt(type, x | y);
  case OpKind::Xor:
    return wrapInt(type, x ^ y);
  case OpKind::Shl:
    return amount >= width ? int64_t(0) : wrapInt(type, x << amount);
  case OpKind::Shr: {
    const uint64_t by = std::min<uint64_t>(amount, width - 1);
    return isUnsigned(type) ? int64_t(x >> by) : a >> by;
  }
  default:
    return std::nullopt;
  }
}

std::optional<Constant> foldDoubles(OpKind kind, DType type, double a, double b) {
  switch (kind) {
  case OpKind::Add:
    return roundTo(type, a + b);
  case OpKind::Sub:
    return roundTo(type, a - b);
  case OpKind::Mul:
    return roundTo(type, a * b);
  case OpKind::Div:
    return roundTo(type, a / b);
  case OpKind::Min:
  case OpKind::Max:
    if (std::isnan(a) || std::isnan(b))
      return std::isnan(a) ? b : a;
    // Of zeros with different signs either may be taken.
    if (a == b && std::signbit(a) != std::signbit(b))
      return std::nullopt;
    return (a < b) == (kind == OpKind::Min) ? a : b;
  default:
    return std::nullopt;
  }
}

std::optional<Constant> foldBools(OpKind kind, bool a, bool b) {
  switch (kind) {
  case OpKind::And:
    return a && b;
  case OpKind::Or:
    return a || b;
  case OpKind::Xor:
    return a != b;
  default:
    return std::nullopt;
  }
}

} // namespace

Constant normalized(DType type, const Constant &value) {
  if (type == DType::Bool)
    return value;
  if (isFloat(type))
    return roundTo(type, doubleOf(value));
  return wrapInt(type, uint64_t(intOf(value)));
}

Constant constantOf(DType type, int64_t value) {
  if (type == DType::Bool)
    return value != 0;
  if (isFloat(type))
    return double(value);
  return value;
}

bool isConstant(const Constant &constant, int64_t value) {
  if (const bool *b = std::get_if<bool>(&constant))
    return int64_t(*b) == value;
  if (const double *d = std::get_if<double>(&constant))
    return *d == double(value) && !std::signbit(*d) == (value >= 0);
  return intOf(constant) == value;
}

std::optional<Constant> foldUnary(OpKind kind, DType type, const Constant &a) {
  if (type == DType::Bool)
    return kind == OpKind::Not ? std::optional<Constant>(!boolOf(a)) : std::nullopt;
  const bool isDouble = isFloat(type);
  switch (kind) {
  case OpKind::Neg:
    if (isDouble)
      return -doubleOf(a);
    return wrapInt(type, 0 - uint64_t(intOf(a)));
  case OpKind::Abs:
    if (isDouble)
      return std::fabs(doubleOf(a));
    return !isUnsigned(type) && intOf(a) < 0 ? wrapInt(type, 0 - uint64_t(intOf(a))) : intOf(a);
  case OpKind::Not:
    return wrapInt(type, ~uint64_t(intOf(a)));
  case OpKind::Floor:
    return isDouble ? Constant(std::floor(doubleOf(a))) : a;
  case OpKind::Ceil:
    return isDouble ? Constant(std::ceil(doubleOf(a))) : a;
  case OpKind::Sqrt:
    return roundTo(type, std::sqrt(doubleOf(a)));
  default:
    return std::nullopt;
  }
}

std::optional<Constant> foldBinary(OpKind kind, DType type, const Constant &a, const Constant &b) {
  if (type == DType::Bool)
    return foldBools(kind, boolOf(a), boolOf(b));
  if (isFloat(type))
    return foldDoubles(kind, type, doubleOf(a), doubleOf(b));
  return foldInts(kind, type, intOf(a), intOf(b));
}

std::optional<bool> foldCompare(llvm::StringRef predicate, DType type, const Constant &a,
                                const Constant &b) {
  bool less = false, equal = false, greater = false;
  if (isFloat(type)) {
    less = doubleOf(a) < doubleOf(b);
    equal = doubleOf(a) == doubleOf(b);
    greater = doubleOf(a) > doubleOf(b);
  } else {
    const int64_t x = type == DType::Bool ? boolOf(a) : intOf(a);
    const int64_t y = type == DType::Bool ? boolOf(b) : intOf(b);
    less = isLess(type, x, y);
    equal = x == y;
    greater = isLess(type, y, x);
  }
  if (predicate == "eq")
    return equal;
  if (predicate == "ne")
    return !equal;
  if (predicate == "lt")
    return less;
  if (predicate == "le")
    return less || equal;
  if (predicate == "gt")
    return greater;
  if (predicate == "ge")
    return greater || equal;
  return std::nullopt;
}

std::optional<Constant> foldCast(DType from, DType to, const Constant &value) {
  alignas(8) char element[8] = {};
  if (isFloat(from)) {
    storeFromDouble(to, element, doubleOf(value));
  } else {
    const int64_t number = from == DType::Bool ? int64_t(boolOf(value)) : intOf(value);
    // storeFromInt takes the bits of a u64 for an i64.
    if (from == DType::U64 && number < 0 && isFloat(to))
      return std::nullopt;
    storeFromInt(to, element, number);
  }
  if (to == DType::Bool)
    return loadAsInt(to, element) != 0;
  if (isFloat(to))
    return loadAsDouble(to, element);
  return loadAsInt(to, element);
}

std::optional<Constant> foldBitcast(DType from, DType to, const Constant &value) {
  alignas(8) char element[8] = {};
  if (isFloat(from))
    storeFromDouble(from, element, doubleOf(value));
  else
    storeFromInt(from, element, intOf(value));
  const bool isNan = (isFloat(from) && std::isnan(doubleOf(value))) ||
                     (isFloat(to) && std::isnan(loadAsDouble(to, element)));
  if (isNan)
    return std::nullopt;
  if (isFloat(to))
    return loadAsDouble(to, element);
  return loadAsInt(to, element);
}

bool isCommutative(OpKind kind) {
  switch (kind) {
  case OpKind::Add:
  case OpKind::Mul:
  case OpKind::Min:
  case OpKind::Max:
  case OpKind::And:
  case OpKind::Or:
  case OpKind::Xor:
    return true;
  default:
    return false;
  }
}

bool isLossless(DType from, DType to) {
  if (from == to)
    return true;
  // Digits that a float keeps, and whether its exponents contain those of the other.
  const auto digits = [](DType type) -> unsigned {
    switch (type) {
    case DType::F8E5M2:
      return 3;
    case DType::F8E4M3:
      return 4;
    case DType::BF16:
      return 8;
    case DType::F16:
      return 11;
    case DType::F32:
      return 24;
    case DType::F64:
      return 53;
    case DType::Bool:
      return 1;
    default:
      return dtypeBits(type) - (dtypeClass(type) == DTypeClass::Int ? 1 : 0);
    }
  };
  if (to == DType::Bool)
    return false;
  if (from == DType::Bool)
    return true;
  if (isFloat(from))
    // f32 and f64 hold all narrower floats. Every f8e5m2 is an f16.
    return (isFloat(to) && dtypeBits(to) > dtypeBits(from) && dtypeBits(to) >= 32) ||
           (from == DType::F8E5M2 && to == DType::F16);
  if (isFloat(to))
    return dtypeBits(to) >= 32 && digits(from) <= digits(to);
  if (isUnsigned(from) || !isUnsigned(to))
    return digits(from) <= digits(to);
  return false;
}

} // namespace dtile::passes
