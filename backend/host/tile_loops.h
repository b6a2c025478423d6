// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to backend/host: loops over the elements of tiles. The innermost loop runs over vectors
// along one dimension (a row); what does not change along a row is computed once before it.
#pragma once

#include "backend/host/lower_body.h"

#include <map>
#include <set>

namespace dtile::backend::host {

/// For each dimension of a tile, the loop that runs over it, or -1 for position 0.
using LoopMap = llvm::SmallVector<int, 4>;

/// A tile as seen from a nest of loops.
struct TileRef {
  ir::Value *tile;
  LoopMap map;
  friend bool operator<(const TileRef &a, const TileRef &b) {
    return a.tile != b.tile ? a.tile < b.tile : a.map < b.map;
  }
};

/// One loop a dimension of `extents`.
class TileLoops {
public:
  /// Rows run along dimension `inner` (-1: there is one element). `trees` bound the vector length.
  /// `root` is computed by its op although it has a buffer.
  TileLoops(BodyLowering &body, llvm::ArrayRef<int64_t> extents, int inner,
            llvm::ArrayRef<ir::Value *> trees, const ir::Value *root = nullptr);

  /// The last dimension with more than one position, or -1.
  [[nodiscard]] static int lastLongDim(llvm::ArrayRef<int64_t> extents);
  /// A tile whose dimensions are the loops.
  [[nodiscard]] TileRef whole(ir::Value *tile) const;

  /// Emits loops over some dimensions, outermost first.
  void over(llvm::ArrayRef<unsigned> dims, llvm::function_ref<void()> body);
  /// Emits loops over all dimensions but the inner one and `skip`.
  void overRows(llvm::function_ref<void()> body, int skip = -1);
  /// Computes what the trees need before a row of elements.
  void beginRow(llvm::ArrayRef<TileRef> trees);
  /// Emits the loop along a row.
  void alongRow(llvm::function_ref<void()> body);
  /// The same, with a value from one step to the next; gives the last.
  [[nodiscard]] llvm::Value *alongRow(llvm::Value *first,
                                      llvm::function_ref<llvm::Value *(llvm::Value *)> body);

  /// The elements at the current position, `lanes()` of them, in computing form (or raw).
  [[nodiscard]] llvm::Value *elements(const TileRef &tree);
  [[nodiscard]] unsigned lanes() const { return lanes_; }
  [[nodiscard]] llvm::Value *position(int dim) const;
  [[nodiscard]] int inner() const { return inner_; }
  /// Elements of memory and not of numbers: for trees that only move them.
  void setRaw() { raw_ = true; }
  /// The tree only loads, and rearranges.
  [[nodiscard]] bool onlyMoves(const ir::Value *tile) const;

  /// Address of the current element(s) of a dense array over the loops, without dimension `skip`.
  [[nodiscard]] llvm::Value *denseAddress(llvm::Value *base, llvm::Type *element, int skip = -1);
  /// The part of a view that a row covers. Starts to be valid in `beginRow` of its dimensions.
  struct ViewRow {
    llvm::Value *address;
    llvm::Value *stride;
    llvm::Value *low;
    llvm::Value *high;
    /// The whole row exists, at stride 1.
    llvm::Value *direct;
  };
  [[nodiscard]] ViewRow viewRow(const View &view, const LoopMap &map);

private:
  [[nodiscard]] bool isComputed(const ir::Value *tile) const {
    return tile == root_ || body_.plan().isInlined(tile);
  }
  [[nodiscard]] unsigned laneLimit(const ir::Value *tile) const;
  [[nodiscard]] bool varies(const LoopMap &map) const;
  [[nodiscard]] LoopMap operandMap(const ir::Op &op, unsigned operand, const LoopMap &map) const;
  void prepare(const TileRef &tree);
  [[nodiscard]] llvm::Value *value(const TileRef &tree);
  [[nodiscard]] llvm::Value *compute(const TileRef &tree);
  [[nodiscard]] llvm::Value *fromBuffer(const TileRef &tree, llvm::Value *base);
  [[nodiscard]] llvm::Value *fromView(const TileRef &tree, const ir::Op &load);
  [[nodiscard]] llvm::Value *gather(const TileRef &tree, ir::Op &op);
  [[nodiscard]] llvm::Value *iota(const TileRef &tree);
  /// i64, or a vector of one a lane: positions of a dimension of the loops.
  [[nodiscard]] llvm::Value *lanePositions(int dim);
  [[nodiscard]] llvm::Value *arithmetic(const TileRef &tree, ir::Op &op);
  [[nodiscard]] llvm::SmallVector<llvm::Value *, 4> positions(const LoopMap &map);
  [[nodiscard]] llvm::Value *number(DType type, llvm::Value *memory);

  BodyLowering &body_;
  llvm::IRBuilder<> &b;
  llvm::SmallVector<int64_t, 4> extents_;
  llvm::SmallVector<llvm::Value *, 4> positions_;
  int inner_;
  const ir::Value *root_;
  unsigned lanes_ = 1;
  bool raw_ = false;
  std::set<TileRef> prepared_;
  std::map<TileRef, llvm::Value *> rowPointers_;
  std::map<TileRef, llvm::Value *> rowValues_;
  std::map<TileRef, llvm::Value *> stepValues_;
};

} // namespace dtile::backend::host
