// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a launch checks, and what a kernel's prologue declares: parameters, scratch objects, spaces
// and their order.
#include "interpreter_support.h"

namespace dtile::interpret::testing {
namespace {

/// Ranks and numbers that bodies write to `log`, in the order in which they run.
constexpr const char *kAppend = R"(
func @append (%log: view<i64, 1>, %length: view<i64, 0>, %value: index) {
  %c1 = const {value = 1} : index
  %at = atomic %length, %c1 {kind = "add"} : index
  %cell = view.slice %log, %at {dims = "i"} : view<i64, 0>
  store %value, %cell
  return
}
)";

struct Log {
  int64_t length = 0;
  std::vector<int64_t> log = std::vector<int64_t>(256, -1);
  std::vector<Arg> args() { return {tensor(log), tensor(&length, DType::I64, {})}; }
  std::vector<int64_t> taken() { return {log.begin(), log.begin() + length}; }
};

constexpr const char *kLogParams = R"(
  %c256 = const {value = 256} : index
  %log = param @log %c256 {param = 0, mode = "inout"} : view<i64, 1>
  %length = param @length {param = 1, mode = "inout"} : view<i64, 0>
  %c0 = const {value = 0} : index
  %c1 = const {value = 1} : index
)";

std::vector<int64_t> logOf(const std::string &spaces, int rank = 0, int ranks = 1,
                           Schedule schedule = {}) {
  Program program(std::string(kAppend) + "kernel @k {" + kLogParams + spaces + "\n  return\n}");
  if (!program.module)
    return {};
  Machine machine(*program.module, ranks, schedule);
  std::vector<Log> logs(ranks);
  std::vector<std::vector<Arg>> args;
  for (Log &log : logs)
    args.push_back(log.args());
  EXPECT_EQ(text(machine.launch("k", args)), "");
  return logs[rank].taken();
}

constexpr const char *kTwoDims = R"( {vars = ["a", "b"]} (%a: index, %b: index) {
    %c10 = const {value = 10} : index
    %t = mul %a, %c10 : index
    %v = add %t, %b : index
    call @append %log, %length, %v
    yield
  })";

std::string withAttrs(const std::string &attrs) {
  std::string text = kTwoDims;
  return text.insert(2, attrs + ", ");
}

constexpr const char *kBounds = R"(
  %c2 = const {value = 2} : index
  %c3 = const {value = 3} : index
  %c4 = const {value = 4} : index
  %c7 = const {value = 7} : index
)";

TEST(Launch, SpacesStepThroughTheirDimensions) {
  EXPECT_EQ(logOf(std::string(kBounds) + "  space @main %c1, %c7, %c3, %c0, %c3, %c2" + kTwoDims),
            (std::vector<int64_t>{10, 12, 40, 42}));
}

TEST(Launch, EmptySpacesRunNothing) {
  EXPECT_TRUE(logOf(std::string(kBounds) + "  space @main %c3, %c3, %c1, %c0, %c3, %c2" + kTwoDims)
                  .empty());
  EXPECT_TRUE(logOf(std::string(kBounds) + "  space @main %c0, %c2, %c1, %c4, %c3, %c2" + kTwoDims)
                  .empty());
}

TEST(Launch, ScheduleAttributesOrderTheBodies) {
  const std::string space = "  space @main %c0, %c2, %c1, %c0, %c3, %c1";
  EXPECT_EQ(logOf(kBounds + space + withAttrs("order = [1, 0]")),
            (std::vector<int64_t>{0, 10, 1, 11, 2, 12}));
  // Rank 1 of 3 begins with its own block of b.
  EXPECT_EQ(logOf(kBounds + space + withAttrs("rotate = [0, 1]"), 1, 3),
            (std::vector<int64_t>{1, 2, 0, 11, 12, 10}));
  EXPECT_EQ(logOf(kBounds + space + withAttrs("rotate = [0, -1], start = [0, 2]"), 1, 3),
            (std::vector<int64_t>{0, 2, 1, 10, 12, 11}));
  // Columns of two blocks of a before the next b.
  EXPECT_EQ(logOf(std::string(kBounds) + "  space @main %c0, %c3, %c1, %c0, %c2, %c1" +
                  withAttrs("group = [2, 0]")),
            (std::vector<int64_t>{0, 10, 1, 11, 20, 21}));
}

TEST(Launch, RandomSchedulesRunEachBodyOnce) {
  const std::string space =
      std::string(kBounds) + "  space @main %c0, %c7, %c1, %c0, %c7, %c1" + kTwoDims;
  const std::vector<int64_t> first = logOf(space, 0, 1, {.seed = 1});
  const std::vector<int64_t> again = logOf(space, 0, 1, {.seed = 1});
  std::vector<int64_t> other = logOf(space, 0, 1, {.seed = 2});
  EXPECT_EQ(first, again);
  EXPECT_NE(first, other);
  std::sort(other.begin(), other.end());
  EXPECT_EQ(other, logOf(space));
}

