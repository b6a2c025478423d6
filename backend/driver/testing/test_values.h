// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Values of tests: an array or number on every rank. Operators give what kernels give: elementwise
// results are rounded to the element type; reference functions stay in f64.
#pragma once

#include "backend/ndarray/ndarray.h"
#include "frontend/ast/ast.h"

#include <memory>
#include <optional>
#include <vector>

namespace dtile::driver {

using Array = ndarray::NDArray;
/// Arrays are never changed once shared; equal pointers on several ranks are computed with once.
using SharedArray = std::shared_ptr<const Array>;

[[nodiscard]] inline SharedArray share(Array array) {
  return std::make_shared<const Array>(std::move(array));
}

/// What an expression gives.
struct TestValue {
  /// One entry a rank; null on ranks that an `if` left out.
  std::vector<SharedArray> arrays;
  /// A number without an element type of its own (literals, positions): takes that of the other
  /// operand.
  bool isWeak = false;
  /// The outputs of a kernel that has not exactly one; `arrays` is empty then.
  std::vector<TestValue> tuple;

  [[nodiscard]] bool isTuple() const { return arrays.empty(); }
  /// The same weak number on every rank.
  static TestValue everywhere(int ranks, Array array);
  static TestValue number(int ranks, int64_t value);
  static TestValue real(int ranks, double value);
  static TestValue boolean(int ranks, bool value);
};

/// One index of a slice: a position, or lo..hi by step with absent ends.
struct AxisIndex {
  bool isRange = true;
  std::optional<int64_t> lo;
  std::optional<int64_t> hi;
  int64_t step = 1;
  friend bool operator==(const AxisIndex &, const AxisIndex &) = default;
};

/// The element type that two operands compute in.
[[nodiscard]] DType commonType(const Array &a, bool aIsWeak, const Array &b, bool bIsWeak);

llvm::Expected<Array> unaryOperator(ast::UnaryOp op, const Array &array);
llvm::Expected<Array> binaryOperator(ast::BinaryOp op, const Array &a, bool aIsWeak, const Array &b,
                                     bool bIsWeak);

/// The part of an array that indices ask for; positions drop their dimension. Of
/// dimensions without an index, all.
llvm::Expected<Array> elements(const Array &array, llvm::ArrayRef<AxisIndex> indices);
/// The array with that part replaced, `value` broadcast and converted to fit.
llvm::Expected<Array> withElements(const Array &array, llvm::ArrayRef<AxisIndex> indices,
                                   const Array &value);

/// What `~=` allows where no tolerance is written; both are 0 where both sides are integers.
struct Tolerance {
  double rtol = 0;
  double atol = 0;
};
[[nodiscard]] Tolerance defaultTolerance(const Array &a, const Array &b);

/// Compares as promises do: without tolerances given, |a - b| <= atol + rtol * max |b| with those
/// of the less exact element type; of floats with those of `least` where these are larger.
[[nodiscard]] ndarray::Comparison compareLoosely(const Array &actual, const Array &expected,
                                                 Tolerance least = {});
/// For results of products whose operands may have been rounded to tf32, or not: the tolerance of
/// f16, which has as many mantissa bits.
[[nodiscard]] Tolerance tf32Tolerance();

/// A single integer or bool.
[[nodiscard]] bool isWholeNumber(const Array &array);

} // namespace dtile::driver
