// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether the elements of an array are what a clause says: `sorted(x)`, `all(x < n)` … One meaning
// for all who check it: tests, the interpreter, and the runtime, which is built without LLVM and
// without exceptions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace dtile::clauses {

enum class Kind : int32_t { All, Sorted, Distinct, Sum, Element };
enum class Predicate : int32_t { Eq, Ne, Lt, Le, Gt, Ge };

/// Of the words that IR has for them; false for others, as `replicated`, which one array alone does
/// not decide.
inline bool parseKind(const char *word, Kind &kind) {
  static constexpr const char *kWords[] = {"all", "sorted", "distinct", "sum", "element"};
  for (int i = 0; i < 5; ++i)
    if (std::strcmp(word, kWords[i]) == 0) {
      kind = Kind(i);
      return true;
    }
  return false;
}
inline bool parsePredicate(const char *word, Predicate &predicate) {
  static constexpr const char *kWords[] = {"eq", "ne", "lt", "le", "gt", "ge"};
  for (int i = 0; i < 6; ++i)
    if (std::strcmp(word, kWords[i]) == 0) {
      predicate = Predicate(i);
      return true;
    }
  return false;
}

/// An array of integers of at most 63 bits. Strides count elements.
struct Elements {
  const void *data = nullptr;
  int bytes = 4;
  bool isSigned = true;
  int rank = 0;
  const int64_t *sizes = nullptr;
  const int64_t *strides = nullptr;

  [[nodiscard]] int64_t count() const {
    int64_t all = 1;
    for (int d = 0; d < rank; ++d)
      all *= sizes[d];
    return all;
  }
  [[nodiscard]] int64_t load(int64_t offset) const {
    const char *at = static_cast<const char *>(data) + offset * bytes;
    switch (bytes) {
    case 1:
      return isSigned ? int64_t(*reinterpret_cast<const int8_t *>(at))
                      : int64_t(*reinterpret_cast<const uint8_t *>(at));
    case 2: {
      uint16_t bits;
      std::memcpy(&bits, at, 2);
      return isSigned ? int64_t(int16_t(bits)) : int64_t(bits);
    }
    case 4: {
      uint32_t bits;
      std::memcpy(&bits, at, 4);
      return isSigned ? int64_t(int32_t(bits)) : int64_t(bits);
    }
    default: {
      int64_t value;
      std::memcpy(&value, at, 8);
      return value;
    }
    }
  }
  /// The element with a number in row-major order.
  [[nodiscard]] int64_t operator[](int64_t number) const {
    int64_t offset = 0;
    for (int d = rank; d-- > 0; number /= sizes[d])
      offset += number % sizes[d] * strides[d];
    return load(offset);
  }
  [[nodiscard]] std::string position(int64_t number) const {
    std::string text;
    for (int d = rank; d-- > 0; number /= sizes[d])
      text = std::to_string(number % sizes[d]) + (text.empty() ? "" : ", ") + text;
    return rank == 0 ? "" : "[" + text + "]";
  }
};

template <typename T> bool holds(Predicate predicate, T a, T b) {
  switch (predicate) {
  case Predicate::Eq:
    return a == b;
  case Predicate::Ne:
    return a != b;
  case Predicate::Lt:
    return a < b;
  case Predicate::Le:
    return a <= b;
  case Predicate::Gt:
    return a > b;
  case Predicate::Ge:
    return a >= b;
  }
  return false;
}

/// Where the clause does not hold: "`starts[4]` is 2, and `starts[3]` is 3"; empty where it holds.
/// All, Sum and Element compare with `bound`; `position` is Element's.
inline std::string violation(const Elements &x, Kind kind, Predicate predicate, int64_t bound,
                             const int64_t *position, const char *name) {
  const auto is = [&](int64_t number) {
    return "`" + std::string(name) + x.position(number) + "` is " + std::to_string(x[number]);
  };
  const auto compared = [&] { return ", compared with " + std::to_string(bound); };
  const int64_t count = x.count();
  switch (kind) {
  case Kind::All:
    for (int64_t i = 0; i < count; ++i)
      if (!holds(predicate, x[i], bound))
        return is(i) + compared();
    return "";
  case Kind::Sorted:
    for (int64_t i = 1; i < count; ++i)
      if (x[i] < x[i - 1])
        return is(i) + ", and " + is(i - 1);
    return "";
  case Kind::Distinct: {
    std::vector<std::pair<int64_t, int64_t>> all;
    all.reserve(size_t(count));
    for (int64_t i = 0; i < count; ++i)
      all.emplace_back(x[i], i);
    std::sort(all.begin(), all.end());
    for (size_t i = 1; i < all.size(); ++i)
      if (all[i].first == all[i - 1].first)
        return is(all[i - 1].second) + ", and " + is(all[i].second);
    return "";
  }
  case Kind::Sum: {
    __int128 sum = 0;
    for (int64_t i = 0; i < count; ++i)
      sum += x[i];
    if (holds(predicate, sum, __int128(bound)))
      return "";
    const auto least = __int128(INT64_MIN), most = __int128(INT64_MAX);
    return "the sum of `" + std::string(name) + "` is " +
           std::to_string(int64_t(std::clamp(sum, least, most))) + compared();
  }
  case Kind::Element: {
    int64_t number = 0;
    for (int d = 0; d < x.rank; ++d) {
      if (position[d] < 0 || position[d] >= x.sizes[d])
        return "`" + std::string(name) + "` has no element at " + std::to_string(position[d]) +
               " of dimension " + std::to_string(d) + ", whose size is " +
               std::to_string(x.sizes[d]);
      number = number * x.sizes[d] + position[d];
    }
    return holds(predicate, x[number], bound) ? "" : is(number) + compared();
  }
  }
  return "";
}

