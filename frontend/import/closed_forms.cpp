// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds expressions by trying: there are few numbers to try, and every one found is tested at all
// points.
#include "frontend/import/closed_forms.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"

#include <map>
#include <set>

namespace dtile::imported {

namespace {

// Of larger moduli, the coefficients would take too long to try.
constexpr int64_t kLargestModulus = 64;

// base + byTurn * i + byRank * r.
struct Linear {
  int64_t base = 0;
  int64_t byTurn = 0;
  int64_t byRank = 0;

  [[nodiscard]] int64_t at(const Point &p) const {
    return base + byTurn * p.turn + byRank * p.rank;
  }
};

int64_t modulo(int64_t value, int64_t modulus) {
  const int64_t rest = value % modulus;
  return rest < 0 ? rest + modulus : rest;
}

void addTerm(std::string &text, int64_t factor, const char *name) {
  if (factor == 0)
    return;
  const bool isFirst = text.empty();
  if (!isFirst)
    text += factor < 0 ? " - " : " + ";
  else if (factor < 0)
    text += "-";
  const int64_t size = factor < 0 ? -factor : factor;
  if (*name == '\0')
    text += std::to_string(size);
  else
    text += size == 1 ? name : std::to_string(size) + " * " + name;
}

// A positive term first: `i - r` rather than `-r + i`.
std::string textOf(const Linear &linear) {
  std::string text;
  if (linear.byRank >= 0)
    addTerm(text, linear.byRank, "r");
  if (linear.byTurn > 0)
    addTerm(text, linear.byTurn, "i");
  if (linear.base > 0)
    addTerm(text, linear.base, "");
  if (linear.byRank < 0)
    addTerm(text, linear.byRank, "r");
  if (linear.byTurn < 0)
    addTerm(text, linear.byTurn, "i");
  if (linear.base < 0)
    addTerm(text, linear.base, "");
  return text.empty() ? "0" : text;
}

// The difference that one more of a coordinate makes, seen at two points that agree in the other.
std::optional<int64_t> slope(llvm::ArrayRef<Point> points, bool ofTurn) {
  for (const Point &a : points)
    for (const Point &b : points) {
      const int64_t step = ofTurn ? b.turn - a.turn : b.rank - a.rank;
      const bool agrees = ofTurn ? a.rank == b.rank : a.turn == b.turn;
      if (step == 0 || !agrees)
        continue;
      if ((b.value - a.value) % step != 0)
        return std::nullopt;
      return (b.value - a.value) / step;
    }
  return 0;
}

std::optional<Linear> linearForm(llvm::ArrayRef<Point> points) {
  const auto byTurn = slope(points, /*ofTurn=*/true);
  const auto byRank = slope(points, /*ofTurn=*/false);
  if (!byTurn || !byRank)
    return std::nullopt;
  Linear linear{.base = 0, .byTurn = *byTurn, .byRank = *byRank};
  linear.base = points.front().value - linear.at(points.front());
  if (llvm::any_of(points, [&](const Point &p) { return linear.at(p) != p.value; }))
    return std::nullopt;
  return linear;
}

std::optional<Linear> modularForm(llvm::ArrayRef<Point> points, int64_t modulus) {
  if (llvm::any_of(points, [&](const Point &p) { return p.value < 0 || p.value >= modulus; }))
    return std::nullopt;
  const auto isDifferent = [&](auto coordinate) {
    return llvm::any_of(
        points, [&](const Point &p) { return coordinate(p) != coordinate(points.front()); });
  };
  const int64_t turns = isDifferent([](const Point &p) { return p.turn; }) ? modulus : 1;
  const int64_t ranks = isDifferent([](const Point &p) { return p.rank; }) ? modulus : 1;
  const auto small = [&](int64_t value) { return value > modulus / 2 ? value - modulus : value; };
  for (int64_t byRank = 0; byRank < ranks; ++byRank)
    for (int64_t byTurn = 0; byTurn < turns; ++byTurn) {
      Linear linear{.base = 0, .byTurn = small(byTurn), .byRank = small(byRank)};
      const Point &first = points.front();
      linear.base = small(modulo(first.value - linear.at(first), modulus));
      if (llvm::all_of(points,
                       [&](const Point &p) { return modulo(linear.at(p), modulus) == p.value; }))
        return linear;
    }
  return std::nullopt;
}

std::string parenthesized(const std::string &text) {
  return text.find(' ') == std::string::npos ? text : "(" + text + ")";
}

// The points divided by `scale`, or nothing where they are not all `shift` more than a multiple.
std::optional<std::vector<Point>> divided(llvm::ArrayRef<Point> points, int64_t scale,
                                          int64_t shift) {
  std::vector<Point> result;
  for (const Point &p : points) {
    if (modulo(p.value - shift, scale) != 0)
      return std::nullopt;
    result.push_back({.rank = p.rank, .turn = p.turn, .value = (p.value - shift) / scale});
  }
  return result;
}

std::string scaled(const std::string &text, int64_t scale, int64_t shift) {
  std::string result = text;
  if (scale != 1)
    result = std::to_string(scale) + " * " + parenthesized(text);
  if (shift != 0)
    result += " + " + std::to_string(shift);
  return result;
}

// r / L and (r + d) % L of ranks in groups of L.
std::optional<std::string> groupForm(llvm::ArrayRef<Point> points, int64_t group) {
  std::vector<Point> places;
  std::vector<Point> groups;
  for (const Point &p : points) {
    places.push_back({.rank = p.rank, .turn = p.turn, .value = modulo(p.value, group)});
    groups.push_back({.rank = p.rank, .turn = p.turn, .value = p.value / group});
  }
  if (llvm::any_of(llvm::zip(points, groups), [&](const auto &pair) {
        const auto &[p, g] = pair;
        return p.value < 0 || g.value != p.rank / group;
      }))
    return std::nullopt;
  const std::optional<Linear> place = modularForm(places, group);
  if (!place)
    return std::nullopt;
  const std::string text = "r / " + std::to_string(group) + " * " + std::to_string(group);
  if (place->byRank == 0 && place->byTurn == 0)
    return text + (place->base == 0 ? "" : " + " + std::to_string(modulo(place->base, group)));
  return text + " + " + parenthesized(textOf(*place)) + " % " + std::to_string(group);
}

} // namespace

std::optional<std::string> closedForm(llvm::ArrayRef<Point> points,
                                      llvm::ArrayRef<int64_t> moduli) {
  if (const std::optional<Linear> linear = linearForm(points))
    return textOf(*linear);
  const int64_t least = llvm::min_element(points, [](const Point &a, const Point &b) {
                          return a.value < b.value;
                        })->value;
  // How chunks lie: as they are, or several to each of what a modulus counts.
  std::set<int64_t> scales{1};
  for (const int64_t a : moduli)
    for (const int64_t b : moduli)
      if (a > b && a % b == 0)
        scales.insert(a / b);
  for (const int64_t scale : scales) {
    const int64_t shift = scale == 1 ? 0 : modulo(least, scale);
    const auto parts = divided(points, scale, shift);
    if (!parts)
      continue;
    for (const int64_t modulus : moduli) {
      if (modulus < 2 || modulus > kLargestModulus)
        continue;
      if (const auto linear = modularForm(*parts, modulus))
        return scaled(parenthesized(textOf(*linear)) + " % " + std::to_string(modulus), scale,
                      shift);
    }
    for (const int64_t group : moduli)
      if (group >= 2 && group <= kLargestModulus)
        if (const auto form = groupForm(*parts, group))
          return scaled(*form, scale, shift);
  }
  return std::nullopt;
}

std::string tableForm(llvm::ArrayRef<Point> points, int64_t all) {
  // The most frequent value is what is left.
  std::map<int64_t, std::vector<int64_t>> ranks;
  for (const Point &p : points)
    ranks[p.value].push_back(p.rank);
  const auto rest = std::max_element(ranks.begin(), ranks.end(), [](const auto &a, const auto &b) {
    return a.second.size() < b.second.size();
  });
  std::string text;
  for (const auto &[value, of] : ranks) {
    if (value == rest->first)
      continue;
    text += rankCondition(of, all) + " ? " + std::to_string(value) + " : ";
  }
  return text + std::to_string(rest->first);
}

std::string rankCondition(llvm::ArrayRef<int64_t> ranks, int64_t all) {
  const auto isRun = int64_t(ranks.size()) == ranks.back() - ranks.front() + 1;
  if (ranks.size() == 1)
    return "r == " + std::to_string(ranks.front());
  if (isRun && ranks.front() == 0)
    return "r < " + std::to_string(ranks.back() + 1);
  if (isRun && ranks.back() == all - 1)
    return "r >= " + std::to_string(ranks.front());
  if (isRun)
    return "r >= " + std::to_string(ranks.front()) + " && r < " + std::to_string(ranks.back() + 1);
  // Each so-many-th.
  const int64_t step = ranks[1] - ranks[0];
  const bool isEven = llvm::all_of(llvm::seq<size_t>(1, ranks.size()),
                                   [&](size_t i) { return ranks[i] - ranks[i - 1] == step; });
  if (isEven && ranks.front() < step && ranks.back() + step >= all)
    return "r % " + std::to_string(step) + " == " + std::to_string(ranks.front());
  std::string text;
  for (const int64_t rank : ranks)
    text += (text.empty() ? "r == " : " || r == ") + std::to_string(rank);
  return text;
}

} // namespace dtile::imported
