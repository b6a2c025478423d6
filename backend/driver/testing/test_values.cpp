// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operators and slices on arrays of tests.
#include "backend/driver/testing/test_values.h"

#include "frontend/base/check.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

namespace dtile::driver {

namespace {

// The type that holds the values of both; bools compute as i64.
DType widerType(DType a, DType b) {
  if (a == b)
    return a == DType::Bool ? DType::I64 : a;
  if (isFloat(a) != isFloat(b))
    return isFloat(a) ? a : b;
  if (a == DType::Bool || b == DType::Bool)
    return a == DType::Bool ? b : a;
  if (dtypeBits(a) != dtypeBits(b))
    return dtypeBits(a) > dtypeBits(b) ? a : b;
  return isFloat(a) ? DType::F32 : DType::I64;
}

std::optional<ndarray::Binary> arithmetic(ast::BinaryOp op) {
  switch (op) {
  case ast::BinaryOp::Add:
    return ndarray::Binary::Add;
  case ast::BinaryOp::Sub:
    return ndarray::Binary::Sub;
  case ast::BinaryOp::Mul:
    return ndarray::Binary::Mul;
  case ast::BinaryOp::Div:
    return ndarray::Binary::Div;
  case ast::BinaryOp::Rem:
    return ndarray::Binary::Rem;
  case ast::BinaryOp::BitAnd:
  case ast::BinaryOp::LogAnd:
    return ndarray::Binary::And;
  case ast::BinaryOp::BitOr:
  case ast::BinaryOp::LogOr:
    return ndarray::Binary::Or;
  case ast::BinaryOp::BitXor:
    return ndarray::Binary::Xor;
  case ast::BinaryOp::Eq:
    return ndarray::Binary::Eq;
  case ast::BinaryOp::Ne:
    return ndarray::Binary::Ne;
  case ast::BinaryOp::Lt:
    return ndarray::Binary::Lt;
  case ast::BinaryOp::Le:
    return ndarray::Binary::Le;
  case ast::BinaryOp::Gt:
    return ndarray::Binary::Gt;
  case ast::BinaryOp::Ge:
    return ndarray::Binary::Ge;
  case ast::BinaryOp::Shl:
  case ast::BinaryOp::Shr:
  case ast::BinaryOp::Approx:
    return std::nullopt;
  }
  return std::nullopt;
}

bool isBitwise(ast::BinaryOp op) {
  return llvm::is_contained({ast::BinaryOp::BitAnd, ast::BinaryOp::BitOr, ast::BinaryOp::BitXor,
                             ast::BinaryOp::LogAnd, ast::BinaryOp::LogOr, ast::BinaryOp::Shl,
                             ast::BinaryOp::Shr},
                            op);
}

bool isComparison(ast::BinaryOp op) { return op >= ast::BinaryOp::Eq && op <= ast::BinaryOp::Ge; }

// Documented in docs/diagnostics/E0722.md.
Tolerance defaultTolerance(DType dtype) {
  switch (dtype) {
  case DType::F8E4M3:
    return {1.3e-1, 3e-2};
  case DType::F8E5M2:
    return {2.6e-1, 6e-2};
  case DType::BF16:
    return {2e-2, 2e-2};
  case DType::F16:
    return {4e-3, 4e-3};
  case DType::F32:
    return {1e-4, 1e-5};
  case DType::F64:
    return {1e-9, 1e-12};
  case DType::Bool:
  case DType::I8:
  case DType::I16:
  case DType::I32:
  case DType::I64:
  case DType::U8:
  case DType::U16:
  case DType::U32:
  case DType::U64:
    return {};
  }
  return {};
}

double largestMagnitude(const Array &array) {
  double largest = 0;
  for (int64_t i = 0; i < array.elements(); ++i)
    if (const double value = std::fabs(array.getDouble(i)); std::isfinite(value))
      largest = std::max(largest, value);
  return largest;
}

llvm::Expected<Array> shift(ast::BinaryOp op, const Array &a, const Array &b) {
  auto shape = ndarray::broadcastShapes(a.shape(), b.shape());
  if (!shape)
    return shape.takeError();
  auto left = ndarray::broadcastTo(ndarray::cast(a, DType::I64), *shape);
  auto right = ndarray::broadcastTo(ndarray::cast(b, DType::I64), *shape);
  if (!left)
    return left.takeError();
  if (!right)
    return right.takeError();
  for (int64_t i = 0; i < left->elements(); ++i) {
    const int64_t value = left->getInt(i);
    const uint64_t by = uint64_t(right->getInt(i));
    if (op == ast::BinaryOp::Shl)
      left->setInt(i, by < 64 ? int64_t(uint64_t(value) << by) : 0);
    else if (a.dtype() == DType::U64)
      left->setInt(i, by < 64 ? int64_t(uint64_t(value) >> by) : 0);
    else
      left->setInt(i, value >> std::min<uint64_t>(by, 63));
  }
  return std::move(*left);
}

/// The positions that indices ask for, within the array.
struct Selection {
  /// First position, number of positions and distance between two, of each dimension.
  std::vector<int64_t> first, count, step;
  ndarray::Shape shape;
};

llvm::Expected<Selection> select(const Array &array, llvm::ArrayRef<AxisIndex> indices) {
  if (indices.size() > array.rank())
    return llvm::createStringError("an array of sizes " + ndarray::shapeText(array.shape()) +
                                   " has " + std::to_string(array.rank()) + " dimensions, and " +
                                   std::to_string(indices.size()) + " indices are given");
  // Of dimensions without an index, all.
  std::vector<AxisIndex> all = indices.vec();
  all.resize(array.rank());
  indices = all;
  Selection selection;
  for (size_t axis = 0; axis < indices.size(); ++axis) {
    const int64_t size = array.shape()[axis];
    const int64_t lo = indices[axis].lo.value_or(0);
    const int64_t hi = indices[axis].isRange ? indices[axis].hi.value_or(size) : lo + 1;
    if (lo < 0 || hi > size || lo > hi) {
      const std::string asked = indices[axis].isRange
                                    ? std::to_string(lo) + ".." + std::to_string(hi)
                                    : std::to_string(lo);
      return llvm::createStringError(asked + " is outside of dimension " + std::to_string(axis) +
                                     ", whose size is " + std::to_string(size));
    }
    selection.first.push_back(lo);
    const int64_t step = indices[axis].step;
    selection.step.push_back(step);
    selection.count.push_back((hi - lo + step - 1) / step);
    if (indices[axis].isRange)
      selection.shape.push_back(selection.count.back());
  }
  return selection;
}

// Calls `fn` with the row-major number in the array of each selected element, in order.
template <typename Fn> void forEach(const Array &array, const Selection &selection, Fn fn) {
  if (llvm::is_contained(selection.count, 0))
    return;
  const std::vector<int64_t> strides = array.strides();
  std::vector<int64_t> position(array.rank());
  while (true) {
    int64_t at = 0;
    for (size_t d = 0; d < position.size(); ++d)
      at += (selection.first[d] + position[d] * selection.step[d]) * strides[d];
    fn(at);
    size_t d = position.size();
    while (d > 0 && ++position[d - 1] == selection.count[d - 1])
      position[--d] = 0;
    if (d == 0)
      return;
  }
}

} // namespace

TestValue TestValue::everywhere(int ranks, Array array) {
  TestValue value;
  value.arrays.assign(ranks, share(std::move(array)));
  value.isWeak = true;
  return value;
}

TestValue TestValue::number(int ranks, int64_t value) {
  return everywhere(ranks, Array::fromInts({}, {value}));
}

TestValue TestValue::real(int ranks, double value) {
  return everywhere(ranks, Array::fromDoubles({}, {value}));
}

TestValue TestValue::boolean(int ranks, bool value) {
  return everywhere(ranks, Array::fromInts({}, {value}, DType::Bool));
}

DType commonType(const Array &a, bool aIsWeak, const Array &b, bool bIsWeak) {
  if (aIsWeak == bIsWeak)
    return widerType(a.dtype(), b.dtype());
  const DType strong = aIsWeak ? b.dtype() : a.dtype();
  const DType weak = aIsWeak ? a.dtype() : b.dtype();
  if (isFloat(strong) || !isFloat(weak))
    return strong == DType::Bool ? widerType(strong, weak) : strong;
  return DType::F64;
}

llvm::Expected<Array> unaryOperator(ast::UnaryOp op, const Array &array) {
  switch (op) {
  case ast::UnaryOp::Neg:
    return ndarray::cast(ndarray::unary(ndarray::Unary::Neg, array),
                         array.dtype() == DType::Bool ? DType::I64 : array.dtype());
  case ast::UnaryOp::Not:
    if (array.dtype() != DType::Bool)
      return llvm::createStringError("`!` needs bools; a number is compared: `x == 0`");
    return ndarray::unary(ndarray::Unary::Not, ndarray::cast(array, DType::Bool));
  case ast::UnaryOp::BitNot:
    if (!array.isIntegral())
      return llvm::createStringError("`~` needs integers");
    return ndarray::cast(ndarray::unary(ndarray::Unary::Not, array), array.dtype());
  }
  DTILE_UNREACHABLE("unknown operator");
}

llvm::Expected<Array> binaryOperator(ast::BinaryOp op, const Array &a, bool aIsWeak, const Array &b,
                                     bool bIsWeak) {
  if (isBitwise(op) && (!a.isIntegral() || !b.isIntegral()))
    return llvm::createStringError("this operator needs integers or bools");
  const auto known = arithmetic(op);
  llvm::Expected<Array> result = known ? ndarray::binary(*known, a, b) : shift(op, a, b);
  if (!result || isComparison(op))
    return result;
  // Two bools stay bool under logic.
  if (isBitwise(op) && a.dtype() == DType::Bool && b.dtype() == DType::Bool)
    return ndarray::cast(*result, DType::Bool);
  return ndarray::cast(*result, commonType(a, aIsWeak, b, bIsWeak));
}

llvm::Expected<Array> elements(const Array &array, llvm::ArrayRef<AxisIndex> indices) {
  llvm::Expected<Selection> selection = select(array, indices);
  if (!selection)
    return selection.takeError();
  Array part(array.dtype(), selection->shape);
  const size_t bytes = dtypeBytes(array.dtype());
  const auto *from = static_cast<const std::byte *>(array.data());
  auto *to = static_cast<std::byte *>(part.data());
  forEach(array, *selection, [&](int64_t at) {
    std::copy_n(from + size_t(at) * bytes, bytes, to);
    to += bytes;
  });
  return part;
}

llvm::Expected<Array> withElements(const Array &array, llvm::ArrayRef<AxisIndex> indices,
                                   const Array &value) {
  llvm::Expected<Selection> selection = select(array, indices);
  if (!selection)
    return selection.takeError();
  llvm::Expected<Array> part =
      ndarray::broadcastTo(ndarray::cast(value, array.dtype()), selection->shape);
  if (!part)
    return part.takeError();
  Array changed = array;
  const size_t bytes = dtypeBytes(array.dtype());
  const auto *from = static_cast<const std::byte *>(part->data());
  auto *to = static_cast<std::byte *>(changed.data());
  forEach(array, *selection, [&](int64_t at) {
    std::copy_n(from, bytes, to + size_t(at) * bytes);
    from += bytes;
  });
  return changed;
}

// The tolerances of whichever operand is less exact.
Tolerance defaultTolerance(const Array &a, const Array &b) {
  const Tolerance x = defaultTolerance(a.dtype());
  const Tolerance y = defaultTolerance(b.dtype());
  if (a.isIntegral() || b.isIntegral())
    return a.isIntegral() ? y : x;
  return x.rtol > y.rtol ? x : y;
}

Tolerance tf32Tolerance() { return defaultTolerance(DType::F16); }

ndarray::Comparison compareLoosely(const Array &actual, const Array &expected, Tolerance least) {
  Tolerance tolerance = defaultTolerance(actual, expected);
  if (!actual.isIntegral() && !expected.isIntegral())
    tolerance = {std::max(tolerance.rtol, least.rtol), std::max(tolerance.atol, least.atol)};
  return ndarray::approxEqual(actual, expected, 0,
                              tolerance.atol + tolerance.rtol * largestMagnitude(expected));
}

bool isWholeNumber(const Array &array) { return array.rank() == 0 && array.isIntegral(); }

} // namespace dtile::driver
