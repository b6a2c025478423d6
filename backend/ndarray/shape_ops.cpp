// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shapes, reductions, softmax.
#include "backend/ndarray/ndarray.h"

#include "frontend/base/check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

namespace dtile::ndarray {

namespace {

llvm::Error wrong(const std::string &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

/// Fills `to` row-major with the elements of `from` at first + sum(position * stride).
void copyStrided(const NDArray &from, int64_t first, llvm::ArrayRef<int64_t> strides, NDArray &to) {
  const size_t size = dtypeBytes(to.dtype());
  const char *source = static_cast<const char *>(from.data());
  char *place = static_cast<char *>(to.data());
  if (to.elements() == 0)
    return;
  const unsigned rank = to.rank();
  if (rank == 0) {
    std::memcpy(place, source + first * size, size);
    return;
  }
  const int64_t run = to.shape()[rank - 1];
  const int64_t step = strides[rank - 1];
  std::vector<int64_t> at(rank, 0);
  for (;;) {
    int64_t element = first;
    for (unsigned d = 0; d + 1 < rank; ++d)
      element += at[d] * strides[d];
    if (step == 1) {
      std::memcpy(place, source + element * size, run * size);
      place += run * size;
    } else {
      for (int64_t i = 0; i < run; ++i, place += size)
        std::memcpy(place, source + (element + i * step) * size, size);
    }
    unsigned d = rank - 1;
    while (d-- > 0) {
      if (++at[d] < to.shape()[d])
        break;
      at[d] = 0;
    }
    if (d == ~0u)
      return;
  }
}

llvm::Error checkAxis(const NDArray &array, unsigned axis) {
  if (axis < array.rank())
    return llvm::Error::success();
  return wrong("axis " + std::to_string(axis) + " is not one of the " +
               std::to_string(array.rank()) + " dimensions of an array " +
               shapeText(array.shape()));
}

/// An array seen as [outer, length, inner] around an axis.
struct AxisView {
  int64_t outer = 1;
  int64_t length = 1;
  int64_t inner = 1;

  AxisView(const NDArray &array, unsigned axis) {
    for (unsigned d = 0; d < array.rank(); ++d)
      (d < axis ? outer : d == axis ? length : inner) *= array.shape()[d];
  }
  [[nodiscard]] int64_t element(int64_t o, int64_t at, int64_t i) const {
    return (o * length + at) * inner + i;
  }
};

} // namespace

llvm::Expected<NDArray> slice(const NDArray &array, llvm::ArrayRef<SliceRange> ranges) {
  if (ranges.size() > array.rank())
    return wrong("an array " + shapeText(array.shape()) + " is sliced in " +
                 std::to_string(ranges.size()) + " dimensions");
  Shape shape = array.shape();
  std::vector<int64_t> strides = array.strides();
  int64_t first = 0;
  for (size_t d = 0; d < ranges.size(); ++d) {
    const SliceRange &range = ranges[d];
    if (range.begin < 0 || range.begin > range.end || range.end > shape[d] || range.step < 1)
      return wrong("slice " + std::to_string(range.begin) + ".." + std::to_string(range.end) +
                   " does not fit dimension " + std::to_string(d) + " of an array " +
                   shapeText(array.shape()));
    first += range.begin * strides[d];
    strides[d] *= range.step;
    shape[d] = (range.end - range.begin + range.step - 1) / range.step;
  }
  NDArray out(array.dtype(), std::move(shape));
  copyStrided(array, first, strides, out);
  return out;
}

llvm::Expected<NDArray> select(const NDArray &array, unsigned axis, int64_t position) {
  if (llvm::Error error = checkAxis(array, axis))
    return error;
  if (position < 0 || position >= array.shape()[axis])
    return wrong("position " + std::to_string(position) + " is outside dimension " +
                 std::to_string(axis) + " of an array " + shapeText(array.shape()));
  Shape shape = array.shape();
  std::vector<int64_t> strides = array.strides();
  const int64_t first = position * strides[axis];
  shape.erase(shape.begin() + axis);
  strides.erase(strides.begin() + axis);
  NDArray out(array.dtype(), std::move(shape));
  copyStrided(array, first, strides, out);
  return out;
}

llvm::Expected<NDArray> transpose(const NDArray &array, llvm::ArrayRef<unsigned> perm) {
  std::vector<unsigned> order(perm.begin(), perm.end());
  if (order.empty())
    for (unsigned d = array.rank(); d-- > 0;)
      order.push_back(d);
  std::vector<unsigned> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  bool fits = sorted.size() == array.rank();
  for (unsigned d = 0; fits && d < sorted.size(); ++d)
    fits = sorted[d] == d;
  if (!fits)
    return wrong("a transpose of an array " + shapeText(array.shape()) +
                 " must name each dimension once");
  const std::vector<int64_t> from = array.strides();
  Shape shape;
  std::vector<int64_t> strides;
  for (const unsigned d : order) {
    shape.push_back(array.shape()[d]);
    strides.push_back(from[d]);
  }
  NDArray out(array.dtype(), std::move(shape));
  copyStrided(array, 0, strides, out);
  return out;
}

llvm::Expected<NDArray> reshape(const NDArray &array, Shape shape) {
  if (const auto open = llvm::find(shape, -1); open != shape.end()) {
    Shape others = shape;
    others.erase(others.begin() + (open - shape.begin()));
    const auto count = elementCount(others);
    if (llvm::is_contained(others, -1) || !count || *count == 0 || array.elements() % *count != 0)
      return wrong("an array " + shapeText(array.shape()) + " cannot be reshaped to " +
                   shapeText(shape) + ", as no one size in place of -1 fits");
    *open = array.elements() / *count;
  }
  if (elementCount(shape) != array.elements())
    return wrong("an array " + shapeText(array.shape()) + " cannot be reshaped to " +
                 shapeText(shape));
  NDArray out(array.dtype(), std::move(shape));
  if (out.bytes() != 0)
    std::memcpy(out.data(), array.data(), out.bytes());
  return out;
}

llvm::Expected<NDArray> concat(llvm::ArrayRef<NDArray> arrays, unsigned axis) {
  if (arrays.empty())
    return wrong("nothing to concatenate");
  if (llvm::Error error = checkAxis(arrays[0], axis))
    return error;
  Shape shape = arrays[0].shape();
  shape[axis] = 0;
  for (const NDArray &array : arrays) {
    Shape like = array.shape();
    if (like.size() != shape.size() || array.dtype() != arrays[0].dtype())
      return wrong("arrays that are concatenated must agree in type and dimensions: " +
                   shapeText(arrays[0].shape()) + " and " + shapeText(array.shape()));
    shape[axis] += like[axis];
    like[axis] = shape[axis];
    if (like != shape)
      return wrong("arrays " + shapeText(arrays[0].shape()) + " and " + shapeText(array.shape()) +
                   " differ in more than dimension " + std::to_string(axis));
  }
  if (llvm::Error error = checkRoom(arrays[0].dtype(), shape))
    return error;
  NDArray out(arrays[0].dtype(), shape);
  const AxisView whole(out, axis);
  const size_t size = dtypeBytes(out.dtype());
  char *place = static_cast<char *>(out.data());
  for (int64_t o = 0; o < whole.outer; ++o)
    for (const NDArray &array : arrays) {
      const size_t part = array.shape()[axis] * whole.inner * size;
      if (part != 0)
        std::memcpy(place, static_cast<const char *>(array.data()) + o * part, part);
      place += part;
    }
  return out;
}

llvm::Expected<Shape> broadcastShapes(llvm::ArrayRef<int64_t> a, llvm::ArrayRef<int64_t> b) {
  Shape shape(std::max(a.size(), b.size()));
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1)
      return wrong("shapes " + shapeText(a) + " and " + shapeText(b) + " do not go together");
    shape[shape.size() - 1 - i] = x == 1 ? y : x;
  }
  if (!elementCount(shape))
    return wrong("shapes " + shapeText(a) + " and " + shapeText(b) + " are too large together");
  return shape;
}

