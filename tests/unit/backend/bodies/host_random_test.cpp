// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random bodies of tiles, loops and branches: compiled code must leave exactly what the
// interpreter leaves, whichever tiles share memory or are computed in place of their use.
#include "host_support.h"

#include <array>

namespace dtile::backend::host::testing {
namespace {

/// The kinds of tiles that a program is made of; integers, so that results are exact.
struct Kind {
  std::vector<int64_t> shape;
  DType dtype;

  [[nodiscard]] std::string text() const {
    std::string result = "tile<";
    for (int64_t size : shape)
      result += std::to_string(size) + "x";
    return result + dtypeName(dtype).str() + ">";
  }
};
const std::array<Kind, 6> kKinds = {{{{12, 8}, DType::I32},
                                     {{8, 12}, DType::I32},
                                     {{12, 1}, DType::I32},
                                     {{12, 8}, DType::I8},
                                     {{96}, DType::I32},
                                     {{12}, DType::I32}}};
enum : unsigned { kMain, kTurned, kColumn, kByte, kFlat, kShort };

/// Writes one program. Values are only used where they are visible.
class Generator {
public:
  explicit Generator(unsigned seed) : engine_(seed) {}

  std::string program() {
    for (unsigned p = 0; p < kParams; ++p) {
      const std::string name = "%p" + std::to_string(p);
      lines_ +=
          "    %in" + std::to_string(p) + " = load " + name + " : " + kKinds[kMain].text() + "\n";
      visible_[kMain].push_back("%in" + std::to_string(p));
    }
    lines_ +=
        "    %k = const {value = 3} : i32\n    %fill = tile.splat %k : " + kKinds[kMain].text() +
        "\n";
    visible_[kMain].push_back("%fill");
    block(4, 14);
    for (unsigned p = 0; p < kParams; ++p)
      lines_ += "    store " + pick(kMain) + ", %p" + std::to_string(p) + "\n";
    std::string head = "kernel @k {\n  %d0 = const {value = 12} : index\n"
                       "  %d1 = const {value = 8} : index\n";
    for (int i : {0, 1, 2, 3})
      head += "  %c" + std::to_string(i) + " = const {value = " + std::to_string(i) + "} : index\n";
    for (unsigned p = 0; p < kParams; ++p)
      head += "  %p" + std::to_string(p) + " = param @p" + std::to_string(p) +
              " %d0, %d1 {param = " + std::to_string(p) + ", mode = \"inout\"} : view<i32, 2>\n";
    return head + "  space @main {vars = []} {\n    %zero = const {value = 0} : i32\n" + lines_ +
           "    yield\n  }\n  return\n}\n";
  }

  static constexpr unsigned kParams = 3;

private:
  using Scope = std::array<std::vector<std::string>, kKinds.size()>;

  unsigned below(unsigned n) { return std::uniform_int_distribution<unsigned>(0, n - 1)(engine_); }
  std::string fresh() { return "%v" + std::to_string(number_++); }
  std::string pick(unsigned kind) {
    if (visible_[kind].empty())
      return make(kind);
    // Mostly what is new: long chains, and now and then a long life.
    const size_t count = visible_[kind].size();
    return visible_[kind][below(3) ? count - 1 - below(std::min<size_t>(count, 3)) : below(count)];
  }
  std::string add(unsigned kind, const std::string &op) {
    std::string name = fresh();
    lines_ += "    " + name + " = " + op + " : " + kKinds[kind].text() + "\n";
    visible_[kind].push_back(name);
    return name;
  }

  /// A value of a kind from one of the main kind.
  std::string make(unsigned kind) {
    switch (kind) {
    case kTurned:
      return add(kTurned, "tile.trans " + pick(kMain) + " {perm = [1, 0]}");
    case kColumn:
      return add(kColumn, "tile.reshape " + pick(kShort));
    case kByte:
      return add(kByte, "cast " + pick(kMain));
    case kFlat:
      return add(kFlat, "tile.reshape " + pick(kMain));
    case kShort:
      return add(kShort, "tile.reduce " + pick(kMain) + " {kind = \"max\", axis = 1}");
    default:
      return "%in0";
    }
  }

