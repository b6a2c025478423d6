// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Views and signal cells as bundles of LLVM values: an address, a rank where it may be another's,
// and what is known of each dimension. Nothing here reads or writes memory.
#pragma once

#include "ir/core/ir.h"

#include "llvm/IR/IRBuilder.h"

namespace dtile::backend {

/// The LLVM values that make up one IR value.
using Parts = llvm::SmallVector<llvm::Value *, 4>;

/// One dimension of a view. Positions in [low, high) exist; `extent` is what view.dim gives.
struct ViewDimension {
  llvm::Value *low;
  llvm::Value *high;
  llvm::Value *extent;
  /// In elements.
  llvm::Value *stride;
};

/// A strided region; position (0, 0, …) is at `data`. Where a dropped dimension's position was
/// outside, `data` is null and nothing exists.
struct View {
  ir::Type type;
  llvm::Value *data = nullptr;
  /// i64, only in remote views.
  llvm::Value *rank = nullptr;
  /// Of a view that code for GPUs writes: i1, no plain access reaches the rank, and `data` is the
  /// same place of this one. Null: one does.
  llvm::Value *far = nullptr;
  llvm::SmallVector<ViewDimension, 4> dims;

  [[nodiscard]] Parts parts() const;
  [[nodiscard]] static View fromParts(ir::Type type, llvm::ArrayRef<llvm::Value *> parts);
};

/// Cells of a signal.
struct SignalCells {
  struct Dimension {
    llvm::Value *size;
    llvm::Value *stride;
  };
  ir::Type type;
  llvm::Value *data = nullptr;
  /// i64, only in remote cells.
  llvm::Value *rank = nullptr;
  llvm::SmallVector<Dimension, 4> dims;

  [[nodiscard]] Parts parts() const;
  [[nodiscard]] static SignalCells fromParts(ir::Type type, llvm::ArrayRef<llvm::Value *> parts);
};

/// Emits the address arithmetic of view operations.
class ViewBuilder {
public:
  explicit ViewBuilder(llvm::IRBuilder<> &builder) : b(builder) {}

  /// A whole row-major object.
  [[nodiscard]] View contiguous(ir::Type type, llvm::Value *data,
                                llvm::ArrayRef<llvm::Value *> sizes);
  [[nodiscard]] SignalCells contiguousCells(ir::Type type, llvm::Value *data,
                                            llvm::ArrayRef<llvm::Value *> sizes);

  /// view.slice and view.tile.
  [[nodiscard]] View slice(const View &view, const ir::Op &op,
                           llvm::ArrayRef<llvm::Value *> operands);
  /// Whichever `isFirst` says.
  [[nodiscard]] View select(llvm::Value *isFirst, const View &first, const View &second);
  [[nodiscard]] View reshape(const View &view, ir::Type type, llvm::ArrayRef<llvm::Value *> sizes);
  /// sig.slice; `check` sees each dropped position with its dimension's size.
  [[nodiscard]] SignalCells
  slice(const SignalCells &cells, const ir::Op &op, llvm::ArrayRef<llvm::Value *> operands,
        llvm::function_ref<void(llvm::Value *position, llvm::Value *size)> check);

  /// Address of an element: data + sum of position * stride; not checked.
  [[nodiscard]] llvm::Value *address(const View &view, llvm::ArrayRef<llvm::Value *> positions);
  /// i1: every position exists.
  [[nodiscard]] llvm::Value *contains(const View &view, llvm::ArrayRef<llvm::Value *> positions);
  /// i1: every position of a box of these sizes exists.
  [[nodiscard]] llvm::Value *containsBox(const View &view, llvm::ArrayRef<int64_t> sizes);
  /// `data` moved by a number of elements.
  [[nodiscard]] llvm::Value *offset(DType type, llvm::Value *data, llvm::Value *elements);

private:
  [[nodiscard]] llvm::Value *clamp(llvm::Value *x, llvm::Value *low, llvm::Value *high);
  [[nodiscard]] llvm::Value *min(llvm::Value *x, llvm::Value *y);
  [[nodiscard]] llvm::Value *max(llvm::Value *x, llvm::Value *y);
  [[nodiscard]] ViewDimension window(const ViewDimension &dim, llvm::Value *first,
                                     llvm::Value *limit, int64_t length);
  llvm::IRBuilder<> &b;
};

} // namespace dtile::backend
