// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arithmetic that is recorded once from the IR, then run for many launches.
#include "ir/model/arithmetic.h"

#include "ir/core/text_format.h"
#include "ir/model/launch_sizes.h"

#include "gtest/gtest.h"

#include <map>

using namespace dtile;
using namespace dtile::ir;

namespace {

/// A kernel whose sizes are M and N, and what follows from them.
class Kernel {
public:
  Kernel() {
    const std::string text = R"(
kernel @f {
  %M = launch.dim {dim = 0, param = 0} : index
  %N = launch.dim {dim = 1, param = 0} : index
  %x = param @x %M, %N {mode = "in", param = 0} : view<f32, 2>
  %c64 = const {value = 64} : index
  %difference = sub %M, %N : index
  %blocks = div %difference, %c64 : index
  %rest = rem %difference, %c64 : index
  %all = mul %blocks, %c64 : index
  %again = add %all, %rest : index
  %isLess = cmp %M, %N {pred = "lt"} : bool
  %least = select %isLess, %M, %N : index
  %places = param @places {mode = "in", param = 1} : view<i32, 0>
  %told = load %places : i32
  %zero = const {value = 0} : i32
  %c0 = const {value = 0} : index
  %isSome = cmp %told, %zero {pred = "gt"} : bool
  %end = select %isSome, %M, %c0 : index
  %other = select %isSome, %M, %N : index
  %twice = add %other, %other : index
  for %c0, %end, %c64 (%i: index) {
    yield
  }
  return
}
)";
    module_ = parseModule(sources_.add("a.dtir", text), sources_, types_, diagnostics_);
    EXPECT_TRUE(module_);
    walk(module_->body(), [&](Op &op) {
      if (op.numResults() == 1)
        values_[op.result()->nameHint().str()] = op.result();
    });
  }
  [[nodiscard]] Value &value(const std::string &name) { return *values_.at(name); }

private:
  SourceManager sources_;
  TypeContext types_;
  Diagnostics diagnostics_{sources_};
  std::unique_ptr<Module> module_;
  std::map<std::string, Value *> values_;
};

struct Sizes {
  int64_t rows, columns, blocks, rest, least;
};

class ArithmeticOnSizes : public testing::TestWithParam<Sizes> {};

TEST_P(ArithmeticOnSizes, is_that_of_the_ir) {
  Kernel kernel;
  model::Arithmetic a;
  const model::Slot rows = a.input(kernel.value("M"), model::kLaunchLevel);
  const model::Slot columns = a.input(kernel.value("N"), model::kLaunchLevel);
  std::map<std::string, model::Slot> slots;
  for (const char *name : {"difference", "blocks", "rest", "again", "least"}) {
    const auto slot = a.number(kernel.value(name));
    ASSERT_TRUE(slot) << name;
    slots[name] = *slot;
  }
  std::vector<model::Word> words = a.initial();
  words[size_t(rows)].integer = GetParam().rows;
  words[size_t(columns)].integer = GetParam().columns;
  a.run(model::kLaunchLevel, words.data());
  const auto number = [&](const char *name) { return words[size_t(slots.at(name))].integer; };
  EXPECT_EQ(number("blocks"), GetParam().blocks);
  EXPECT_EQ(number("rest"), GetParam().rest);
  EXPECT_EQ(number("again"), number("difference"));
  EXPECT_EQ(number("least"), GetParam().least);
}

TEST_P(ArithmeticOnSizes, is_answered_one_by_one) {
  Kernel kernel;
  model::LaunchSizes sizes(1);
  sizes.set(kernel.value("M"), GetParam().rows);
  sizes.set(kernel.value("N"), GetParam().columns);
  EXPECT_EQ(sizes.number(kernel.value("blocks")), GetParam().blocks);
  EXPECT_EQ(sizes.number(kernel.value("rest")), GetParam().rest);
  EXPECT_EQ(sizes.number(kernel.value("least")), GetParam().least);
}

// Division floors.
INSTANTIATE_TEST_SUITE_P(Some, ArithmeticOnSizes,
                         testing::Values(Sizes{300, 100, 3, 8, 100}, Sizes{100, 300, -4, 56, 100},
                                         Sizes{64, 64, 0, 0, 64}));

TEST(LaunchSizes, take_the_longer_loop_where_memory_decides) {
  Kernel kernel;
  model::LaunchSizes sizes(1);
  sizes.set(kernel.value("M"), 300);
  sizes.set(kernel.value("N"), 100);
  EXPECT_EQ(sizes.number(kernel.value("end")), 300);
  EXPECT_EQ(sizes.number(kernel.value("other")), std::nullopt);
}

TEST(LaunchSizes, do_not_know_what_was_not_set) {
  Kernel kernel;
  model::LaunchSizes sizes(1);
  sizes.set(kernel.value("M"), 300);
  EXPECT_EQ(sizes.number(kernel.value("M")), 300);
  EXPECT_EQ(sizes.number(kernel.value("blocks")), std::nullopt);
}

TEST(TimeDomain, computes_constants_at_once) {
  model::Arithmetic a;
  model::TimeDomain times(a);
  const size_t before = a.slots();
  const model::Slot sum = times.add(times.real(1.5), times.mul(times.real(2), times.real(4)));
  EXPECT_EQ(a.constant(sum), 9.5);
  EXPECT_EQ(a.constant(times.larger(times.real(-1), times.real(0))), 0.0);
  EXPECT_EQ(a.constant(times.smaller(times.real(-1), times.real(0))), -1.0);
  // Nothing but numbers.
  EXPECT_EQ(a.slots(), before + 7);
}

TEST(TimeDomain, takes_the_larger_also_of_what_may_be_negative) {
  model::Arithmetic a;
  model::TimeDomain times(a);
  const model::Slot time = a.input(model::kLaunchLevel);
  const model::Slot larger = times.larger(times.add(time, times.real(-1)), times.real(0));
  std::vector<model::Word> words = a.initial();
  for (const auto &[given, expected] : {std::pair(0.25, 0.0), std::pair(3.0, 2.0)}) {
    words[size_t(time)].real = given;
    a.run(model::kLaunchLevel, words.data());
    EXPECT_EQ(words[size_t(larger)].real, expected);
  }
}

} // namespace