  void simple() {
    static const char *const kBinary[] = {"add", "sub", "mul", "xor", "max"};
    const unsigned kind = below(3) ? unsigned(kMain) : below(kKinds.size());
    switch (below(13)) {
    case 0:
      add(kMain, "tile.trans " + pick(kTurned) + " {perm = [1, 0]}");
      return;
    case 1:
      add(kMain, "tile.broadcast " + pick(kColumn));
      return;
    case 2:
      add(kMain, "cast " + pick(kByte));
      return;
    case 3:
      add(kMain, "tile.reshape " + pick(kFlat));
      return;
    case 4:
      add(kMain, "load %p" + std::to_string(below(kParams)));
      return;
    case 5:
      lines_ += "    store " + pick(kMain) + ", %p" + std::to_string(below(kParams)) + "\n";
      return;
    case 6:
      add(kMain, "tile.scan " + pick(kMain) +
                     " {kind = \"sum\", axis = " + std::to_string(below(2)) + "}");
      return;
    case 7: {
      const std::string a = pick(kMain);
      const std::string sum = fresh();
      lines_ += "    " + sum + " = tile.dot " + a + ", " + pick(kTurned) + ", " + square() +
                " : tile<12x12xi32>\n";
      squares_ = sum;
      add(kShort,
          "tile.reduce " + sum + " {kind = \"sum\", axis = " + std::to_string(below(2)) + "}");
      return;
    }
    case 8:
      make(1 + below(kKinds.size() - 1));
      return;
    case 9:
      add(kMain, "tile.take " + pick(kMain) + ", " + positions() +
                     " {axis = " + std::to_string(below(2)) + "}");
      return;
    default:
      add(kind, std::string(kBinary[below(5)]) + " " + pick(kind) + ", " + pick(kind));
      return;
    }
  }

  /// Numbers from -15 to 15, of which some are positions.
  std::string positions() {
    const std::string most = fresh(), all = fresh(), name = fresh();
    const std::string type = " : " + kKinds[kMain].text() + "\n";
    lines_ += "    " + most + " = const {value = 16} : i32\n";
    lines_ += "    " + all + " = tile.splat " + most + type;
    lines_ += "    " + name + " = rem " + pick(kMain) + ", " + all + type;
    return name;
  }

  std::string square() {
    if (!squares_.empty() && below(2))
      return squares_;
    const std::string name = fresh();
    lines_ += "    " + name + " = tile.splat %zero : tile<12x12xi32>\n";
    return name;
  }

  /// Runs `inside` where new values are visible only there.
  template <typename Fn> void scoped(Fn inside) {
    const Scope saved = visible_;
    const std::string square = squares_;
    inside();
    visible_ = saved;
    squares_ = square;
  }

  std::string condition() {
    const std::string sum = fresh();
    const std::string test = fresh();
    lines_ +=
        "    " + sum + " = tile.reduce " + pick(kShort) + " {kind = \"sum\", axis = 0} : i32\n";
    lines_ += "    " + test + " = cmp " + sum + ", %k {pred = \"gt\"} : bool\n";
    return test;
  }

  void loop(unsigned depth, unsigned size) {
    const unsigned a = below(kKinds.size());
    const unsigned b = kMain;
    const std::string x = fresh(), y = fresh(), position = fresh(), p = fresh(), q = fresh();
    const std::string first = pick(a), second = pick(b);
    lines_ += "    " + x + ", " + y + " = for %c0, %c" + std::to_string(below(4)) + ", %c1, " +
              first + ", " + second + " : " + kKinds[a].text() + ", " + kKinds[b].text() + " (" +
              position + ": index, " + p + ": " + kKinds[a].text() + ", " + q + ": " +
              kKinds[b].text() + ") {\n";
    scoped([&] {
      visible_[a].push_back(p);
      visible_[b].push_back(q);
      block(depth - 1, size / 2);
      std::string next = pick(a), other = pick(b);
      if (a == b && below(4) == 0)
        next = q, other = p;
      lines_ += "    yield " + next + ", " + other + "\n    }\n";
    });
    visible_[a].push_back(x);
    visible_[b].push_back(y);
  }

