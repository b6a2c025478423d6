// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operations on whole tiles against loops written here.
#include "interpreter_support.h"

#include <cmath>
#include <limits>
#include <random>

namespace dtile::interpret::testing {
namespace {

/// A kernel from one input tile to one output; `body` makes %z from %x.
std::string tileText(const std::string &in, const std::string &inSizes, const std::string &out,
                     const std::string &outSizes, unsigned inRank, unsigned outRank,
                     const std::string &body) {
  const auto sizes = [](const std::string &text, const std::string &prefix) {
    std::string ops;
    std::string names;
    size_t count = 0;
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find(' ', at), text.size());
      const std::string name = "%" + prefix + std::to_string(count++);
      ops += "  " + name + " = const {value = " + text.substr(at, end - at) + "} : index\n";
      names += (names.empty() ? " " : ", ") + name;
      at = end + 1;
    }
    return std::pair(ops, names);
  };
  const auto [inOps, inNames] = sizes(inSizes, "i");
  const auto [outOps, outNames] = sizes(outSizes, "o");
  const std::string element = in.substr(in.rfind('x') + 1);
  const std::string outElement = out.substr(out.rfind('x') + 1);
  const std::string outType = outRank ? "tile<" + out + ">" : out;
  return "kernel @k {\n" + inOps + outOps + "  %a = param @a" + inNames +
         " {param = 0, mode = \"in\"} : view<" + element + ", " + std::to_string(inRank) +
         ">\n  %t = param @t" + outNames + " {param = 1, mode = \"out\"} : view<" + outElement +
         ", " + std::to_string(outRank) +
         ">\n  space @main {vars = []} {\n    %x = load %a : tile<" + in + ">\n    " + body +
         " : " + outType + "\n    store %z, %t\n    yield\n  }\n  return\n}";
}

template <typename In, typename Out>
std::vector<Out> run(const std::string &text, std::vector<In> in, std::vector<int64_t> inSizes,
                     std::vector<int64_t> outSizes) {
  Program program(text);
  int64_t count = 1;
  for (int64_t size : outSizes)
    count *= size;
  std::vector<Out> out(count);
  if (!program.module)
    return out;
  Machine machine(*program.module, 1);
  EXPECT_EQ(testing::text(machine.launch("k", {{tensor(in, inSizes), tensor(out, outSizes)}})), "");
  return out;
}

std::vector<float> counting(int64_t count) {
  std::vector<float> values(count);
  for (int64_t i = 0; i < count; ++i)
    values[i] = static_cast<float>((i * 7) % 13) - 5;
  return values;
}

TEST(Tile, TransposeExchangesDimensions) {
  const auto got = run<float, float>(tileText("2x3x4xf32", "2 3 4", "4x2x3xf32", "4 2 3", 3, 3,
                                              "%z = tile.trans %x {perm = [2, 0, 1]}"),
                                     counting(24), {2, 3, 4}, {4, 2, 3});
  const auto in = counting(24);
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 2; ++j)
      for (int k = 0; k < 3; ++k)
        EXPECT_EQ(got[(i * 2 + j) * 3 + k], in[(j * 3 + k) * 4 + i]);
}

TEST(Tile, BroadcastRepeatsDimensionsOfOne) {
  const auto got = run<float, float>(
      tileText("1x3x1xf32", "1 3 1", "2x3x4xf32", "2 3 4", 3, 3, "%z = tile.broadcast %x"),
      {5, 6, 7}, {1, 3, 1}, {2, 3, 4});
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 3; ++j)
      for (int k = 0; k < 4; ++k)
        EXPECT_EQ(got[(i * 3 + j) * 4 + k], 5 + j);
}

TEST(Tile, ReshapeKeepsRowMajorOrder) {
  const auto in = counting(12);
  EXPECT_EQ(
      (run<float, float>(tileText("3x4xf32", "3 4", "2x6xf32", "2 6", 2, 2, "%z = tile.reshape %x"),
                         in, {3, 4}, {2, 6})),
      in);
}

TEST(Tile, SplatAndIota) {
  const auto got = run<int32_t, int32_t>(
      tileText("8xi32", "8", "8xi32", "8", 1, 1,
               "%c = const {value = 10} : i32\n    %s = tile.splat %c : tile<8xi32>\n    %i = "
               "tile.iota : tile<8xi32>\n    %z = add %s, %i"),
      std::vector<int32_t>(8), {8}, {8});
  EXPECT_EQ(got, (std::vector<int32_t>{10, 11, 12, 13, 14, 15, 16, 17}));
}

