// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The cells of the signal that says which part of a tensor is written: by ranks and chunks, not by
// elements.
#pragma once

#include "sema/join/joint.h"
#include "sema/join/regions.h"

namespace dtile::join {

/// A write or read of a published tensor.
struct Access {
  size_t tensor = 0;
  size_t body = 0;
  /// In the order of the body's text.
  size_t position = 0;
  bool isWrite = false;
  /// `reduce_add`: several may write one part.
  bool adds = false;
  bool isRemote = false;
  /// Remote: the one axis along which the other rank is elsewhere; empty for any rank.
  llvm::StringRef along;
  /// Under an `if`: some bodies do without it.
  bool isConditional = false;
  SourceRange range;
  std::vector<Extent> extents;
  /// Whose object: what stands after `@`, and the indices, as text.
  std::string place;
  /// Bounds of the positions of parts, one an extent; null for others.
  std::vector<const ast::Expr *> bounds;
};

/// A dimension of a tensor that its signal tells apart.
struct Cell {
  unsigned dim = 0;
  Extent extent;
  const ast::Expr *bound = nullptr;
  /// Whether some reader on this rank, or on another, asks for less than all of it.
  bool isAskedHere = false;
  bool isAskedElsewhere = false;
};

/// The signal of one tensor; `here` for readers on the rank that has it, `elsewhere` for readers on
/// other ranks, whose cells tell the ranks apart too.
struct Cells {
  std::vector<Cell> cells;
  bool isReadHere = false;
  bool isReadElsewhere = false;
  /// The axis that all readers on other ranks are on; empty where they may be anywhere.
  llvm::StringRef along;
};

/// The cells of a tensor from all writes and reads of it; nothing after reporting.
[[nodiscard]] std::optional<Cells> cellsOf(Joint &joint, const Published &tensor, size_t number,
                                           llvm::ArrayRef<Access> accesses, const Values &lets);

/// Where the cells of an access stand in the signal's dimensions.
[[nodiscard]] llvm::SmallVector<ast::Expr *, 4> cellIndices(const Joint &joint, const Cells &cells,
                                                            llvm::ArrayRef<Extent> extents,
                                                            SourceRange at, bool isElsewhere,
                                                            const Values &lets);
/// The signal's shape.
[[nodiscard]] llvm::SmallVector<ast::Expr *, 4> cellShape(const Joint &joint, const Cells &cells,
                                                          const Published &tensor, SourceRange at,
                                                          bool isElsewhere, const Values &lets);

} // namespace dtile::join