llvm::Expected<NDArray> broadcastTo(const NDArray &array, Shape shape) {
  if (array.shape() == shape)
    return array;
  const std::vector<int64_t> from = array.strides();
  bool fits = array.rank() <= shape.size() && elementCount(shape);
  const size_t pad = fits ? shape.size() - array.rank() : 0;
  std::vector<int64_t> strides(shape.size(), 0);
  for (unsigned d = 0; fits && d < array.rank(); ++d) {
    fits = array.shape()[d] == shape[pad + d] || array.shape()[d] == 1;
    strides[pad + d] = array.shape()[d] == 1 ? 0 : from[d];
  }
  if (!fits)
    return wrong("an array " + shapeText(array.shape()) + " does not broadcast to " +
                 shapeText(shape));
  if (llvm::Error error = checkRoom(array.dtype(), shape))
    return error;
  NDArray out(array.dtype(), std::move(shape));
  copyStrided(array, 0, strides, out);
  return out;
}

llvm::Expected<NDArray> take(const NDArray &array, const NDArray &indices) {
  if (array.rank() == 0 || !indices.isIntegral())
    return wrong("take wants an array with rows, and integers");
  Shape shape = indices.shape();
  shape.insert(shape.end(), array.shape().begin() + 1, array.shape().end());
  if (!elementCount(shape))
    return wrong("taking " + shapeText(indices.shape()) + " rows of an array " +
                 shapeText(array.shape()) + " gives too many elements");
  if (llvm::Error error = checkRoom(array.dtype(), shape))
    return error;
  NDArray out(array.dtype(), std::move(shape));
  const int64_t rows = array.shape()[0];
  const size_t row = rows == 0 ? 0 : array.bytes() / rows;
  for (int64_t i = 0; i < indices.elements(); ++i) {
    const int64_t index = indices.getInt(i);
    if (index < 0 || index >= rows)
      return wrong("row " + std::to_string(index) + " is outside of an array " +
                   shapeText(array.shape()));
    if (row != 0)
      std::memcpy(static_cast<char *>(out.data()) + i * row,
                  static_cast<const char *>(array.data()) + index * row, row);
  }
  return out;
}

