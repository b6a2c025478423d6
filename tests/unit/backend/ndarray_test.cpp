// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arrays on the host: making them, shapes, arithmetic, comparison.
#include "backend/ndarray/ndarray.h"

#include "gtest/gtest.h"

#include <cmath>
#include <limits>

namespace dtile::ndarray {
namespace {

using Doubles = std::vector<double>;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

NDArray reals(Shape shape, const Doubles &values, DType dtype = DType::F64) {
  return NDArray::fromDoubles(std::move(shape), values, dtype);
}
NDArray ints(Shape shape, const std::vector<int64_t> &values, DType dtype = DType::I64) {
  return NDArray::fromInts(std::move(shape), values, dtype);
}

NDArray get(llvm::Expected<NDArray> array) {
  if (array)
    return std::move(*array);
  ADD_FAILURE() << llvm::toString(array.takeError());
  return NDArray();
}
std::string complaint(llvm::Expected<NDArray> array) {
  return array ? "" : llvm::toString(array.takeError());
}
void expectContains(const std::string &text, const std::string &part) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << text << "' lacks '" << part << "'";
}

TEST(NDArray, FillsAndCounts) {
  EXPECT_EQ(NDArray(DType::F32, {2, 2}).toDoubles(), (Doubles{0, 0, 0, 0}));
  EXPECT_EQ(full(DType::BF16, {3}, 1.5).toDoubles(), (Doubles{1.5, 1.5, 1.5}));
  EXPECT_EQ(iota(DType::I8, 4, -2).toDoubles(), (Doubles{-2, -1, 0, 1}));
  EXPECT_EQ(NDArray(DType::F32, {}).elements(), 1);
  EXPECT_EQ(NDArray(DType::F32, {0, 5}).elements(), 0);
  EXPECT_EQ(reals({2, 3}, {0, 1, 2, 3, 4, 5}).at({1, 2}), 5);
}

TEST(NDArray, PoisonShows) {
  for (const DType dtype :
       {DType::F8E4M3, DType::F8E5M2, DType::F16, DType::BF16, DType::F32, DType::F64})
    EXPECT_TRUE(std::isnan(poison(dtype, {1}).getDouble(0))) << dtypeName(dtype).str();
  EXPECT_EQ(poison(DType::I32, {1}).getInt(0), int32_t(0xCDCDCDCD));
}

TEST(NDArray, ImpossibleShapesHaveNoCount) {
  EXPECT_EQ(elementCount({}), 1);
  EXPECT_EQ(elementCount({3, 0}), 0);
  EXPECT_EQ(elementCount({-1}), std::nullopt);
  EXPECT_EQ(elementCount({int64_t(1) << 61}), std::nullopt);
  EXPECT_EQ(elementCount({int64_t(1) << 40, int64_t(1) << 40, 0}), std::nullopt);
}

TEST(NDArray, RandomIsAFunctionOfSeedAndPlace) {
  // The documented generator, written again.
  const auto mix = [](uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  };
  const uint64_t golden = 0x9E3779B97F4A7C15ull;
  const NDArray array = random(DType::F64, {1000}, 42);
  for (int64_t i = 0; i < 1000; ++i)
    EXPECT_EQ(array.getDouble(i),
              2 * (double(mix(mix(42 + golden) + i * golden) >> 11) * 0x1p-53) - 1);
  EXPECT_EQ(random(DType::F32, {10, 100}, 42).getDouble(999), double(float(array.getDouble(999))));
  EXPECT_NE(random(DType::F64, {1}, 43).getDouble(0), array.getDouble(0));
}

TEST(NDArray, RandomStaysInItsRange) {
  for (int k = 0; k <= int(DType::F64); ++k) {
    const DType dtype = DType(k);
    const NDArray array = random(dtype, {20000}, 9);
    double least = kInf;
    double most = -kInf;
    double sum = 0;
    for (int64_t i = 0; i < array.elements(); ++i) {
      least = std::min(least, array.getDouble(i));
      most = std::max(most, array.getDouble(i));
      sum += array.getDouble(i);
    }
    const std::string name = dtypeName(dtype).str();
    if (isFloat(dtype)) {
      EXPECT_GE(least, -1) << name;
      EXPECT_LT(most, 1) << name;
      EXPECT_NEAR(sum / 20000, 0, 0.03) << name;
    } else {
      const bool isSigned = dtypeClass(dtype) == DTypeClass::Int;
      EXPECT_EQ(least, isSigned ? -8 : 0) << name;
      EXPECT_EQ(most, dtype == DType::Bool ? 1 : isSigned ? 7 : 15) << name;
    }
  }
  const NDArray dice = randomIntegers(DType::I32, {10000}, 1, 1, 7);
  std::vector<int> seen(8);
  for (int64_t i = 0; i < dice.elements(); ++i)
    ++seen[dice.getInt(i)];
  EXPECT_EQ(seen[0] + seen[7], 0);
  for (int face = 1; face <= 6; ++face)
    EXPECT_NEAR(seen[face], 10000.0 / 6, 200);
}

TEST(NDArray, Slices) {
  const NDArray array = get(reshape(iota(DType::I32, 24), {2, 3, 4}));
  const NDArray part = get(slice(array, {{0, 2, 1}, {1, 3, 1}, {0, 4, 2}}));
  EXPECT_EQ(part.shape(), (Shape{2, 2, 2}));
  EXPECT_EQ(part.toDoubles(), (Doubles{4, 6, 8, 10, 16, 18, 20, 22}));
  EXPECT_EQ(get(slice(array, {{1, 2, 1}})).shape(), (Shape{1, 3, 4}));
  EXPECT_EQ(get(select(array, 1, 2)).toDoubles(), (Doubles{8, 9, 10, 11, 20, 21, 22, 23}));
  EXPECT_EQ(get(slice(array, {{2, 2, 1}})).elements(), 0);
  expectContains(complaint(slice(array, {{1, 3, 1}})), "slice 1..3 does not fit dimension 0");
  expectContains(complaint(slice(array, {{}, {}, {}, {}})), "sliced in 4 dimensions");
  expectContains(complaint(select(array, 3, 0)), "axis 3 is not one of the 3 dimensions");
  expectContains(complaint(select(array, 0, 2)), "position 2 is outside dimension 0");
}

TEST(NDArray, TransposesReshapesAndConcatenates) {
  const NDArray array = get(reshape(iota(DType::I32, 6), {2, 3}));
  EXPECT_EQ(get(transpose(array)).toDoubles(), (Doubles{0, 3, 1, 4, 2, 5}));
  const NDArray cube = get(reshape(iota(DType::I32, 24), {2, 3, 4}));
  const NDArray turned = get(transpose(cube, {2, 0, 1}));
  EXPECT_EQ(turned.shape(), (Shape{4, 2, 3}));
  EXPECT_EQ(turned.at({3, 1, 2}), cube.at({1, 2, 3}));
  expectContains(complaint(transpose(array, {0, 0})), "must name each dimension once");
  expectContains(complaint(reshape(array, {4})), "[2, 3] cannot be reshaped to [4]");
  EXPECT_EQ(get(concat({array, array}, 0)).shape(), (Shape{4, 3}));
  const NDArray column = get(slice(array, {{0, 2, 1}, {1, 2, 1}}));
  EXPECT_EQ(get(concat({array, column}, 1)).toDoubles(), (Doubles{0, 1, 2, 1, 3, 4, 5, 4}));
  expectContains(complaint(concat({array, column}, 0)), "differ in more than dimension 0");
}

TEST(NDArray, TakesRows) {
  const NDArray array = get(reshape(iota(DType::F32, 6), {3, 2}));
  EXPECT_EQ(get(take(array, ints({2}, {2, 0}))).toDoubles(), (Doubles{4, 5, 0, 1}));
  expectContains(complaint(take(array, ints({1}, {3}))), "row 3 is outside");
}

TEST(NDArray, Broadcasts) {
  const NDArray row = reals({3}, {1, 2, 3});
  const NDArray column = reals({2, 1}, {10, 20});
  EXPECT_EQ(get(binary(Binary::Add, row, column)).toDoubles(), (Doubles{11, 12, 13, 21, 22, 23}));
  EXPECT_EQ(get(broadcastTo(row, {2, 3})).toDoubles(), (Doubles{1, 2, 3, 1, 2, 3}));
  EXPECT_EQ(get(binary(Binary::Add, row, reals({}, {1}))).toDoubles(), (Doubles{2, 3, 4}));
  expectContains(complaint(binary(Binary::Add, row, reals({2}, {1, 2}))),
                 "shapes [3] and [2] do not go together");
  expectContains(complaint(broadcastTo(row, {3, 2})), "does not broadcast to [3, 2]");
}

TEST(NDArray, FloatArithmetic) {
  const NDArray a = reals({4}, {7, -7, 1.5, kNan}, DType::F32);
  const NDArray b = reals({4}, {2, 2, -0.5, 1});
  const auto values = [&](Binary op) { return get(binary(op, a, b)).toDoubles(); };
  EXPECT_EQ(values(Binary::Sub)[1], -9);
  EXPECT_EQ(values(Binary::Div)[2], -3);
  EXPECT_EQ(values(Binary::Rem)[0], 1);
  EXPECT_EQ(values(Binary::Rem)[1], 1);
  EXPECT_EQ(values(Binary::Max)[3], 1);
  EXPECT_EQ(values(Binary::Pow)[0], 49);
  EXPECT_EQ(get(binary(Binary::Lt, a, b)).dtype(), DType::Bool);
  EXPECT_EQ(values(Binary::Lt), (Doubles{0, 1, 0, 0}));
  EXPECT_EQ(get(binary(Binary::Add, a, ints({4}, {1, 1, 1, 1}))).dtype(), DType::F64);
  EXPECT_EQ(unary(Unary::Exp, reals({2}, {0, 1})).getDouble(1), std::exp(1.0));
  EXPECT_EQ(unary(Unary::Rsqrt, ints({1}, {4})).getDouble(0), 0.5);
  EXPECT_EQ(unary(Unary::Atan, ints({1}, {-1})).getDouble(0), std::atan(-1.0));
  EXPECT_EQ(unary(Unary::Floor, reals({2}, {-0.5, 2.5})).toDoubles(), (Doubles{-1, 2}));
}

TEST(NDArray, IntegerArithmeticFloorsAndWraps) {
  const int64_t least = std::numeric_limits<int64_t>::min();
  const NDArray a = ints({5}, {7, -7, 7, least, 5});
  const NDArray b = ints({5}, {2, 2, -2, -1, 0});
  const auto value = [&](Binary op, int64_t i) { return get(binary(op, a, b)).getInt(i); };
  EXPECT_EQ(get(binary(Binary::Add, a, b)).dtype(), DType::I64);
  EXPECT_EQ(value(Binary::Div, 1), -4);
  EXPECT_EQ(value(Binary::Div, 2), -4);
  EXPECT_EQ(value(Binary::Div, 3), least);
  EXPECT_EQ(value(Binary::Div, 4), 0);
  EXPECT_EQ(value(Binary::Rem, 1), 1);
  EXPECT_EQ(value(Binary::Rem, 2), -1);
  EXPECT_EQ(value(Binary::Rem, 4), 0);
  EXPECT_EQ(value(Binary::Sub, 3), least + 1);
  EXPECT_EQ(value(Binary::Pow, 0), 49);
  EXPECT_EQ(get(binary(Binary::Xor, ints({1}, {6}, DType::U8), ints({1}, {3}))).getInt(0), 5);
  EXPECT_EQ(unary(Unary::Not, ints({1}, {0}, DType::Bool)).getInt(0), 1);
  EXPECT_EQ(unary(Unary::Not, ints({1}, {0})).getInt(0), -1);
}

TEST(NDArray, CastsRoundAndSaturate) {
  EXPECT_EQ(cast(reals({1}, {1 + 0x1p-8}), DType::BF16).getDouble(0), 1);
  EXPECT_EQ(cast(reals({1}, {1 + 3 * 0x1p-8}), DType::BF16).getDouble(0), 1 + 4 * 0x1p-8);
  EXPECT_EQ(cast(reals({2}, {300, -1.5}), DType::U8).toDoubles(), (Doubles{255, 0}));
  EXPECT_EQ(cast(ints({1}, {300}), DType::U8).getInt(0), 44);
  EXPECT_EQ(cast(ints({1}, {-1}, DType::U64), DType::F32).getDouble(0), 0x1p64);
  EXPECT_EQ(cast(ints({2}, {0, 5}), DType::Bool).toDoubles(), (Doubles{0, 1}));
}

TEST(NDArray, WhereChoosesAndBroadcasts) {
  const NDArray got =
      get(where(ints({2, 1}, {1, 0}, DType::Bool), reals({3}, {1, 2, 3}), reals({}, {9})));
  EXPECT_EQ(got.toDoubles(), (Doubles{1, 2, 3, 9, 9, 9}));
}

TEST(NDArray, Reduces) {
  const NDArray array = reals({2, 3}, {1, -2, 3, 4, 5, -6});
  EXPECT_EQ(get(reduce(Reduction::Sum, array, 0)).toDoubles(), (Doubles{5, 3, -3}));
  EXPECT_EQ(get(reduce(Reduction::Max, array, 1)).toDoubles(), (Doubles{3, 5}));
  EXPECT_EQ(get(reduce(Reduction::Min, array)).getDouble(0), -6);
  EXPECT_EQ(get(reduce(Reduction::Prod, array, 1)).toDoubles(), (Doubles{-6, -120}));
  EXPECT_EQ(get(reduce(Reduction::Any, ints({2, 2}, {0, 0, 1, 0}), 1)).toDoubles(),
            (Doubles{0, 1}));
  EXPECT_EQ(get(reduce(Reduction::Sum, NDArray(DType::F32, {0, 2}), 0)).toDoubles(),
            (Doubles{0, 0}));
  expectContains(complaint(reduce(Reduction::Max, NDArray(DType::F32, {0, 2}), 0)), "is empty");
}

TEST(NDArray, SoftmaxSumsToOneAndStandsLargeValues) {
  const NDArray got = get(softmax(reals({2, 2}, {1000, 1000, 0, std::log(3.0)}), 1));
  EXPECT_NEAR(got.getDouble(0), 0.5, 1e-15);
  EXPECT_NEAR(got.getDouble(2), 0.25, 1e-15);
  EXPECT_NEAR(got.getDouble(3), 0.75, 1e-15);
}

TEST(NDArray, MatmulOfEveryOddShape) {
  for (const auto &[m, n, k] : {std::tuple(1, 1, 1), std::tuple(3, 5, 7), std::tuple(65, 66, 67),
                                std::tuple(4, 8, 0), std::tuple(0, 3, 2), std::tuple(9, 1, 30)}) {
    const NDArray a = random(DType::BF16, {m, k}, 1);
    const NDArray b = random(DType::F32, {k, n}, 2);
    const NDArray c = get(matmul(a, b));
    ASSERT_EQ(c.shape(), (Shape{m, n}));
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < n; ++j) {
        double sum = 0;
        for (int p = 0; p < k; ++p)
          sum += a.at({i, p}) * b.at({p, j});
        ASSERT_NEAR(c.at({i, j}), sum, 1e-12);
      }
  }
  expectContains(complaint(matmul(NDArray(DType::F32, {2, 3}), NDArray(DType::F32, {2, 3}))),
                 "matmul of arrays [2, 3] and [2, 3]");
}