/// Which element of another array one of this is compared with: of each dimension of the other the
/// dimension of this whose position it is, or -1 for the number of the rank; and the dimension that
/// numbers the rank whose array it is, or -1 for this one's.
struct Beside {
  std::vector<int64_t> at;
  int64_t peer = -1;
};

/// Where elements of an array and of another one are not as they should be: "`place[0, 2]` is 5,
/// and `count[1]` on rank 2 is 4". `of(rank)` is the other array on a rank.
template <typename OtherOf>
std::string violation(const Elements &x, Predicate predicate, const Beside &beside, int64_t rank,
                      int64_t numRanks, OtherOf of, const char *name, const char *otherName) {
  const int64_t count = x.count();
  std::vector<int64_t> position(size_t(x.rank));
  for (int64_t i = 0; i < count; ++i) {
    int64_t number = i;
    for (int d = x.rank; d-- > 0; number /= x.sizes[d])
      position[size_t(d)] = number % x.sizes[d];
    const int64_t owner = beside.peer < 0 ? rank : position[size_t(beside.peer)];
    const std::string what =
        "`" + std::string(name) + x.position(i) + "` is " + std::to_string(x[i]) + ", and ";
    if (owner >= numRanks)
      return what + "there is no rank " + std::to_string(owner);
    const Elements other = of(owner);
    int64_t place = 0;
    std::string where;
    bool exists = true;
    for (int d = 0; d < other.rank; ++d) {
      const int64_t dim = beside.at[size_t(d)];
      const int64_t at = dim < 0 ? rank : position[size_t(dim)];
      exists = exists && at < other.sizes[d];
      place = place * other.sizes[d] + at;
      where += (d == 0 ? "[" : ", ") + std::to_string(at);
    }
    const std::string others = "`" + std::string(otherName) + where + (where.empty() ? "" : "]") +
                               "` on rank " + std::to_string(owner);
    if (!exists)
      return what + "there is no " + others;
    if (const int64_t value = other[place]; !holds(predicate, x[i], value))
      return what + others + " is " + std::to_string(value);
  }
  return "";
}

/// Where numbers of all ranks are not those below `bound`, each once: "`from[0, 1]` on rank 2 is 7,
/// and so is `from[1, 0]` on rank 0". Of each list along the last dimension of `of(rank)` as many
/// elements count as `countOf(rank)` says.
template <typename Of, typename CountOf>
std::string numbersMissed(int64_t numRanks, int64_t bound, Of of, CountOf countOf, const char *name,
                          const char *countName) {
  const auto on = [](int64_t rank) { return "` on rank " + std::to_string(rank); };
  std::vector<std::string> seen(bound > 0 ? size_t(bound) : 0);
  int64_t missing = bound > 0 ? bound : 0;
  for (int64_t rank = 0; rank < numRanks; ++rank) {
    const Elements x = of(rank), counts = countOf(rank);
    const int64_t length = x.sizes[x.rank - 1], lists = counts.count();
    if (!std::equal(counts.sizes, counts.sizes + counts.rank, x.sizes))
      return "`" + std::string(countName) + on(rank) + " has not a number for each list";
    for (int64_t list = 0; list < lists; ++list) {
      const std::string which = "`" + std::string(countName) + counts.position(list) + on(rank);
      if (counts[list] < 0 || counts[list] > length)
        return which + " is " + std::to_string(counts[list]) + ", of lists of " +
               std::to_string(length);
      for (int64_t i = list * length; i < list * length + counts[list]; ++i) {
        const std::string what = "`" + std::string(name) + x.position(i) + on(rank);
        if (x[i] < 0 || x[i] >= bound)
          return what + " is " + std::to_string(x[i]) + ", and the numbers end at " +
                 std::to_string(bound);
        std::string &before = seen[size_t(x[i])];
        if (!before.empty())
          return what + " is " + std::to_string(x[i]) + ", and so is " + before;
        before = what;
        --missing;
      }
    }
  }
  for (size_t number = 0; missing > 0 && number < seen.size(); ++number)
    if (seen[number].empty())
      return "no element of `" + std::string(name) + "` is " + std::to_string(number);
  return "";
}

} // namespace dtile::clauses
