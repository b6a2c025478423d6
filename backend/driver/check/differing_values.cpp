// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// With equal values a mix-up of two constants is no mistake, so a check of such values proves
// nothing about it.
#include "backend/driver/check/differing_values.h"

#include "backend/driver/choose/configurations.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace dtile::driver {

namespace {

/// Small values make runs short.
constexpr size_t kMostValues = 6;
constexpr size_t kMostCombinations = 1000;
constexpr size_t kMostOfOneOrder = 2;
constexpr size_t kMostTried = 64;

/// The less the better: pairs of equal values, pairs in the other order, pairs of which one divides
/// the other, and what tiles cost.
using Rank = std::tuple<int, int, int, int64_t>;

Rank rankOf(const Constants &constants, llvm::ArrayRef<size_t> compared, ValueOrder order) {
  int equal = 0, inverted = 0, dividing = 0;
  int64_t sum = 0;
  for (auto [i, at] : llvm::enumerate(compared)) {
    const int64_t a = constants[at].second;
    sum += a;
    for (const size_t behind : compared.drop_front(i + 1)) {
      const int64_t b = constants[behind].second;
      equal += a == b;
      inverted += order == ValueOrder::Ascending ? a > b : a < b;
      if (order == ValueOrder::Descending && std::min(a, b) > 0)
        dividing += std::max(a, b) % std::min(a, b) == 0;
    }
  }
  return {equal, inverted, dividing, sum};
}

/// For each constant the number of those that are smaller.
std::vector<long> placesOf(const Constants &constants) {
  std::vector<long> places;
  for (const auto &one : constants)
    places.push_back(
        llvm::count_if(constants, [&](const auto &other) { return other.second < one.second; }));
  return places;
}

} // namespace

std::vector<Constants> differingValues(const ChoiceValues &choices, ValueOrder order) {
  std::vector<size_t> compared;
  std::vector<std::vector<int64_t>> values = choices.values;
  for (auto [i, choice] : llvm::enumerate(choices.choices)) {
    // What comes first and what follows is no size.
    const bool isOrder = choice.use == sema::Choice::Use::Order;
    if (!isOrder) {
      compared.push_back(i);
      llvm::sort(values[i]);
    }
    values[i].resize(std::min(values[i].size(), isOrder ? 1 : kMostValues));
  }
  std::vector<std::pair<Rank, Constants>> ranked;
  for (Constants &constants : combinations(choices.choices, values, kMostCombinations))
    ranked.emplace_back(rankOf(constants, compared, order), std::move(constants));
  llvm::sort(ranked);
  std::map<std::vector<long>, size_t> taken;
  std::vector<Constants> found;
  for (auto &[rank, constants] : ranked)
    if (found.size() < kMostTried && taken[placesOf(constants)]++ < kMostOfOneOrder)
      found.push_back(std::move(constants));
  return found;
}

} // namespace dtile::driver
