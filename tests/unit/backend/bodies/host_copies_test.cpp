// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random copies whose sides end early, begin late, or are not there: what exists on both sides is
// moved, position by position, and nothing else of the target changes. Held to that rule and to the
// interpreter, in memory that holds something everywhere.
#include "host_support.h"

#include <optional>

namespace dtile::backend::host::testing {
namespace {

/// One dimension of a parameter, and how a view cuts it.
struct Cut {
  enum class Kind : uint8_t { All, Position, Range, Window } kind = Kind::All;
  int64_t size = 1;
  int64_t first = 0;
  /// Of a range the end, of a window the limit.
  int64_t limit = 0;
  int64_t length = 0;

  /// Where position v of the view is, if it exists; of a dropped dimension for v = 0.
  [[nodiscard]] std::optional<int64_t> place(int64_t v) const {
    const int64_t at = kind == Kind::All ? v : first + v;
    const int64_t end = kind == Kind::Range || kind == Kind::Window ? std::min(limit, size) : size;
    const bool isInLength = kind != Kind::Window || v < length;
    return at >= 0 && at < end && isInLength ? std::optional(at) : std::nullopt;
  }
};

/// A view of a parameter.
struct Side {
  std::vector<Cut> cuts;

  [[nodiscard]] std::vector<int64_t> sizes() const {
    std::vector<int64_t> sizes;
    for (const Cut &cut : cuts)
      sizes.push_back(cut.size);
    return sizes;
  }
  /// The element number of the parameter, if it exists.
  [[nodiscard]] std::optional<int64_t> element(llvm::ArrayRef<int64_t> position) const {
    int64_t number = 0;
    size_t live = 0;
    for (const Cut &cut : cuts) {
      const bool isDropped = cut.kind == Cut::Kind::Position;
      const auto at = cut.place(isDropped ? 0 : position[live]);
      live += !isDropped;
      if (!at)
        return std::nullopt;
      number = number * cut.size + *at;
    }
    return number;
  }
};

enum class How : uint8_t { Put, Get, PutTile, StoreTile, ReduceAdd };

/// One copy: random sizes, cuts and types.
class RandomCopy {
public:
  explicit RandomCopy(unsigned seed) : engine_(seed) {
    constexpr DType kTypes[] = {DType::F32, DType::I8, DType::BF16, DType::F64, DType::I32};
    how = How(below(5));
    dtype = how == How::ReduceAdd ? DType::I32 : kTypes[below(5)];
    isFar = below(2) == 0;
    // Rows that TMA would take, now and then.
    const bool isLarge = seed % 8 == 0 && (how == How::Put || how == How::Get);
    const unsigned rank = isLarge ? 2 : below(4);
    const bool isTile = how != How::Put && how != How::Get;
    for (unsigned d = 0; d < rank; ++d) {
      const int64_t length = isLarge ? (d == 0 ? 24 : 4096 / int64_t(dtypeBytes(dtype)))
                                     : int64_t(1) << below(isTile && rank > 1 ? 4 : 6);
      shape.push_back(length);
      const bool isRange = !isTile && below(4) == 0;
      const bool isWhole = !isRange && below(5) == 0;
      for (Side *side : {&from, &to})
        side->cuts.push_back(isRange ? range(length) : isWhole ? all(length) : window(length));
    }
    for (Side *side : {&from, &to})
      for (unsigned more = below(3); more > 0 && side->cuts.size() < 3; --more)
        side->cuts.insert(side->cuts.begin() + below(unsigned(side->cuts.size()) + 1), position());
  }

  How how;
  DType dtype;
  bool isFar;
  Side from, to;
  /// Of the views.
  std::vector<int64_t> shape;