TEST(NDArray, MatmulInBatchesAndOfIntegers) {
  const NDArray a = random(DType::I8, {3, 4, 5}, 1);
  const NDArray b = random(DType::I32, {3, 5, 2}, 2);
  const NDArray c = get(matmul(a, b));
  EXPECT_EQ(c.dtype(), DType::I64);
  for (int h = 0; h < 3; ++h)
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 2; ++j) {
        double sum = 0;
        for (int p = 0; p < 5; ++p)
          sum += a.at({h, i, p}) * b.at({h, p, j});
        EXPECT_EQ(c.at({h, i, j}), sum);
      }
}

TEST(Compare, CountsMismatchesAndNamesTheWorst) {
  const NDArray expected = reals({2, 2}, {1, 2, 3, 4});
  const Comparison same = approxEqual(reals({2, 2}, {1.001, 2, 3, 4}), expected, 0, 0.01);
  EXPECT_TRUE(same.equal());
  EXPECT_EQ(same.text(), "");
  const Comparison differs = approxEqual(reals({2, 2}, {1.1, 2, 3.5, 4}), expected, 0.01, 0);
  EXPECT_FALSE(differs.equal());
  EXPECT_EQ(differs.mismatches, 2);
  EXPECT_EQ(differs.worst, (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(differs.text(),
            "2 of 4 elements differ; worst at [1, 0]: 3.5 instead of 3 (off by 0.5)");
}

TEST(Compare, TheRelativeToleranceIsOfTheExpectedValue) {
  EXPECT_TRUE(approxEqual(reals({1}, {102}), reals({1}, {100}), 0.02, 0).equal());
  EXPECT_FALSE(approxEqual(reals({1}, {100}), reals({1}, {98}), 0.02, 0).equal());
}

TEST(Compare, NanMatchesOnlyNanAndInfinityItself) {
  EXPECT_TRUE(approxEqual(reals({2}, {kNan, kInf}), reals({2}, {kNan, kInf}), 0, 0).equal());
  const Comparison nan = approxEqual(reals({3}, {1, kNan, 9}), reals({3}, {1, 2, 3}), 1e-3, 0);
  EXPECT_EQ(nan.mismatches, 2);
  EXPECT_EQ(nan.worst, (std::vector<int64_t>{1}));
  EXPECT_TRUE(std::isnan(nan.actual));
  expectContains(nan.text(), "worst at [1]: nan instead of 2");
  EXPECT_FALSE(approxEqual(reals({1}, {kInf}), reals({1}, {-kInf}), 1, 1).equal());
  EXPECT_FALSE(approxEqual(reals({1}, {1e300}), reals({1}, {kInf}), 1, 1).equal());
}

TEST(Compare, IntegersCompareExactly) {
  const int64_t large = (int64_t(1) << 60) + 1;
  EXPECT_FALSE(approxEqual(ints({1}, {large}), ints({1}, {large - 1}), 0, 0).equal());
  EXPECT_EQ(approxEqual(ints({1}, {large}), ints({1}, {large - 1}), 0, 0).worst,
            (std::vector<int64_t>{0}));
  EXPECT_FALSE(approxEqual(ints({1}, {-1}), ints({1}, {-1}, DType::U64), 0, 0).equal());
}

TEST(Compare, ShapesMustAgree) {
  const Comparison got = approxEqual(reals({1, 2}, {1, 2}), reals({2}, {1, 2}), 0, 0);
  EXPECT_FALSE(got.equal());
  EXPECT_EQ(got.text(), "shapes differ: [1, 2] instead of [2]");
  EXPECT_TRUE(approxEqual(NDArray(DType::F32, {0}), NDArray(DType::F64, {0}), 0, 0).equal());
}

} // namespace
} // namespace dtile::ndarray
