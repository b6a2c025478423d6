// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products of matrices in double or int64, fast enough to be the reference of large tests.
#include "backend/ndarray/ndarray.h"

#include <cstring>

namespace dtile::ndarray {

namespace {

// The compiler makes both versions of the loops and picks at load time.
#if defined(__x86_64__)
#define DTILE_FOR_EACH_CPU __attribute__((target_clones("default", "avx2")))
#else
#define DTILE_FOR_EACH_CPU
#endif

constexpr int64_t kRows = 4;
constexpr int64_t kColumns = 8;

/// A block of c that stays in registers over all of k.
template <typename T, int64_t Rows>
[[gnu::always_inline]] inline void addBlock(T *c, const T *a, const T *b, int64_t n, int64_t k) {
  using V __attribute__((vector_size(kColumns * sizeof(T)))) = T;
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

/// c[m, n] += a[m, k] * b[k, n].
template <typename T>
[[gnu::always_inline]] inline void addProduct(T *c, const T *a, const T *b, int64_t m, int64_t n,
                                              int64_t k) {
  int64_t j = 0;
  for (; j + kColumns <= n; j += kColumns) {
    int64_t i = 0;
    for (; i + kRows <= m; i += kRows)
      addBlock<T, kRows>(c + i * n + j, a + i * k, b + j, n, k);
    for (; i < m; ++i)
      addBlock<T, 1>(c + i * n + j, a + i * k, b + j, n, k);
  }
  for (int64_t i = 0; i < m; ++i)
    for (int64_t p = 0; p < k; ++p)
      for (int64_t column = j; column < n; ++column)
        c[i * n + column] += a[i * k + p] * b[p * n + column];
}

DTILE_FOR_EACH_CPU
void multiply(double *c, const double *a, const double *b, int64_t m, int64_t n, int64_t k) {
  addProduct(c, a, b, m, n, k);
}

void multiply(uint64_t *c, const uint64_t *a, const uint64_t *b, int64_t m, int64_t n, int64_t k) {
  addProduct(c, a, b, m, n, k);
}

std::vector<uint64_t> toBits(const NDArray &array) {
  std::vector<uint64_t> values(array.elements());
  for (int64_t i = 0; i < array.elements(); ++i)
    values[i] = static_cast<uint64_t>(array.getInt(i));
  return values;
}

} // namespace

llvm::Expected<NDArray> matmul(const NDArray &a, const NDArray &b) {
  const unsigned rank = a.rank();
  bool fits = rank >= 2 && b.rank() == rank && a.shape()[rank - 1] == b.shape()[rank - 2];
  int64_t batches = 1;
  for (unsigned d = 0; fits && d + 2 < rank; ++d) {
    fits = a.shape()[d] == b.shape()[d];
    batches *= a.shape()[d];
  }
  if (!fits)
    return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                   "matmul of arrays " + shapeText(a.shape()) + " and " +
                                       shapeText(b.shape()) +
                                       ": the columns of the first must be the rows of the "
                                       "second, and leading dimensions equal");
  const int64_t m = a.shape()[rank - 2];
  const int64_t k = a.shape()[rank - 1];
  const int64_t n = b.shape()[rank - 1];
  Shape shape = a.shape();
  shape[rank - 1] = n;
  if (llvm::Error error = checkRoom(DType::F64, shape))
    return error;
  const bool integral = a.isIntegral() && b.isIntegral();
  NDArray out(integral ? integerResult(a.dtype(), b.dtype()) : DType::F64, std::move(shape));
  if (out.elements() == 0)
    return out;
  if (integral) {
    // Unsigned, as sums wrap.
    const std::vector<uint64_t> x = toBits(a);
    const std::vector<uint64_t> y = toBits(b);
    auto *z = static_cast<uint64_t *>(out.data());
    for (int64_t i = 0; i < batches; ++i)
      multiply(z + i * m * n, x.data() + i * m * k, y.data() + i * k * n, m, n, k);
    return out;
  }
  const std::vector<double> x = a.toDoubles();
  const std::vector<double> y = b.toDoubles();
  auto *z = static_cast<double *>(out.data());
  for (int64_t i = 0; i < batches; ++i)
    multiply(z + i * m * n, x.data() + i * m * k, y.data() + i * k * n, m, n, k);
  return out;
}

} // namespace dtile::ndarray
