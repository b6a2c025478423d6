// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Slices, windows and shapes of views and signal cells.
#include "backend/llvm/views.h"

#include "backend/llvm/arith.h"
#include "frontend/base/check.h"

#include "llvm/IR/Intrinsics.h"

namespace dtile::backend {

Parts View::parts() const {
  Parts result{data};
  if (type.isRemote())
    result.push_back(rank);
  for (const ViewDimension &dim : dims)
    result.append({dim.low, dim.high, dim.extent, dim.stride});
  return result;
}

View View::fromParts(ir::Type type, llvm::ArrayRef<llvm::Value *> parts) {
  View view{type, parts.front(), nullptr, {}};
  parts = parts.drop_front();
  if (type.isRemote()) {
    view.rank = parts.front();
    parts = parts.drop_front();
  }
  for (unsigned d = 0; d < type.rank(); ++d)
    view.dims.push_back({parts[4 * d], parts[4 * d + 1], parts[4 * d + 2], parts[4 * d + 3]});
  return view;
}

Parts SignalCells::parts() const {
  Parts result{data};
  if (type.isRemote())
    result.push_back(rank);
  for (const Dimension &dim : dims)
    result.append({dim.size, dim.stride});
  return result;
}

SignalCells SignalCells::fromParts(ir::Type type, llvm::ArrayRef<llvm::Value *> parts) {
  SignalCells cells{type, parts.front(), nullptr, {}};
  parts = parts.drop_front();
  if (type.isRemote()) {
    cells.rank = parts.front();
    parts = parts.drop_front();
  }
  for (unsigned d = 0; d < type.rank(); ++d)
    cells.dims.push_back({parts[2 * d], parts[2 * d + 1]});
  return cells;
}

llvm::Value *ViewBuilder::min(llvm::Value *x, llvm::Value *y) {
  return b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, x, y);
}

llvm::Value *ViewBuilder::max(llvm::Value *x, llvm::Value *y) {
  return b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, x, y);
}

llvm::Value *ViewBuilder::clamp(llvm::Value *x, llvm::Value *low, llvm::Value *high) {
  return min(max(x, low), high);
}

llvm::Value *ViewBuilder::offset(DType type, llvm::Value *data, llvm::Value *elements) {
  return b.CreateGEP(memoryType(b.getContext(), type), data, elements);
}

View ViewBuilder::contiguous(ir::Type type, llvm::Value *data,
                             llvm::ArrayRef<llvm::Value *> sizes) {
  View view{type, data, nullptr, {}};
  view.dims.resize(sizes.size());
  llvm::Value *stride = b.getInt64(1);
  for (size_t d = sizes.size(); d-- > 0;) {
    view.dims[d] = {b.getInt64(0), sizes[d], sizes[d], stride};
    if (d > 0)
      stride = b.CreateMul(stride, sizes[d]);
  }
  return view;
}

SignalCells ViewBuilder::contiguousCells(ir::Type type, llvm::Value *data,
                                         llvm::ArrayRef<llvm::Value *> sizes) {
  SignalCells cells{type, data, nullptr, {}};
  cells.dims.resize(sizes.size());
  llvm::Value *stride = b.getInt64(1);
  for (size_t d = sizes.size(); d-- > 0;) {
    cells.dims[d] = {sizes[d], stride};
    if (d > 0)
      stride = b.CreateMul(stride, sizes[d]);
  }
  return cells;
}

ViewDimension ViewBuilder::window(const ViewDimension &dim, llvm::Value *first, llvm::Value *limit,
                                  int64_t length) {
  llvm::Value *none = b.getInt64(0);
  llvm::Value *extent = b.getInt64(length);
  llvm::Value *low = clamp(b.CreateSub(dim.low, first), none, extent);
  // Each from `first`: a limit behind the last number is a small one, but its distance is right.
  llvm::Value *high =
      clamp(min(b.CreateSub(limit, first), b.CreateSub(dim.high, first)), low, extent);
  return {low, high, extent, dim.stride};
}

View ViewBuilder::slice(const View &view, const ir::Op &op,
                        llvm::ArrayRef<llvm::Value *> operands) {
  const bool windows = op.is(ir::OpKind::ViewTile);
  llvm::ArrayRef<int64_t> lengths;
  if (windows)
    lengths = op.get(ir::attr::lens);
  View result{op.result()->type(), view.data, view.rank, {}};
  const DType type = view.type.dtype();
  llvm::Value *inside = nullptr;
  llvm::Value *moved = nullptr;
  auto moveBy = [&](llvm::Value *position, llvm::Value *stride) {
    llvm::Value *elements = b.CreateMul(position, stride);
    moved = moved ? b.CreateAdd(moved, elements) : elements;
  };
  for (auto [letter, dim] : llvm::zip_equal(op.get(ir::attr::dims), view.dims)) {
    if (letter == 'a') {
      result.dims.push_back(dim);
      continue;
    }
    llvm::Value *first = operands.front();
    operands = operands.drop_front();
    if (letter == 'i') {
      llvm::Value *exists =
          b.CreateAnd(b.CreateICmpSGE(first, dim.low), b.CreateICmpSLT(first, dim.high));
      inside = inside ? b.CreateAnd(inside, exists) : exists;
      moveBy(first, dim.stride);
      continue;
    }
    llvm::Value *last = operands.front();
    operands = operands.drop_front();
    if (windows) {
      result.dims.push_back(window(dim, first, last, lengths.front()));
      lengths = lengths.drop_front();
    } else {
      first = clamp(first, dim.low, dim.high);
      llvm::Value *size = b.CreateSub(clamp(last, first, dim.high), first);
      result.dims.push_back({b.getInt64(0), size, size, dim.stride});
    }
    moveBy(first, dim.stride);
  }
  if (moved)
    result.data = offset(type, view.data, moved);
  if (inside) {
    llvm::Value *null = llvm::ConstantPointerNull::get(b.getPtrTy());
    if (result.dims.empty())
      result.data = b.CreateSelect(inside, result.data, null);
    // One empty dimension is enough where there are any.
    else
      result.dims[0].high = b.CreateSelect(inside, result.dims[0].high, result.dims[0].low);
  }
  return result;
}

