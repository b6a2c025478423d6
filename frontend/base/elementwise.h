// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What operations on each element are and give, by the table elementwise.def.
#pragma once

#include "frontend/base/check.h"

#include <cmath>
#include <cstdint>

namespace dtile {

/// Which element types an operation takes.
enum class ElementTypes : uint8_t { Number, Float, Bits, Integer };

/// The Unary rows of elementwise.def.
enum class UnaryOp : uint8_t {
#define DTILE_Unary(KIND) KIND,
#define DTILE_Binary(KIND)
#define ELEMENTWISE(KIND, NAME, ARITY, TYPES, CALL, DOC) DTILE_##ARITY(KIND)
#include "frontend/base/elementwise.def"
#undef DTILE_Unary
#undef DTILE_Binary
};

[[nodiscard]] constexpr ElementTypes elementTypes(UnaryOp op) {
  switch (op) {
#define DTILE_Unary(KIND, TYPES)                                                                   \
  case UnaryOp::KIND:                                                                              \
    return ElementTypes::TYPES;
#define DTILE_Binary(KIND, TYPES)
#define ELEMENTWISE(KIND, NAME, ARITY, TYPES, CALL, DOC) DTILE_##ARITY(KIND, TYPES)
#include "frontend/base/elementwise.def"
#undef DTILE_Unary
#undef DTILE_Binary
  }
  return ElementTypes::Number;
}

/// What it gives of a float or double, computed in that type: for constants of programs, the
/// interpreter and references of tests. Inlined, so that a known operation is no branch in a loop.
template <typename Real>
[[nodiscard, gnu::always_inline]] inline Real computeReal(UnaryOp op, Real x) {
  switch (op) {
  case UnaryOp::Neg:
    return -x;
  case UnaryOp::Not:
    return x == 0;
  case UnaryOp::Abs:
    return std::fabs(x);
  case UnaryOp::Exp:
    return std::exp(x);
  case UnaryOp::Exp2:
    return std::exp2(x);
  case UnaryOp::Log:
    return std::log(x);
  case UnaryOp::Log2:
    return std::log2(x);
  case UnaryOp::Sqrt:
    return std::sqrt(x);
  case UnaryOp::Rsqrt:
    return 1 / std::sqrt(x);
  case UnaryOp::Sin:
    return std::sin(x);
  case UnaryOp::Cos:
    return std::cos(x);
  case UnaryOp::Atan:
    return std::atan(x);
  case UnaryOp::Tanh:
    return std::tanh(x);
  case UnaryOp::Erf:
    return std::erf(x);
  case UnaryOp::Floor:
    return std::floor(x);
  case UnaryOp::Ceil:
    return std::ceil(x);
  }
  DTILE_UNREACHABLE("not an operation on one element");
}

} // namespace dtile
