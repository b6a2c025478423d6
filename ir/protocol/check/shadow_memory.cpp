// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Regions are boxes of rows and columns: a tile of 64 rows is one box, not 64 runs of bytes, so the
// cells are about as many as the tiles that the kernel cuts its objects into.
#include "ir/protocol/check/shadow_memory.h"

#include <algorithm>

namespace dtile::protocol {

using interpret::ViewVal;

ShadowObject::ShadowObject(const ir::Op &param, const ViewVal &view)
    : param(param), rank(view.rank), isCallers(param.get(ir::attr::mode) != ir::ParamMode::Scratch),
      isZeroed(param.get(ir::attr::zero)), base_(view.data),
      elementBytes_(int64_t(dtypeBytes(view.dtype))) {
  int64_t last = 0;
  for (unsigned d = 0; d < view.dims; ++d) {
    sizes_.push_back(view.dim[d].hi);
    last += std::max<int64_t>(0, view.dim[d].hi - 1) * view.dim[d].stride;
  }
  bytes_ = view.isEmpty() ? 0 : (last + 1) * elementBytes_;
  pitch_ = view.dims >= 2 ? view.dim[view.dims - 2].stride * elementBytes_ : bytes_;
  pitch_ = std::max<int64_t>(1, pitch_);
}

bool ShadowObject::isSame(const ViewVal &view) const {
  bool same = base_ == view.data && sizes_.size() == view.dims;
  for (unsigned d = 0; same && d < view.dims; ++d)
    same = sizes_[d] == view.dim[d].hi;
  return same;
}

void ShadowObject::forEachBox(const ViewVal &view, llvm::function_ref<void(const Box &)> fn) const {
  if (view.isEmpty())
    return;
  struct Dim {
    int64_t count;
    int64_t stride;
  };
  llvm::SmallVector<Dim, 6> dims;
  int64_t offset = view.data - base_;
  for (unsigned d = 0; d < view.dims; ++d) {
    const ViewVal::Dim &dim = view.dim[d];
    offset += dim.lo * dim.stride * elementBytes_;
    if (dim.hi - dim.lo > 1)
      dims.push_back({dim.hi - dim.lo, dim.stride * elementBytes_});
  }
  llvm::sort(dims, [](const Dim &a, const Dim &b) { return a.stride > b.stride; });
  int64_t run = elementBytes_;
  while (!dims.empty() && dims.back().stride == run)
    run *= dims.pop_back_val().count;
  int64_t rows = 1;
  const bool isInRow = offset % pitch_ + run <= pitch_;
  if (isInRow && !dims.empty() && dims.back().stride == pitch_)
    rows = dims.pop_back_val().count;

  const auto emit = [&](int64_t at) {
    const int64_t row = at / pitch_;
    const int64_t col = at % pitch_;
    if (isInRow && col + run <= pitch_)
      return fn({row, row + rows, col, col + run});
    // The run goes over several rows: the rest of the first, whole ones, the start of the last.
    int64_t left = run;
    int64_t next = row;
    if (col != 0) {
      const int64_t part = std::min(left, pitch_ - col);
      fn({row, row + 1, col, col + part});
      left -= part;
      ++next;
    }
    if (left >= pitch_) {
      fn({next, next + left / pitch_, 0, pitch_});
      next += left / pitch_;
      left %= pitch_;
    }
    if (left > 0)
      fn({next, next + 1, 0, left});
  };
  llvm::SmallVector<int64_t, 6> at(dims.size(), 0);
  for (;;) {
    int64_t place = offset;
    for (size_t d = 0; d < dims.size(); ++d)
      place += at[d] * dims[d].stride;
    emit(place);
    size_t d = dims.size();
    while (d-- > 0) {
      if (++at[d] < dims[d].count)
        break;
      at[d] = 0;
    }
    if (d == size_t(-1))
      return;
  }
}

void ShadowObject::splitAt(int64_t row) {
  auto it = rows_.upper_bound(row);
  if (it == rows_.begin())
    return;
  --it;
  if (it->first == row || it->second.end <= row)
    return;
  Rows lower{row, it->second.columns};
  Rows upper = std::move(it->second);
  it->second = std::move(lower);
  rows_.emplace(row, std::move(upper));
}

void ShadowObject::splitAt(Columns &columns, int64_t col) {
  auto it = columns.upper_bound(col);
  if (it == columns.begin())
    return;
  --it;
  if (it->first == col || it->second.first <= col)
    return;
  columns.emplace(col, it->second);
  it->second.first = col;
}

void ShadowObject::forEachCell(const Box &box, llvm::function_ref<void(const Box &, Cell &)> fn) {
  splitAt(box.row);
  splitAt(box.rowEnd);
  for (int64_t row = box.row; row < box.rowEnd;) {
    auto it = rows_.lower_bound(row);
    if (it == rows_.end() || it->first != row) {
      const int64_t end = it == rows_.end() ? box.rowEnd : std::min(box.rowEnd, it->first);
      it = rows_.emplace_hint(it, row, Rows{end, {}});
    }
    Columns &columns = it->second.columns;
    splitAt(columns, box.col);
    splitAt(columns, box.colEnd);
    for (int64_t col = box.col; col < box.colEnd;) {
      auto cell = columns.lower_bound(col);
      if (cell == columns.end() || cell->first != col) {
        const int64_t end = cell == columns.end() ? box.colEnd : std::min(box.colEnd, cell->first);
        cell = columns.emplace_hint(cell, col, std::pair(end, Cell()));
      }
      fn({row, it->second.end, col, cell->second.first}, cell->second.second);
      col = cell->second.first;
    }
    row = it->second.end;
  }
}

std::string ShadowObject::regionText(const Box &box) const {
  std::string text = param.get(ir::attr::name).str();
  if (sizes_.empty())
    return text;
  const auto range = [](int64_t first, int64_t end) {
    return end == first + 1 ? std::to_string(first)
                            : std::to_string(first) + ".." + std::to_string(end);
  };
  text += '[';
  // Leading positions of the first row, as long as the last row shares them.
  int64_t inner = 1;
  for (size_t d = 0; d + 1 < sizes_.size(); ++d)
    inner *= std::max<int64_t>(1, sizes_[d]);
  int64_t row = box.row;
  int64_t last = box.rowEnd - 1;
  for (size_t d = 0; d + 1 < sizes_.size(); ++d) {
    inner /= std::max<int64_t>(1, sizes_[d]);
    if (row / inner == last / inner) {
      text += std::to_string(row / inner) + ", ";
      row %= inner;
      last %= inner;
      continue;
    }
    text += range(row / inner, last / inner + 1) + ", ";
    for (size_t rest = d + 1; rest + 1 < sizes_.size(); ++rest)
      text += "..., ";
    break;
  }
  const int64_t end = (box.colEnd + elementBytes_ - 1) / elementBytes_;
  return text + range(box.col / elementBytes_, end) + "]";
}

} // namespace dtile::protocol
