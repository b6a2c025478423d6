// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An overlap that names a choice of plans, or joins an overlap that has one, is several kernels:
// one for each combination.
#pragma once

#include "frontend/ast/ast.h"

#include <string>
#include <vector>

namespace dtile::sema {

/// What is taken at each place of an overlap that leaves something to choose.
class PlanChoices {
public:
  /// The number of what is taken at `place`, which can be any of `labels`. Places with the same
  /// `family` choose from the same.
  size_t pick(const ast::Expr *place, const void *family, llvm::ArrayRef<std::string> labels);

  [[nodiscard]] bool isChoice() const { return !points_.empty(); }
  /// One number a place.
  using Combination = std::vector<size_t>;
  /// First the combination of the first at each place, then those that differ from it at few
  /// places, and where places of one family take the same. At most `most`; `all` is how many there
  /// are.
  [[nodiscard]] std::vector<Combination> combinations(size_t most, double &all) const;
  void take(Combination combination) { taken_ = std::move(combination); }
  /// `push_all_gather_tile_reduce_scatter`; a family's plan once where all its places take it.
  [[nodiscard]] std::string label(const Combination &combination) const;

private:
  struct Point {
    const ast::Expr *place = nullptr;
    const void *family = nullptr;
    std::vector<std::string> labels;
  };
  [[nodiscard]] size_t disagreements(const Combination &combination) const;
  [[nodiscard]] bool isFirstOfFamily(size_t point) const;

  std::vector<Point> points_;
  Combination taken_;
};

} // namespace dtile::sema
