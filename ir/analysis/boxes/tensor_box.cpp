// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Follows a view to its object, outermost slice first.
#include "ir/analysis/boxes/tensor_box.h"

#include "ir/core/constants.h"
#include "ir/core/view_dims.h"

namespace dtile::ir {

namespace {

/// One slice on top of what is known of the view that it cuts. `open` numbers the object's
/// dimensions that the view still has.
bool applySlice(const Op &op, TensorBox &box, llvm::SmallVectorImpl<unsigned> &open) {
  const bool isTile = op.is(OpKind::ViewTile);
  llvm::SmallVector<unsigned, 4> left;
  for (const ViewDim &cut : viewDims(op)) {
    TensorBox::Dim &dim = box.dims[open[cut.from]];
    if (!cut.isPosition())
      left.push_back(open[cut.from]);
    if (cut.isAll())
      continue;
    // Within a window or range, positions past that one's limit would be zeros as well.
    if (dim.limit || dim.length == 0)
      return false;
    dim.firsts.push_back(op.operand(cut.operand));
    if (cut.isPosition()) {
      dim.length = 1;
      continue;
    }
    dim.limit = op.operand(cut.operand + 1);
    if (!isTile)
      return false;
    dim.length = op.get(attr::lens)[cut.range];
  }
  open.assign(left.begin(), left.end());
  return true;
}

} // namespace

std::optional<TensorBox> tensorBox(Value *view) {
  llvm::SmallVector<Op *, 4> slices;
  Op *op = view->definingOp();
  for (; op && (op->is(OpKind::ViewTile) || op->is(OpKind::ViewSlice));
       op = op->operand(0)->definingOp())
    slices.push_back(op);
  if (!op || !op->is(OpKind::Param))
    return std::nullopt;
  TensorBox box;
  box.object = op;
  box.dims.resize(op->result()->type().rank());
  llvm::SmallVector<unsigned, 4> open;
  // Until a window says how much of such a dimension is meant.
  constexpr int64_t kUnknown = -1;
  for (unsigned d = 0; d < box.dims.size(); ++d) {
    box.dims[d].length = constantOf(op->operand(d)).value_or(kUnknown);
    open.push_back(d);
  }
  for (Op *slice : llvm::reverse(slices))
    if (!applySlice(*slice, box, open))
      return std::nullopt;
  for (auto [i, d] : llvm::enumerate(open))
    box.dims[d].viewDim = i;
  for (const TensorBox::Dim &dim : box.dims)
    if (dim.length <= 0)
      return std::nullopt;
  return box;
}

std::optional<TensorBoxes> tensorBoxes(Value *view) {
  TensorBoxes result;
  llvm::SmallVector<Value *, 2> views{view};
  if (Op *op = view->definingOp(); op && op->is(OpKind::ViewSelect)) {
    result.isFirst = op->operand(0);
    views.assign({op->operand(1), op->operand(2)});
  }
  for (Value *each : views) {
    std::optional<TensorBox> box = tensorBox(each);
    if (!box)
      return std::nullopt;
    result.boxes.push_back(std::move(*box));
  }
  return result;
}

} // namespace dtile::ir
