// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tiles, their loops and products in compiled code against the interpreter.
#include "host_support.h"
#include "kernel_text.h"

namespace dtile::backend::host::testing {
namespace {

std::string shapeText(llvm::ArrayRef<int64_t> sizes, DType dtype) {
  std::string text = "tile<";
  for (int64_t size : sizes)
    text += std::to_string(size) + "x";
  return text + dtypeName(dtype).str() + ">";
}

/// Operations `%z = <op> %x` on tiles, all in one kernel.
class TileOps {
public:
  TileOps &add(const std::string &op, DType in, const std::vector<int64_t> &inSizes, DType out,
               const std::vector<int64_t> &outSizes) {
    const std::string i = std::to_string(tensors_.size());
    const std::string result = outSizes.empty() ? dtypeName(out).str() : shapeText(outSizes, out);
    const std::string source = shapeText(inSizes, in);
    text_.param("a" + i, "in", in, inSizes).param("t" + i, "out", out, outSizes);
    text_.line("%x" + i + " = load %a" + i + " : " + source);
    text_.line("%z" + i + " = " + op.substr(0, op.find("%x")) + "%x" + i +
               op.substr(op.find("%x") + 2) + " : " + result);
    text_.line("store %z" + i + ", %t" + i);
    tensors_.push_back(random(in, inSizes, 1));
    tensors_.push_back(zeros(out, outSizes));
    return *this;
  }
  void check(double tolerance = 1e-6) {
    SCOPED_TRACE(text_.single());
    runBoth(text_.single(), 1, tensors_, tolerance);
  }

private:
  KernelText text_;
  std::vector<Tensor> tensors_;
};

TEST(HostTile, RearrangementsMoveElements) {
  TileOps()
      .add("tile.trans %x {perm = [1, 0]}", DType::F32, {24, 40}, DType::F32, {40, 24})
      .add("tile.trans %x {perm = [2, 0, 1]}", DType::BF16, {3, 5, 8}, DType::BF16, {8, 3, 5})
      .add("tile.broadcast %x", DType::F32, {1, 16}, DType::F32, {12, 16})
      .add("tile.broadcast %x", DType::I16, {12, 1}, DType::I16, {12, 32})
      .add("tile.broadcast %x", DType::F8E4M3, {2, 1, 4}, DType::F8E4M3, {2, 3, 4})
      .add("tile.reshape %x", DType::F32, {6, 4}, DType::F32, {3, 8})
      .add("tile.reshape %x", DType::F32, {16}, DType::F32, {16, 1})
      .add("tile.reshape %x", DType::F32, {1, 16, 1}, DType::F32, {16})
      .check(0);
}

// Columns 8 to 40 of 64, as sema cuts them: four blocks of eight columns, from the second on.
TEST(HostTile, SlicesAreSumsOverBlocks) {
  for (DType type : {DType::F32, DType::BF16, DType::I32}) {
    const std::string name = dtypeName(type).str();
    KernelText text;
    text.param("x", "in", type, {16, 64}).param("y", "out", type, {16, 32});
    text.line("%t = load %x : tile<16x64x" + name + ">");
    text.line("%to = tile.iota : tile<4xi64>").line("%from = tile.iota : tile<8xi64>");
    text.line("%r = tile.reshape %to : tile<1x4x1x1xi64>");
    text.line("%one = const {value = 1} : index").line("%o = tile.splat %one : tile<1x4x1x1xi64>");
    text.line("%w = add %r, %o : tile<1x4x1x1xi64>");
    text.line("%wanted = tile.broadcast %w : tile<1x4x8x1xi64>");
    text.line("%f = tile.reshape %from : tile<1x1x8x1xi64>");
    text.line("%all = tile.broadcast %f : tile<1x4x8x1xi64>");
    text.line("%c = cmp %wanted, %all {pred = \"eq\"} : tile<1x4x8x1xbool>");
    text.line("%chosen = tile.broadcast %c : tile<16x4x8x8xbool>");
    text.line("%b = tile.reshape %t : tile<16x1x8x8x" + name + ">");
    text.line("%blocks = tile.broadcast %b : tile<16x4x8x8x" + name + ">");
    text.line(std::string("%none = const {value = ") + (type == DType::I32 ? "0" : "0.0") +
              "} : " + name);
    text.line("%others = tile.splat %none : tile<16x4x8x8x" + name + ">");
    text.line("%p = select %chosen, %blocks, %others : tile<16x4x8x8x" + name + ">");
    text.line("%s = tile.reduce %p {axis = 2, kind = \"sum\"} : tile<16x4x8x" + name + ">");
    text.line("%z = tile.reshape %s : tile<16x32x" + name + ">").line("store %z, %y");
    runBoth(text.single(), 1, {random(type, {16, 64}, 1), zeros(type, {16, 32})}, 0);
  }
}

TEST(HostTile, ReductionsDropTheirAxis) {
  for (DType type : {DType::F32, DType::F64, DType::BF16, DType::I32, DType::I8, DType::U16}) {
    TileOps ops;
    for (const char *kind : {"sum", "max", "min"}) {
      const std::string op = std::string("tile.reduce %x {kind = \"") + kind + "\", axis = ";
      ops.add(op + "0}", type, {48}, type, {}).add(op + "0}", type, {7}, type, {});
      ops.add(op + "0}", type, {1}, type, {}).add(op + "1}", type, {6, 32}, type, {6});
      ops.add(op + "0}", type, {6, 32}, type, {32}).add(op + "1}", type, {3, 5, 8}, type, {3, 8});
      ops.add(op + "1}", type, {6, 1}, type, {6}).add(op + "0}", type, {1, 6}, type, {6});
      ops.add(op + "0}", type, {5, 1}, type, {1});
    }
    ops.check(type == DType::BF16 ? 0.02 : 1e-5);
  }
}

TEST(HostTile, ProductsAndTruthReduceToo) {
  TileOps ops;
  ops.add("tile.reduce %x {kind = \"prod\", axis = 1}", DType::F32, {4, 8}, DType::F32, {4});
  for (const char *kind : {"any", "all"}) {
    const std::string op = std::string("tile.reduce %x {kind = \"") + kind + "\", axis = ";
    ops.add(op + "1}", DType::Bool, {16, 4}, DType::Bool, {16});
    ops.add(op + "0}", DType::Bool, {4, 16}, DType::Bool, {16});
  }
  ops.check();
}

TEST(HostTile, ScansAndPlacesOfExtremes) {
  for (DType type : {DType::F32, DType::I32, DType::U8}) {
    TileOps ops;
    for (const char *kind : {"max", "min"}) {
      const std::string op = std::string("tile.arg_reduce %x {kind = \"") + kind + "\", axis = ";
      ops.add(op + "0}", type, {33}, DType::I32, {}).add(op + "1}", type, {5, 9}, DType::I32, {5});
      ops.add(op + "0}", type, {5, 9}, DType::I32, {9});
    }
    ops.check();
  }
  for (DType type : {DType::F32, DType::I32, DType::BF16}) {
    TileOps ops;
    for (const char *kind : {"sum", "max"})
      for (const char *axis : {"0", "1"})
        ops.add(std::string("tile.scan %x {kind = \"") + kind + "\", axis = " + axis + "}", type,
                {5, 9}, type, {5, 9});
    ops.check(type == DType::BF16 ? 0.05 : 1e-6);
  }
}

TEST(HostTile, TakesElementsByTheirPositions) {
  struct Case {
    DType type, index;
    std::vector<int64_t> from, taken;
    int axis;
  };
  const Case cases[] = {{DType::F32, DType::I32, {33}, {40}, 0},
                        {DType::U8, DType::I64, {5, 9}, {5, 20}, 1},
                        {DType::BF16, DType::I32, {5, 9}, {3, 9}, 0},
                        {DType::I64, DType::U32, {2, 7, 3}, {2, 4, 3}, 1},
                        {DType::Bool, DType::I32, {16, 16}, {16, 16}, 1}};
  KernelText text;
  std::vector<Tensor> tensors;
  for (const auto &[i, one] : llvm::enumerate(cases)) {
    const std::string n = std::to_string(i);
    text.param("a" + n, "in", one.type, one.from).param("p" + n, "in", one.index, one.taken);
    text.param("t" + n, "out", one.type, one.taken);
    text.line("%x" + n + " = load %a" + n + " : " + shapeText(one.from, one.type));
    text.line("%i" + n + " = load %p" + n + " : " + shapeText(one.taken, one.index));
    text.line("%z" + n + " = tile.take %x" + n + ", %i" + n +
              " {axis = " + std::to_string(one.axis) + "} : " + shapeText(one.taken, one.type));
    text.line("store %z" + n + ", %t" + n);
    tensors.push_back(random(one.type, one.from, unsigned(i)));
    // Positions, and some beside them.
    const int64_t length = one.from[size_t(one.axis)];
    const int64_t least = dtypeClass(one.index) == DTypeClass::Int ? -1 : 0;
    tensors.push_back(filled(one.index, one.taken, 1, [&](int64_t element) {
      return double(element * 7 % (length + 2) + least);
    }));
    tensors.push_back(zeros(one.type, one.taken));
  }
  runBoth(text.single(), 1, tensors);
}

// What a reduction by a function of two values is: neighbours are joined, of an odd number the last
// stays.
TEST(HostTile, NeighboursAreJoinedUntilOneIsLeft) {
  constexpr int64_t kRows = 4, kLength = 21;
  KernelText text;
  text.param("a", "in", DType::F32, {kRows, kLength})
      .param("p", "in", DType::I32, {kRows, kLength});
  text.param("t", "out", DType::F32, {kRows}).param("u", "out", DType::I32, {kRows});
  text.line("%x = load %a : " + shapeText({kRows, kLength}, DType::F32));
  text.line("%q = load %p : " + shapeText({kRows, kLength}, DType::I32));
  std::string value = "%x", place = "%q";
  for (int64_t length = kLength; length > 1; length = (length + 1) / 2) {
    const int64_t half = (length + 1) / 2;
    const std::string n = std::to_string(length);
    const auto tile = [&](DType type) { return " : " + shapeText({kRows, half}, type); };
    const std::string line = " : " + shapeText({half}, DType::I32);
    const auto splat = [&](const std::string &name, int64_t number, const std::string &type) {
      text.line("%c" + name + n + " = const {value = " + std::to_string(number) + "} : i32");
      text.line("%" + name + n + " = tile.splat %c" + name + n + type);
    };
    const auto places = [&](const std::string &name, const std::string &from) {
      text.line("%r" + name + n + " = tile.reshape " + from + " : " +
                shapeText({1, half}, DType::I32));
      text.line("%" + name + n + " = tile.broadcast %r" + name + n + tile(DType::I32));
    };
    const auto take = [&](const std::string &name, const std::string &from, const std::string &at,
                          DType type) {
      text.line("%" + name + n + " = tile.take " + from + ", %" + at + n + " {axis = 1}" +
                tile(type));
    };
    splat("two", 2, line);
    splat("one", 1, line);
    text.line("%i" + n + " = tile.iota" + line);
    text.line("%e" + n + " = mul %i" + n + ", %two" + n + line);
    text.line("%f" + n + " = add %e" + n + ", %one" + n + line);
    places("first", "%e" + n);
    places("second", "%f" + n);
    take("v", value, "first", DType::F32);
    take("w", value, "second", DType::F32);
    take("g", place, "first", DType::I32);
    take("h", place, "second", DType::I32);
    splat("end", length, tile(DType::I32));
    text.line("%is" + n + " = cmp %second" + n + ", %end" + n + " {pred = \"lt\"}" +
              tile(DType::Bool));
    text.line("%gt" + n + " = cmp %w" + n + ", %v" + n + " {pred = \"gt\"}" + tile(DType::Bool));
    text.line("%do" + n + " = and %is" + n + ", %gt" + n + tile(DType::Bool));
    text.line("%nv" + n + " = select %do" + n + ", %w" + n + ", %v" + n + tile(DType::F32));
    text.line("%np" + n + " = select %do" + n + ", %h" + n + ", %g" + n + tile(DType::I32));
    value = "%nv" + n;
    place = "%np" + n;
  }
  text.line("%y = tile.reshape " + value + " : " + shapeText({kRows}, DType::F32));
  text.line("%z = tile.reshape " + place + " : " + shapeText({kRows}, DType::I32));
  text.line("store %y, %t").line("store %z, %u");
  const auto got = runBoth(text.single(), 1,
                           {random(DType::F32, {kRows, kLength}, 14),
                            filled(DType::I32, {kRows, kLength}, 1,
                                   [](int64_t element) { return double(element % kLength); }),
                            zeros(DType::F32, {kRows}), zeros(DType::I32, {kRows})},
                           0);
  for (int64_t row = 0; row < kRows; ++row)
    EXPECT_EQ(got[2].at(row), got[0].at(row * kLength + int64_t(got[3].at(row))));
}

// What `dot` of two stacks of matrices is.
TEST(HostTile, StacksOfMatricesAreMultipliedOneByOne) {
  KernelText text;
  text.param("a", "in", DType::F32, {3, 16, 8}).param("b", "in", DType::F32, {3, 8, 16});
  text.param("t", "out", DType::F32, {3, 16, 16});
  text.line("%x = load %a : tile<3x16x8xf32>").line("%y = load %b : tile<3x8x16xf32>");
  text.line("%c = const {value = 0.5} : f32").line("%h = tile.splat %c : tile<3x16x16xf32>");
  for (int i : {0, 1, 3})
    text.line("%c" + std::to_string(i) + " = const {value = " + std::to_string(i) + "} : index");
  text.line("%r = for %c0, %c3, %c1, %h : tile<3x16x16xf32> (%i: index, %s: tile<3x16x16xf32>) {");
  text.line("%n = cast %i : i32");
  const auto matrix = [&](const std::string &name, const std::string &from, const char *sizes) {
    const std::string alone = std::string(" : tile<1x") + sizes;
    text.line("%i" + name + " = tile.splat %n" + alone + "xi32>");
    text.line("%k" + name + " = tile.take " + from + ", %i" + name + " {axis = 0}" + alone +
              "xf32>");
    text.line("%m" + name + " = tile.reshape %k" + name + " : tile<" + sizes + "xf32>");
  };
  matrix("a", "%x", "16x8");
  matrix("b", "%y", "8x16");
  matrix("s", "%s", "16x16");
  text.line("%d = tile.dot %ma, %mb, %ms : tile<16x16xf32>");
  text.line("%d1 = tile.reshape %d : tile<1x16x16xf32>");
  text.line("%d3 = tile.broadcast %d1 : tile<3x16x16xf32>");
  text.line("%e = tile.iota : tile<3xi32>").line("%e1 = tile.reshape %e : tile<3x1x1xi32>");
  text.line("%e3 = tile.broadcast %e1 : tile<3x16x16xi32>");
  text.line("%n3 = tile.splat %n : tile<3x16x16xi32>");
  text.line("%it = cmp %e3, %n3 {pred = \"eq\"} : tile<3x16x16xbool>");
  text.line("%w = select %it, %d3, %s : tile<3x16x16xf32>").line("yield %w").line("}");
  text.line("store %r, %t");
  runBoth(text.single(), 1,
          {random(DType::F32, {3, 16, 8}, 15), random(DType::F32, {3, 8, 16}, 16),
           zeros(DType::F32, {3, 16, 16})},
          1e-5);
}

TEST(HostTile, SplatAndIotaNeedNoMemory) {
  KernelText text;
  text.param("t", "out", DType::F32, {8, 32}).param("u", "out", DType::I64, {24});
  text.line("%i = tile.iota : tile<32xi32>").line("%f = cast %i : tile<32xf32>");
  text.line("%r = tile.reshape %f : tile<1x32xf32>");
  text.line("%b = tile.broadcast %r : tile<8x32xf32>");
  text.line("%h = const {value = 0.5} : f32").line("%s = tile.splat %h : tile<8x32xf32>");
  text.line("%z = mul %b, %s : tile<8x32xf32>").line("store %z, %t");
  text.line("%j = tile.iota : tile<24xi64>").line("store %j, %u");
  runBoth(text.single(), 1, {zeros(DType::F32, {8, 32}), zeros(DType::I64, {24})});
}

TEST(HostTile, SoftmaxRowsReduceAndBroadcast) {
  KernelText text;
  text.param("x", "in", DType::BF16, {16, 64}).param("t", "out", DType::BF16, {16, 64});
  text.line("%l = load %x : tile<16x64xbf16>").line("%v = cast %l : tile<16x64xf32>");
  text.line("%m = tile.reduce %v {kind = \"max\", axis = 1} : tile<16xf32>");
  text.line("%mc = tile.reshape %m : tile<16x1xf32>");
  text.line("%mb = tile.broadcast %mc : tile<16x64xf32>");
  text.line("%d = sub %v, %mb : tile<16x64xf32>").line("%e = exp %d : tile<16x64xf32>");
  text.line("%s = tile.reduce %e {kind = \"sum\", axis = 1} : tile<16xf32>");
  text.line("%sc = tile.reshape %s : tile<16x1xf32>");
  text.line("%sb = tile.broadcast %sc : tile<16x64xf32>");
  text.line("%q = div %e, %sb : tile<16x64xf32>").line("%z = cast %q : tile<16x64xbf16>");
  text.line("store %z, %t");
  runBoth(text.single(), 1, {random(DType::BF16, {16, 64}, 3, 1, 5), zeros(DType::BF16, {16, 64})},
          1.0 / 128);
}

// Memory.

/// Blocks of `bm` x `bn` of an m x n tensor are doubled into another, by windows.
void checkWindows(DType type, int64_t m, int64_t n, int64_t bm, int64_t bn, bool transposed) {
  SCOPED_TRACE(std::to_string(m) + "x" + std::to_string(n));
  KernelText text;
  const std::string tile = shapeText({bm, bn}, type);
  const std::vector<int64_t> out = transposed ? std::vector{n, m} : std::vector{m, n};
  text.param("a", "in", type, {m, n}).param("t", "out", type, out);
  text.head("%c0 = const {value = 0} : index")
      .head("%bm = const {value = " + std::to_string(bm) + "} : index");
  text.head("%bn = const {value = " + std::to_string(bn) + "} : index");
  const std::string lens = std::to_string(bm) + ", " + std::to_string(bn);
  const std::string swapped = std::to_string(bn) + ", " + std::to_string(bm);
  text.line("%v = view.tile %a, %i, %a_0, %j, %a_1 {dims = \"rr\", lens = [" + lens + "]} : view<" +
            dtypeName(type).str() + ", 2>");
  text.line("%x = load %v : " + tile).line("%y = add %x, %x : " + tile);
  if (transposed) {
    text.line("%p = tile.trans %y {perm = [1, 0]} : " + shapeText({bn, bm}, type));
    text.line("%w = view.tile %t, %j, %a_1, %i, %a_0 {dims = \"rr\", lens = [" + swapped +
              "]} : view<" + dtypeName(type).str() + ", 2>");
    text.line("store %p, %w");
  } else {
    text.line("%w = view.tile %t, %i, %a_0, %j, %a_1 {dims = \"rr\", lens = [" + lens +
              "]} : view<" + dtypeName(type).str() + ", 2>");
    text.line("store %y, %w");
  }
  runBoth(text.over("%c0, %a_0, %bm, %c0, %a_1, %bn", "\"m\", \"n\"", "%i: index, %j: index"), 1,
          {random(type, {m, n}, 4), zeros(type, out)}, 0);
}

TEST(HostTile, WindowsReachPastEdges) {
  for (bool transposed : {false, true}) {
    checkWindows(DType::F32, 64, 64, 16, 32, transposed);
    checkWindows(DType::F32, 61, 67, 16, 32, transposed);
    checkWindows(DType::I8, 13, 5, 8, 16, transposed);
    checkWindows(DType::BF16, 1, 1, 4, 4, transposed);
    checkWindows(DType::F64, 7, 30, 1, 8, transposed);
    checkWindows(DType::U16, 30, 7, 8, 1, transposed);
  }
}

TEST(HostTile, NegativeAndFarWindowsAreZero) {
  KernelText text;
  text.param("a", "in", DType::F32, {10}).param("t", "out", DType::F32, {6, 8});
  for (auto [row, first, limit] :
       {std::tuple{0, -3, 10}, {1, -20, 10}, {2, 4, 10}, {3, 4, 7}, {4, 50, 90}, {5, 2, 100}}) {
    const std::string i = std::to_string(row);
    text.line("%f" + i + " = const {value = " + std::to_string(first) + "} : index");
    text.line("%l" + i + " = const {value = " + std::to_string(limit) + "} : index");
    text.line("%r" + i + " = const {value = " + i + "} : index");
    text.line("%v" + i + " = view.tile %a, %f" + i + ", %l" + i +
              " {dims = \"r\", lens = [8]} : view<f32, 1>");
    text.line("%x" + i + " = load %v" + i + " : tile<8xf32>");
    text.line("%w" + i + " = view.slice %t, %r" + i + " {dims = \"ia\"} : view<f32, 1>");
    text.line("store %x" + i + ", %w" + i);
  }
  const auto got =
      runBoth(text.single(), 1, {random(DType::F32, {10}, 5), zeros(DType::F32, {6, 8})}, 0);
  EXPECT_EQ(got[1].at(0), 0);
  EXPECT_EQ(got[1].at(3), got[0].at(0));
  EXPECT_EQ(got[1].at(2 * 8), got[0].at(4));
}

TEST(HostTile, PositionsOutsideReadZeroAndWriteNothing) {
  KernelText text;
  text.param("a", "in", DType::F32, {4, 4}).param("t", "inout", DType::F32, {4, 4});
  text.line("%m = const {value = -1} : index").line("%f = const {value = 4} : index");
  text.line("%c1 = const {value = 1} : index");
  text.line("%v = view.slice %a, %m {dims = \"ia\"} : view<f32, 1>")
      .line("%x = load %v : tile<4xf32>");
  text.line("%w = view.slice %t, %f {dims = \"ia\"} : view<f32, 1>");
  text.line("%n = const {value = 9.0} : f32").line("%s = tile.splat %n : tile<4xf32>");
  text.line("store %s, %w");
  text.line("%w1 = view.slice %t, %c1 {dims = \"ia\"} : view<f32, 1>").line("store %x, %w1");
  text.line("%e = view.slice %a, %c1, %f {dims = \"ii\"} : view<f32, 0>")
      .line("%y = load %e : f32");
  text.line("%o = view.slice %t, %m, %c1 {dims = \"ii\"} : view<f32, 0>").line("store %n, %o");
  text.line("%p = view.slice %t, %c1, %c1 {dims = \"ii\"} : view<f32, 0>").line("store %y, %p");
  runBoth(text.single(), 1, {random(DType::F32, {4, 4}, 6), random(DType::F32, {4, 4}, 7)}, 0);
}

TEST(HostTile, LoadsHappenBeforeLaterStores) {
  // x[0..8] moves to x[4..12] although the two overlap.
  KernelText text;
  text.param("x", "inout", DType::I32, {16});
  for (int i : {0, 4, 8, 12})
    text.line("%c" + std::to_string(i) + " = const {value = " + std::to_string(i) + "} : index");
  text.line("%a = view.tile %x, %c0, %c8 {dims = \"r\", lens = [8]} : view<i32, 1>");
  text.line("%b = view.tile %x, %c4, %c12 {dims = \"r\", lens = [8]} : view<i32, 1>");
  text.line("%v = load %a : tile<8xi32>").line("%w = load %b : tile<8xi32>");
  text.line("store %v, %b").line("store %w, %a");
  runBoth(text.single(), 1, {random(DType::I32, {16}, 8)}, 0);
}

TEST(HostTile, GatherAndScatterSkipWhatIsOutside) {
  KernelText text;
  text.param("a", "in", DType::BF16, {6, 5}).param("i", "in", DType::I32, {16});
  text.param("j", "in", DType::I64, {16}).param("t", "out", DType::BF16, {16});
  text.param("u", "inout", DType::BF16, {6, 5});
  text.line("%x = load %i : tile<16xi32>").line("%y = load %j : tile<16xi64>");
  text.line("%g = gather %a, %x, %y : tile<16xbf16>").line("store %g, %t");
  text.line("%h = add %g, %g : tile<16xbf16>").line("scatter %h, %u, %x, %y");
  runBoth(text.single(), 1,
          {random(DType::BF16, {6, 5}, 9),
           filled(DType::I32, {16}, 1, [](int64_t i) { return double(i % 9 - 1); }),
           filled(DType::I64, {16}, 1, [](int64_t i) { return double(i * 3 % 7 - 1); }),
           zeros(DType::BF16, {16}), random(DType::BF16, {6, 5}, 10)},
          0);
}

TEST(HostTile, PickedRowsAreThoseOfTheWindow) {
  // Of 9 rows some that do not exist, of which a window of 8 columns, and one past the edge, is
  // read; and the same where rows are whole words.
  for (const int64_t columns : {21, 24}) {
    KernelText text;
    text.param("a", "in", DType::BF16, {9, columns}).param("i", "in", DType::I32, {16});
    text.param("t", "out", DType::BF16, {16, 16}).param("u", "out", DType::BF16, {16, 16});
    text.line("%x = load %i : tile<16xi32>");
    for (int i : {8, 16, 40})
      text.line("%c" + std::to_string(i) + " = const {value = " + std::to_string(i) + "} : index");
    for (const auto &[first, to] : {std::pair("8", "t"), std::pair("16", "u")}) {
      const std::string name(to);
      text.line("%v" + name + " = view.tile %a, %c" + first +
                ", %c40 {dims = \"ar\", lens = [16]} : view<bf16, 2>");
      text.line("%g" + name + " = gather %v" + name +
                ", %x {ntok = 0, rows = true} : tile<16x16xbf16>");
      text.line("store %g" + name + ", %" + name);
    }
    const auto got =
        runBoth(text.single(), 1,
                {random(DType::BF16, {9, columns}, 9),
                 filled(DType::I32, {16}, 1, [](int64_t i) { return double(i * 5 % 13 - 2); }),
                 zeros(DType::BF16, {16, 16}), zeros(DType::BF16, {16, 16})},
                0);
    // Row 1 picks row 3, and row 0 one before the first.
    EXPECT_EQ(got[2].at(16 + 2), got[0].at(size_t(3 * columns + 8 + 2)));
    EXPECT_EQ(got[2].at(0), 0);
    EXPECT_EQ(got[3].at(16 + 15), 0);
  }
}

TEST(HostTile, PickedRowsAreSummedInTheOrderOfTheLoop) {
  // Beside a product several rows are read together (pass batch-loads): of loops of one round, of
  // several, of one that is not whole, and of lengths that are not known.
  for (const char *length : {"1", "3", "11", "12", "known by no one"}) {
    const bool isKnown = length[0] != 'k';
    for (int64_t most : {0, 1, 7, 12}) {
      if (isKnown && most != 12)
        continue;
      KernelText text;
      text.param("x", "in", DType::BF16, {9, 24}).param("place", "in", DType::I32, {16, 12});
      text.param("b", "in", DType::BF16, {16, 16}).param("n", "in", DType::I32, {1});
      text.param("t", "out", DType::F32, {16, 16});
      text.line("%first = const {value = 0} : index").line("%one = const {value = 1} : index");
      text.line("%past = const {value = 16} : index").line("%column = const {value = 4} : index");
      text.line("%view = view.slice %n, %first {dims = \"i\"} : view<i32, 0>");
      text.line("%number = load %view : i32");
      text.line(isKnown ? "%end = const {value = " + std::string(length) + "} : index"
                        : std::string("%end = cast %number : index"));
      text.line("%zero = const {value = 0.0} : f32").line("%half = const {value = 0.5} : f32");
      text.line("%zeros = tile.splat %zero : tile<16x16xf32>");
      text.line("%halves = tile.splat %half : tile<16x16xf32>");
      text.line(
          "%rows = view.tile %x, %column, %past {dims = \"ar\", lens = [16]} : view<bf16, 2>");
      text.line("%sum = for %first, %end, %one, %zeros : tile<16x16xf32> "
                "(%j: index, %acc: tile<16x16xf32>) {");
      text.line("%numbers = view.tile %place, %first, %past, %j {dims = \"ri\", lens = [16]} "
                ": view<i32, 1>");
      text.line("%picked = load %numbers : tile<16xi32>");
      text.line("%row = gather %rows, %picked {ntok = 0, rows = true} : tile<16x16xbf16>");
      text.line("%wide = cast %row : tile<16x16xf32>");
      text.line("%less = mul %acc, %halves : tile<16x16xf32>");
      text.line("%next = add %less, %wide : tile<16x16xf32>").line("yield %next").line("}");
      text.line(
          "%all = view.tile %b, %first, %past, %first, %past {dims = \"rr\", lens = [16, 16]} "
          ": view<bf16, 2>");
      text.line("%factor = load %all : tile<16x16xbf16>");
      text.line("%product = tile.dot %factor, %factor, %sum : tile<16x16xf32>");
      text.line("store %product, %t");
      runBoth(text.single(), 1,
              {random(DType::BF16, {9, 24}, 9),
               filled(DType::I32, {16, 12}, 1, [](int64_t i) { return double(i * 5 % 13 - 2); }),
               random(DType::BF16, {16, 16}, 10),
               filled(DType::I32, {1}, 1, [&](int64_t) { return double(most); }),
               zeros(DType::F32, {16, 16})},
              1e-2);
    }
  }
}

TEST(HostTile, SelectTakesScalarAndTileConditions) {
  KernelText text;
  text.param("a", "in", DType::F32, {32}).param("t", "out", DType::F32, {32});
  text.line("%x = load %a : tile<32xf32>").line("%z = const {value = 0.0} : f32");
  text.line("%s = tile.splat %z : tile<32xf32>");
  text.line("%c = cmp %x, %s {pred = \"gt\"} : tile<32xbool>");
  text.line("%p = select %c, %x, %s : tile<32xf32>");
  text.line("%n = num_ranks : index").line("%k = const {value = 1} : index");
  text.line("%b = cmp %n, %k {pred = \"eq\"} : bool");
  text.line("%q = select %b, %p, %x : tile<32xf32>").line("store %q, %t");
  runBoth(text.single(), 1, {random(DType::F32, {32}, 11), zeros(DType::F32, {32})}, 0);
}

TEST(HostTile, AChosenViewIsThatOfTheConditionWithItsEdges) {
  // Rows of different lengths, one of which ends inside of the tile.
  KernelText text;
  text.param("a", "in", DType::F32, {6}).param("b", "in", DType::F32, {3, 8});
  text.param("t", "out", DType::F32, {3, 8});
  for (int i : {0, 1, 3})
    text.line("%c" + std::to_string(i) + " = const {value = " + std::to_string(i) + "} : index");
  text.line("for %c0, %c3, %c1 (%i: index) {");
  text.line("%is = cmp %i, %c1 {pred = \"eq\"} : bool");
  text.line("%row = view.slice %b, %i {dims = \"ia\"} : view<f32, 1>");
  text.line("%v = view.select %is, %a, %row : view<f32, 1>");
  text.line("%x = load %v : tile<8xf32>");
  text.line("%w = view.slice %t, %i {dims = \"ia\"} : view<f32, 1>");
  text.line("store %x, %w").line("yield").line("}");
  const auto got = runBoth(
      text.single(), 1,
      {random(DType::F32, {6}, 12), random(DType::F32, {3, 8}, 13), zeros(DType::F32, {3, 8})}, 0);
  EXPECT_EQ(got[2].at(8), got[0].at(0));
  EXPECT_EQ(got[2].at(8 + 6), 0);
  EXPECT_EQ(got[2].at(16), got[1].at(16));
}

TEST(HostTile, AChosenViewIsReadBeforeEitherIsWritten) {
  KernelText text;
  text.param("a", "inout", DType::F32, {8}).param("b", "inout", DType::F32, {8});
  text.param("t", "inout", DType::F32, {8});
  text.line("%n = num_ranks : index").line("%c1 = const {value = 1} : index");
  text.line("%is = cmp %n, %c1 {pred = \"eq\"} : bool");
  text.line("%v = view.select %is, %a, %b : view<f32, 1>");
  text.line("%x = load %v : tile<8xf32>").line("%y = load %t : tile<8xf32>");
  text.line("store %y, %a").line("store %x, %t");
  const auto got = runBoth(
      text.single(), 1,
      {random(DType::F32, {8}, 14), random(DType::F32, {8}, 15), random(DType::F32, {8}, 16)}, 0);
  EXPECT_NE(got[2].at(0), got[0].at(0));
}

/// Loops along rows of so many elements, which are combined once behind a loop on GPUs (pass
/// defer-reductions): a sum, a maximum, and what an online softmax sums; then one that writes.
/// Rows of an odd number of elements begin anywhere in memory.
TEST(HostTile, LoopsAlongRows) {
  for (const int64_t length : {1, 63, 256, 300, 513, 2 * 256 + 8})
    for (const DType type : {DType::F32, DType::BF16, DType::I8}) {
      const std::string name = dtypeName(type).str();
      SCOPED_TRACE(name + " " + std::to_string(length));
      const int64_t rows = 5;
      KernelText text;
      text.param("x", "in", type, {rows, length});
      text.param("y", "out", DType::F32, {rows, length});
      text.param("z", "out", DType::F32, {rows});
      text.head("%c0 = const {value = 0} : index").head("%c2 = const {value = 2} : index");
      text.head("%rows = const {value = " + std::to_string(rows) + "} : index");
      text.head("%n = const {value = " + std::to_string(length) + "} : index");
      text.head("%step = const {value = 256} : index");
      text.line("%low = const {value = -1000.0} : f32").line("%zero = const {value = 0.0} : f32");
      text.line("%first = tile.splat %low : tile<2xf32>");
      text.line("%none = tile.splat %zero : tile<2xf32>");
      text.line("%top, %sum, %total = for %c0, %n, %step, %first, %none, %none : "
                "tile<2xf32>, tile<2xf32>, tile<2xf32> "
                "(%i: index, %t: tile<2xf32>, %s: tile<2xf32>, %u: tile<2xf32>) {");
      const auto loadRow = [&](const std::string &result, const std::string &position) {
        text.line("%v_" + result + " = view.tile %x, %m, %rows, %" + position +
                  ", %n {dims = \"rr\", lens = [2, 256]} : view<" + name + ", 2>");
        text.line("%l_" + result + " = load %v_" + result + " : tile<2x256x" + name + ">");
        text.line("%" + result + " = " + (type == DType::F32 ? "neg" : "cast") + " %l_" + result +
                  " : tile<2x256xf32>");
      };
      loadRow("w", "i");
      text.line("%eighth = const {value = 0.125} : f32");
      text.line("%e = tile.splat %eighth : tile<2x256xf32>");
      text.line("%v = mul %w, %e : tile<2x256xf32>");
      text.line("%r = tile.reduce %v {axis = 1, kind = \"max\"} : tile<2xf32>");
      text.line("%next = max %t, %r : tile<2xf32>");
      text.line("%nc = tile.reshape %next : tile<2x1xf32>");
      text.line("%nb = tile.broadcast %nc : tile<2x256xf32>");
      text.line("%away = sub %v, %nb : tile<2x256xf32>").line("%p = exp %away : tile<2x256xf32>");
      text.line("%q = tile.reduce %p {axis = 1, kind = \"sum\"} : tile<2xf32>");
      text.line("%moved = sub %t, %next : tile<2xf32>").line("%f = exp %moved : tile<2xf32>");
      text.line("%sf = mul %s, %f : tile<2xf32>").line("%sn = add %sf, %q : tile<2xf32>");
      text.line("%all = tile.reduce %v {axis = 1, kind = \"sum\"} : tile<2xf32>");
      text.line("%un = add %u, %all : tile<2xf32>");
      text.line("yield %next, %sn, %un").line("}");
      text.line("%a = add %top, %sum : tile<2xf32>").line("%b = add %a, %total : tile<2xf32>");
      text.line("%zv = view.tile %z, %m, %rows {dims = \"r\", lens = [2]} : view<f32, 1>");
      text.line("store %b, %zv");
      text.line("%tc = tile.reshape %top : tile<2x1xf32>");
      text.line("%tb = tile.broadcast %tc : tile<2x256xf32>");
      text.line("for %c0, %n, %step (%j: index) {");
      loadRow("xf", "j");
      text.line("%out = sub %xf, %tb : tile<2x256xf32>");
      text.line("%yv = view.tile %y, %m, %rows, %j, %n {dims = \"rr\", lens = [2, 256]} : "
                "view<f32, 2>");
      text.line("store %out, %yv").line("yield").line("}");
      runBoth(text.over("%c0, %rows, %c2", "\"m\"", "%m: index"), 1,
              {random(type, {rows, length}, 1), zeros(DType::F32, {rows, length}),
               zeros(DType::F32, {rows})},
              1e-4);
    }
}

} // namespace
} // namespace dtile::backend::host::testing
