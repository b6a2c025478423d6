// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products and what loops and branches carry, in compiled code against the interpreter.
#include "host_support.h"

namespace dtile::backend::host::testing {
namespace {

struct Gemm {
  DType in;
  DType sum;
  DType out;
  int64_t m, n, k;
  int64_t bm, bn, bk;
  bool aTransposed = false;
  bool bTransposed = true;
  std::string order = "";
  bool isTf32 = false;
};

/// c = a b, the operands possibly stored transposed, in blocks.
std::string gemmText(const Gemm &g) {
  const std::string in = dtypeName(g.in).str();
  const std::string sum = dtypeName(g.sum).str();
  const std::string out = dtypeName(g.out).str();
  const auto n = [](int64_t value) { return std::to_string(value); };
  const auto tile = [&](int64_t rows, int64_t columns, const std::string &type) {
    return "tile<" + n(rows) + "x" + n(columns) + "x" + type + ">";
  };
  const std::string sumTile = tile(g.bm, g.bn, sum);
  std::string text = "kernel @k {\n";
  for (auto [name, value] : {std::pair{"c0", int64_t(0)},
                             {"M", g.m},
                             {"N", g.n},
                             {"K", g.k},
                             {"BM", g.bm},
                             {"BN", g.bn},
                             {"BK", g.bk}})
    text += std::string("  %") + name + " = const {value = " + n(value) + "} : index\n";
  text += std::string("  %a = param @a ") + (g.aTransposed ? "%K, %M" : "%M, %K") +
          " {param = 0, mode = \"in\"} : view<" + in + ", 2>\n";
  text += std::string("  %b = param @b ") + (g.bTransposed ? "%N, %K" : "%K, %N") +
          " {param = 1, mode = \"in\"} : view<" + in + ", 2>\n";
  text += "  %c = param @c %M, %N {param = 2, mode = \"out\"} : view<" + out + ", 2>\n";
  text += "  space @main %c0, %M, %BM, %c0, %N, %BN {vars = [\"m\", \"n\"]" + g.order +
          "} (%m: index, %n: index) {\n";
  text += isFloat(g.sum) ? "    %z = const {value = 0.0} : " + sum + "\n"
                         : "    %z = const {value = 0} : " + sum + "\n";
  text += "    %init = tile.splat %z : " + sumTile + "\n";
  text +=
      "    %acc = for %c0, %K, %BK, %init : " + sumTile + " (%k: index, %s: " + sumTile + ") {\n";
  const auto load = [&](const std::string &name, const std::string &rows, int64_t rowCount,
                        const std::string &rowLimit, const std::string &columns,
                        int64_t columnCount, const std::string &columnLimit) {
    text += "      %" + name + "v = view.tile %" + name + ", " + rows + ", " + rowLimit + ", " +
            columns + ", " + columnLimit + " {dims = \"rr\", lens = [" + n(rowCount) + ", " +
            n(columnCount) + "]} : view<" + in + ", 2>\n";
    text +=
        "      %" + name + "l = load %" + name + "v : " + tile(rowCount, columnCount, in) + "\n";
  };
  std::string a = "%al";
  std::string b = "%bl";
  if (g.aTransposed) {
    load("a", "%k", g.bk, "%K", "%m", g.bm, "%M");
    text += "      %at = tile.trans %al {perm = [1, 0]} : " + tile(g.bm, g.bk, in) + "\n";
    a = "%at";
  } else {
    load("a", "%m", g.bm, "%M", "%k", g.bk, "%K");
  }
  if (g.bTransposed) {
    load("b", "%n", g.bn, "%N", "%k", g.bk, "%K");
    text += "      %bt = tile.trans %bl {perm = [1, 0]} : " + tile(g.bk, g.bn, in) + "\n";
    b = "%bt";
  } else {
    load("b", "%k", g.bk, "%K", "%n", g.bn, "%N");
  }
  text += "      %d = tile.dot " + a + ", " + b + ", %s" +
          (g.isTf32 ? " {precision = \"tf32\"}" : "") + " : " + sumTile +
          "\n      yield %d\n    }\n";
  std::string result = "%acc";
  if (g.out != g.sum) {
    text += "    %r = cast %acc : " + tile(g.bm, g.bn, out) + "\n";
    result = "%r";
  }
  text += "    %cv = view.tile %c, %m, %M, %n, %N {dims = \"rr\", lens = [" + n(g.bm) + ", " +
          n(g.bn) + "]} : view<" + out + ", 2>\n";
  text += "    store " + result + ", %cv\n    yield\n  }\n  return\n}\n";
  return text;
}

/// How far a result is from the product in f64, relative to the sum of the magnitudes: what the
/// element that is worst has.
double errorOf(const Gemm &g, const std::vector<Tensor> &tensors) {
  double worst = 0;
  for (int64_t i = 0; i < g.m; ++i)
    for (int64_t j = 0; j < g.n; ++j) {
      double sum = 0, magnitude = 0;
      for (int64_t k = 0; k < g.k; ++k) {
        const double product = tensors[0].at(g.aTransposed ? k * g.m + i : i * g.k + k) *
                               tensors[1].at(g.bTransposed ? j * g.k + k : k * g.n + j);
        sum += product;
        magnitude += std::fabs(product);
      }
      worst = std::max(worst, std::fabs(tensors[2].at(i * g.n + j) - sum) / (magnitude + 1e-30));
    }
  return worst;
}

/// Compares with the interpreter, and with f64 where the sums are what is stored.
double checkGemm(const Gemm &g, double tolerance) {
  SCOPED_TRACE(gemmText(g));
  const std::vector<int64_t> aSizes = g.aTransposed ? std::vector{g.k, g.m} : std::vector{g.m, g.k};
  const std::vector<int64_t> bSizes = g.bTransposed ? std::vector{g.n, g.k} : std::vector{g.k, g.n};
  const std::vector<Tensor> tensors = runBoth(
      gemmText(g), 1, {random(g.in, aSizes, 1), random(g.in, bSizes, 2), zeros(g.out, {g.m, g.n})},
      tolerance);
  const double error = errorOf(g, tensors);
  if (g.out != g.sum || dtypeBits(g.sum) < 32)
    return error;
  // One rounding of each sum; of tf32, half a unit of the last of 10 bits in either factor.
  double bound = isInteger(g.sum) ? 0 : double(g.k) * (g.sum == DType::F64 ? 0x1p-53 : 0x1p-24);
  if (g.isTf32)
    bound += 0x1p-10 + 0x1p-22;
  EXPECT_LE(error, bound);
  return error;
}

TEST(HostDot, ProductsOfEveryLayout) {
  for (bool aTransposed : {false, true})
    for (bool bTransposed : {false, true}) {
      const Gemm whole{.in = DType::F32,
                       .sum = DType::F32,
                       .out = DType::F32,
                       .m = 64,
                       .n = 128,
                       .k = 64,
                       .bm = 32,
                       .bn = 64,
                       .bk = 32,
                       .aTransposed = aTransposed,
                       .bTransposed = bTransposed};
      checkGemm(whole, 1e-5);
      Gemm ragged = whole;
      ragged.m = 61, ragged.n = 67, ragged.k = 35;
      checkGemm(ragged, 1e-5);
    }
}

TEST(HostDot, BlocksOfEveryShape) {
  for (auto [bm, bn, bk] : {std::tuple<int64_t, int64_t, int64_t>{1, 16, 8},
                            {3, 8, 5},
                            {7, 12, 6},
                            {16, 1, 4},
                            {13, 48, 16},
                            {17, 96, 12},
                            {2, 2, 2},
                            {1, 1, 1}})
    for (bool bTransposed : {false, true})
      checkGemm({.in = DType::F32,
                 .sum = DType::F32,
                 .out = DType::F32,
                 .m = 2 * bm + 1,
                 .n = bn + 3,
                 .k = 3 * bk - 1,
                 .bm = bm,
                 .bn = bn,
                 .bk = bk,
                 .bTransposed = bTransposed},
                1e-5);
}

#ifdef DTILE_EMULATED_SHARED
constexpr bool kHasLittleShared = true;
#else
constexpr bool kHasLittleShared = false;
#endif

// What `--batch-invariant` builds on: neither the number of rows nor the height and width of tiles
// decides in which order a row's products are added, as long as loops have one step and one matrix
// instruction multiplies.
TEST(HostDot, BitsOfARowDependOnNoOther) {
  for (DType in : {DType::F32, DType::BF16}) {
    std::vector<double> first;
    for (auto [m, bm, bn] : {std::tuple<int64_t, int64_t, int64_t>{70, 32, 32},
                             {1, 32, 32},
                             {3, 32, 32},
                             {33, 32, 32},
#if !defined(DTILE_EMULATED_LANES) || DTILE_EMULATED_LANES == 32
                             // Of AMD's products low tiles take others than high ones.
                             {70, 16, 32},
                             {17, 64, 32},
                             {70, 32, 64},
#endif
                             {64, 32, 32}}) {
      const Gemm g{.in = in,
                   .sum = DType::F32,
                   .out = DType::F32,
                   .m = m,
                   .n = 40,
                   .k = 200,
                   .bm = bm,
                   .bn = bn,
                   .bk = 32};
      const std::vector<Tensor> tensors = runBoth(
          gemmText(g), 1,
          {random(in, {m, g.k}, 1), random(in, {g.n, g.k}, 2), zeros(DType::F32, {m, g.n})}, 1e-4);
      if (first.empty())
        for (int64_t i = 0; i < m * g.n; ++i)
          first.push_back(tensors[2].at(i));
      for (int64_t i = 0; i < m * g.n; ++i)
        ASSERT_EQ(tensors[2].at(i), first[size_t(i)]) << m << " rows, element " << i;
    }
  }
}

/// Blocks that are made of whole matrix instructions, where a machine has them.
TEST(HostDot, NarrowTypesOfEveryLayout) {
  struct Block {
    int64_t m, n, k;
  };
  const Block blocks[] = {{64, 64, 32}, {16, 8, 32}, {48, 24, 64}, {128, 192, 32}, {32, 96, 96}};
  for (DType type : {DType::BF16, DType::F16, DType::F8E4M3, DType::F8E5M2, DType::I8})
    for (const Block &block : blocks)
      for (int layout = 0; layout < 4; ++layout) {
        const DType sum = type == DType::I8 ? DType::I32 : DType::F32;
        // The large blocks once; the others past their edges, too.
        const bool isLarge = block.m * block.n > 2000;
        if (isLarge && layout != 2 && type != DType::BF16)
          continue;
        // How a block is cut to what there is depends on the size of elements and on whether they
        // are floats; where 64 x 64 goes in pieces, the largest is only more of them.
        const bool isLikeOthers = type == DType::F16 || type == DType::F8E5M2 ||
                                  (block.m * block.n > 20000 && layout != 2);
        if (kHasLittleShared && isLikeOthers)
          continue;
        checkGemm({.in = type,
                   .sum = sum,
                   .out = sum,
                   .m = block.m + (layout == 1 ? 5 : 0),
                   .n = block.n + (layout == 3 ? 3 : 0),
                   .k = 2 * block.k - (layout == 1 ? 8 : 0),
                   .bm = block.m,
                   .bn = block.n,
                   .bk = block.k,
                   .aTransposed = (layout & 1) != 0,
                   .bTransposed = (layout & 2) != 0},
                  1e-5);
      }
}

TEST(HostDot, ProductsOfTf32) {
  struct Block {
    int64_t m, n, k;
  };
  for (const Block &block : {Block{64, 64, 32}, Block{16, 16, 16}, Block{32, 96, 8}})
    for (int layout = 0; layout < 4; ++layout) {
      const Gemm gemm{.in = DType::F32,
                      .sum = DType::F32,
                      .out = DType::F32,
                      .m = block.m + (layout == 1 ? 5 : 0),
                      .n = block.n + (layout == 3 ? 3 : 0),
                      .k = 2 * block.k - (layout == 1 ? 3 : 0),
                      .bm = block.m,
                      .bn = block.n,
                      .bk = block.k,
                      .aTransposed = (layout & 1) != 0,
                      .bTransposed = (layout & 2) != 0,
                      .isTf32 = true};
      // That they are rounded can be seen.
      EXPECT_GT(checkGemm(gemm, 1e-5), 0x1p-16);
    }
  // Other blocks may be multiplied as they are.
  checkGemm({.in = DType::F32,
             .sum = DType::F32,
             .out = DType::F32,
             .m = 11,
             .n = 9,
             .k = 10,
             .bm = 5,
             .bn = 7,
             .bk = 3,
             .isTf32 = true},
            4e-3);
}

/// More iterations than any machine starts copies of ahead, and rows that begin at multiples of 16
/// bytes, of 4, and of neither.
TEST(HostDot, LongSumsOfEveryAlignment) {
  for (DType type : {DType::BF16, DType::F8E4M3, DType::F32, DType::F64})
    for (int64_t more : {0, 2, 3})
      for (int layout = 0; layout < 4; ++layout) {
        const bool isNarrow = dtypeBits(type) <= 16;
        // All ways in all layouts for one type.
        if (type != DType::BF16 && (layout + more) % 4 != 2)
          continue;
        const int64_t bk = isNarrow ? 32 : 16;
        checkGemm({.in = type,
                   .sum = isNarrow ? DType::F32 : type,
                   .out = isNarrow ? DType::F32 : type,
                   .m = 48 + more,
                   .n = 64 - more,
                   .k = 9 * bk - more,
                   .bm = 32,
                   .bn = 64,
                   .bk = bk,
                   .aTransposed = (layout & 1) != 0,
                   .bTransposed = (layout & 2) != 0},
                  type == DType::F64 ? 1e-12 : 1e-5);
      }
}

TEST(HostDot, NothingToSum) {
  for (int64_t k : {0, 1})
    checkGemm({.in = DType::BF16,
               .sum = DType::F32,
               .out = DType::F32,
               .m = 32,
               .n = 64,
               .k = k,
               .bm = 32,
               .bn = 64,
               .bk = 32},
              1e-5);
}

/// Two products in one loop, rows' largest values and sums between them, and one operand that is
/// the same all the time. Rows are fewer than an instruction's, too.
TEST(HostDot, ProductsOfProducts) {
  for (const auto &[rows, keys] : {std::pair<int64_t, int64_t>{32, 0},
                                   {32, 45},
                                   {32, 256},
                                   {8, 45},
                                   {4, 256},
                                   {12, 45},
                                   {24, 256},
                                   {2, 45},
                                   {128, 45}}) {
    std::string text =
        "kernel @k {\n  %c0 = const {value = 0} : index\n"
        "  %S = const {value = " +
        std::to_string(keys) +
        "} : index\n"
        "  %Q = const {value = 50} : index\n  %D = const {value = 64} : index\n"
        "  %BQ = const {value = #} : index\n  %BS = const {value = 32} : index\n"
        "  %q = param @q %Q, %D {param = 0, mode = \"in\"} : view<bf16, 2>\n"
        "  %k = param @k %S, %D {param = 1, mode = \"in\"} : view<bf16, 2>\n"
        "  %v = param @v %S, %D {param = 2, mode = \"in\"} : view<bf16, 2>\n"
        "  %y = param @y %Q, %D {param = 3, mode = \"out\"} : view<f32, 2>\n"
        "  space @main %c0, %Q, %BQ {vars = [\"r\"]} (%r: index) {\n"
        "    %z = const {value = 0.0} : f32\n    %low = const {value = -1000.0} : f32\n"
        "    %acc = tile.splat %z : tile<#x64xf32>\n    %m = tile.splat %low : tile<#xf32>\n"
        "    %l = tile.splat %z : tile<#xf32>\n    %none = tile.splat %z : tile<#x32xf32>\n"
        "    %qv = view.tile %q, %r, %Q {dims = \"ra\", lens = [#]} : view<bf16, 2>\n"
        "    %a, %b, %c = for %c0, %S, %BS, %acc, %m, %l : tile<#x64xf32>, tile<#xf32>, "
        "tile<#xf32> (%s: index, %acc1: tile<#x64xf32>, %m1: tile<#xf32>, %l1: tile<#xf32>) {\n"
        "      %ql = load %qv : tile<#x64xbf16>\n"
        "      %kv = view.tile %k, %s, %S {dims = \"ra\", lens = [32]} : view<bf16, 2>\n"
        "      %kl = load %kv : tile<32x64xbf16>\n"
        "      %kt = tile.trans %kl {perm = [1, 0]} : tile<64x32xbf16>\n"
        "      %x = tile.dot %ql, %kt, %none : tile<#x32xf32>\n"
        "      %xm = tile.reduce %x {axis = 1, kind = \"max\"} : tile<#xf32>\n"
        "      %m2 = max %m1, %xm : tile<#xf32>\n"
        "      %mc = tile.reshape %m2 : tile<#x1xf32>\n"
        "      %mb = tile.broadcast %mc : tile<#x32xf32>\n"
        "      %d = sub %x, %mb : tile<#x32xf32>\n      %p = exp2 %d : tile<#x32xf32>\n"
        "      %e = sub %m1, %m2 : tile<#xf32>\n      %w = exp2 %e : tile<#xf32>\n"
        "      %wc = tile.reshape %w : tile<#x1xf32>\n"
        "      %wb = tile.broadcast %wc : tile<#x64xf32>\n"
        "      %acc2 = mul %acc1, %wb : tile<#x64xf32>\n"
        "      %pn = cast %p : tile<#x32xbf16>\n"
        "      %vv = view.tile %v, %s, %S {dims = \"ra\", lens = [32]} : view<bf16, 2>\n"
        "      %vl = load %vv : tile<32x64xbf16>\n"
        "      %acc3 = tile.dot %pn, %vl, %acc2 : tile<#x64xf32>\n"
        "      %l2 = mul %l1, %w : tile<#xf32>\n"
        "      %ps = tile.reduce %p {axis = 1, kind = \"sum\"} : tile<#xf32>\n"
        "      %l3 = add %l2, %ps : tile<#xf32>\n"
        "      yield %acc3, %m2, %l3\n    }\n"
        "    %one = const {value = 1.0} : f32\n    %ones = tile.splat %one : tile<#xf32>\n"
        "    %safe = max %c, %ones : tile<#xf32>\n"
        "    %lc = tile.reshape %safe : tile<#x1xf32>\n"
        "    %lb = tile.broadcast %lc : tile<#x64xf32>\n"
        "    %out = div %a, %lb : tile<#x64xf32>\n"
        "    %yv = view.tile %y, %r, %Q {dims = \"ra\", lens = [#]} : view<f32, 2>\n"
        "    store %out, %yv\n    yield\n  }\n  return\n}\n";
    for (size_t at = text.find('#'); at != std::string::npos; at = text.find('#', at))
      text.replace(at, 1, std::to_string(rows));
    SCOPED_TRACE(text);
    runBoth(text, 1,
            {random(DType::BF16, {50, 64}, 1, 1, 0.5), random(DType::BF16, {keys, 64}, 2),
             random(DType::BF16, {keys, 64}, 3), zeros(DType::F32, {50, 64})},
            2e-2);
  }
}

/// Tiles in pages, whose numbers are looked up, and may be none of a page's; where `pageDim` is 1,
/// rows of all pages follow each other.
struct Pages {
  int64_t iterations, pages, columns;
  int pageDim = 0;
  /// Numbers say where numbers are.
  bool isTwice = false;
  DType number = DType::I32;
};

TEST(HostDot, OperandsInPages) {
  const auto n = [](int64_t value) { return std::to_string(value); };
  for (const Pages &c : {Pages{9, 5, 64},
                         {1, 1, 64},
                         {0, 3, 64},
                         {7, 4, 60},
                         {8, 6, 61},
                         {9, 4, 64, 1},
                         // Whether rows begin at multiples of 16 bytes follows from the number.
                         {6, 4, 4, 1},
                         {9, 5, 64, 0, true},
                         {9, 5, 64, 0, false, DType::I64},
                         {6, 4, 4, 1, false, DType::I64},
                         {8, 5, 64, 0, false, DType::I8}}) {
    const int64_t table = c.iterations - 1;
    const std::string type = dtypeName(c.number).str();
    std::string text =
        "kernel @k {\n  %c0 = const {value = 0} : index\n  %c1 = const {value = 1} : index\n"
        "  %M = const {value = 16} : index\n  %BK = const {value = 16} : index\n"
        "  %J = const {value = " +
        n(c.iterations) +
        "} : index\n"
        "  %K = const {value = " +
        n(c.iterations * 16) +
        "} : index\n"
        "  %T = const {value = " +
        n(std::max<int64_t>(table, 0)) +
        "} : index\n"
        "  %P = const {value = " +
        n(c.pages) +
        "} : index\n"
        "  %N = const {value = " +
        n(c.columns) +
        "} : index\n"
        "  %BN = const {value = 64} : index\n"
        "  %a = param @a %M, %K {param = 0, mode = \"in\"} : view<bf16, 2>\n"
        "  %b = param @b " +
        (c.pageDim == 0 ? "%P, %BK, %N" : "%BK, %P, %N") +
        " {param = 1, mode = \"in\"} : view<bf16, 3>\n"
        "  %t = param @t %T {param = 2, mode = \"in\"} : view<" +
        type +
        ", 1>\n"
        "  %c = param @c %M, %N {param = 3, mode = \"out\"} : view<f32, 2>\n"
        "  space @main %c0, %N, %BN {vars = [\"n\"]} (%n: index) {\n"
        "    %z = const {value = 0.0} : f32\n    %init = tile.splat %z : tile<16x64xf32>\n"
        "    %acc = for %c0, %J, %c1, %init : tile<16x64xf32> (%j: index, %s: tile<16x64xf32>) {\n"
        "      %k = mul %j, %BK : index\n"
        "      %av = view.tile %a, %c0, %M, %k, %K {dims = \"rr\", lens = [16, 16]} : "
        "view<bf16, 2>\n      %al = load %av : tile<16x16xbf16>\n"
        "      %e = view.slice %t, %j {dims = \"i\"} : view<" +
        type + ", 0>\n";
    // Numbers of 64 bits are indices as they are.
    if (c.number == DType::I64)
      text += "      %i = load %e : index\n";
    else
      text += "      %p = load %e : " + type + "\n";
    if (c.isTwice)
      text += "      %i2 = cast %p : index\n"
              "      %e2 = view.slice %t, %i2 {dims = \"i\"} : view<i32, 0>\n"
              "      %q = load %e2 : i32\n      %i = cast %q : index\n";
    else if (c.number != DType::I64)
      text += "      %i = cast %p : index\n";
    text += std::string("      %page = view.slice %b, %i {dims = \"") +
            (c.pageDim == 0 ? "iaa" : "aia") +
            "\"} : view<bf16, 2>\n"
            "      %bv = view.tile %page, %c0, %BK, %n, %N {dims = \"rr\", lens = [16, 64]} : "
            "view<bf16, 2>\n      %bl = load %bv : tile<16x64xbf16>\n"
            "      %d = tile.dot %al, %bl, %s : tile<16x64xf32>\n      yield %d\n    }\n"
            "    %cv = view.tile %c, %c0, %M, %n, %N {dims = \"rr\", lens = [16, 64]} : "
            "view<f32, 2>\n    store %acc, %cv\n    yield\n  }\n  return\n}\n";
    SCOPED_TRACE(text);
    // The last iteration is past the table's end, which says 0.
    const Tensor a = random(DType::BF16, {16, c.iterations * 16}, 1);
    const Tensor b = random(DType::BF16,
                            c.pageDim == 0 ? std::vector{c.pages, int64_t(16), c.columns}
                                           : std::vector{int64_t(16), c.pages, c.columns},
                            2);
    const Tensor t = filled(c.number, {std::max<int64_t>(table, 0)}, 1,
                            [&](int64_t i) { return double((i * 3 + 1) % (c.pages + 2) - 1); });
    const std::vector<Tensor> left =
        runBoth(text, 1, {a, b, t, zeros(DType::F32, {16, c.columns})}, 1e-5);
    const auto lookedUp = [&](int64_t i) { return i < 0 || i >= table ? 0 : int64_t(t.at(i)); };
    for (int64_t row = 0; row < 16; ++row)
      for (int64_t column = 0; column < c.columns; ++column) {
        double sum = 0;
        for (int64_t j = 0; j < c.iterations; ++j) {
          const int64_t page = c.isTwice ? lookedUp(lookedUp(j)) : lookedUp(j);
          for (int64_t k = 0; k < 16 && page >= 0 && page < c.pages; ++k)
            sum += a.at((row * c.iterations + j) * 16 + k) *
                   b.at((c.pageDim == 0 ? page * 16 + k : k * c.pages + page) * c.columns + column);
        }
        ASSERT_NEAR(left[3].at(row * c.columns + column), sum, 1e-4);
      }
  }
}

/// A body that reads what it has just written, in a loop of products, and writes it again.
/// Instructions that would be chosen for each by itself leave their sums in other places.
TEST(HostDot, SumsOfProductsOfSeveralDepths) {
  const std::string text =
      "kernel @k {\n  %R = const {value = 16} : index\n  %N = const {value = 128} : index\n"
      "  %K = const {value = 64} : index\n"
      "  %a = param @a %R, %K {param = 0, mode = \"in\"} : view<bf16, 2>\n"
      "  %b = param @b %K, %N {param = 1, mode = \"in\"} : view<bf16, 2>\n"
      "  %d = param @d %R, %R {param = 2, mode = \"in\"} : view<bf16, 2>\n"
      "  %e = param @e %R, %N {param = 3, mode = \"in\"} : view<bf16, 2>\n"
      "  %c = param @c %R, %N {param = 4, mode = \"out\"} : view<f32, 2>\n"
      "  space @main {vars = []} {\n"
      "    %z = const {value = 0.0} : f32\n    %none = tile.splat %z : tile<16x128xf32>\n"
      "    %al = load %a : tile<16x64xbf16>\n    %bl = load %b : tile<64x128xbf16>\n"
      "    %dl = load %d : tile<16x16xbf16>\n    %el = load %e : tile<16x128xbf16>\n"
      "    %x = tile.dot %al, %bl, %none : tile<16x128xf32>\n"
      "    %y = tile.dot %dl, %el, %x : tile<16x128xf32>\n"
      "    store %y, %c\n    yield\n  }\n  return\n}\n";
  runBoth(text, 1,
          {random(DType::BF16, {16, 64}, 1), random(DType::BF16, {64, 128}, 2),
           random(DType::BF16, {16, 16}, 3), random(DType::BF16, {16, 128}, 4),
           zeros(DType::F32, {16, 128})},
          1e-4);
}

TEST(HostDot, OperandsThatTheBodyWrites) {
  const std::string text =
      "kernel @k {\n  %c0 = const {value = 0} : index\n  %n2 = const {value = 2} : index\n"
      "  %c1 = const {value = 1} : index\n  %R = const {value = 32} : index\n"
      "  %K = const {value = 256} : index\n  %BK = const {value = 32} : index\n"
      "  %a = param @a %R, %K {param = 0, mode = \"inout\"} : view<bf16, 2>\n"
      "  %b = param @b %R, %K {param = 1, mode = \"in\"} : view<bf16, 2>\n"
      "  %c = param @c %R, %R {param = 2, mode = \"out\"} : view<f32, 2>\n"
      "  space @main {vars = []} {\n"
      "    %z = const {value = 0.0} : f32\n    %init = tile.splat %z : tile<32x32xf32>\n"
      "    for %c0, %n2, %c1 (%i: index) {\n"
      "      %all = load %a : tile<32x256xbf16>\n"
      "      %more = add %all, %all : tile<32x256xbf16>\n      store %more, %a\n"
      "      %sum = for %c0, %K, %BK, %init : tile<32x32xf32> (%k: index, %s: tile<32x32xf32>) {\n"
      "        %av = view.tile %a, %k, %K {dims = \"ar\", lens = [32]} : view<bf16, 2>\n"
      "        %al = load %av : tile<32x32xbf16>\n"
      "        %bv = view.tile %b, %k, %K {dims = \"ar\", lens = [32]} : view<bf16, 2>\n"
      "        %bl = load %bv : tile<32x32xbf16>\n"
      "        %bt = tile.trans %bl {perm = [1, 0]} : tile<32x32xbf16>\n"
      "        %d = tile.dot %al, %bt, %s : tile<32x32xf32>\n        yield %d\n      }\n"
      "      store %sum, %c\n      yield\n    }\n    yield\n  }\n  return\n}\n";
  runBoth(text, 1,
          {random(DType::BF16, {32, 256}, 1), random(DType::BF16, {32, 256}, 2),
           zeros(DType::F32, {32, 32})},
          1e-4);
}

TEST(HostDot, TypesAreSummedInTheResults) {
  for (DType type : {DType::BF16, DType::F16, DType::F8E4M3, DType::F8E5M2})
    checkGemm({.in = type,
               .sum = DType::F32,
               .out = type,
               .m = 40,
               .n = 40,
               .k = 40,
               .bm = 32,
               .bn = 32,
               .bk = 32},
              type == DType::BF16  ? 0.01
              : type == DType::F16 ? 0.001
                                   : 0.13);
  checkGemm({.in = DType::F64,
             .sum = DType::F64,
             .out = DType::F64,
             .m = 40,
             .n = 40,
             .k = 40,
             .bm = 32,
             .bn = 32,
             .bk = 32},
            1e-13);
  checkGemm({.in = DType::I8,
             .sum = DType::I32,
             .out = DType::I32,
             .m = 40,
             .n = 40,
             .k = 40,
             .bm = 32,
             .bn = 32,
             .bk = 32},
            0);
  checkGemm({.in = DType::BF16,
             .sum = DType::BF16,
             .out = DType::BF16,
             .m = 32,
             .n = 32,
             .k = 16,
             .bm = 32,
             .bn = 32,
             .bk = 16},
            0.02);
}

TEST(HostDot, BodiesFollowTheScheduledOrder) {
  for (const char *order : {", order = [1, 0]", ", group = [2, 0]", ", rotate = [1, 0]",
                            ", rotate = [0, -1], start = [0, 2]",
                            ", order = [1, 0], group = [0, 3], rotate = [1, 1], start = [1, 0]"})
    checkGemm({.in = DType::F32,
               .sum = DType::F32,
               .out = DType::F32,
               .m = 100,
               .n = 70,
               .k = 16,
               .bm = 16,
               .bn = 16,
               .bk = 16,
               .order = order},
              1e-5);
}

// Control.

std::string bodyText(const std::string &body, const std::string &params = "") {
  return "kernel @k {\n  %c0 = const {value = 0} : index\n  %c1 = const {value = 1} : index\n"
         "  %n = const {value = 5} : index\n  %len = const {value = 32} : index\n"
         "  %x = param @x %len {param = 0, mode = \"in\"} : view<f32, 1>\n"
         "  %t = param @t %len {param = 1, mode = \"out\"} : view<f32, 1>\n"
         "  %u = param @u %len {param = 2, mode = \"out\"} : view<f32, 1>\n" +
         params + "  space @main {vars = []} {\n    %a = load %x : tile<32xf32>\n" + body +
         "    yield\n  }\n  return\n}\n";
}

void checkBody(const std::string &body) {
  SCOPED_TRACE(body);
  runBoth(bodyText(body), 1,
          {random(DType::F32, {32}, 1), zeros(DType::F32, {32}), zeros(DType::F32, {32})}, 1e-5);
}

TEST(HostControl, LoopsCarryTiles) {
  checkBody("    %s = add %a, %a : tile<32xf32>\n"
            "    %r = for %c0, %n, %c1, %s : tile<32xf32> (%i: index, %c: tile<32xf32>) {\n"
            "      %d = add %c, %a : tile<32xf32>\n      yield %d\n    }\n"
            "    store %r, %t\n    store %s, %u\n");
}

TEST(HostControl, LoopsThatDoNotRunKeepTheirStart) {
  checkBody("    %r = for %n, %c0, %c1, %a : tile<32xf32> (%i: index, %c: tile<32xf32>) {\n"
            "      %d = add %c, %c : tile<32xf32>\n      yield %d\n    }\n"
            "    store %r, %t\n    store %a, %u\n");
}

TEST(HostControl, LoopsSwapTiles) {
  checkBody("    %b = exp %a : tile<32xf32>\n"
            "    %p, %q = for %c0, %n, %c1, %a, %b : tile<32xf32>, tile<32xf32> "
            "(%i: index, %c: tile<32xf32>, %d: tile<32xf32>) {\n"
            "      yield %d, %c\n    }\n    store %p, %t\n    store %q, %u\n");
}

TEST(HostControl, LoopsUseTheOldTileAfterMakingTheNew) {
  checkBody("    %r = for %c0, %n, %c1, %a : tile<32xf32> (%i: index, %c: tile<32xf32>) {\n"
            "      %d = add %c, %a : tile<32xf32>\n"
            "      %e = mul %c, %d : tile<32xf32>\n"
            "      store %e, %u\n      yield %d\n    }\n    store %r, %t\n");
}

TEST(HostControl, NestedLoopsCarryOneTile) {
  checkBody("    %z = const {value = 0.0} : f32\n    %s = tile.splat %z : tile<32xf32>\n"
            "    %r = for %c0, %n, %c1, %s : tile<32xf32> (%i: index, %c: tile<32xf32>) {\n"
            "      %v = for %c0, %i, %c1, %c : tile<32xf32> (%j: index, %d: tile<32xf32>) {\n"
            "        %e = add %d, %a : tile<32xf32>\n        yield %e\n      }\n"
            "      %g = mul %v, %a : tile<32xf32>\n      %h = add %v, %g : tile<32xf32>\n"
            "      yield %h\n    }\n    store %r, %t\n");
}

TEST(HostControl, ARunningRescaleKeepsBothTiles) {
  checkBody("    %z = const {value = 0.5} : f32\n    %s = tile.splat %z : tile<32xf32>\n"
            "    %m, %l = for %c0, %n, %c1, %s, %s : tile<32xf32>, tile<32xf32> "
            "(%i: index, %c: tile<32xf32>, %d: tile<32xf32>) {\n"
            "      %new = max %c, %a : tile<32xf32>\n"
            "      %diff = sub %c, %new : tile<32xf32>\n"
            "      %scale = exp %diff : tile<32xf32>\n"
            "      %o = mul %d, %scale : tile<32xf32>\n"
            "      %p = add %o, %a : tile<32xf32>\n"
            "      yield %new, %p\n    }\n    store %m, %t\n    store %l, %u\n");
}

/// What several iterations load may be on its way at once (pass batch-loads): of five iterations
/// to none, in the order of the loop, some behind the end of what is read.
TEST(HostControl, LoopsComputeWithWhatTheyLoad) {
  for (const std::string step : {"1", "2", "3", "40"})
    checkBody("    %z = const {value = 0.0} : f32\n    %s = tile.splat %z : tile<32xf32>\n"
              "    %two = const {value = 2.0} : f32\n    %k = tile.splat %two : tile<32xf32>\n"
              "    %step = const {value = " +
              step +
              "} : index\n"
              "    %n1 = add %n, %c1 : index\n"
              "    %r = for %c0, %n1, %c1, %s : tile<32xf32> (%i: index, %c: tile<32xf32>) {\n"
              "      %v = for %i, %n, %step, %c : tile<32xf32> (%j: index, %d: tile<32xf32>) {\n"
              "        %w = view.tile %x, %j, %len {dims = \"r\", lens = [32]} : view<f32, 1>\n"
              "        %l = load %w : tile<32xf32>\n        %m = mul %d, %k : tile<32xf32>\n"
              "        %e = sub %m, %l : tile<32xf32>\n        yield %e\n      }\n"
              "      yield %v\n    }\n    store %r, %t\n");
}

TEST(HostControl, WhileRunsUntilTheConditionFails) {
  checkBody("    %r, %k = while %a, %c0 : tile<32xf32>, index (%c: tile<32xf32>, %i: index) {\n"
            "      %go = cmp %i, %n {pred = \"lt\"} : bool\n"
            "      condition %go, %c, %i\n"
            "    } (%d: tile<32xf32>, %j: index) {\n"
            "      %e = add %d, %a : tile<32xf32>\n      %next = add %j, %c1 : index\n"
            "      yield %e, %next\n    }\n    store %r, %t\n    store %a, %u\n");
}

TEST(HostControl, WhileMayPassOtherTilesThanItHolds) {
  checkBody("    %r = while %a : tile<32xf32> (%c: tile<32xf32>) {\n"
            "      %sum = tile.reduce %c {kind = \"sum\", axis = 0} : f32\n"
            "      %big = abs %sum : f32\n      %limit = const {value = 100.0} : f32\n"
            "      %go = cmp %big, %limit {pred = \"lt\"} : bool\n"
            "      %d = neg %c : tile<32xf32>\n"
            "      condition %go, %d\n"
            "    } (%e: tile<32xf32>) {\n"
            "      %two = add %e, %e : tile<32xf32>\n      yield %two\n    }\n"
            "    store %r, %t\n");
}

TEST(HostControl, BranchesGiveTiles) {
  for (const char *pred : {"eq", "ne"})
    checkBody(std::string("    %w = num_ranks : index\n    %b = cmp %w, %c1 {pred = \"") + pred +
              "\"} : bool\n"
              "    %r = if %b : tile<32xf32> {\n"
              "      %p = add %a, %a : tile<32xf32>\n      yield %p\n    } {\n"
              "      yield %a\n    }\n"
              "    %s = mul %r, %a : tile<32xf32>\n    store %s, %t\n    store %r, %u\n");
}

TEST(HostControl, LoopsCarryScalarsAndViews) {
  checkBody("    %r, %v = for %c0, %n, %c1, %c0, %t : index, view<f32, 1> "
            "(%i: index, %s: index, %w: view<f32, 1>) {\n"
            "      %q = add %s, %i : index\n"
            "      %w1 = view.slice %w, %c1, %len {dims = \"r\"} : view<f32, 1>\n"
            "      yield %q, %w1\n    }\n"
            "    %e = view.slice %v, %r {dims = \"i\"} : view<f32, 0>\n"
            "    %h = const {value = 7.0} : f32\n    store %h, %e\n"
            "    %f = view.slice %v, %c0 {dims = \"i\"} : view<f32, 0>\n    store %h, %f\n");
}

} // namespace
} // namespace dtile::backend::host::testing
