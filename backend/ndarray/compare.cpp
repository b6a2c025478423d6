// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether two arrays are the same up to tolerances, and where they differ most.
#include "backend/ndarray/ndarray.h"

#include <cmath>
#include <cstdio>
#include <limits>

namespace dtile::ndarray {

namespace {

std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

/// How far beyond the tolerance an element is; 0 or less matches. NaN against a number is
/// infinitely far.
double excess(double actual, double expected, double rtol, double atol) {
  if (actual == expected || (std::isnan(actual) && std::isnan(expected)))
    return 0;
  if (std::isnan(actual) || std::isnan(expected) || std::isinf(actual) || std::isinf(expected))
    return std::numeric_limits<double>::infinity();
  return std::fabs(actual - expected) - (atol + rtol * std::fabs(expected));
}

/// As u64 where one side is, so that its high half compares right.
bool sameInteger(const NDArray &a, const NDArray &b, int64_t element) {
  const int64_t x = a.getInt(element);
  const int64_t y = b.getInt(element);
  const bool mixed = (a.dtype() == DType::U64) != (b.dtype() == DType::U64);
  return x == y && !(mixed && x < 0);
}

} // namespace

std::string Comparison::text() const {
  if (!shapes.empty())
    return shapes;
  if (mismatches == 0)
    return "";
  std::string text = std::to_string(mismatches) + " of " + std::to_string(elements) +
                     (elements == 1 ? " element differs" : " elements differ");
  text +=
      "; worst at " + shapeText(worst) + ": " + number(actual) + " instead of " + number(expected);
  if (!std::isnan(difference))
    text += " (off by " + number(difference) + ")";
  return text;
}

Comparison approxEqual(const NDArray &actual, const NDArray &expected, double rtol, double atol) {
  Comparison result;
  if (actual.shape() != expected.shape()) {
    result.shapes = "shapes differ: " + shapeText(actual.shape()) + " instead of " +
                    shapeText(expected.shape());
    return result;
  }
  result.elements = actual.elements();
  const bool exact = actual.isIntegral() && expected.isIntegral() && rtol == 0 && atol == 0;
  double worst = -1;
  int64_t where = -1;
  for (int64_t i = 0; i < result.elements; ++i) {
    const double x = actual.getDouble(i);
    const double y = expected.getDouble(i);
    const bool same = exact ? sameInteger(actual, expected, i) : excess(x, y, rtol, atol) <= 0;
    if (same)
      continue;
    ++result.mismatches;
    // Integers that differ may be equal as doubles.
    const double beyond = std::max(0.0, excess(x, y, rtol, atol));
    if (beyond > worst) {
      worst = beyond;
      where = i;
    }
  }
  if (where < 0)
    return result;
  result.actual = actual.getDouble(where);
  result.expected = expected.getDouble(where);
  result.difference = std::fabs(result.actual - result.expected);
  result.worst.resize(actual.rank());
  for (unsigned d = actual.rank(); d-- > 0; where /= actual.shape()[d])
    result.worst[d] = where % actual.shape()[d];
  return result;
}

} // namespace dtile::ndarray