namespace {

template <typename T> bool isNan(T value) {
  if constexpr (std::is_floating_point_v<T>)
    return std::isnan(value);
  else
    return false;
}

template <typename T> T combine(Reduction kind, T a, T b) {
  switch (kind) {
  case Reduction::Sum:
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    else
      return a + b;
  case Reduction::Prod:
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    else
      return a * b;
  case Reduction::Max:
    return a > b || isNan(b) ? a : b;
  case Reduction::Min:
    return a < b || isNan(b) ? a : b;
  case Reduction::Any:
    return a != 0 || b != 0;
  case Reduction::All:
    return a != 0 && b != 0;
  }
  DTILE_UNREACHABLE("not a reduction");
}

/// What a reduction of nothing gives; max and min have none.
double neutral(Reduction kind) { return kind == Reduction::Prod || kind == Reduction::All ? 1 : 0; }

DType resultType(Reduction kind, const NDArray &array) {
  if (kind == Reduction::Any || kind == Reduction::All)
    return DType::Bool;
  return array.isIntegral() ? integerResult(array.dtype(), array.dtype()) : DType::F64;
}

} // namespace

llvm::Expected<NDArray> reduce(Reduction kind, const NDArray &array, std::optional<unsigned> axis) {
  if (!axis) {
    llvm::Expected<NDArray> flat = reshape(array, {array.elements()});
    if (!flat)
      return flat.takeError();
    return reduce(kind, *flat, 0);
  }
  if (llvm::Error error = checkAxis(array, *axis))
    return error;
  const AxisView view(array, *axis);
  if (view.length == 0 && (kind == Reduction::Max || kind == Reduction::Min))
    return wrong("the largest or smallest of nothing: dimension " + std::to_string(*axis) +
                 " of an array " + shapeText(array.shape()) + " is empty");
  Shape shape = array.shape();
  shape.erase(shape.begin() + *axis);
  NDArray out(resultType(kind, array), std::move(shape));
  for (int64_t o = 0; o < view.outer; ++o)
    for (int64_t i = 0; i < view.inner; ++i) {
      const int64_t place = o * view.inner + i;
      if (view.length == 0) {
        out.setDouble(place, neutral(kind));
      } else if (array.dtype() == DType::U64) {
        auto total = static_cast<uint64_t>(array.getInt(view.element(o, 0, i)));
        for (int64_t at = 1; at < view.length; ++at)
          total = combine(kind, total, static_cast<uint64_t>(array.getInt(view.element(o, at, i))));
        out.setInt(place, static_cast<int64_t>(total));
      } else if (array.isIntegral()) {
        int64_t total = array.getInt(view.element(o, 0, i));
        for (int64_t at = 1; at < view.length; ++at)
          total = combine(kind, total, array.getInt(view.element(o, at, i)));
        out.setInt(place, total);
      } else {
        double total = array.getDouble(view.element(o, 0, i));
        for (int64_t at = 1; at < view.length; ++at)
          total = combine(kind, total, array.getDouble(view.element(o, at, i)));
        out.setDouble(place, total);
      }
    }
  return out;
}

