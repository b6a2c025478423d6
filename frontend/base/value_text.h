// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Scalars and arrays as text, in the form of NumPy: one form for what `print` shows on every
// executor. The runtime uses it too, which is built without LLVM and without exceptions.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace dtile {

inline std::string floatText(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

/// Of a dimension longer than this, the first and the last few elements are shown.
inline constexpr int64_t kShownInFull = 8;
inline constexpr int64_t kShownAtEnds = 3;

/// `element(i)` is the text of the i-th element in row-major order; of a scalar there is one.
template <typename Element>
std::string arrayText(const int64_t *size, int ndim, const Element &element, int64_t first = 0) {
  if (ndim == 0)
    return element(first);
  int64_t below = 1;
  for (int d = 1; d < ndim; ++d)
    below *= size[d];
  std::string text = "[";
  for (int64_t i = 0; i < size[0]; ++i) {
    if (size[0] > kShownInFull && i == kShownAtEnds) {
      text += ", …";
      i = size[0] - kShownAtEnds;
    }
    if (i > 0)
      text += ", ";
    text += arrayText(size + 1, ndim - 1, element, first + i * below);
  }
  return text + "]";
}

} // namespace dtile