/// Reduces a 2 x 3 x 4 tile along an axis by a definition given here.
std::vector<float> reduced(const std::vector<float> &in, int axis, float (*fn)(float, float)) {
  const int sizes[] = {2, 3, 4};
  std::vector<float> out;
  int outer = 1;
  int inner = 1;
  for (int d = 0; d < 3; ++d)
    (d < axis ? outer : inner) *= d == axis ? 1 : sizes[d];
  for (int o = 0; o < outer; ++o)
    for (int i = 0; i < inner; ++i) {
      float total = in[o * sizes[axis] * inner + i];
      for (int at = 1; at < sizes[axis]; ++at)
        total = fn(total, in[(o * sizes[axis] + at) * inner + i]);
      out.push_back(total);
    }
  return out;
}

TEST(Tile, ReducesEachKindAlongEachAxis) {
  const std::pair<const char *, float (*)(float, float)> kinds[] = {
      {"sum", [](float a, float b) { return a + b; }},
      {"max", [](float a, float b) { return a > b ? a : b; }},
      {"min", [](float a, float b) { return a < b ? a : b; }},
      {"prod", [](float a, float b) { return a * b; }},
  };
  const auto in = counting(24);
  const char *outs[] = {"3x4xf32", "2x4xf32", "2x3xf32"};
  const char *outSizes[] = {"3 4", "2 4", "2 3"};
  const std::vector<int64_t> outShapes[] = {{3, 4}, {2, 4}, {2, 3}};
  for (const auto &[name, fn] : kinds)
    for (int axis = 0; axis < 3; ++axis) {
      const std::string body = std::string("%z = tile.reduce %x {axis = ") + std::to_string(axis) +
                               ", kind = \"" + name + "\"}";
      EXPECT_EQ(
          (run<float, float>(tileText("2x3x4xf32", "2 3 4", outs[axis], outSizes[axis], 3, 2, body),
                             in, {2, 3, 4}, outShapes[axis])),
          reduced(in, axis, fn))
          << name << " " << axis;
    }
}

TEST(Tile, ReductionOfOneDimensionGivesAScalar) {
  const auto got = run<float, float>(
      tileText("5xf32", "5", "f32", "", 1, 0, "%z = tile.reduce %x {axis = 0, kind = \"sum\"}"),
      {1, 2, 3, 4, 5}, {5}, {});
  EXPECT_EQ(got[0], 15);
}

TEST(Tile, ReductionsOfNarrowFloatsAccumulateInF32) {
  // In bf16, 256 + 1 is 256: summed in bf16 the result would stay there.
  std::vector<uint16_t> in(257, f32ToBf16(1));
  in[0] = f32ToBf16(256);
  Program program(tileText("257xbf16", "257", "bf16", "", 1, 0,
                           "%z = tile.reduce %x {axis = 0, kind = \"sum\"}"));
  uint16_t out = 0;
  Machine machine(*program.module, 1);
  ASSERT_EQ(text(machine.launch(
                "k", {{tensor(in.data(), DType::BF16, {257}), tensor(&out, DType::BF16, {})}})),
            "");
  EXPECT_EQ(bf16ToF32(out), 512);
}

TEST(Tile, AnyAndAllOverBools) {
  std::vector<uint8_t> in{0, 0, 1, 0, 1, 1, 1, 1, 0, 0, 0, 0};
  for (const bool all : {false, true}) {
    Program program(tileText("3x4xbool", "3 4", "3xbool", "3", 2, 1,
                             std::string("%z = tile.reduce %x {axis = 1, kind = \"") +
                                 (all ? "all" : "any") + "\"}"));
    std::vector<uint8_t> out(3);
    Machine machine(*program.module, 1);
    ASSERT_EQ(text(machine.launch("k", {{tensor(in.data(), DType::Bool, {3, 4}),
                                         tensor(out.data(), DType::Bool, {3})}})),
              "");
    EXPECT_EQ(out, all ? (std::vector<uint8_t>{0, 1, 0}) : (std::vector<uint8_t>{1, 1, 0}));
  }
}

TEST(Tile, ArgReduceGivesTheFirstAndPassesOverNaN) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> in{1, 5, 5, -2, nan, 3, 3, -7, 2, 2, 2, 2};
  EXPECT_EQ((run<float, int32_t>(tileText("3x4xf32", "3 4", "3xi32", "3", 2, 1,
                                          "%z = tile.arg_reduce %x {axis = 1, kind = \"max\"}"),
                                 in, {3, 4}, {3})),
            (std::vector<int32_t>{1, 1, 0}));
  EXPECT_EQ((run<float, int32_t>(tileText("3x4xf32", "3 4", "4xi32", "4", 2, 1,
                                          "%z = tile.arg_reduce %x {axis = 0, kind = \"min\"}"),
                                 in, {3, 4}, {4})),
            (std::vector<int32_t>{0, 2, 2, 1}));
}

