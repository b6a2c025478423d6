// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Views, edges, loads, stores, gathers, scatters and atomics.
#include "interpreter_support.h"

#include <numeric>

namespace dtile::interpret::testing {
namespace {

std::vector<float> counting(int64_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

TEST(Memory, WindowsReadZeroPastTheEdgeAndWriteNothingThere) {
  Program program(R"(
kernel @copy {
  %M = launch.dim {param = 0, dim = 0} : index
  %N = launch.dim {param = 0, dim = 1} : index
  %a = param @a %M, %N {param = 0, mode = "in"} : view<f32, 2>
  %t = param @t %M, %N {param = 1, mode = "out"} : view<f32, 2>
  %whole = const {value = 8} : index
  %u = param @u %whole, %whole {param = 2, mode = "out"} : view<f32, 2>
  %c0 = const {value = 0} : index
  %c4 = const {value = 4} : index
  space @main %c0, %M, %c4, %c0, %N, %c4 {vars = ["m", "n"]} (%m: index, %n: index) {
    %av = view.tile %a, %m, %M, %n, %N {dims = "rr", lens = [4, 4]} : view<f32, 2>
    %x = load %av : tile<4x4xf32>
    %tv = view.tile %t, %m, %M, %n, %N {dims = "rr", lens = [4, 4]} : view<f32, 2>
    store %x, %tv
    %uv = view.tile %u, %m, %whole, %n, %whole {dims = "rr", lens = [4, 4]} : view<f32, 2>
    store %x, %uv
    yield
  }
  return
})");
  std::vector<float> a = counting(6 * 5);
  std::vector<float> t(6 * 5, -1);
  std::vector<float> u(64, -1);
  Machine machine(*program.module, 1);
  ASSERT_EQ(
      text(machine.launch("copy", {{tensor(a, {6, 5}), tensor(t, {6, 5}), tensor(u, {8, 8})}})),
      "");
  EXPECT_EQ(t, a);
  for (int i = 0; i < 8; ++i)
    for (int j = 0; j < 8; ++j)
      EXPECT_EQ(u[i * 8 + j], i < 6 && j < 5 ? a[i * 5 + j] : 0) << i << " " << j;
}

TEST(Memory, AWindowEndsAtItsLimitInsideTheTensor) {
  // As in ag_gemm: a block of one shard does not stray into the next.
  Program program(R"(
kernel @k {
  %n = const {value = 12} : index
  %a = param @a %n {param = 0, mode = "in"} : view<i32, 1>
  %c8 = const {value = 8} : index
  %t = param @t %c8 {param = 1, mode = "out"} : view<i32, 1>
  %first = const {value = 2} : index
  %limit = const {value = 5} : index
  space @main {vars = []} {
    %av = view.tile %a, %first, %limit {dims = "r", lens = [8]} : view<i32, 1>
    %x = load %av : tile<8xi32>
    store %x, %t
    yield
  }
  return
})");
  std::vector<int32_t> a(12);
  std::iota(a.begin(), a.end(), 100);
  std::vector<int32_t> t(8, -1);
  Machine machine(*program.module, 1);
  ASSERT_EQ(text(machine.launch("k", {{tensor(a), tensor(t)}})), "");
  EXPECT_EQ(t, (std::vector<int32_t>{102, 103, 104, 0, 0, 0, 0, 0}));
}

TEST(Memory, WindowsMayBeginBeforeTheTensor) {
  Program program(R"(
kernel @k {
  %n = const {value = 4} : index
  %a = param @a %n {param = 0, mode = "in"} : view<i32, 1>
  %t = param @t %n {param = 1, mode = "out"} : view<i32, 1>
  %first = const {value = -2} : index
  space @main {vars = []} {
    %av = view.tile %a, %first, %n {dims = "r", lens = [4]} : view<i32, 1>
    %x = load %av : tile<4xi32>
    store %x, %t
    %one = const {value = 9} : i32
    %ones = tile.splat %one : tile<4xi32>
    store %ones, %av
    yield
  }
  return
})");
  std::vector<int32_t> a{1, 2, 3, 4};
  std::vector<int32_t> t(4, -1);
  Machine machine(*program.module, 1);
  ASSERT_EQ(text(machine.launch("k", {{tensor(a), tensor(t)}})), "");
  EXPECT_EQ(t, (std::vector<int32_t>{0, 0, 1, 2}));
  EXPECT_EQ(a, (std::vector<int32_t>{9, 9, 3, 4}));
}

TEST(Memory, SlicesCutRangesDropPositionsAndKnowTheirSizes) {
  Program program(R"(
kernel @k {
  %c3 = const {value = 3} : index
  %c4 = const {value = 4} : index
  %c5 = const {value = 5} : index
  %a = param @a %c3, %c4, %c5 {param = 0, mode = "in"} : view<f32, 3>
  %t = param @t %c5 {param = 1, mode = "out"} : view<f32, 1>
  %s = param @s %c4 {param = 2, mode = "out"} : view<i64, 1>
  %c0 = const {value = 0} : index
  %c1 = const {value = 1} : index
  %c2 = const {value = 2} : index
  %c9 = const {value = 9} : index
  space @main {vars = []} {
    %plane = view.slice %a, %c1, %c2, %c9 {dims = "ira"} : view<f32, 2>
    %rows = view.dim %plane {dim = 0} : index
    %columns = view.dim %plane {dim = 1} : index
    %none = view.slice %plane, %c9, %c9 {dims = "ra"} : view<f32, 2>
    %zero = view.dim %none {dim = 0} : index
    %s0 = view.slice %s, %c0 {dims = "i"} : view<i64, 0>
    %s1 = view.slice %s, %c1 {dims = "i"} : view<i64, 0>
    %s2 = view.slice %s, %c2 {dims = "i"} : view<i64, 0>
    store %rows, %s0
    store %columns, %s1
    store %zero, %s2
    %row = view.slice %plane, %c1 {dims = "ia"} : view<f32, 1>
    %x = load %row : tile<5xf32>
    store %x, %t
    %outside = view.slice %s, %c9 {dims = "i"} : view<i64, 0>
    store %c9, %outside
    %read = load %outside : index
    %s3 = view.slice %s, %c3 {dims = "i"} : view<i64, 0>
    store %read, %s3
    yield
  }
  return
})");
  std::vector<float> a = counting(60);
  std::vector<float> t(5);
  std::vector<int64_t> s(4, -1);
  Machine machine(*program.module, 1);
  ASSERT_EQ(text(machine.launch("k", {{tensor(a, {3, 4, 5}), tensor(t), tensor(s)}})), "");
  EXPECT_EQ(s, (std::vector<int64_t>{2, 5, 0, 0}));
  for (int j = 0; j < 5; ++j)
    EXPECT_EQ(t[j], a[(1 * 4 + 3) * 5 + j]);
}

TEST(Memory, ArgumentsMayBeStrided) {
  Program program(R"(
kernel @k {
  %c2 = const {value = 2} : index
  %c3 = const {value = 3} : index
  %a = param @a %c3, %c2 {param = 0, mode = "in"} : view<f32, 2>
  %t = param @t %c3, %c2 {param = 1, mode = "out"} : view<f32, 2>
  space @main {vars = []} {
    %x = load %a : tile<3x2xf32>
    store %x, %t
    yield
  }
  return
})");
  // The transpose of a 2 x 3 matrix into every other column of a wide one.
  std::vector<float> a = counting(6);
  std::vector<float> t(3 * 10, 0);
  Arg from = tensor(a, {3, 2});
  from.tensor.strides = {1, 3};
  Arg to = tensor(t, {3, 2});
  to.tensor.strides = {10, 2};
  Machine machine(*program.module, 1);
  ASSERT_EQ(text(machine.launch("k", {{from, to}})), "");
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 2; ++j)
      EXPECT_EQ(t[i * 10 + j * 2], a[j * 3 + i]);
  EXPECT_EQ(t[1], 0);
}

TEST(Memory, ReshapeOfAContiguousView) {
  Program program(R"(
kernel @k {
  %n = const {value = 12} : index
  %c3 = const {value = 3} : index
  %c4 = const {value = 4} : index
  %c5 = const {value = 5} : index
  %bad = scalar_param @bad {param = 2} : bool
  %a = param @a %n {param = 0, mode = "in"} : view<f32, 1>
  %t = param @t %c4 {param = 1, mode = "out"} : view<f32, 1>
  %c2 = const {value = 2} : index
  space @main {vars = []} {
    %rows = select %bad, %c5, %c3 : index
    %m = view.reshape %a, %rows, %c4 : view<f32, 2>
    %row = view.slice %m, %c2 {dims = "ia"} : view<f32, 1>
    %x = load %row : tile<4xf32>
    store %x, %t
    yield
  }
  return
})");
  std::vector<float> a = counting(12);
  std::vector<float> t(4);
  Machine machine(*program.module, 1);
  ASSERT_EQ(text(machine.launch("k", {{tensor(a), tensor(t), scalar(false)}})), "");
  EXPECT_EQ(t, (std::vector<float>{9, 10, 11, 12}));
  const auto error = machine.launch("k", {{tensor(a), tensor(t), scalar(true)}});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind, RunError::Kind::Trap);
  EXPECT_NE(error->message.find("12 elements is reshaped to [5, 4]"), std::string::npos)
      << error->message;
}

TEST(Memory, GatherReadsZeroOutsideAndScatterWritesNothingThere) {
  Program program(R"(
kernel @k {
  %c3 = const {value = 3} : index
  %c4 = const {value = 4} : index
  %c6 = const {value = 6} : index
  %a = param @a %c3, %c4 {param = 0, mode = "in"} : view<f32, 2>
  %i = param @i %c6 {param = 1, mode = "in"} : view<i32, 1>
  %j = param @j %c6 {param = 2, mode = "in"} : view<i64, 1>
  %t = param @t %c6 {param = 3, mode = "out"} : view<f32, 1>
  %u = param @u %c3, %c4 {param = 4, mode = "out"} : view<f32, 2>
  space @main {vars = []} {
    %it = load %i : tile<6xi32>
    %jt = load %j : tile<6xi64>
    %x = gather %a, %it, %jt : tile<6xf32>
    store %x, %t
    scatter %x, %u, %it, %jt
    yield
  }
  return
})");
  std::vector<float> a = counting(12);
  std::vector<int32_t> i{0, 2, 3, 1, -1, 2};
  std::vector<int64_t> j{0, 3, 0, 2, 1, int64_t(1) << 40};
  std::vector<float> t(6, -1);
  std::vector<float> u(12, -1);
  Machine machine(*program.module, 1);
  ASSERT_EQ(text(machine.launch(
                "k", {{tensor(a, {3, 4}), tensor(i), tensor(j), tensor(t), tensor(u, {3, 4})}})),
            "");
  EXPECT_EQ(t, (std::vector<float>{1, 12, 0, 7, 0, 0}));
  std::vector<float> expected(12, -1);
  expected[0] = 1;
  expected[11] = 12;
  expected[6] = 7;
  EXPECT_EQ(u, expected);
}

/// One atomic of a kind on a cell; gives the cell and the old value.
std::pair<int32_t, int32_t> atomic(const std::string &kind, int32_t cell, int32_t operand,
                                   int32_t desired = 0) {
  const std::string operands = kind == "cas" ? "%x, %y" : "%x";
  Program program(R"(
kernel @k {
  %c = param @c {param = 0, mode = "inout"} : view<i32, 0>
  %o = param @o {param = 1, mode = "out"} : view<i32, 0>
  %x = scalar_param @x {param = 2} : i32
  %y = scalar_param @y {param = 3} : i32
  space @main {vars = []} {
    %old = atomic %c, )" +
                  operands + " {kind = \"" + kind + R"("} : i32
    store %old, %o
    yield
  }
  return
})");
  int32_t old = -99;
  Machine machine(*program.module, 1);
  EXPECT_EQ(text(machine.launch("k", {{tensor(&cell, DType::I32, {}), tensor(&old, DType::I32, {}),
                                       scalar(operand), scalar(desired)}})),
            "");
  return {cell, old};
}

