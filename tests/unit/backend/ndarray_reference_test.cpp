// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The collectives and attention that tests compare with.
#include "backend/ndarray/reference_ops.h"

#include "gtest/gtest.h"

#include <cmath>

namespace dtile::ndarray {
namespace {

using Doubles = std::vector<double>;

template <typename T> T get(llvm::Expected<T> value) {
  if (value)
    return std::move(*value);
  ADD_FAILURE() << llvm::toString(value.takeError());
  return T();
}
template <typename T> std::string complaint(llvm::Expected<T> value) {
  return value ? "" : llvm::toString(value.takeError());
}

NDArray reals(Shape shape, Doubles values) {
  return NDArray::fromDoubles(std::move(shape), values);
}

TEST(Reference, AllGatherConcatenatesInRankOrder) {
  const PerRank inputs{reals({1, 2}, {1, 2}), reals({2, 2}, {3, 4, 5, 6})};
  EXPECT_EQ(get(allGather(inputs)).toDoubles(), (Doubles{1, 2, 3, 4, 5, 6}));
  EXPECT_NE(complaint(allGather(inputs, 1)), "");
}

TEST(Reference, AllReduceSums) {
  EXPECT_EQ(
      get(allReduce({reals({2}, {1, 2}), reals({2}, {10, 20}), reals({2}, {0.5, 0})})).toDoubles(),
      (Doubles{11.5, 22}));
  EXPECT_NE(complaint(allReduce({reals({2}, {1, 2}), reals({1}, {1})}))
                .find("rank 0 has an array [2] but rank 1 has [1]"),
            std::string::npos);
}

TEST(Reference, ReduceScatterCutsTheSum) {
  const PerRank parts =
      get(reduceScatter({reals({4}, {1, 2, 3, 4}), reals({4}, {10, 20, 30, 40})}));
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].toDoubles(), (Doubles{11, 22}));
  EXPECT_EQ(parts[1].toDoubles(), (Doubles{33, 44}));
  EXPECT_NE(complaint(reduceScatter({reals({3}, {1, 2, 3}), reals({3}, {1, 2, 3})}))
                .find("cannot be cut into 2 equal parts"),
            std::string::npos);
}

TEST(Reference, AllToAllExchangesParts) {
  const PerRank got = get(allToAll({reals({4}, {1, 2, 3, 4}), reals({4}, {5, 6, 7, 8})}));
  EXPECT_EQ(got[0].toDoubles(), (Doubles{1, 2, 5, 6}));
  EXPECT_EQ(got[1].toDoubles(), (Doubles{3, 4, 7, 8}));
}

/// Attention by the other definition: the whole matrix of weights.
NDArray dense(const NDArray &q, const NDArray &k, const NDArray &v, double scale,
              int64_t visible(int64_t query)) {
  NDArray scores = get(matmul(q, get(transpose(k))));
  const int64_t keys = k.shape()[0];
  for (int64_t i = 0; i < scores.elements(); ++i) {
    const bool isSeen = i % keys < visible(i / keys);
    scores.setDouble(i, isSeen ? scores.getDouble(i) * scale : -INFINITY);
  }
  return get(matmul(get(softmax(scores, 1)), v));
}

TEST(Reference, AttentionMatchesSoftmaxOfTheScores) {
  const NDArray q = random(DType::F32, {3, 8}, 1);
  const NDArray k = random(DType::F32, {5, 8}, 2);
  const NDArray v = random(DType::F32, {5, 4}, 3);
  const auto expectNear = [](const NDArray &got, const NDArray &expected) {
    EXPECT_EQ(approxEqual(got, expected, 1e-13, 1e-13).text(), "");
  };
  expectNear(get(attention(q, k, v, 0.3)), dense(q, k, v, 0.3, [](int64_t) { return int64_t(5); }));
  expectNear(get(attention(q, k, v, 0.3, {.isCausal = true})),
             dense(q, k, v, 0.3, [](int64_t query) { return query + 3; }));
  expectNear(get(attention(q, k, v, 0.3, {.lengths = {4}})),
             dense(q, k, v, 0.3, [](int64_t) { return int64_t(4); }));
}

TEST(Reference, AttentionOfGroupedHeads) {
  const NDArray q = random(DType::F32, {4, 2, 8}, 1);
  const NDArray k = random(DType::F32, {2, 6, 8}, 2);
  const NDArray v = random(DType::F32, {2, 6, 3}, 3);
  const NDArray got = get(attention(q, k, v, 1, {.lengths = {6, 1, 0, 3}}));
  EXPECT_EQ(got.shape(), (Shape{4, 2, 3}));
  // One key: its value, whatever the weights. None: zero.
  for (int64_t e = 0; e < 3; ++e) {
    EXPECT_NEAR(got.at({1, 0, e}), v.at({0, 0, e}), 1e-15);
    EXPECT_EQ(got.at({2, 1, e}), 0);
  }
  const NDArray head = get(attention(get(select(q, 0, 3)), get(select(k, 0, 1)),
                                     get(select(v, 0, 1)), 1, {.lengths = {3}}));
  EXPECT_EQ(approxEqual(get(select(got, 0, 3)), head, 0, 0).text(), "");
  EXPECT_NE(complaint(attention(q, k, v, 1, {.lengths = {1, 2}})), "");
  EXPECT_NE(complaint(attention(q, v, k, 1)), "");
}

} // namespace
} // namespace dtile::ndarray
