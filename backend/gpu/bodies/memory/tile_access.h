// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to backend/gpu/bodies/memory: where the elements of a tile are in global memory.
#pragma once

#include "backend/gpu/bodies/lower_body.h"

#include <map>

namespace dtile::backend::gpu {

/// One tile's accesses through a view.
class TileAccess {
public:
  /// Groups are of `most` registers at most.
  TileAccess(BodyLowering &body, const View &view, const TileInfo &info, unsigned most = 16);

  /// Groups of registers that are moved at once where `aligned` holds.
  [[nodiscard]] static TileInfo::Run runOf(BodyLowering &body, const TileInfo &info, DType dtype,
                                           unsigned most = 16);
  TileInfo::Run run;
  /// i1: the addresses of all runs are aligned, and their elements are neighbours, all inside or
  /// all outside of the view; null for runs of one.
  llvm::Value *aligned = nullptr;
  /// i1: neighbours of a run are 1 apart; null for runs of one.
  llvm::Value *isDense = nullptr;
  /// i1: the whole tile is inside of the view.
  llvm::Value *whole = nullptr;

  /// Begins a way through the tile: positions of one way build on what was computed for those
  /// before them, so all of it must be computed wherever the way goes.
  void beginWay();
  /// Address of the element at a position of thread 0, in this thread; `inRun` where `aligned`
  /// holds: neighbours are 1 apart.
  [[nodiscard]] llvm::Value *address(const ir::Layout::Position &at, bool inRun = false);
  /// i1: it exists.
  [[nodiscard]] llvm::Value *exists(const ir::Layout::Position &at);
  /// Of the run from a position on: the elements that exist, from one to before another. i32
  struct Part {
    llvm::Value *begin, *end;
  };
  [[nodiscard]] Part existingOfRun(const ir::Layout::Position &at) const;
  [[nodiscard]] Part existingOfRun(llvm::ArrayRef<llvm::Value *> at) const;
  /// The same of positions of thread 0 that are known at run time, i32 a dimension.
  [[nodiscard]] llvm::Value *address(llvm::ArrayRef<llvm::Value *> at) const;
  [[nodiscard]] llvm::Value *exists(llvm::ArrayRef<llvm::Value *> at) const;
  [[nodiscard]] llvm::Type *element() const { return element_; }
  [[nodiscard]] unsigned bytes() const { return bytes_; }
  [[nodiscard]] size_t rank() const { return step_.size(); }

private:
  /// From what follows that `aligned` holds. `low`: the first position that exists, by dimension.
  [[nodiscard]] WholeWords::Access wholeWords(const TileInfo &info,
                                              llvm::ArrayRef<llvm::Value *> low) const;

  llvm::IRBuilder<> &b;
  const View &view_;
  llvm::Type *element_;
  unsigned bytes_;
  /// The position of thread 0's first element in this thread, from the first that exists; and how
  /// many do.
  llvm::SmallVector<llvm::Value *, 4> first_, span_;
  llvm::Value *base_;
  /// Bytes from an element to the next one of a dimension.
  llvm::SmallVector<llvm::Value *, 4> step_;
  /// What the way has come to: addresses; the last one along a dimension, from a position whose
  /// coordinates from there on are 0; coordinates of a dimension that exist.
  struct Reached {
    int32_t coordinate = 0;
    llvm::Value *address = nullptr;
  };
  std::map<ir::Layout::Position, llvm::Value *> addresses_;
  std::map<std::pair<unsigned, ir::Layout::Position>, Reached> last_;
  std::map<std::pair<unsigned, int32_t>, llvm::Value *> exist_;
};

/// Groups of a tile's registers, one after the other in a loop: what reaches elements one by one is
/// too much code to be there for each group, and would take registers that nothing else needs.
class GroupLoop {
public:
  /// Whether the position of a group follows from the bits of its number.
  static bool canRun(llvm::ArrayRef<ir::Layout::Position> positions) {
    if (positions.size() < 2 || !llvm::isPowerOf2_64(positions.size()))
      return false;
    for (size_t group = 0; group < positions.size(); ++group) {
      ir::Layout::Position sum = positions.front();
      for (size_t bit = 1; bit < positions.size(); bit *= 2)
        for (size_t d = 0; (group & bit) != 0 && d < sum.size(); ++d)
          sum[d] += positions[bit][d] - positions.front()[d];
      if (sum != positions[group])
        return false;
    }
    return true;
  }

  /// For a view of so many dimensions.
  GroupLoop(llvm::IRBuilder<> &b, llvm::ArrayRef<ir::Layout::Position> positions, size_t rank)
      : b(b), positions_(positions), rank_(rank) {}

  /// `body` is given the number of a group, i32, and the position of its first element.
  using Body = llvm::function_ref<void(llvm::Value *group, llvm::ArrayRef<llvm::Value *> at)>;
  void run(Body body);

private:
  llvm::IRBuilder<> &b;
  llvm::ArrayRef<ir::Layout::Position> positions_;
  size_t rank_;
};

} // namespace dtile::backend::gpu
