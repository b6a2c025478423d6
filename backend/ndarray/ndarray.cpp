// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arrays, how they are made, and elementwise arithmetic on them.
#include "backend/ndarray/ndarray.h"

#include "frontend/base/check.h"
#include "frontend/base/memory_limit.h"

#include <cmath>
#include <cstring>

namespace dtile::ndarray {

std::string shapeText(llvm::ArrayRef<int64_t> shape) {
  std::string text = "[";
  for (size_t d = 0; d < shape.size(); ++d)
    text += (d ? ", " : "") + std::to_string(shape[d]);
  return text + "]";
}

std::optional<int64_t> elementCount(llvm::ArrayRef<int64_t> shape) {
  int64_t count = 1;
  bool isEmpty = false;
  for (const int64_t size : shape) {
    if (size < 0)
      return std::nullopt;
    isEmpty |= size == 0;
    // Sizes beside a zero must be possible, too: strides are made of them.
    if (__builtin_mul_overflow(count, std::max<int64_t>(size, 1), &count) || count > INT64_MAX / 8)
      return std::nullopt;
  }
  return isEmpty ? 0 : count;
}

llvm::Error noRoom(const llvm::Twine &message) {
  return llvm::make_error<llvm::StringError>(message,
                                             std::make_error_code(std::errc::not_enough_memory));
}

llvm::Error checkRoom(DType dtype, llvm::ArrayRef<int64_t> shape, int64_t copies) {
  const std::optional<int64_t> count = elementCount(shape);
  int64_t bytes = 0;
  if (!count || __builtin_mul_overflow(*count * int64_t(dtypeBytes(dtype)), copies, &bytes))
    return noRoom("an array " + shapeText(shape) + " is too large");
  if (llvm::Error error = checkMemory(uint64_t(bytes)))
    return noRoom("an array " + shapeText(shape) + " of " + dtypeName(dtype).str() +
                  " is too large: " + llvm::toString(std::move(error)));
  return llvm::Error::success();
}

NDArray::NDArray(DType dtype, Shape shape) : dtype_(dtype), shape_(std::move(shape)) {
  const std::optional<int64_t> count = elementCount(shape_);
  DTILE_CHECK(count.has_value(), "an array's shape is impossible");
  elements_ = *count;
  lines_.resize((bytes() + sizeof(Line) - 1) / sizeof(Line));
}

std::vector<int64_t> NDArray::strides() const {
  std::vector<int64_t> strides(shape_.size());
  int64_t volume = 1;
  for (size_t d = shape_.size(); d-- > 0;) {
    strides[d] = volume;
    volume *= shape_[d];
  }
  return strides;
}

double NDArray::getDouble(int64_t element) const { return loadAsDouble(dtype_, place(element)); }
int64_t NDArray::getInt(int64_t element) const { return loadAsInt(dtype_, place(element)); }
void NDArray::setDouble(int64_t element, double value) {
  storeFromDouble(dtype_, place(element), value);
}
void NDArray::setInt(int64_t element, int64_t value) {
  storeFromInt(dtype_, place(element), value);
}

double NDArray::at(llvm::ArrayRef<int64_t> position) const {
  DTILE_CHECK(position.size() == shape_.size(), "a position has one entry a dimension");
  int64_t element = 0;
  for (size_t d = 0; d < position.size(); ++d) {
    DTILE_CHECK(position[d] >= 0 && position[d] < shape_[d], "a position is outside of its array");
    element = element * shape_[d] + position[d];
  }
  return getDouble(element);
}

std::vector<double> NDArray::toDoubles() const {
  std::vector<double> values(elements_);
  if (dtype_ == DType::F64 && elements_ != 0)
    std::memcpy(values.data(), data(), bytes());
  else
    for (int64_t i = 0; i < elements_; ++i)
      values[i] = getDouble(i);
  return values;
}

NDArray NDArray::fromDoubles(Shape shape, llvm::ArrayRef<double> values, DType dtype) {
  NDArray array(dtype, std::move(shape));
  DTILE_CHECK(array.elements() == static_cast<int64_t>(values.size()),
              "an array is made of as many values as it has elements");
  for (int64_t i = 0; i < array.elements(); ++i)
    array.setDouble(i, values[i]);
  return array;
}

NDArray NDArray::fromInts(Shape shape, llvm::ArrayRef<int64_t> values, DType dtype) {
  NDArray array(dtype, std::move(shape));
  DTILE_CHECK(array.elements() == static_cast<int64_t>(values.size()),
              "an array is made of as many values as it has elements");
  for (int64_t i = 0; i < array.elements(); ++i)
    array.setInt(i, values[i]);
  return array;
}

// Making arrays.

NDArray full(DType dtype, Shape shape, double value) {
  NDArray array(dtype, std::move(shape));
  for (int64_t i = 0; i < array.elements(); ++i)
    array.setDouble(i, value);
  return array;
}

NDArray poison(DType dtype, Shape shape) {
  NDArray array(dtype, std::move(shape));
  const int byte = isFloat(dtype) ? 0xFF : dtype == DType::Bool ? 1 : 0xCD;
  if (array.bytes() != 0)
    std::memset(array.data(), byte, array.bytes());
  return array;
}

NDArray iota(DType dtype, int64_t count, int64_t first) {
  NDArray array(dtype, {count});
  for (int64_t i = 0; i < count; ++i)
    array.setInt(i, first + i);
  return array;
}

namespace {

uint64_t mix(uint64_t value) {
  value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9;
  value = (value ^ value >> 27) * 0x94D049BB133111EB;
  return value ^ value >> 31;
}

/// Takes a float to the next one above or below. Of one sign they are in the order of their bits,
/// read as integers.
void step(NDArray &array, int64_t element, bool up) {
  const size_t size = dtypeBytes(array.dtype());
  char *place = static_cast<char *>(array.data()) + element * size;
  const double value = array.getDouble(element);
  uint64_t bits = 0;
  std::memcpy(&bits, place, size);
  if (value == 0)
    bits = up ? 1 : uint64_t(1) << (8 * size - 1) | 1;
  else if ((value > 0) == up)
    ++bits;
  else
    --bits;
  std::memcpy(place, &bits, size);
}

/// Stores a number of [lo, hi), which may have been rounded out of it.
void setWithin(NDArray &array, int64_t element, double value, double lo, double hi) {
  array.setDouble(element, value);
  if (array.getDouble(element) >= hi)
    step(array, element, /*up=*/false);
  else if (array.getDouble(element) < lo)
    step(array, element, /*up=*/true);
}

/// In [0, 1).
double fraction(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

} // namespace

uint64_t randomBits(uint64_t seed, uint64_t index) {
  constexpr uint64_t kGolden = 0x9E3779B97F4A7C15;
  return mix(mix(seed + kGolden) + index * kGolden);
}

NDArray random(DType dtype, Shape shape, uint64_t seed) {
  NDArray array(dtype, std::move(shape));
  for (int64_t i = 0; i < array.elements(); ++i) {
    const uint64_t bits = randomBits(seed, i);
    switch (dtypeClass(dtype)) {
    case DTypeClass::Bool:
      array.setInt(i, static_cast<int64_t>(bits >> 63));
      break;
    case DTypeClass::Int:
      array.setInt(i, static_cast<int64_t>(bits >> 60) - 8);
      break;
    case DTypeClass::UInt:
      array.setInt(i, static_cast<int64_t>(bits >> 60));
      break;
    case DTypeClass::Float:
      setWithin(array, i, 2 * fraction(bits) - 1, -1, 1);
      break;
    }
  }
  return array;
}

NDArray randomIntegers(DType dtype, Shape shape, uint64_t seed, int64_t lo, int64_t hi) {
  DTILE_CHECK(hi > lo && hi - lo <= int64_t(1) << 32, "a range of random integers is impossible");
  NDArray array(dtype, std::move(shape));
  const uint64_t width = static_cast<uint64_t>(hi - lo);
  for (int64_t i = 0; i < array.elements(); ++i)
    array.setInt(i, lo + static_cast<int64_t>((randomBits(seed, i) >> 32) * width >> 32));
  return array;
}

NDArray randomReals(DType dtype, Shape shape, uint64_t seed, double lo, double hi) {
  NDArray array(dtype, std::move(shape));
  for (int64_t i = 0; i < array.elements(); ++i)
    setWithin(array, i, lo + (hi - lo) * fraction(randomBits(seed, i)), lo, hi);
  return array;
}

// Elementwise.

namespace {

/// Holds i64 and u64, so that both divide and compare as the numbers that they are.
using Wide = __int128;

Wide floorDiv(Wide a, Wide b) {
  if (b == 0)
    return 0;
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

Wide floorRem(Wide a, Wide b) {
  if (b == 0)
    return 0;
  const Wide rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

int64_t integerPower(int64_t base, int64_t exponent) {
  if (exponent < 0)
    return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  uint64_t result = 1;
  for (auto factor = static_cast<uint64_t>(base); exponent != 0; exponent >>= 1) {
    if (exponent & 1)
      result *= factor;
    factor *= factor;
  }
  return static_cast<int64_t>(result);
}

int64_t compute(Binary op, Wide a, Wide b) {
  const auto x = static_cast<uint64_t>(a);
  const auto y = static_cast<uint64_t>(b);
  switch (op) {
  case Binary::Add:
    return static_cast<int64_t>(x + y);
  case Binary::Sub:
    return static_cast<int64_t>(x - y);
  case Binary::Mul:
    return static_cast<int64_t>(x * y);
  case Binary::Div:
    return static_cast<int64_t>(floorDiv(a, b));
  case Binary::Rem:
    return static_cast<int64_t>(floorRem(a, b));
  case Binary::Min:
    return static_cast<int64_t>(std::min(a, b));
  case Binary::Max:
    return static_cast<int64_t>(std::max(a, b));
  case Binary::Pow:
    return integerPower(static_cast<int64_t>(a), static_cast<int64_t>(b));
  case Binary::And:
    return static_cast<int64_t>(x & y);
  case Binary::Or:
    return static_cast<int64_t>(x | y);
  case Binary::Xor:
    return static_cast<int64_t>(x ^ y);
  case Binary::Eq:
    return a == b;
  case Binary::Ne:
    return a != b;
  case Binary::Lt:
    return a < b;
  case Binary::Le:
    return a <= b;
  case Binary::Gt:
    return a > b;
  case Binary::Ge:
    return a >= b;
  }
  DTILE_UNREACHABLE("not an operation");
}

double compute(Binary op, double a, double b) {
  switch (op) {
  case Binary::Add:
    return a + b;
  case Binary::Sub:
    return a - b;
  case Binary::Mul:
    return a * b;
  case Binary::Div:
    return a / b;
  case Binary::Rem: {
    const double rest = std::fmod(a, b);
    return rest != 0 && std::signbit(rest) != std::signbit(b) ? rest + b : rest;
  }
  case Binary::Min:
    return std::fmin(a, b);
  case Binary::Max:
    return std::fmax(a, b);
  case Binary::Pow:
    return std::pow(a, b);
  case Binary::And:
    return a != 0 && b != 0;
  case Binary::Or:
    return a != 0 || b != 0;
  case Binary::Xor:
    return (a != 0) != (b != 0);
  case Binary::Eq:
    return a == b;
  case Binary::Ne:
    return a != b;
  case Binary::Lt:
    return a < b;
  case Binary::Le:
    return a <= b;
  case Binary::Gt:
    return a > b;
  case Binary::Ge:
    return a >= b;
  }
  DTILE_UNREACHABLE("not an operation");
}

bool isLogic(Binary op) { return op >= Binary::And && op <= Binary::Xor; }
bool isComparison(Binary op) { return op >= Binary::Eq; }

int64_t compute(Unary op, int64_t a) {
  switch (op) {
  case Unary::Neg:
    return static_cast<int64_t>(0 - static_cast<uint64_t>(a));
  case Unary::Not:
    return ~a;
  case Unary::Abs:
    return a < 0 ? static_cast<int64_t>(0 - static_cast<uint64_t>(a)) : a;
  default:
    return a;
  }
}

Wide wide(const NDArray &array, int64_t element) {
  const int64_t value = array.getInt(element);
  return array.dtype() == DType::U64 ? Wide(static_cast<uint64_t>(value)) : Wide(value);
}

/// Of an i64 and a u64 the larger is a u64, and the smaller an i64.
DType integerResult(Binary op, DType a, DType b) {
  const bool isHuge = op == Binary::Max && (a == DType::U64 || b == DType::U64);
  return isHuge ? DType::U64 : ndarray::integerResult(a, b);
}

} // namespace

llvm::Expected<NDArray> binary(Binary op, const NDArray &a, const NDArray &b) {
  llvm::Expected<Shape> shape = broadcastShapes(a.shape(), b.shape());
  if (!shape)
    return shape.takeError();
  // The result and both operands, in full.
  if (llvm::Error error = checkRoom(DType::F64, *shape, 3))
    return error;
  llvm::Expected<NDArray> x = broadcastTo(a, *shape);
  llvm::Expected<NDArray> y = broadcastTo(b, *shape);
  if (!x || !y)
    return llvm::joinErrors(x.takeError(), y.takeError());
  const bool integral = a.isIntegral() && b.isIntegral();
  const bool bools = a.dtype() == DType::Bool && b.dtype() == DType::Bool;
  const bool givesBool = isComparison(op) || (isLogic(op) && (bools || !integral));
  NDArray out(givesBool  ? DType::Bool
              : integral ? integerResult(op, a.dtype(), b.dtype())
                         : DType::F64,
              *shape);
  for (int64_t i = 0; i < out.elements(); ++i)
    if (integral)
      out.setInt(i, compute(op, wide(*x, i), wide(*y, i)));
    else
      out.setDouble(i, compute(op, x->getDouble(i), y->getDouble(i)));
  return out;
}

NDArray unary(Unary op, const NDArray &array) {
  if (op == Unary::Not && array.dtype() == DType::Bool) {
    NDArray out(DType::Bool, array.shape());
    for (int64_t i = 0; i < out.elements(); ++i)
      out.setInt(i, array.getInt(i) == 0);
    return out;
  }
  const bool integral = array.isIntegral() && elementTypes(op) != ElementTypes::Float;
  NDArray out(integral ? ndarray::integerResult(array.dtype(), array.dtype()) : DType::F64,
              array.shape());
  for (int64_t i = 0; i < out.elements(); ++i)
    if (integral)
      // The absolute value of a u64 is itself.
      out.setInt(i, op == Unary::Abs && array.dtype() == DType::U64 ? array.getInt(i)
                                                                    : compute(op, array.getInt(i)));
    else
      out.setDouble(i, computeReal(op, array.getDouble(i)));
  return out;
}

llvm::Expected<NDArray> where(const NDArray &condition, const NDArray &a, const NDArray &b) {
  llvm::Expected<Shape> both = broadcastShapes(a.shape(), b.shape());
  if (!both)
    return both.takeError();
  llvm::Expected<Shape> shape = broadcastShapes(condition.shape(), *both);
  if (!shape)
    return shape.takeError();
  if (llvm::Error error = checkRoom(DType::F64, *shape, 4))
    return error;
  const NDArray c = llvm::cantFail(broadcastTo(condition, *shape));
  const NDArray x = llvm::cantFail(broadcastTo(a, *shape));
  const NDArray y = llvm::cantFail(broadcastTo(b, *shape));
  const bool integral = a.isIntegral() && b.isIntegral();
  const bool same = a.dtype() == b.dtype();
  NDArray out(same ? a.dtype() : integral ? DType::I64 : DType::F64, *shape);
  for (int64_t i = 0; i < out.elements(); ++i) {
    const NDArray &from = c.getDouble(i) != 0 ? x : y;
    if (integral)
      out.setInt(i, from.getInt(i));
    else
      out.setDouble(i, from.getDouble(i));
  }
  return out;
}

NDArray cast(const NDArray &array, DType dtype) {
  if (array.dtype() == dtype)
    return array;
  NDArray out(dtype, array.shape());
  const bool isHuge = array.dtype() == DType::U64 && isFloat(dtype);
  for (int64_t i = 0; i < out.elements(); ++i)
    // Values of a u64 beyond i64 are rounded by way of double.
    if (array.isIntegral() && !(isHuge && array.getInt(i) < 0))
      out.setInt(i, array.getInt(i));
    else
      out.setDouble(i, array.getDouble(i));
  return out;
}

llvm::Expected<NDArray> bitcast(const NDArray &array, DType dtype) {
  const bool hasBool = array.dtype() == DType::Bool || dtype == DType::Bool;
  if (hasBool || dtypeBits(array.dtype()) != dtypeBits(dtype))
    return llvm::createStringError("`bitcast` needs two types of the same width, not `" +
                                   dtypeName(array.dtype()) + "` and `" + dtypeName(dtype) + "`");
  NDArray out(dtype, array.shape());
  std::memcpy(out.data(), array.data(), size_t(out.elements()) * dtypeBytes(dtype));
  return out;
}

} // namespace dtile::ndarray
