// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loops, branches, calls and assertions.
#include "interpreter_support.h"

namespace dtile::interpret::testing {
namespace {

/// Runs a kernel on one i64 argument `n` and gives the i64 that it stores to `out`. `body` defines
/// %r.
struct Outcome {
  int64_t value = -99;
  std::unique_ptr<RunError> error;
};

Outcome run(const std::string &body, int64_t n, const std::string &functions = "",
            Schedule schedule = {}) {
  Program program(functions + R"(
kernel @k {
  %out = param @out {param = 0, mode = "out"} : view<i64, 0>
  %n = scalar_param @n {param = 1} : index
  %c0 = const {value = 0} : index
  %c1 = const {value = 1} : index
  %c2 = const {value = 2} : index
  space @main {vars = []} {
)" + body + R"(
    store %r, %out
    yield
  }
  return
})");
  Outcome outcome;
  if (!program.module)
    return outcome;
  Machine machine(*program.module, 1, schedule);
  outcome.error = machine.launch("k", {{tensor(&outcome.value, DType::I64, {}), scalar(n)}});
  return outcome;
}

TEST(Control, ForCarriesValues) {
  const std::string body = R"(
    %r = for %c0, %n, %c1, %c0 : index (%i: index, %sum: index) {
      %next = add %sum, %i : index
      yield %next
    })";
  EXPECT_EQ(run(body, 10).value, 45);
  EXPECT_EQ(run(body, 0).value, 0);
  EXPECT_EQ(run(body, -5).value, 0);
}

TEST(Control, ForStepsByMoreThanOneAndStopsBelowItsEnd) {
  const std::string body = R"(
    %c3 = const {value = 3} : index
    %r = for %c1, %n, %c3, %c0 : index (%i: index, %last: index) {
      yield %i
    })";
  EXPECT_EQ(run(body, 11).value, 10);
  EXPECT_EQ(run(body, 10).value, 7);
}

TEST(Control, ForNearTheLargestIndexEnds) {
  EXPECT_EQ(run(R"(
    %top = const {value = 9223372036854775807} : index
    %almost = sub %top, %c2 : index
    %r = for %almost, %top, %c2, %c0 : index (%i: index, %count: index) {
      %next = add %count, %c1 : index
      yield %next
    })",
                0)
                .value,
            1);
}

TEST(Control, AStepOfZeroTraps) {
  const Outcome outcome = run(R"(
    %r = for %c0, %n, %c0, %c0 : index (%i: index, %x: index) {
      yield %x
    })",
                              3);
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(outcome.error->kind, RunError::Kind::Trap);
  EXPECT_NE(outcome.error->message.find("a loop's step is 0"), std::string::npos);
}

TEST(Control, CarriedValuesMayBeExchanged) {
  // Fibonacci by (a, b) <- (b, a + b), and a pure swap.
  EXPECT_EQ(run(R"(
    %f, %g = for %c0, %n, %c1, %c0, %c1 : index, index (%i: index, %a: index, %b: index) {
      %next = add %a, %b : index
      yield %b, %next
    }
    %x, %r = for %c0, %c1, %c1, %f, %g : index, index (%j: index, %p: index, %q: index) {
      yield %q, %p
    })",
                10)
                .value,
            55);
}

TEST(Control, TilesMayBeExchangedBetweenIterations) {
  EXPECT_EQ(run(R"(
    %one = tile.splat %c1 : tile<4xi64>
    %two = tile.splat %c2 : tile<4xi64>
    %x, %y = for %c0, %n, %c1, %one, %two : tile<4xi64>, tile<4xi64>
        (%i: index, %a: tile<4xi64>, %b: tile<4xi64>) {
      %d = add %b, %b : tile<4xi64>
      yield %d, %a
    }
    %both = sub %x, %y : tile<4xi64>
    %r = tile.reduce %both {axis = 0, kind = "sum"} : index)",
                3)
                .value,
            // (1,2) (4,1) (2,4) (8,2)
            4 * (8 - 2));
}

TEST(Control, WhileStopsWithTheValuesOfItsCondition) {
  const std::string body = R"(
    %x, %r = while %n, %c0 : index, index (%m: index, %steps: index) {
      %more = cmp %m, %c1 {pred = "gt"} : bool
      condition %more, %m, %steps
    } (%a: index, %s: index) {
      %half = div %a, %c2 : index
      %odd = rem %a, %c2 : index
      %isOdd = cmp %odd, %c1 {pred = "eq"} : bool
      %next = if %isOdd : index {
        %c3 = const {value = 3} : index
        %t = mul %a, %c3 : index
        %u = add %t, %c1 : index
        yield %u
      } {
        yield %half
      }
      %t1 = add %s, %c1 : index
      yield %next, %t1
    })";
  EXPECT_EQ(run(body, 27).value, 111);
  EXPECT_EQ(run(body, 1).value, 0);
}

