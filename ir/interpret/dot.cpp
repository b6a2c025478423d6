// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The product's loops: blocks of 4 rows by 64 bytes stay in registers over the whole of k.
#include "ir/interpret/dot.h"

#include <cstring>
#include <type_traits>

#if defined(__x86_64__)
// The compiler makes one version for each of these and picks at load time.
#define DTILE_FOR_EACH_CPU __attribute__((target_clones("default", "avx2")))
#else
#define DTILE_FOR_EACH_CPU
#endif

namespace dtile::interpret {

namespace {

constexpr int64_t kRows = 4;
constexpr int64_t kVectorBytes = 64;

template <typename T> using Vector __attribute__((vector_size(kVectorBytes))) = T;

// Integers wrap, so they multiply as unsigned.
template <typename T>
using Arithmetic = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>,
                                               std::type_identity<T>>::type;

template <typename T, int64_t Rows>
[[gnu::always_inline]] inline void block(T *c, const T *a, const T *b, int64_t n, int64_t k) {
  using V = Vector<T>;
  // memcpy: rows need no alignment.
  V sum[Rows];
  for (int64_t r = 0; r < Rows; ++r)
    std::memcpy(&sum[r], c + r * n, sizeof(V));
  for (int64_t p = 0; p < k; ++p) {
    V row;
    std::memcpy(&row, b + p * n, sizeof(V));
    for (int64_t r = 0; r < Rows; ++r)
      sum[r] += a[r * k + p] * row;
  }
  for (int64_t r = 0; r < Rows; ++r)
    std::memcpy(c + r * n, &sum[r], sizeof(V));
}

template <typename T>
[[gnu::always_inline]] inline void product(T *c, const T *a, const T *b, int64_t m, int64_t n,
                                           int64_t k) {
  constexpr int64_t kWidth = kVectorBytes / sizeof(T);
  // Columns outside, so that a strip of b stays in the cache for all rows.
  int64_t j = 0;
  for (; j + kWidth <= n; j += kWidth) {
    int64_t i = 0;
    for (; i + kRows <= m; i += kRows)
      block<T, kRows>(c + i * n + j, a + i * k, b + j, n, k);
    for (; i < m; ++i)
      block<T, 1>(c + i * n + j, a + i * k, b + j, n, k);
  }
  for (int64_t i = 0; i < m; ++i)
    for (int64_t p = 0; p < k; ++p)
      for (int64_t column = j; column < n; ++column)
        c[i * n + column] += a[i * k + p] * b[p * n + column];
}

} // namespace

DTILE_FOR_EACH_CPU
void addProduct(float *c, const float *a, const float *b, int64_t m, int64_t n, int64_t k) {
  product(c, a, b, m, n, k);
}

DTILE_FOR_EACH_CPU
void addProduct(double *c, const double *a, const double *b, int64_t m, int64_t n, int64_t k) {
  product(c, a, b, m, n, k);
}

void addProduct(int64_t *c, const int64_t *a, const int64_t *b, int64_t m, int64_t n, int64_t k) {
  using T = Arithmetic<int64_t>;
  product(reinterpret_cast<T *>(c), reinterpret_cast<const T *>(a), reinterpret_cast<const T *>(b),
          m, n, k);
}

void addProduct(int32_t *c, const int32_t *a, const int32_t *b, int64_t m, int64_t n, int64_t k) {
  using T = Arithmetic<int32_t>;
  product(reinterpret_cast<T *>(c), reinterpret_cast<const T *>(a), reinterpret_cast<const T *>(b),
          m, n, k);
}

} // namespace dtile::interpret