namespace {

/// -1, 0 or 1; NaN is above all numbers, and like itself.
int order(const NDArray &array, int64_t a, int64_t b) {
  if (array.isIntegral()) {
    const int64_t x = array.getInt(a), y = array.getInt(b);
    if (array.dtype() == DType::U64)
      return int(uint64_t(x) > uint64_t(y)) - int(uint64_t(x) < uint64_t(y));
    return int(x > y) - int(x < y);
  }
  const double x = array.getDouble(a), y = array.getDouble(b);
  if (std::isnan(x) || std::isnan(y))
    return int(std::isnan(x)) - int(std::isnan(y));
  return int(x > y) - int(x < y);
}

bool isNan(const NDArray &array, int64_t element) {
  return !array.isIntegral() && std::isnan(array.getDouble(element));
}

} // namespace

llvm::Expected<NDArray> argReduce(Reduction kind, const NDArray &array, unsigned axis) {
  if (llvm::Error error = checkAxis(array, axis))
    return error;
  const AxisView view(array, axis);
  Shape shape = array.shape();
  shape.erase(shape.begin() + axis);
  NDArray out(DType::I32, std::move(shape));
  for (int64_t o = 0; o < view.outer; ++o)
    for (int64_t i = 0; i < view.inner; ++i) {
      int64_t best = 0;
      for (int64_t at = 1; at < view.length; ++at) {
        const int64_t old = view.element(o, best, i), next = view.element(o, at, i);
        const int is = order(array, next, old);
        const bool isBetter =
            isNan(array, old) ? !isNan(array, next)
                              : !isNan(array, next) && (kind == Reduction::Max ? is > 0 : is < 0);
        best = isBetter ? at : best;
      }
      out.setInt(o * view.inner + i, best);
    }
  return out;
}