View ViewBuilder::select(llvm::Value *isFirst, const View &first, const View &second) {
  Parts parts;
  // What both have in common (strides, as a rule) stays one value.
  for (auto [a, c] : llvm::zip_equal(first.parts(), second.parts()))
    parts.push_back(a == c ? a : b.CreateSelect(isFirst, a, c));
  return View::fromParts(first.type, parts);
}

View ViewBuilder::reshape(const View &view, ir::Type type, llvm::ArrayRef<llvm::Value *> sizes) {
  View result = contiguous(type, view.data, sizes);
  result.rank = view.rank;
  llvm::Value *before = b.getInt64(1);
  for (const ViewDimension &dim : view.dims)
    before = b.CreateMul(before, b.CreateSub(dim.high, dim.low));
  if (view.dims.empty())
    before = b.CreateZExt(b.CreateIsNotNull(view.data), b.getInt64Ty());
  llvm::Value *after = b.getInt64(1);
  for (llvm::Value *size : sizes)
    after = b.CreateMul(after, size);
  // A shape with more elements than there are has none: it must not reach past the object.
  llvm::Value *fits = b.CreateICmpSLE(after, before);
  if (sizes.empty())
    result.data = b.CreateSelect(fits, view.data, llvm::ConstantPointerNull::get(b.getPtrTy()));
  else
    result.dims[0].high = b.CreateSelect(fits, result.dims[0].high, b.getInt64(0));
  return result;
}

SignalCells ViewBuilder::slice(const SignalCells &cells, const ir::Op &op,
                               llvm::ArrayRef<llvm::Value *> operands,
                               llvm::function_ref<void(llvm::Value *, llvm::Value *)> check) {
  SignalCells result{op.result()->type(), cells.data, cells.rank, {}};
  llvm::Value *moved = nullptr;
  auto moveBy = [&](llvm::Value *position, llvm::Value *stride) {
    llvm::Value *number = b.CreateMul(position, stride);
    moved = moved ? b.CreateAdd(moved, number) : number;
  };
  for (auto [letter, dim] : llvm::zip_equal(op.get(ir::attr::dims), cells.dims)) {
    if (letter == 'a') {
      result.dims.push_back(dim);
      continue;
    }
    llvm::Value *first = operands.front();
    operands = operands.drop_front();
    if (letter == 'i') {
      check(first, dim.size);
    } else {
      first = clamp(first, b.getInt64(0), dim.size);
      llvm::Value *last = clamp(operands.front(), first, dim.size);
      operands = operands.drop_front();
      result.dims.push_back({b.CreateSub(last, first), dim.stride});
    }
    moveBy(first, dim.stride);
  }
  if (moved)
    result.data = b.CreateGEP(b.getInt64Ty(), cells.data, moved);
  return result;
}

llvm::Value *ViewBuilder::address(const View &view, llvm::ArrayRef<llvm::Value *> positions) {
  llvm::Value *sum = nullptr;
  for (auto [dim, position] : llvm::zip_equal(view.dims, positions)) {
    llvm::Value *elements = b.CreateMul(position, dim.stride);
    sum = sum ? b.CreateAdd(sum, elements) : elements;
  }
  return sum ? offset(view.type.dtype(), view.data, sum) : view.data;
}

llvm::Value *ViewBuilder::contains(const View &view, llvm::ArrayRef<llvm::Value *> positions) {
  if (view.dims.empty())
    return b.CreateIsNotNull(view.data);
  llvm::Value *all = nullptr;
  for (auto [dim, position] : llvm::zip_equal(view.dims, positions)) {
    llvm::Value *exists =
        b.CreateAnd(b.CreateICmpSGE(position, dim.low), b.CreateICmpSLT(position, dim.high));
    all = all ? b.CreateAnd(all, exists) : exists;
  }
  return all;
}

llvm::Value *ViewBuilder::containsBox(const View &view, llvm::ArrayRef<int64_t> sizes) {
  if (view.dims.empty())
    return b.CreateIsNotNull(view.data);
  llvm::Value *all = nullptr;
  for (auto [dim, size] : llvm::zip_equal(view.dims, sizes)) {
    llvm::Value *whole = b.CreateAnd(b.CreateICmpSLE(dim.low, b.getInt64(0)),
                                     b.CreateICmpSGE(dim.high, b.getInt64(size)));
    all = all ? b.CreateAnd(all, whole) : whole;
  }
  return all;
}

} // namespace dtile::backend
