// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Follows numbers of rows to where they come from, and to where they go.
#include "ir/analysis/row_gathers.h"
#include "ir/core/op_classes.h"
#include "ir/core/view_dims.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"

#include <functional>

namespace dtile::ir {

namespace {

/// Ops that have been asked about, or are being: a no ends all questions.
using Seen = llvm::SmallPtrSet<const Op *, 16>;

bool isFoundByElement(Value *tile, llvm::function_ref<bool(Value &)> sees, Seen &seen) {
  Op *op = tile->definingOp();
  if (op && !seen.insert(op).second)
    return true;
  if (!op || tile->type().rank() != 1)
    return false;
  const bool isLoad = (op->is(OpKind::Load) || op->is(OpKind::Gather)) && !op->get(attr::ll) &&
                      !op->operand(0)->type().isRemote() &&
                      llvm::none_of(op->operands(), [](Value *v) { return v->type().isToken(); });
  const bool isMade = op->is(OpKind::Splat) || op->is(OpKind::Iota) || op->is(OpKind::Convert) ||
                      isElementwise(op->kind());
  if ((!isLoad && !isMade) || (isLoad && !sees(*tile)))
    return false;
  return llvm::all_of(op->operands(), [&](Value *operand) {
    return operand->type().isTile() ? isFoundByElement(operand, sees, seen) : sees(*operand);
  });
}

bool isForRows(const Op &op, std::optional<LoadPath> path, Seen &seen) {
  if (!seen.insert(&op).second)
    return true;
  if (op.numResults() != 1 || !op.result()->type().isTile() || !op.result()->hasUses() ||
      op.numRegions() > 0)
    return false;
  return llvm::all_of(op.result()->uses(), [&](const Use &use) {
    return gathersRows(*use.user) ? use.index == 1 && (!path || comesVia(*use.user, *path))
                                  : isForRows(*use.user, path, seen);
  });
}

} // namespace

bool isFoundByElement(Value *tile, llvm::function_ref<bool(Value &)> sees) {
  Seen seen;
  return isFoundByElement(tile, sees, seen);
}

bool isForRows(const Op &op, std::optional<LoadPath> path) {
  Seen seen;
  return isForRows(op, path, seen);
}

namespace {

/// Whether a slice takes a range of rows, all columns.
bool isSliceOfRows(const Op &op) {
  const auto dims = viewDims(op);
  return dims.size() == 2 && dims[0].isRange() && dims[1].isAll();
}

/// Whether a slice takes all of the two innermost dimensions, at one position of those around.
bool isMatrixSlice(const Op &op) {
  const auto dims = viewDims(op);
  return dims.size() >= 2 &&
         llvm::all_of(llvm::ArrayRef(dims).take_back(2), std::mem_fn(&ViewDim::isAll)) &&
         llvm::none_of(dims, std::mem_fn(&ViewDim::isRange));
}

} // namespace

std::optional<PickedRows> matchPickedRows(const Op &gather) {
  const Op *window = gather.operand(0)->definingOp();
  if (!window || !window->is(OpKind::ViewTile))
    return std::nullopt;
  const auto dims = viewDims(*window);
  if (dims.size() != 2 || !dims[0].isAll() || !dims[1].isRange())
    return std::nullopt;
  PickedRows rows;
  rows.column = window->operand(dims[1].operand);
  rows.columnLimit = window->operand(dims[1].operand + 1);
  Op *object = window->operand(0)->definingOp();
  const auto isSlice = [&](bool (*matches)(const Op &)) {
    return object && object->is(OpKind::ViewSlice) && matches(*object);
  };
  if (isSlice(isSliceOfRows)) {
    const unsigned first = viewDims(*object)[0].operand;
    rows.bounds = {object->operand(first), object->operand(first + 1)};
    rows.slices.push_back(object);
    object = object->operand(0)->definingOp();
  }
  if (isSlice(isMatrixSlice)) {
    rows.slices.push_back(object);
    object = object->operand(0)->definingOp();
  }
  if (!object || !object->is(OpKind::Param))
    return std::nullopt;
  rows.columns = object->operand(object->result()->type().rank() - 1);
  return rows;
}

} // namespace dtile::ir
