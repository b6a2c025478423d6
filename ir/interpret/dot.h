// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Dense matrix products on row-major arrays. Private to ir/interpret.
#pragma once

#include <cstdint>

namespace dtile::interpret {

/// c[m, n] += a[m, k] * b[k, n], each element summed in the order of k with one rounding an
/// operation: the same bits on every machine. No array overlaps another.
void addProduct(float *c, const float *a, const float *b, int64_t m, int64_t n, int64_t k);
void addProduct(double *c, const double *a, const double *b, int64_t m, int64_t n, int64_t k);
void addProduct(int64_t *c, const int64_t *a, const int64_t *b, int64_t m, int64_t n, int64_t k);
void addProduct(int32_t *c, const int32_t *a, const int32_t *b, int64_t m, int64_t n, int64_t k);

} // namespace dtile::interpret