  [[nodiscard]] std::string text() const {
    const std::string element = dtypeName(dtype).str();
    const bool isGet = how == How::Get;
    std::string constants, views;
    const auto number = [&](int64_t value) {
      std::string name = "%n" + std::to_string(names_++);
      constants += "  " + name + " = const {value = " + std::to_string(value) + "} : index\n";
      return name;
    };
    const auto param = [&](const Side &side, const char *name, const char *mode, int place) {
      std::string line = std::string("  %") + name + " = param @" + name;
      for (size_t d = 0; d < side.cuts.size(); ++d)
        line += (d ? ", " : " ") + number(side.cuts[d].size);
      return line + " {param = " + std::to_string(place) + ", mode = \"" + mode + "\"} : view<" +
             element + ", " + std::to_string(side.cuts.size()) + ">\n";
    };
    const auto view = [&](const Side &side, std::string name, bool isRemote) {
      const std::string far = isRemote ? ", remote>\n" : ">\n";
      if (isRemote) {
        views += "    %at" + name + " = view.at %" + name + ", %next : view<" + element + ", " +
                 std::to_string(side.cuts.size()) + far;
        name = "at" + name;
      }
      // Ranges and positions first, then windows.
      for (const bool ofWindows : {false, true}) {
        std::string letters, operands, lens;
        unsigned rank = 0;
        bool isCut = false;
        for (const Cut &cut : side.cuts) {
          const bool isWindow = cut.kind == Cut::Kind::Window;
          if (ofWindows && cut.kind == Cut::Kind::Position)
            continue;
          const bool takes = ofWindows ? isWindow : !isWindow && cut.kind != Cut::Kind::All;
          letters += !takes ? 'a' : cut.kind == Cut::Kind::Position ? 'i' : 'r';
          rank += letters.back() != 'i';
          isCut |= takes;
          if (!takes)
            continue;
          operands += ", " + number(cut.first);
          if (cut.kind != Cut::Kind::Position)
            operands += ", " + number(cut.limit);
          lens += (lens.empty() ? "" : ", ") + std::to_string(cut.length);
        }
        if (!isCut)
          continue;
        const std::string next = name + (ofWindows ? "w" : "s");
        views += "    %" + next + " = view." + (ofWindows ? "tile %" : "slice %") + name +
                 operands + " {dims = \"" + letters + "\"" +
                 (ofWindows ? ", lens = [" + lens + "]" : "") + "} : view<" + element + ", " +
                 std::to_string(rank) + far;
        name = next;
      }
      return "%" + name;
    };
    const std::string params =
        param(from, "x", isGet ? "symm" : "in", 0) + param(to, "y", isGet ? "inout" : "symm", 1);
    const std::string source = view(from, "x", isGet && isFar);
    const std::string target = view(to, "y", !isGet && isFar);
    std::string value = source;
    if (how != How::Put && how != How::Get) {
      std::string type = element;
      if (!shape.empty()) {
        type = "tile<";
        for (const int64_t size : shape)
          type += std::to_string(size) + "x";
        type += element + ">";
      }
      views += "    %v = load " + source + " : " + type + "\n";
      value = "%v";
    }
    const std::string pair = value + ", " + target;
    const std::string op = how == How::StoreTile   ? "    store " + pair + "\n"
                           : how == How::ReduceAdd ? "    %t = reduce_add " + pair + " : token\n"
                           : how == How::Get       ? "    %t = get " + pair + " : token\n"
                                                   : "    %t = put " + pair + " : token\n";
    return "kernel @k {\n  %W = num_ranks : index\n  %me = rank : index\n" + number1() + constants +
           params + "  space @main {vars = []} {\n    %up = add %me, %one : index\n" +
           "    %next = rem %up, %W : index\n" + views + op +
           (how == How::StoreTile ? "" : "    await %t\n") + "    yield\n  }\n  return\n}\n";
  }