TEST(Launch, AfterAllStartsWhenEveryBodyHasEnded) {
  const std::string spaces = R"(
  %c5 = const {value = 5} : index
  space @tell %c0, %c5, %c1 {vars = ["i"]} (%i: index) {
    call @append %log, %length, %i
    %t = token.done : token
    yield %t
  }
  space @last {after_all = "tell", vars = []} (%all: token) {
    await %all
    %c99 = const {value = 99} : index
    call @append %log, %length, %c99
    yield
  })";
  for (const uint64_t seed : {0, 1, 2, 3}) {
    const std::vector<int64_t> order = logOf(spaces, 0, 1, {.seed = seed});
    ASSERT_EQ(order.size(), 6u);
    EXPECT_EQ(order.back(), 99);
  }
}

TEST(Launch, AfterAllOfAnEmptySpaceStarts) {
  EXPECT_EQ(logOf(R"(
  space @tell %c0, %c0, %c1 {vars = ["i"]} (%i: index) {
    yield
  }
  space @last {after_all = "tell", vars = []} {
    call @append %log, %length, %c1
    yield
  })"),
            (std::vector<int64_t>{1}));
}

TEST(Launch, OrderedSpacesRunOneBodyAtATimeInOrder) {
  const std::string space = std::string(kBounds) + "  space @main %c0, %c7, %c1, %c0, %c2, %c1" +
                            withAttrs("ordered = true");
  EXPECT_EQ(logOf(space, 0, 1, {.seed = 5}), logOf(space));
}

// Arguments.

constexpr const char *kScale = R"(
kernel @scale {
  %N = launch.dim {param = 0, dim = 0} : index
  %N1 = launch.dim {param = 1, dim = 0} : index
  launch.check %N, %N1 {param = 1, dim = 0}
  %x = param @x %N {param = 0, mode = "in"} : view<f32, 1>
  %y = param @y %N {param = 1, mode = "out"} : view<f32, 1>
  %by = scalar_param @by {param = 3} : f32
  %box = param @box %N {param = 2, mode = "scratch"} : view<f32, 1>
  %c0 = const {value = 0} : index
  %c4 = const {value = 4} : index
  space @main %c0, %N, %c4 {vars = ["i"]} (%i: index) {
    %xv = view.tile %x, %i, %N {dims = "r", lens = [4]} : view<f32, 1>
    %yv = view.tile %y, %i, %N {dims = "r", lens = [4]} : view<f32, 1>
    %xt = load %xv : tile<4xf32>
    %f = tile.splat %by : tile<4xf32>
    %z = mul %xt, %f : tile<4xf32>
    store %z, %yv
    yield
  }
  return
})";

TEST(Launch, ScratchObjectsTakeNoArgument) {
  Program program(kScale);
  Machine machine(*program.module, 1);
  std::vector<float> x{1, 2, 3, 4, 5};
  std::vector<float> y(5);
  ASSERT_EQ(text(machine.launch("scale", {{tensor(x), tensor(y), scalar(2.5f)}})), "");
  EXPECT_EQ(y, (std::vector<float>{2.5, 5, 7.5, 10, 12.5}));
}

void expectRefused(std::vector<std::vector<Arg>> args, const std::string &message,
                   const std::string &kernel = "scale") {
  Program program(kScale);
  Machine machine(*program.module, 1);
  const auto error = machine.launch(kernel, args);
  ASSERT_TRUE(error) << message;
  EXPECT_EQ(error->kind, RunError::Kind::BadArgument);
  EXPECT_NE(error->message.find(message), std::string::npos) << error->message;
}

TEST(Launch, DifferentParametersAreDifferentMemory) {
  std::vector<float> x{1, 2, 3, 4, 5};
  expectRefused({{tensor(x), tensor(x), scalar(2.5f)}}, "overlaps `");
}

TEST(Launch, RefusesArgumentsThatDoNotFit) {
  std::vector<float> x(5);
  std::vector<float> y(4);
  std::vector<double> d(5);
  const Arg by = scalar(1.0f);
  expectRefused(
      {{tensor(x), tensor(y), by}},
      "kernel `scale`, argument `y`, rank 0: dimension 0 has the size 4, but the kernel wants 5");
  expectRefused({{tensor(d), tensor(x), by}},
                "kernel `scale`, argument `x`, rank 0: is f64, not f32");
  expectRefused({{tensor(x, {5, 1}), tensor(x), by}}, "has 2 dimensions, not 1");
  expectRefused({{tensor(x), tensor(x)}}, "takes 3 arguments but got 2");
  expectRefused({}, "a launch on 1 ranks got the arguments of 0");
  expectRefused({{tensor(nullptr, DType::F32, {5}), tensor(x), by}}, "has no memory");
  expectRefused({{tensor(x, {-1}), tensor(x), by}}, "has a negative size");
  expectRefused({{tensor(x), tensor(x), by}}, "the module has no kernel `other`", "other");
}

TEST(Launch, EmptyTensorsNeedNoMemory) {
  Program program(kScale);
  Machine machine(*program.module, 1);
  EXPECT_EQ(text(machine.launch("scale", {{tensor(nullptr, DType::F32, {0}),
                                           tensor(nullptr, DType::F32, {0}), scalar(1.0f)}})),
            "");
}