llvm::Expected<NDArray> scan(Reduction kind, const NDArray &array, unsigned axis) {
  if (llvm::Error error = checkAxis(array, axis))
    return error;
  const AxisView view(array, axis);
  NDArray out(resultType(kind, array), array.shape());
  for (int64_t o = 0; o < view.outer; ++o)
    for (int64_t at = 0; at < view.length; ++at)
      for (int64_t i = 0; i < view.inner; ++i) {
        const int64_t place = view.element(o, at, i);
        const int64_t before = at == 0 ? place : view.element(o, at - 1, i);
        if (!array.isIntegral()) {
          const double x = array.getDouble(place);
          out.setDouble(place, at == 0 ? x : combine(kind, out.getDouble(before), x));
        } else if (array.dtype() == DType::U64) {
          const auto x = uint64_t(array.getInt(place));
          out.setInt(place, int64_t(at == 0 ? x : combine(kind, uint64_t(out.getInt(before)), x)));
        } else {
          const int64_t x = array.getInt(place);
          out.setInt(place, at == 0 ? x : combine(kind, out.getInt(before), x));
        }
      }
  return out;
}

llvm::Expected<NDArray> argSort(const NDArray &array, unsigned axis) {
  if (llvm::Error error = checkAxis(array, axis))
    return error;
  const AxisView view(array, axis);
  NDArray out(DType::I32, array.shape());
  std::vector<int64_t> places(view.length);
  for (int64_t o = 0; o < view.outer; ++o)
    for (int64_t i = 0; i < view.inner; ++i) {
      std::iota(places.begin(), places.end(), 0);
      std::stable_sort(places.begin(), places.end(), [&](int64_t a, int64_t b) {
        return order(array, view.element(o, a, i), view.element(o, b, i)) < 0;
      });
      for (int64_t at = 0; at < view.length; ++at)
        out.setInt(view.element(o, at, i), places[size_t(at)]);
    }
  return out;
}

llvm::Expected<NDArray> takeAlong(const NDArray &array, const NDArray &positions, unsigned axis) {
  if (llvm::Error error = checkAxis(array, axis))
    return error;
  Shape shape = positions.shape();
  if (shape.size() == array.rank())
    shape[axis] = array.shape()[axis];
  if (!positions.isIntegral() || shape != array.shape())
    return wrong("positions along dimension " + std::to_string(axis) + " of an array " +
                 shapeText(array.shape()) + " are integers of its other sizes, not an array " +
                 shapeText(positions.shape()));
  const AxisView view(array, axis), taken(positions, axis);
  NDArray out(array.dtype(), positions.shape());
  const size_t bytes = dtypeBytes(array.dtype());
  for (int64_t o = 0; o < taken.outer; ++o)
    for (int64_t at = 0; at < taken.length; ++at)
      for (int64_t i = 0; i < taken.inner; ++i) {
        const int64_t place = taken.element(o, at, i), from = positions.getInt(place);
        if (from < 0 || from >= view.length)
          return wrong("position " + std::to_string(from) + " is outside of dimension " +
                       std::to_string(axis) + " of an array " + shapeText(array.shape()));
        std::memcpy(static_cast<std::byte *>(out.data()) + size_t(place) * bytes,
                    static_cast<const std::byte *>(array.data()) +
                        size_t(view.element(o, from, i)) * bytes,
                    bytes);
      }
  return out;
}

llvm::Expected<NDArray> softmax(const NDArray &array, unsigned axis) {
  if (llvm::Error error = checkAxis(array, axis))
    return error;
  const AxisView view(array, axis);
  NDArray out(DType::F64, array.shape());
  std::vector<double> row(view.length);
  for (int64_t o = 0; o < view.outer; ++o)
    for (int64_t i = 0; i < view.inner; ++i) {
      double largest = -std::numeric_limits<double>::infinity();
      for (int64_t at = 0; at < view.length; ++at) {
        row[at] = array.getDouble(view.element(o, at, i));
        largest = std::fmax(largest, row[at]);
      }
      double total = 0;
      for (double &value : row) {
        // A row of nothing but -inf has no largest to take out: zeros, and 0 / 0 below.
        value = std::isinf(largest) && largest < 0 ? 0 : std::exp(value - largest);
        total += value;
      }
      for (int64_t at = 0; at < view.length; ++at)
        out.setDouble(view.element(o, at, i), row[at] / total);
    }
  return out;
}

} // namespace dtile::ndarray