  void whileLoop(unsigned depth, unsigned size) {
    const std::string x = fresh(), n = fresh(), p = fresh(), i = fresh(), q = fresh(), j = fresh();
    const std::string go = fresh(), next = fresh(), first = pick(kMain);
    lines_ += "    " + x + ", " + n + " = while " + first + ", %c0 : " + kKinds[kMain].text() +
              ", index (" + p + ": " + kKinds[kMain].text() + ", " + i + ": index) {\n";
    scoped([&] {
      visible_[kMain].push_back(p);
      block(1, 3);
      lines_ += "    " + go + " = cmp " + i + ", %c2 {pred = \"lt\"} : bool\n    condition " + go +
                ", " + pick(kMain) + ", " + i + "\n";
    });
    lines_ += "    } (" + q + ": " + kKinds[kMain].text() + ", " + j + ": index) {\n";
    scoped([&] {
      visible_[kMain].push_back(q);
      block(depth - 1, size / 2);
      lines_ += "    " + next + " = add " + j + ", %c1 : index\n    yield " + pick(kMain) + ", " +
                next + "\n    }\n";
    });
    visible_[kMain].push_back(x);
  }

  void branch(unsigned depth, unsigned size) {
    const unsigned a = below(kKinds.size());
    (void)pick(a);
    const std::string test = condition();
    const std::string x = fresh();
    lines_ += "    " + x + " = if " + test + " : " + kKinds[a].text() + " {\n";
    for (int side = 0; side < 2; ++side)
      scoped([&] {
        block(depth - 1, size / 2);
        lines_ += "    yield " + pick(a) + (side ? "\n    }\n" : "\n    } {\n");
      });
    visible_[a].push_back(x);
  }

  void block(unsigned depth, unsigned size) {
    for (unsigned i = 0; i < size; ++i) {
      const unsigned choice = depth > 0 ? below(10) : 9;
      if (choice == 0)
        loop(depth, size);
      else if (choice == 1)
        branch(depth, size);
      else if (choice == 2)
        whileLoop(depth, size);
      else
        simple();
    }
  }

  std::mt19937 engine_;
  std::string lines_;
  std::string squares_;
  Scope visible_;
  unsigned number_ = 0;
};

class HostRandom : public ::testing::TestWithParam<unsigned> {};

TEST_P(HostRandom, LeavesWhatTheInterpreterLeaves) {
  for (unsigned seed = GetParam() * 8; seed < GetParam() * 8 + 8; ++seed) {
    const std::string text = Generator(seed).program();
    Program program(text);
    ASSERT_TRUE(program.module) << text;
    std::vector<Tensor> wanted;
    for (unsigned p = 0; p < Generator::kParams; ++p)
      wanted.push_back(random(DType::I32, {12, 8}, seed + p));
    std::vector<Tensor> got = wanted;
    ASSERT_EQ(runInterpreted(*program.module, 1, wanted), "") << text;
    ASSERT_EQ(runCompiled(*program.module, 1, got, {.optLevel = seed % 2 ? 0u : 2u}), "") << text;
    for (size_t i = 0; i < got.size(); ++i)
      expectSame(got[i], wanted[i], 0, "argument " + std::to_string(i));
    ASSERT_FALSE(HasFailure()) << "seed " << seed << "\n" << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, HostRandom, ::testing::Range(0u, 10u));

} // namespace
} // namespace dtile::backend::host::testing
