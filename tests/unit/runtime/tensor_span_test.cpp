// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which strides make two elements of a tensor one place, which a kernel must not write.
#include "backend/runtime/arguments/tensor_span.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace dtile::runtime {
namespace {

using testing::HasSubstr;

float memory[4096];

Status measure(const std::vector<int64_t> &sizes, const std::vector<int64_t> &strides,
               int32_t mode = DTILE_MODE_OUT) {
  dtile_param_desc param = {};
  param.name = "y";
  param.mode = mode;
  param.dtype = DTILE_F32;
  param.rank = int32_t(sizes.size());
  dtile_tensor tensor = {};
  tensor.data = memory + 2048;
  tensor.dtype = DTILE_F32;
  tensor.ndim = param.rank;
  std::copy(sizes.begin(), sizes.end(), tensor.size);
  std::copy(strides.begin(), strides.end(), tensor.stride);
  TensorSpan span;
  return measureTensor(param, &tensor, &span);
}

TEST(TensorSpan, OfTwoDimensionsSaysWhetherElementsMeet) {
  for (int64_t m = 1; m <= 4; ++m)
    for (int64_t n = 1; n <= 4; ++n)
      for (int64_t a = -5; a <= 5; ++a)
        for (int64_t b = -5; b <= 5; ++b) {
          std::set<int64_t> places;
          for (int64_t i = 0; i < m; ++i)
            for (int64_t j = 0; j < n; ++j)
              places.insert(i * a + j * b);
          const bool meet = int64_t(places.size()) < m * n;
          EXPECT_EQ(measure({m, n}, {a, b}).ok(), !meet)
              << "sizes " << m << ", " << n << ", strides " << a << ", " << b;
        }
}

TEST(TensorSpan, MayMeetWhereAKernelOnlyReads) {
  EXPECT_TRUE(measure({8}, {0}, DTILE_MODE_IN).ok());
  EXPECT_FALSE(measure({8}, {0}, DTILE_MODE_INOUT).ok());
  EXPECT_TRUE(measure({1}, {0}).ok());
  EXPECT_TRUE(measure({0, 8}, {0, 0}).ok());
}

TEST(TensorSpan, NamesTheDimensions) {
  EXPECT_THAT(measure({4, 3, 2}, {10, 1, 2}).message,
              HasSubstr("elements along dimensions 1 and 2 are one place in memory (strides [10, "
                        "1, 2], sizes [4, 3, 2]), but the kernel writes them: pass a copy"));
  EXPECT_THAT(measure({4, 3}, {3, 0}).message,
              HasSubstr("all elements along dimension 1 are one place in memory"));
}

} // namespace
} // namespace dtile::runtime