TEST(Tile, ScansAreInclusive) {
  const std::vector<int32_t> in{1, -2, 3, 4, 5, -6};
  EXPECT_EQ((run<int32_t, int32_t>(tileText("2x3xi32", "2 3", "2x3xi32", "2 3", 2, 2,
                                            "%z = tile.scan %x {axis = 1, kind = \"sum\"}"),
                                   in, {2, 3}, {2, 3})),
            (std::vector<int32_t>{1, -1, 2, 4, 9, 3}));
  EXPECT_EQ((run<int32_t, int32_t>(tileText("2x3xi32", "2 3", "2x3xi32", "2 3", 2, 2,
                                            "%z = tile.scan %x {axis = 0, kind = \"max\"}"),
                                   in, {2, 3}, {2, 3})),
            (std::vector<int32_t>{1, -2, 3, 4, 5, 3}));
}

std::string dotText(int m, int n, int k, const std::string &in, const std::string &out) {
  const auto tile = [](int rows, int columns, const std::string &element) {
    return "tile<" + std::to_string(rows) + "x" + std::to_string(columns) + "x" + element + ">";
  };
  const auto c = [](const char *name, int value) {
    return std::string("  %") + name + " = const {value = " + std::to_string(value) + "} : index\n";
  };
  return "kernel @k {\n" + c("M", m) + c("N", n) + c("K", k) +
         "  %a = param @a %M, %K {param = 0, mode = \"in\"} : view<" + in + ", 2>\n" +
         "  %b = param @b %K, %N {param = 1, mode = \"in\"} : view<" + in + ", 2>\n" +
         "  %c = param @c %M, %N {param = 2, mode = \"inout\"} : view<" + out + ", 2>\n" +
         "  space @main {vars = []} {\n    %x = load %a : " + tile(m, k, in) +
         "\n    %y = load %b : " + tile(k, n, in) + "\n    %s = load %c : " + tile(m, n, out) +
         "\n    %z = tile.dot %x, %y, %s : " + tile(m, n, out) +
         "\n    store %z, %c\n    yield\n  }\n  return\n}";
}

/// Compares a product with sums in double; relative to the sum of magnitudes.
void checkDot(int m, int n, int k, DType in, DType out, double tolerance) {
  std::mt19937 random(m * 31 + n);
  std::vector<char> a(m * k * dtypeBytes(in));
  std::vector<char> b(k * n * dtypeBytes(in));
  std::vector<char> c(m * n * dtypeBytes(out));
  const auto fill = [&](std::vector<char> &data, DType dtype) {
    for (size_t i = 0; i < data.size() / dtypeBytes(dtype); ++i)
      storeFromDouble(dtype, &data[i * dtypeBytes(dtype)],
                      static_cast<double>(random() % 33) / (isFloat(dtype) ? 8.0 : 1.0) - 2);
  };
  fill(a, in);
  fill(b, in);
  fill(c, out);
  const std::vector<char> before = c;
  Program program(dotText(m, n, k, dtypeName(in).str(), dtypeName(out).str()));
  Machine machine(*program.module, 1);
  ASSERT_EQ(text(machine.launch("k", {{tensor(a.data(), in, {m, k}), tensor(b.data(), in, {k, n}),
                                       tensor(c.data(), out, {m, n})}})),
            "");
  const auto value = [](const std::vector<char> &data, DType dtype, int64_t i) {
    return loadAsDouble(dtype, &data[i * dtypeBytes(dtype)]);
  };
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      double expected = value(before, out, i * n + j);
      double scale = std::fabs(expected);
      for (int p = 0; p < k; ++p) {
        const double product = value(a, in, i * k + p) * value(b, in, p * n + j);
        expected += product;
        scale += std::fabs(product);
      }
      ASSERT_NEAR(value(c, out, i * n + j), expected, tolerance * scale)
          << dtypeName(in).str() << " " << i << " " << j;
    }
}

TEST(Tile, DotOfEachElementType) {
  checkDot(16, 32, 8, DType::F32, DType::F32, 1e-6);
  checkDot(16, 32, 8, DType::BF16, DType::F32, 1e-6);
  checkDot(16, 32, 8, DType::F16, DType::F32, 1e-6);
  checkDot(16, 32, 8, DType::F8E4M3, DType::F32, 1e-6);
  checkDot(16, 32, 8, DType::F8E5M2, DType::F32, 1e-6);
  checkDot(16, 32, 8, DType::F64, DType::F64, 1e-14);
  checkDot(16, 32, 8, DType::I8, DType::I32, 0);
  checkDot(16, 32, 8, DType::I32, DType::I32, 0);
}

TEST(Tile, DotOfShapesThatFillNoBlock) {
  checkDot(1, 1, 1, DType::F32, DType::F32, 1e-6);
  checkDot(1, 17, 3, DType::F32, DType::F32, 1e-6);
  checkDot(5, 33, 7, DType::BF16, DType::F32, 1e-6);
  checkDot(7, 8, 1, DType::F64, DType::F64, 1e-14);
  checkDot(9, 3, 64, DType::I8, DType::I32, 0);
}

} // namespace
} // namespace dtile::interpret::testing
