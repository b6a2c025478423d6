// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products of rows that are picked by number in each iteration of a loop: keys in pages, tokens
// that were chosen. GPUs copy them ahead (pass multistage-copies).
#include "host_support.h"
#include "kernel_text.h"

namespace dtile::backend::host::testing {
namespace {

constexpr int64_t kRows = 32, kLeft = 16;

/// Rows of `columns` elements of so many heads stand in pages of `slots`; a table has a number of a
/// page for every so many rows.
struct PagedRows {
  int64_t iterations, pages, slots, heads, columns;
  DType number = DType::I32;
};

std::string constant(const std::string &name, int64_t value) {
  return "%" + name + " = const {value = " + std::to_string(value) + "} : index";
}

/// Appends a `tile<32xi64>` of one number.
void everywhere(KernelText &text, const std::string &name, const std::string &number) {
  text.line("%" + name + " = tile.splat %" + number + " : tile<32xi64>");
}

/// c = a * the rows that the ops appended by `pick` name, as index tiles of `b` that are spread
/// over its columns.
KernelText product(const PagedRows &c, const Tensor &b, int64_t table,
                   llvm::function_ref<void(KernelText &)> before,
                   llvm::function_ref<void(KernelText &)> pick, const std::string &picked) {
  KernelText text;
  text.param("a", "in", DType::BF16, {kLeft, c.iterations * kRows});
  text.param("b", "in", DType::BF16, b.sizes);
  text.param("t", "in", c.number, {table});
  text.param("c", "out", DType::F32, {kLeft, c.columns});
  text.line(constant("c0", 0)).line(constant("c1", 1)).line(constant("each", kRows));
  text.line(constant("times", c.iterations)).line(constant("past", c.iterations * kRows));
  text.line(constant("left", kLeft)).line(constant("width", c.columns));
  text.line(constant("none", -1)).line(constant("table", table));
  text.line("%z = const {value = 0.0} : f32").line("%init = tile.splat %z : tile<16x64xf32>");
  text.line("%count = tile.iota : tile<32xi32>").line("%row = cast %count : tile<32xi64>");
  text.line("%column = tile.iota : tile<64xi32>").line("%wide = cast %column : tile<64xi64>");
  text.line("%end = tile.splat %width : tile<64xi64>");
  text.line("%outside = tile.splat %none : tile<64xi64>");
  text.line("%is = cmp %wide, %end {pred = \"lt\"} : tile<64xbool>");
  text.line("%window = select %is, %wide, %outside : tile<64xi64>");
  text.line("%line = tile.reshape %window : tile<1x64xi64>");
  text.line("%columns = tile.broadcast %line : tile<32x64xi64>");
  before(text);
  text.line("%acc = for %c0, %times, %c1, %init : tile<16x64xf32> "
            "(%j: index, %s: tile<16x64xf32>) {");
  text.line("%k = mul %j, %each : index");
  text.line("%av = view.tile %a, %c0, %left, %k, %past {dims = \"rr\", lens = [16, 32]} : "
            "view<bf16, 2>");
  text.line("%al = load %av : tile<16x32xbf16>");
  pick(text);
  text.line("%bl = gather %b, " + picked + ", %columns {ntok = 0} : tile<32x64xbf16>");
  text.line("%d = tile.dot %al, %bl, %s : tile<16x64xf32>").line("yield %d").line("}");
  text.line("%cv = view.tile %c, %c0, %left, %c0, %width {dims = \"rr\", lens = [16, 64]} : "
            "view<f32, 2>");
  text.line("store %acc, %cv");
  return text;
}

/// What the product has to be, where `rowOf` gives the place of a row in `b`, or less than 0.
void expectProduct(const PagedRows &c, const std::vector<Tensor> &left,
                   llvm::function_ref<int64_t(int64_t)> rowOf) {
  const Tensor &a = left[0], &b = left[1];
  for (int64_t row = 0; row < kLeft; ++row)
    for (int64_t column = 0; column < c.columns; ++column) {
      double sum = 0;
      for (int64_t k = 0; k < c.iterations * kRows; ++k)
        if (const int64_t from = rowOf(k); from >= 0)
          sum += a.at(row * c.iterations * kRows + k) * b.at(from * c.columns + column);
      ASSERT_NEAR(left[3].at(row * c.columns + column), sum, 1e-3);
    }
}

TEST(HostRows, RowsOfPages) {
  for (const PagedRows &c : {PagedRows{9, 11, 8, 1, 64}, PagedRows{9, 5, 16, 3, 64},
                             PagedRows{1, 5, 16, 2, 64}, PagedRows{0, 5, 16, 2, 64},
                             // No page is a whole number of iterations, or the other way round.
                             PagedRows{6, 7, 12, 1, 64}, PagedRows{5, 3, 64, 2, 64},
                             // Rows that begin at no multiples of 16 bytes.
                             PagedRows{7, 4, 16, 2, 60}, PagedRows{8, 6, 16, 1, 61},
                             PagedRows{9, 5, 16, 3, 64, DType::I64},
                             // Numbers that no copy can bring.
                             PagedRows{6, 5, 16, 3, 64, DType::I8}}) {
    // What the last iteration asks for is past the table's end, which says 0.
    const int64_t rows = c.iterations * kRows;
    const int64_t table = std::max<int64_t>(0, (rows + c.slots - 1) / c.slots - 1);
    const int64_t head = c.heads - 1;
    const Tensor b = random(DType::BF16, {c.pages, c.slots, c.heads, c.columns}, 2);
    const Tensor t = filled(c.number, {table}, 1,
                            [&](int64_t i) { return double((i * 3 + 1) % (c.pages + 2) - 1); });
    const std::string number = dtypeName(c.number).str();
    const auto before = [&](KernelText &text) {
      text.line(constant("slots", c.slots)).line(constant("head", head));
      everywhere(text, "size", "slots");
      text.line("%heads = tile.splat %head : tile<32x64xi64>");
    };
    const auto pick = [&](KernelText &text) {
      everywhere(text, "base", "k");
      text.line("%at = add %base, %row : tile<32xi64>");
      text.line("%which = div %at, %size : tile<32xi64>");
      text.line("%page = gather %t, %which {ntok = 0} : tile<32x" + number + ">");
      text.line("%slot = rem %at, %size : tile<32xi64>");
      text.line("%p1 = tile.reshape %page : tile<32x1x" + number + ">");
      text.line("%p2 = tile.broadcast %p1 : tile<32x64x" + number + ">");
      text.line("%s1 = tile.reshape %slot : tile<32x1xi64>");
      text.line("%s2 = tile.broadcast %s1 : tile<32x64xi64>");
    };
    KernelText text = product(c, b, table, before, pick, "%p2, %s2, %heads");
    SCOPED_TRACE(text.single());
    const std::vector<Tensor> left = runBoth(
        text.single(), 1,
        {random(DType::BF16, {kLeft, rows}, 1), b, t, zeros(DType::F32, {kLeft, c.columns})}, 1e-4);
    expectProduct(c, left, [&](int64_t k) {
      const int64_t which = k / c.slots, page = which < table ? int64_t(t.at(which)) : 0;
      const bool exists = page >= 0 && page < c.pages;
      return exists ? (page * c.slots + k % c.slots) * c.heads + head : -1;
    });
  }
}

TEST(HostRows, RowsThatWereChosen) {
  // Of a tensor of rows, by numbers that follow each other, doubled on the way.
  for (const PagedRows &c :
       {PagedRows{9, 200, 1, 1, 64}, PagedRows{7, 50, 1, 1, 61},
        PagedRows{9, 200, 1, 1, 64, DType::I64}, PagedRows{4, 60, 1, 1, 64, DType::I16}}) {
    const int64_t rows = c.iterations * kRows, table = rows - 7;
    const Tensor b = random(DType::BF16, {c.pages, c.columns}, 2);
    const Tensor t = filled(c.number, {table}, 1, [&](int64_t i) {
      return double((i * 37 + 5) % (c.pages / 2 + 2) - 1);
    });
    const std::string tile = "tile<32x" + dtypeName(c.number).str() + ">";
    const auto pick = [&](KernelText &text) {
      text.line("%tv = view.tile %t, %k, %table {dims = \"r\", lens = [32]} : view<" +
                dtypeName(c.number).str() + ", 1>");
      text.line("%chosen = load %tv : " + tile);
      text.line("%twice = add %chosen, %chosen : " + tile);
      text.line("%p1 = tile.reshape %twice : tile<32x1x" + dtypeName(c.number).str() + ">");
      text.line("%p2 = tile.broadcast %p1 : tile<32x64x" + dtypeName(c.number).str() + ">");
    };
    KernelText text = product(c, b, table, [](KernelText &) {}, pick, "%p2");
    SCOPED_TRACE(text.single());
    const std::vector<Tensor> left = runBoth(
        text.single(), 1,
        {random(DType::BF16, {kLeft, rows}, 1), b, t, zeros(DType::F32, {kLeft, c.columns})}, 1e-4);
    expectProduct(c, left, [&](int64_t k) {
      const int64_t row = k < table ? 2 * int64_t(t.at(k)) : 0;
      return row >= 0 && row < c.pages ? row : -1;
    });
  }
}

/// Rows that are read twice, 8 of them by a body, in tiles of 256 columns: the largest element of
/// each is found first, then taken from all. GPUs keep tiles in shared memory in between (pass
/// keep-rows), and load again what it has no room for.
TEST(HostRows, RowsThatAreReadAgain) {
  struct Case {
    DType type;
    int64_t rows, columns;
  };
  for (const Case &c :
       {Case{DType::F32, 16, 256}, Case{DType::F32, 21, 1000}, Case{DType::BF16, 8, 2560},
        // Rows that begin at no multiples of 16 bytes.
        Case{DType::BF16, 19, 511}, Case{DType::BF16, 24, 1028}, Case{DType::F32, 17, 1027},
        Case{DType::F16, 16, 777},
        // More than there is room for.
        Case{DType::F32, 9, 4100}, Case{DType::F32, 8, 16384},
        // Nothing to read.
        Case{DType::F32, 8, 0}}) {
    const std::string type = dtypeName(c.type).str(), tile = "tile<8x256x" + type + ">";
    KernelText text;
    text.param("x", "in", c.type, {c.rows, c.columns});
    text.param("y", "out", c.type, {c.rows, c.columns});
    for (const auto &[name, value] :
         {std::pair<std::string, int64_t>{"c0", 0}, {"each", 8}, {"step", 256}})
      text.head(constant(name, value));
    const std::string window =
        "%m, %x_0, %n, %x_1 {dims = \"rr\", lens = [8, 256]} : view<" + type + ", 2>";
    text.line("%low = const {value = -100.0} : " + type);
    text.line("%init = tile.splat %low : tile<8x" + type + ">");
    text.line("%top = for %c0, %x_1, %step, %init : tile<8x" + type + "> (%n: index, %t: tile<8x" +
              type + ">) {");
    text.line("%xv = view.tile %x, " + window).line("%xl = load %xv : " + tile);
    text.line("%most = tile.reduce %xl {axis = 1, kind = \"max\"} : tile<8x" + type + ">");
    text.line("%next = max %t, %most : tile<8x" + type + ">").line("yield %next").line("}");
    text.line("%column = tile.reshape %top : tile<8x1x" + type + ">");
    text.line("%wide = tile.broadcast %column : " + tile);
    text.line("for %c0, %x_1, %step (%n: index) {");
    text.line("%xv2 = view.tile %x, " + window).line("%again = load %xv2 : " + tile);
    text.line("%less = sub %again, %wide : " + tile);
    text.line("%yv = view.tile %y, " + window).line("store %less, %yv").line("yield").line("}");
    const std::string kernel = text.over("%c0, %x_0, %each", "\"m\"", "%m: index");
    SCOPED_TRACE(kernel);
    runBoth(kernel, 1, {random(c.type, {c.rows, c.columns}, 1), zeros(c.type, {c.rows, c.columns})},
            1e-6);
  }
}

} // namespace
} // namespace dtile::backend::host::testing