  /// What the rule says.
  [[nodiscard]] Tensor wanted(const Tensor &x, const Tensor &y, int ranks) const {
    Tensor result = y;
    const size_t bytes = dtypeBytes(dtype);
    const bool isGet = how == How::Get;
    const bool isTile = how != How::Put && how != How::Get;
    for (int r = 0; r < ranks; ++r) {
      const int other = isFar ? (r + 1) % ranks : r;
      const uint8_t *source = x.bytes.data() + (isGet ? other : r) * x.rankBytes();
      uint8_t *target = result.bytes.data() + (isGet ? r : other) * y.rankBytes();
      std::vector<int64_t> at(shape.size(), 0);
      for (bool isOver = false; !isOver;) {
        const auto a = from.element(at), b = to.element(at);
        std::vector<uint8_t> value(bytes, 0);
        if (a)
          std::memcpy(value.data(), source + *a * int64_t(bytes), bytes);
        if (b && how == How::ReduceAdd)
          storeFromDouble(dtype, target + *b * int64_t(bytes),
                          loadAsDouble(dtype, target + *b * int64_t(bytes)) +
                              loadAsDouble(dtype, value.data()));
        else if (b && (a || isTile))
          std::memcpy(target + *b * int64_t(bytes), value.data(), bytes);
        size_t d = shape.size();
        while (d-- > 0) {
          if (++at[d] < shape[d])
            break;
          at[d] = 0;
        }
        isOver = d == size_t(-1);
      }
    }
    return result;
  }

private:
  unsigned below(unsigned n) { return std::uniform_int_distribution<unsigned>(0, n - 1)(engine_); }
  int64_t between(int64_t first, int64_t last) {
    return std::uniform_int_distribution<int64_t>(first, last)(engine_);
  }
  static std::string number1() { return "  %one = const {value = 1} : index\n"; }

  Cut all(int64_t length) { return {.kind = Cut::Kind::All, .size = length}; }
  Cut range(int64_t length) {
    const int64_t first = between(0, 3);
    return {.kind = Cut::Kind::Range,
            .size = first + length + between(0, 3),
            .first = first,
            .limit = first + length};
  }
  /// Mostly with something outside.
  Cut window(int64_t length) {
    const int64_t first = between(-std::min<int64_t>(length, 3), 5);
    const int64_t size = std::max<int64_t>(1, first + between(length / 2, length + 4));
    const int64_t limit = below(3) == 0 ? first + between(0, length) : size + between(0, 2);
    return {
        .kind = Cut::Kind::Window, .size = size, .first = first, .limit = limit, .length = length};
  }
  Cut position() {
    const int64_t size = between(1, 4);
    const int64_t at = below(6) == 0 ? (below(2) ? -1 : size) : between(0, size - 1);
    return {.kind = Cut::Kind::Position, .size = size, .first = at};
  }

  std::mt19937 engine_;
  mutable unsigned names_ = 0;
};

class HostCopies : public ::testing::TestWithParam<unsigned> {};

TEST_P(HostCopies, MoveWhatExistsOnBothSides) {
  for (unsigned seed = GetParam() * 16; seed < GetParam() * 16 + 16; ++seed) {
    const RandomCopy copy(seed);
    const std::string text = copy.text();
    const int ranks = copy.isFar ? 2 : 1;
    const bool isGet = copy.how == How::Get;
    Tensor x = random(copy.dtype, copy.from.sizes(), seed, ranks, 50);
    Tensor y = random(copy.dtype, copy.to.sizes(), seed + 1000, ranks, 50);
    x.isSymmetric = isGet;
    y.isSymmetric = !isGet;
    const std::vector<Tensor> got = runBoth(text, ranks, {x, y}, 0);
    ASSERT_FALSE(HasFailure()) << "seed " << seed << "\n" << text;
    EXPECT_EQ(got[0].bytes, x.bytes);
    EXPECT_EQ(got[1].bytes, copy.wanted(x, y, ranks).bytes) << "seed " << seed << "\n" << text;
    ASSERT_FALSE(HasFailure());
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, HostCopies, ::testing::Range(0u, 12u));

} // namespace
} // namespace dtile::backend::host::testing
