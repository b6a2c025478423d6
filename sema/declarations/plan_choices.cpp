// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Combinations of what an overlap leaves to choose, in the order in which they are joined.
#include "sema/declarations/plan_choices.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <tuple>

namespace dtile::sema {

namespace {

/// Combinations that are put in order. Of more, those are looked at that differ late.
constexpr size_t kMostOrdered = 4096;

} // namespace

size_t PlanChoices::pick(const ast::Expr *place, const void *family,
                         llvm::ArrayRef<std::string> labels) {
  if (labels.size() < 2)
    return 0;
  const auto found = llvm::find_if(points_, [&](const Point &one) { return one.place == place; });
  const auto number = size_t(found - points_.begin());
  if (found == points_.end())
    points_.push_back({place, family, labels.vec()});
  return number < taken_.size() ? taken_[number] : 0;
}

bool PlanChoices::isFirstOfFamily(size_t point) const {
  return llvm::none_of(llvm::ArrayRef(points_).take_front(point),
                       [&](const Point &one) { return one.family == points_[point].family; });
}

/// Places that take another one than the first place of their family.
size_t PlanChoices::disagreements(const Combination &combination) const {
  size_t count = 0;
  for (size_t i = 0; i < points_.size(); ++i)
    for (size_t k = 0; k < i; ++k)
      if (points_[k].family == points_[i].family && isFirstOfFamily(k))
        count += combination[k] != combination[i] ? 1 : 0;
  return count;
}

std::vector<PlanChoices::Combination> PlanChoices::combinations(size_t most, double &all) const {
  all = 1;
  for (const Point &point : points_)
    all *= double(point.labels.size());
  std::vector<Combination> found;
  Combination next(points_.size(), 0);
  for (bool isDone = false; !isDone && found.size() < kMostOrdered;) {
    found.push_back(next);
    isDone = true;
    for (size_t i = points_.size(); isDone && i-- > 0;) {
      next[i] = next[i] + 1 == points_[i].labels.size() ? 0 : next[i] + 1;
      isDone = next[i] == 0;
    }
  }
  const auto order = [&](const Combination &one) {
    // Places of one family that agree count as one.
    size_t changed = 0;
    for (size_t i = 0; i < points_.size(); ++i)
      changed += one[i] != 0 && isFirstOfFamily(i) ? 1 : 0;
    return std::tuple(disagreements(one), changed);
  };
  std::stable_sort(found.begin(), found.end(),
                   [&](const Combination &a, const Combination &b) { return order(a) < order(b); });
  found.resize(std::min(found.size(), most));
  return found;
}

std::string PlanChoices::label(const Combination &combination) const {
  std::string label;
  const bool isAlike = disagreements(combination) == 0;
  for (size_t i = 0; i < points_.size(); ++i)
    if (!isAlike || isFirstOfFamily(i))
      label += (label.empty() ? "" : "_") + points_[i].labels[combination[i]];
  return label;
}

} // namespace dtile::sema
