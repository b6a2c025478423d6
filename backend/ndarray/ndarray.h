// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Dense arrays on the host with arithmetic in double (or int64), for tests and for arguments of
// `dtilec run`. What a user can get wrong (shapes, axes) is an llvm::Error in words; asking for an
// element outside is a bug.
#pragma once

#include "frontend/base/dtype.h"
#include "frontend/base/elementwise.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dtile::ndarray {

/// Sizes, outermost first; empty for one element without dimensions.
using Shape = std::vector<int64_t>;

/// "[4, 128]".
[[nodiscard]] std::string shapeText(llvm::ArrayRef<int64_t> shape);
/// Number of elements, or nothing where it (times 8 bytes) does not fit in 63 bits or a size is
/// negative.
[[nodiscard]] std::optional<int64_t> elementCount(llvm::ArrayRef<int64_t> shape);
/// Whether an array of that shape, or `copies` of them, can be had: an error says what it takes and
/// what memory there is. Asked before arrays are made that are larger than what they are made from.
llvm::Error checkRoom(DType dtype, llvm::ArrayRef<int64_t> shape, int64_t copies = 1);
/// An error of the code not_enough_memory.
llvm::Error noRoom(const llvm::Twine &message);

/// A row-major array that owns its elements. Copies are deep.
class NDArray {
public:
  /// One f64 zero.
  NDArray() : NDArray(DType::F64, {}) {}
  /// Zeros. The shape must have an elementCount.
  NDArray(DType dtype, Shape shape);

  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] const Shape &shape() const { return shape_; }
  [[nodiscard]] unsigned rank() const { return static_cast<unsigned>(shape_.size()); }
  [[nodiscard]] int64_t elements() const { return elements_; }
  [[nodiscard]] size_t bytes() const { return size_t(elements_ * dtypeBytes(dtype_)); }
  [[nodiscard]] void *data() { return lines_.data(); }
  [[nodiscard]] const void *data() const { return lines_.data(); }
  /// Strides in elements.
  [[nodiscard]] std::vector<int64_t> strides() const;
  /// Integer or bool: arithmetic on it is in int64.
  [[nodiscard]] bool isIntegral() const { return !isFloat(dtype_); }

  /// Elements by row-major number.
  [[nodiscard]] double getDouble(int64_t element) const;
  [[nodiscard]] int64_t getInt(int64_t element) const;
  void setDouble(int64_t element, double value);
  void setInt(int64_t element, int64_t value);
  /// Element at a position.
  [[nodiscard]] double at(llvm::ArrayRef<int64_t> position) const;

  /// All elements as double.
  [[nodiscard]] std::vector<double> toDoubles() const;
  static NDArray fromDoubles(Shape shape, llvm::ArrayRef<double> values, DType dtype = DType::F64);
  static NDArray fromInts(Shape shape, llvm::ArrayRef<int64_t> values, DType dtype = DType::I64);

private:
  [[nodiscard]] std::byte *place(int64_t element) {
    return reinterpret_cast<std::byte *>(lines_.data()) + element * dtypeBytes(dtype_);
  }
  [[nodiscard]] const std::byte *place(int64_t element) const {
    return reinterpret_cast<const std::byte *>(lines_.data()) + element * dtypeBytes(dtype_);
  }

  DType dtype_;
  Shape shape_;
  int64_t elements_;
  /// The elements begin at a cache line. Where rows do not, vectors that cross lines have made
  /// kernels of one rank half as slow again as those of the others.
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> lines_;
};

// Making arrays.

[[nodiscard]] NDArray full(DType dtype, Shape shape, double value);
/// Bytes that show when they are read before they are written: NaN in floats, 0xCD in integers,
/// true in bools.
[[nodiscard]] NDArray poison(DType dtype, Shape shape);
/// first, first + 1, …
[[nodiscard]] NDArray iota(DType dtype, int64_t count, int64_t first = 0);

/// Element i of every random array is a function of (seed, i) alone, the same on every machine:
///   bits(seed, i) = mix(mix(seed + G) + i * G), G = 0x9E3779B97F4A7C15, mix the finalizer of
///   splitmix64.
/// Floats are uniform in [-1, 1): 2 * (bits >> 11) / 2^53 - 1, rounded to the type (never up to 1).
/// Integers are uniform: signed in [-8, 8), unsigned in [0, 16), from the high bits; bool is the
/// highest bit.
[[nodiscard]] NDArray random(DType dtype, Shape shape, uint64_t seed);
/// Integers (or whole floats) uniform in [lo, hi), hi > lo; up to 2^32 apart.
[[nodiscard]] NDArray randomIntegers(DType dtype, Shape shape, uint64_t seed, int64_t lo,
                                     int64_t hi);
/// Floats uniform in [lo, hi), hi > lo.
[[nodiscard]] NDArray randomReals(DType dtype, Shape shape, uint64_t seed, double lo, double hi);
[[nodiscard]] uint64_t randomBits(uint64_t seed, uint64_t index);

// Shapes.