TEST(Control, BranchesMayHaveNoResults) {
  EXPECT_EQ(run(R"(
    %isBig = cmp %n, %c2 {pred = "gt"} : bool
    store %c1, %out
    if %isBig {
      store %c2, %out
      yield
    } {
      yield
    }
    %r = load %out : index)",
                5)
                .value,
            2);
}

TEST(Control, FunctionsCallThemselves) {
  EXPECT_EQ(run("%r = call @factorial %n : index", 10, R"(
func @factorial (%n: index) {
  %c1 = const {value = 1} : index
  %isLast = cmp %n, %c1 {pred = "le"} : bool
  %r = if %isLast : index {
    yield %c1
  } {
    %less = sub %n, %c1 : index
    %rest = call @factorial %less : index
    %all = mul %n, %rest : index
    yield %all
  }
  return %r
}
)")
                .value,
            3628800);
}

TEST(Control, EndlessRecursionTraps) {
  const Outcome outcome = run("%r = call @again %n : index", 1, R"(
func @again (%n: index) {
  %r = call @again %n : index
  return %r
}
)");
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(outcome.error->kind, RunError::Kind::Trap);
  EXPECT_NE(outcome.error->message.find("calls nest deeper than 1000"), std::string::npos);
}

TEST(Control, FunctionsReturnSeveralValuesAndTakeTiles) {
  EXPECT_EQ(run(R"(
    %t = tile.splat %n : tile<3xi64>
    %u, %m = call @twice %t, %n : tile<3xi64>, index
    %sum = tile.reduce %u {axis = 0, kind = "sum"} : index
    %r = add %sum, %m : index)",
                5, R"(
func @twice (%t: tile<3xi64>, %n: index) {
  %u = add %t, %t : tile<3xi64>
  %m = neg %n : index
  return %u, %m
}
)")
                .value,
            25);
}

TEST(Control, AFailedAssertionFillsItsHolesAndNamesThePlace) {
  const Outcome outcome = run(R"(
    %x = const {value = 2.5} : f32
    %ok = cmp %n, %c2 {pred = "le"} : bool
    assert %ok, %n, %x, %ok {message = "{0} rows do not fit {{1}} in {1}, {2} {9}"}
    %r = add %n, %c1 : index)",
                              7);
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(outcome.error->kind, RunError::Kind::Trap);
  EXPECT_NE(outcome.error->message.find("7 rows do not fit {2.5} in 2.5, false {9}"),
            std::string::npos)
      << outcome.error->message;
  EXPECT_NE(outcome.error->message.find("test.dtir:12:5: rank 0, kernel `k`, role `main`: 7 rows"),
            std::string::npos)
      << outcome.error->message;
  EXPECT_EQ(outcome.value, -99);
  EXPECT_EQ(run(R"(
    %ok = cmp %n, %c2 {pred = "le"} : bool
    assert %ok {message = "too large"}
    %r = add %n, %c1 : index)",
                2)
                .value,
            3);
}

TEST(Control, ARunStopsAfterItsSteps) {
  const Outcome outcome = run(R"(
    %true = const {value = true} : bool
    %one = const {value = 1} : index
    %r = while %n : index (%m: index) {
      %less = cmp %m, %one {pred = "lt"} : bool
      %go = or %less, %true : bool
      condition %go, %m
    } (%a: index) {
      %next = add %a, %one : index
      yield %next
    })",
                              1, "", {.maxSteps = 1000});
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(outcome.error->kind, RunError::Kind::StepLimit);
  EXPECT_NE(outcome.error->message.find("after 1000 steps"), std::string::npos);
}

TEST(Control, ALoopThatComesBackToWhereItWasIsSeen) {
  const Outcome outcome = run(R"(
    %zero = const {value = 0} : index
    %three = const {value = 3} : index
    %two = const {value = 2} : index
    %r = while %zero : index (%m: index) {
      %go = cmp %m, %three {pred = "ne"} : bool
      condition %go, %m
    } (%a: index) {
      %up = add %a, %two : index
      %four = mul %two, %two : index
      %next = rem %up, %four : index
      yield %next
    })",
                              1, "", {.maxSteps = 1000});
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(outcome.error->kind, RunError::Kind::Endless);
  EXPECT_NE(outcome.error->message.find("this loop does not end"), std::string::npos);
}

} // namespace
} // namespace dtile::interpret::testing
