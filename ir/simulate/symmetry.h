// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to ir/simulate: which ranks stand for all. Ranks are places on axes, the last axis the
// fastest. Where moving every rank on along an axis, and from its last place to its first, changes
// nothing but names, the ranks at its first place stand for the others: the axis is folded.
#pragma once

#include "ir/simulate/simulation.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

namespace dtile::simulate {

class Symmetry {
public:
  struct Axis {
    int64_t size = 1;
    bool isFolded = false;
    /// Ranks from one place to the next.
    int64_t stride = 1;
  };

  explicit Symmetry(llvm::SmallVector<Axis, 4> axes) : axes_(std::move(axes)) {
    for (Axis &axis : llvm::reverse(axes_)) {
      axis.stride = ranks_;
      ranks_ *= axis.size;
      count_ *= axis.isFolded ? 1 : axis.size;
    }
  }
  /// Every rank stands for itself.
  static Symmetry none(int64_t ranks) { return Symmetry({{.size = ranks}}); }
  /// The ways in which ranks of a cluster may be alike, those that leave the fewest ranks first.
  /// With `byHosts` only hosts are moved on, or ranks where there is one host.
  static std::vector<Symmetry> candidates(const Cluster &cluster, bool byHosts);

  [[nodiscard]] llvm::ArrayRef<Axis> axes() const { return axes_; }
  [[nodiscard]] int64_t ranks() const { return ranks_; }
  /// Ranks that stand for all.
  [[nodiscard]] int64_t count() const { return count_; }
  /// The number of the one that stands for `rank`.
  [[nodiscard]] int64_t indexOf(int64_t rank) const {
    int64_t index = 0;
    for (const Axis &axis : axes_)
      if (!axis.isFolded)
        index = index * axis.size + rank / axis.stride % axis.size;
    return index;
  }
  [[nodiscard]] int64_t rankOf(int64_t index) const {
    int64_t rank = 0;
    for (const Axis &axis : llvm::reverse(axes_))
      if (!axis.isFolded) {
        rank += index % axis.size * axis.stride;
        index /= axis.size;
      }
    return rank;
  }
  /// Whether a rank stands for itself.
  [[nodiscard]] bool isOne(int64_t rank) const {
    return llvm::all_of(axes_, [&](const Axis &axis) {
      return !axis.isFolded || rank / axis.stride % axis.size == 0;
    });
  }
  /// The rank that is to the one that stands for `to` what `from` is to `to`.
  [[nodiscard]] int64_t sourceOf(int64_t from, int64_t to) const {
    for (const Axis &axis : axes_)
      if (axis.isFolded)
        from = moved(axis, from, axis.size - to / axis.stride % axis.size);
    return from;
  }
  /// `rank`, moved on by so many places.
  [[nodiscard]] static int64_t moved(const Axis &axis, int64_t rank, int64_t places) {
    const int64_t at = rank / axis.stride % axis.size;
    return rank + ((at + places) % axis.size - at) * axis.stride;
  }

private:
  llvm::SmallVector<Axis, 4> axes_;
  int64_t ranks_ = 1, count_ = 1;
};

} // namespace dtile::simulate
