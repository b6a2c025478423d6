// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tile memory, and copies between views and dense boxes.
#include "ir/interpret/values.h"

#include "ir/interpret/elements.h"

#include "frontend/base/check.h"

#include <bit>
#include <cstdlib>

namespace dtile::interpret {

Bank bankOf(ir::Type type) {
  switch (type.kind()) {
  case ir::TypeKind::Index:
  case ir::TypeKind::Scalar:
    return Bank::Scalar;
  case ir::TypeKind::Tile:
    return Bank::Tile;
  case ir::TypeKind::View:
    return Bank::View;
  case ir::TypeKind::Signal:
    return Bank::Signal;
  case ir::TypeKind::Token:
  case ir::TypeKind::Acquire:
    return Bank::Token;
  }
  DTILE_UNREACHABLE("not a type");
}

// Tile memory.

void TileRef::release() { block_->pool->recycle(block_); }

TilePool::~TilePool() {
  for (TileBlock *block : free_)
    while (block)
      std::free(std::exchange(block, block->nextFree));
}

TileRef TilePool::allocate(size_t bytes) {
  const size_t capacity = std::bit_ceil(std::max<size_t>(bytes, 64));
  const unsigned sizeClass = std::countr_zero(capacity);
  DTILE_CHECK(sizeClass < free_.size(), "a tile is larger than memory");
  TileBlock *block = free_[sizeClass];
  if (block) {
    free_[sizeClass] = block->nextFree;
  } else {
    void *memory = std::aligned_alloc(kTileHeader, kTileHeader + capacity);
    DTILE_CHECK(memory, "out of memory for a tile");
    block = new (memory) TileBlock{.pool = this, .bytes = capacity, .sizeClass = sizeClass};
  }
  return TileRef(block);
}

void TilePool::recycle(TileBlock *block) {
  block->nextFree = free_[block->sizeClass];
  free_[block->sizeClass] = block;
}

TileDesc::TileDesc(ir::Type type) : dtype(type.elementOrIndex()) {
  elementBytes = dtypeBytes(dtype);
  if (!type.isTile())
    return;
  rank = type.rank();
  DTILE_CHECK(rank <= shape.size(), "a tile has at most four dimensions");
  std::copy(type.shape().begin(), type.shape().end(), shape.begin());
  elements = type.elements();
}

// Views.

std::string ViewVal::sizesText() const {
  std::string text = "[";
  for (unsigned d = 0; d < dims; ++d)
    text += (d ? ", " : "") + std::to_string(std::max<int64_t>(0, dim[d].hi - dim[d].lo));
  return text + "]";
}

void cutToCommon(ViewVal &a, ViewVal &b) {
  for (unsigned d = 0; d < a.dims; ++d) {
    ViewVal::Dim &x = a.dim[d];
    ViewVal::Dim &y = b.dim[d];
    x.lo = y.lo = std::max(x.lo, y.lo);
    x.hi = y.hi = std::max(x.lo, std::min(x.hi, y.hi));
  }
}

void cutToBox(ViewVal &view, llvm::ArrayRef<int64_t> sizes) {
  for (unsigned d = 0; d < view.dims; ++d)
    view.dim[d].hi = std::min(view.dim[d].hi, sizes[d]);
}

namespace {

/// Copies `count` elements between strided places.
template <size_t N>
void copyStrided(char *to, int64_t toStride, const char *from, int64_t fromStride, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(to + i * toStride * int64_t(N), from + i * fromStride * int64_t(N), N);
}

void copyRun(char *to, int64_t toStride, const char *from, int64_t fromStride, int64_t count,
             size_t elementBytes) {
  if (toStride == 1 && fromStride == 1) {
    std::memmove(to, from, count * elementBytes);
    return;
  }
  switch (elementBytes) {
  case 1:
    return copyStrided<1>(to, toStride, from, fromStride, count);
  case 2:
    return copyStrided<2>(to, toStride, from, fromStride, count);
  case 4:
    return copyStrided<4>(to, toStride, from, fromStride, count);
  case 8:
    return copyStrided<8>(to, toStride, from, fromStride, count);
  }
  DTILE_UNREACHABLE("elements are 1, 2, 4 or 8 bytes");
}

int64_t lastStride(const ViewVal &view) {
  return view.dims == 0 ? 1 : view.dim[view.dims - 1].stride;
}

/// Whether every position of the box exists.
bool coversBox(const ViewVal &view, llvm::ArrayRef<int64_t> sizes) {
  bool covers = !view.isOutside;
  for (unsigned d = 0; d < view.dims; ++d)
    covers &= view.dim[d].lo <= 0 && view.dim[d].hi >= sizes[d];
  return covers;
}

} // namespace

void readView(const ViewVal &view, llvm::ArrayRef<int64_t> sizes, void *out) {
  const size_t bytes = dtypeBytes(view.dtype);
  char *to = static_cast<char *>(out);
  if (!coversBox(view, sizes)) {
    int64_t elements = 1;
    for (int64_t size : sizes)
      elements *= size;
    std::memset(to, 0, elements * bytes);
  }
  const int64_t stride = lastStride(view);
  forEachRun(view, sizes, [&](char *place, int64_t element, int64_t run) {
    copyRun(to + element * bytes, 1, place, stride, run, bytes);
  });
}

void writeView(const ViewVal &view, llvm::ArrayRef<int64_t> sizes, const void *from) {
  const size_t bytes = dtypeBytes(view.dtype);
  const char *source = static_cast<const char *>(from);
  const int64_t stride = lastStride(view);
  forEachRun(view, sizes, [&](char *place, int64_t element, int64_t run) {
    copyRun(place, stride, source + element * bytes, 1, run, bytes);
  });
}

void addToView(const ViewVal &view, llvm::ArrayRef<int64_t> sizes, const void *from) {
  const size_t bytes = dtypeBytes(view.dtype);
  const char *source = static_cast<const char *>(from);
  const int64_t stride = lastStride(view) * int64_t(bytes);
  const BinaryKernel add = binaryKernel(ir::OpKind::Add, view.dtype);
  forEachRun(view, sizes, [&](char *place, int64_t element, int64_t run) {
    if (stride == int64_t(bytes)) {
      add(place, source + element * bytes, place, run);
      return;
    }
    for (int64_t i = 0; i < run; ++i)
      add(place + i * stride, source + (element + i) * bytes, place + i * stride, 1);
  });
}

} // namespace dtile::interpret
