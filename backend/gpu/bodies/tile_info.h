// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to backend/gpu: a tile's registers in one thread, and which of them are neighbours.
#pragma once

#include "ir/core/layout.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace dtile::backend::gpu {

/// A shape in a layout.
struct TileInfo {
  TileInfo(const ir::Layout &layout, llvm::ArrayRef<int64_t> shape);

  ir::Layout layout;
  llvm::SmallVector<int64_t, 4> shape;
  /// Registers of the layout that hold elements of the shape in some thread, in order.
  llvm::SmallVector<uint32_t, 16> indices;
  /// The reverse: where a register stands in `indices`, or -1.
  llvm::SmallVector<int32_t, 16> slots;

  [[nodiscard]] unsigned size() const { return indices.size(); }
  /// Of the registers whose rows, in all threads, are `first` to `end` - 1 (dimension 0); `slots`
  /// becomes where they stand in this one's order.
  [[nodiscard]] TileInfo ofRows(int64_t first, int64_t end,
                                llvm::SmallVectorImpl<unsigned> &slots) const;
  /// The position of a slot in thread 0.
  [[nodiscard]] ir::Layout::Position at(unsigned slot) const { return layout.at(indices[slot]); }
  /// It holds what a register with a lower number does.
  [[nodiscard]] bool isCopy(unsigned slot) const;
  /// Past the largest position of any register of any thread.
  [[nodiscard]] int64_t extent(unsigned dim) const { return layout.extent(dim, indices); }
  /// Some threads' elements are past the shape along a dimension.
  [[nodiscard]] bool overhangs(unsigned dim) const { return extent(dim) > shape[dim]; }

  /// The dimension with the longest runs of neighbours in registers, and their length.
  struct Run {
    unsigned dim;
    unsigned length;
  };
  [[nodiscard]] Run longestRun() const;
  /// Calls `body` with each group of up to `length` (a power of two) registers that are neighbours
  /// along a dimension: the slots, and the position of the first in thread 0. Groups that are not
  /// whole are passed on one by one.
  void
  eachRun(Run run,
          llvm::function_ref<void(llvm::ArrayRef<unsigned> slots, const ir::Layout::Position &at)>
              body) const;
};

} // namespace dtile::backend::gpu