TEST(Memory, AtomicsGiveTheOldValue) {
  EXPECT_EQ(atomic("add", 5, 3), (std::pair<int32_t, int32_t>{8, 5}));
  EXPECT_EQ(atomic("min", 5, -3), (std::pair<int32_t, int32_t>{-3, 5}));
  EXPECT_EQ(atomic("max", 5, -3), (std::pair<int32_t, int32_t>{5, 5}));
  EXPECT_EQ(atomic("and", 12, 10), (std::pair<int32_t, int32_t>{8, 12}));
  EXPECT_EQ(atomic("or", 12, 10), (std::pair<int32_t, int32_t>{14, 12}));
  EXPECT_EQ(atomic("exch", 12, 10), (std::pair<int32_t, int32_t>{10, 12}));
  EXPECT_EQ(atomic("cas", 12, 12, 7), (std::pair<int32_t, int32_t>{7, 12}));
  EXPECT_EQ(atomic("cas", 12, 11, 7), (std::pair<int32_t, int32_t>{12, 12}));
}

TEST(Memory, BodiesTakeSlotsByFetchAdd) {
  Program program(R"(
kernel @k {
  %n = const {value = 100} : index
  %taken = param @taken {param = 0, mode = "inout"} : view<i32, 0>
  %slot = param @slot %n {param = 1, mode = "out"} : view<i32, 1>
  %c0 = const {value = 0} : index
  %c1 = const {value = 1} : index
  %one = const {value = 1} : i32
  space @main %c0, %n, %c1 {vars = ["i"]} (%i: index) {
    %old = atomic %taken, %one {kind = "add"} : i32
    %cell = view.slice %slot, %i {dims = "i"} : view<i32, 0>
    store %old, %cell
    yield
  }
  return
})");
  for (const uint64_t seed : {uint64_t(0), uint64_t(11)}) {
    int32_t taken = 0;
    std::vector<int32_t> slot(100, -1);
    Machine machine(*program.module, 1, {.seed = seed});
    ASSERT_EQ(text(machine.launch("k", {{tensor(&taken, DType::I32, {}), tensor(slot)}})), "");
    EXPECT_EQ(taken, 100);
    EXPECT_EQ(std::is_sorted(slot.begin(), slot.end()), seed == 0);
    std::sort(slot.begin(), slot.end());
    for (int i = 0; i < 100; ++i)
      EXPECT_EQ(slot[i], i);
  }
}

} // namespace
} // namespace dtile::interpret::testing