TEST(Launch, SymmetricParametersMustBeInSymmetricMemory) {
  Program program(R"(
kernel @k {
  %N = launch.dim {param = 0, dim = 0} : index
  %x = param @x %N {param = 0, mode = "symm"} : view<i64, 1>
  space @main {vars = []} {
    yield
  }
  return
})");
  Machine machine(*program.module, 2);
  Symmetric<int64_t> good(machine, 8);
  EXPECT_EQ(text(machine.launch("k", {{good.arg(0)}, {good.arg(1)}})), "");
  std::vector<int64_t> local(8);
  EXPECT_NE(text(machine.launch("k", {{good.arg(0)}, {tensor(local)}}))
                .find("kernel `k`, argument `x`, rank 1: must be in symmetric memory"),
            std::string::npos);
  EXPECT_NE(text(machine.launch("k", {{good.arg(1)}, {good.arg(1)}}))
                .find("is in the symmetric memory of rank 1"),
            std::string::npos);
  EXPECT_NE(text(machine.launch("k", {{tensor(good.on(0), DType::I64, {9})}, {good.arg(1)}}))
                .find("reaches past the end"),
            std::string::npos);
}

TEST(Launch, MachineFacts) {
  Program program(R"(
kernel @k {
  %c4 = const {value = 4} : index
  %out = param @out %c4 {param = 0, mode = "out"} : view<i64, 1>
  %r = rank : index
  %W = num_ranks : index
  %e = epoch : index
  %c0 = const {value = 0} : index
  %c1 = const {value = 1} : index
  %c2 = const {value = 2} : index
  space @main {vars = []} {
    %a = view.slice %out, %c0 {dims = "i"} : view<i64, 0>
    %b = view.slice %out, %c1 {dims = "i"} : view<i64, 0>
    %c = view.slice %out, %c2 {dims = "i"} : view<i64, 0>
    store %r, %a
    store %W, %b
    store %e, %c
    yield
  }
  return
})");
  Machine machine(*program.module, 3);
  std::vector<std::vector<int64_t>> out(3, std::vector<int64_t>(4));
  for (int64_t launch = 0; launch < 3; ++launch) {
    ASSERT_EQ(text(machine.launch("k", {{tensor(out[0])}, {tensor(out[1])}, {tensor(out[2])}})),
              "");
    for (int64_t r = 0; r < 3; ++r)
      EXPECT_EQ(out[r], (std::vector<int64_t>{r, 3, launch, 0}));
  }
}

// Scratch objects.

/// Reads what `box` holds, then writes the launch's number there.
std::string scratchText(const std::string &attrs) {
  return R"(
kernel @k {
  %out = param @out {param = 0, mode = "out"} : view<i32, 0>
  %box = param @box {param = 1, mode = "scratch")" +
         attrs + R"(} : view<i32, 0>
  %e = epoch : index
  space @main {vars = []} {
    %old = load %box : i32
    store %old, %out
    %now = cast %e : i32
    store %now, %box
    yield
  }
  return
})";
}

std::vector<int32_t> scratchReads(const std::string &attrs, int launches) {
  Program program(scratchText(attrs));
  Machine machine(*program.module, 1);
  std::vector<int32_t> reads;
  for (int i = 0; i < launches; ++i) {
    int32_t out = -7;
    EXPECT_EQ(text(machine.launch("k", {{tensor(&out, DType::I32, {})}})), "");
    reads.push_back(out);
  }
  return reads;
}

TEST(Launch, ScratchObjectsAreTakenInTurn) {
  // Fresh memory is all ones: -1.
  EXPECT_EQ(scratchReads("", 3), (std::vector<int32_t>{-1, 0, 1}));
  EXPECT_EQ(scratchReads(", copies = 2", 5), (std::vector<int32_t>{-1, -1, 0, 1, 2}));
  EXPECT_EQ(scratchReads(", copies = 3", 5), (std::vector<int32_t>{-1, -1, -1, 0, 1}));
}

TEST(Launch, ZeroScratchObjectsAreZeroInEachLaunch) {
  EXPECT_EQ(scratchReads(", zero = true", 4), (std::vector<int32_t>{0, 0, 0, 0}));
  EXPECT_EQ(scratchReads(", zero = true, copies = 3", 7), std::vector<int32_t>(7, 0));
}

TEST(Launch, ScratchSizesMustAgreeBetweenRanks) {
  Program program(R"(
kernel @k {
  %r = rank : index
  %c1 = const {value = 1} : index
  %n = add %r, %c1 : index
  %box = param @box %n {param = 0, mode = "scratch"} : view<i32, 1>
  space @main {vars = []} {
    yield
  }
  return
})");
  Machine machine(*program.module, 2);
  const auto error = machine.launch("k", {{}, {}});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind, RunError::Kind::BadArgument);
  EXPECT_NE(error->message.find("`box` of kernel `k` has 8 bytes on rank 1 but 4 on another"),
            std::string::npos)
      << error->message;
}

} // namespace
} // namespace dtile::interpret::testing