/// Positions begin, begin + step … below end of one dimension. 0 <= begin <= end <= size, step
/// >= 1.
struct SliceRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t step = 1;
};
/// One range a dimension; missing ones at the end take all.
llvm::Expected<NDArray> slice(const NDArray &array, llvm::ArrayRef<SliceRange> ranges);
/// One position of a dimension, which is dropped.
llvm::Expected<NDArray> select(const NDArray &array, unsigned axis, int64_t position);
/// Result dimension i is dimension perm[i]; an empty permutation reverses the dimensions.
llvm::Expected<NDArray> transpose(const NDArray &array, llvm::ArrayRef<unsigned> perm = {});
/// One size may be -1: it follows from the others.
llvm::Expected<NDArray> reshape(const NDArray &array, Shape shape);
/// Along one dimension; element types must agree.
llvm::Expected<NDArray> concat(llvm::ArrayRef<NDArray> arrays, unsigned axis);
/// Repeats dimensions of size 1, and new ones in front.
llvm::Expected<NDArray> broadcastTo(const NDArray &array, Shape shape);
/// The shape that two broadcast to, as NumPy does.
llvm::Expected<Shape> broadcastShapes(llvm::ArrayRef<int64_t> a, llvm::ArrayRef<int64_t> b);
/// Rows of the first dimension, by index; out of range is an error.
llvm::Expected<NDArray> take(const NDArray &array, const NDArray &indices);

// Arithmetic. Results are u64 where every operand is u64, i64 where every operand is an integer or
// bool, else f64; comparisons and the logic of bools give bool. Integer division floors and x / 0
// is 0, as in kernels.

/// The type of results on integers of these types.
[[nodiscard]] inline DType integerResult(DType a, DType b) {
  return a == DType::U64 && b == DType::U64 ? DType::U64 : DType::I64;
}

/// Elementwise on two arrays, which broadcast.
enum class Binary : uint8_t {
  Add,
  Sub,
  Mul,
  Div,
  Rem,
  Min,
  Max,
  Pow,
  And,
  Or,
  Xor,
  Eq,
  Ne,
  Lt,
  Le,
  Gt,
  Ge
};
llvm::Expected<NDArray> binary(Binary op, const NDArray &a, const NDArray &b);

using Unary = UnaryOp;
[[nodiscard]] NDArray unary(Unary op, const NDArray &array);

/// condition ? a : b, all broadcast.
llvm::Expected<NDArray> where(const NDArray &condition, const NDArray &a, const NDArray &b);

/// To nearest even; floats to integers truncate and saturate; integers keep their low bits.
[[nodiscard]] NDArray cast(const NDArray &array, DType dtype);
/// The same bits as numbers of another type; an error where that has another width.
llvm::Expected<NDArray> bitcast(const NDArray &array, DType dtype);

enum class Reduction : uint8_t { Sum, Max, Min, Prod, Any, All };
/// Over one axis, which is dropped, or over everything. Max and min of nothing are an error.
llvm::Expected<NDArray> reduce(Reduction kind, const NDArray &array,
                               std::optional<unsigned> axis = std::nullopt);
/// The position of the first largest or smallest (`kind` is Max or Min) along an axis, which is
/// dropped: i32. A NaN gives way to any number.
llvm::Expected<NDArray> argReduce(Reduction kind, const NDArray &array, unsigned axis);
/// Running sums or maxima (`kind` is Sum or Max) along an axis, in f64, i64 or u64.
llvm::Expected<NDArray> scan(Reduction kind, const NDArray &array, unsigned axis);
/// The positions, i32, that the elements of the sorted rows along an axis had. Equal elements keep
/// their order, NaN comes last.
llvm::Expected<NDArray> argSort(const NDArray &array, unsigned axis);
/// Elements by their positions along an axis: `positions` has the sizes of the array but there. A
/// position that does not exist is an error.
llvm::Expected<NDArray> takeAlong(const NDArray &array, const NDArray &positions, unsigned axis);
/// Along an axis, in double, with the largest element taken out first.
llvm::Expected<NDArray> softmax(const NDArray &array, unsigned axis);
/// [.., M, K] times [.., K, N]; leading dimensions are equal. f64, or i64 or u64 as above.
llvm::Expected<NDArray> matmul(const NDArray &a, const NDArray &b);

// Comparison.

/// How two arrays differ.
struct Comparison {
  int64_t mismatches = 0;
  int64_t elements = 0;
  /// The element that is furthest beyond its tolerance; positions are empty without mismatches.
  std::vector<int64_t> worst;
  double actual = 0;
  double expected = 0;
  /// |actual - expected| there; NaN where one of them is.
  double difference = 0;
  /// What is wrong with the shapes, or nothing.
  std::string shapes;

  [[nodiscard]] bool equal() const { return mismatches == 0 && shapes.empty(); }
  /// One sentence about the mismatches; "" when there are none.
  [[nodiscard]] std::string text() const;
};

/// Elements match when |actual - expected| <= atol + rtol * |expected|. Infinities match
/// themselves, NaN matches NaN; shapes must be the same. Integers compare exactly when both
/// tolerances are zero.
[[nodiscard]] Comparison approxEqual(const NDArray &actual, const NDArray &expected, double rtol,
                                     double atol);

} // namespace dtile::ndarray
