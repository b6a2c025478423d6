// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the slots of a running body hold: scalars as bits, reference-counted tiles, views, signal
// cells and tokens. Private to ir/interpret.
#pragma once

#include "frontend/base/dtype.h"
#include "ir/core/types.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace dtile::interpret {

/// The kinds of slots; each static type of the IR belongs to one.
enum class Bank : uint8_t { Scalar, Tile, View, Signal, Token };
inline constexpr unsigned kBanks = 5;
[[nodiscard]] Bank bankOf(ir::Type type);

/// An element's bits in the low bytes, or an index as i64.
using Scalar = uint64_t;

template <typename T> [[nodiscard]] inline T scalarAs(const Scalar &scalar) {
  T value;
  std::memcpy(&value, &scalar, sizeof(T));
  return value;
}
template <typename T> [[nodiscard]] inline Scalar toScalar(T value) {
  Scalar scalar = 0;
  std::memcpy(&scalar, &value, sizeof(T));
  return scalar;
}

class TilePool;

/// The head of a tile's memory; the elements follow at kTileHeader bytes, row-major.
struct TileBlock {
  TilePool *pool = nullptr;
  TileBlock *nextFree = nullptr;
  size_t bytes = 0;
  uint32_t references = 0;
  uint32_t sizeClass = 0;
};
inline constexpr size_t kTileHeader = 64;
static_assert(sizeof(TileBlock) <= kTileHeader);

/// Shares a tile's elements. Whoever writes checks isUnique() first. One thread.
class TileRef {
public:
  TileRef() = default;
  explicit TileRef(TileBlock *block) : block_(block) { ++block_->references; }
  TileRef(const TileRef &other) : block_(other.block_) {
    if (block_)
      ++block_->references;
  }
  TileRef(TileRef &&other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  TileRef &operator=(TileRef other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~TileRef() {
    if (block_ && --block_->references == 0)
      release();
  }

  explicit operator bool() const { return block_ != nullptr; }
  [[nodiscard]] bool isUnique() const { return block_->references == 1; }
  [[nodiscard]] void *data() { return reinterpret_cast<char *>(block_) + kTileHeader; }
  [[nodiscard]] const void *data() const {
    return reinterpret_cast<const char *>(block_) + kTileHeader;
  }

private:
  void release();
  TileBlock *block_ = nullptr;
};

/// Gives out tiles' memory and takes it back for the next ones: sizes are rounded to powers of two.
class TilePool {
public:
  TilePool() = default;
  ~TilePool();
  TilePool(const TilePool &) = delete;
  TilePool &operator=(const TilePool &) = delete;

  /// Uninitialized elements.
  [[nodiscard]] TileRef allocate(size_t bytes);

private:
  friend class TileRef;
  void recycle(TileBlock *block);
  std::array<TileBlock *, 48> free_{};
};

/// What a tile's static type says.
struct TileDesc {
  DType dtype = DType::F32;
  unsigned rank = 0;
  std::array<int64_t, 4> shape{};
  int64_t elements = 1;
  size_t elementBytes = 0;

  TileDesc() = default;
  /// Index and scalars count as tiles of one element and no dimension.
  explicit TileDesc(ir::Type type);
  [[nodiscard]] size_t bytes() const { return elements * elementBytes; }
  [[nodiscard]] llvm::ArrayRef<int64_t> sizes() const { return {shape.data(), rank}; }
};

/// One symmetric object: the same bytes on every rank.
struct SymmObject {
  size_t bytes = 0;
  /// Address on each rank.
  std::vector<char *> base;
};

inline constexpr unsigned kMaxViewRank = 6;

/// A strided region. Positions of dimension d run from 0; those in [lo, hi) exist, the others read
/// as zero and are not written. `extent` is the static length of a window, or hi.
struct ViewVal {
  struct Dim {
    int64_t lo = 0;
    int64_t hi = 0;
    int64_t extent = 0;
    /// In elements.
    int64_t stride = 0;
    bool isWindow = false;
  };
  /// Address of position (0, 0, …), which may lie outside the object when that is no position.
  char *data = nullptr;
  /// Null for memory that only one rank has.
  const SymmObject *object = nullptr;
  int32_t rank = 0;
  DType dtype = DType::F32;
  uint8_t dims = 0;
  /// A dropped dimension's position was outside: nothing exists.
  bool isOutside = false;
  std::array<Dim, kMaxViewRank> dim;

  /// Whether no position exists.
  [[nodiscard]] bool isEmpty() const {
    bool empty = isOutside;
    for (unsigned d = 0; d < dims; ++d)
      empty |= dim[d].lo >= dim[d].hi;
    return empty;
  }
  /// "[4, 128]", sizes of what exists.
  [[nodiscard]] std::string sizesText() const;
};

/// What a copy between two views of one shape moves: leaves of both the positions that exist in
/// both.
void cutToCommon(ViewVal &a, ViewVal &b);
/// Leaves the positions that a dense box of `sizes` has.
void cutToBox(ViewVal &view, llvm::ArrayRef<int64_t> sizes);

struct SignalState;

/// Cells of a signal on one rank.
struct SignalVal {
  SignalState *signal = nullptr;
  int32_t rank = 0;
  uint8_t dims = 0;
  /// Row-major number of the first cell.
  int64_t first = 0;
  struct Dim {
    int64_t size = 0;
    int64_t stride = 0;
  };
  std::array<Dim, kMaxViewRank> dim;

  /// Calls fn(cell number) for each cell, until it gives false; gives whether it never did.
  template <typename Fn> bool forEachCell(Fn &&fn) const {
    std::array<int64_t, kMaxViewRank> at{};
    for (unsigned d = 0; d < dims; ++d)
      if (dim[d].size <= 0)
        return true;
    for (;;) {
      int64_t cell = first;
      for (unsigned d = 0; d < dims; ++d)
        cell += at[d] * dim[d].stride;
      if (!fn(cell))
        return false;
      unsigned d = dims;
      while (d-- > 0) {
        if (++at[d] < dim[d].size)
          break;
        at[d] = 0;
      }
      if (d == ~0u)
        return true;
    }
  }
};

/// "ready[0, 2]", by the number of the cell.
[[nodiscard]] std::string cellText(const SignalState &signal, int64_t cell);

/// Operations of a body that must come first, by their numbers; empty is done.
using TokenVal = llvm::SmallVector<uint64_t, 2>;

/// Calls fn(byte offset into the view, element number of the dense box of `sizes`, run of elements)
/// for each innermost run of positions that exist in a view and lie below `sizes`, row-major.
/// `sizes` has one entry a dimension of the view.
template <typename Fn>
void forEachRun(const ViewVal &view, llvm::ArrayRef<int64_t> sizes, Fn &&fn) {
  const unsigned dims = view.dims;
  if (view.isOutside)
    return;
  if (dims == 0) {
    fn(view.data, int64_t(0), int64_t(1));
    return;
  }
  const int64_t elementBytes = dtypeBytes(view.dtype);
  std::array<int64_t, kMaxViewRank> at{};
  std::array<int64_t, kMaxViewRank> end{};
  std::array<int64_t, kMaxViewRank> dense{};
  int64_t volume = 1;
  for (unsigned d = dims; d-- > 0;) {
    at[d] = view.dim[d].lo;
    end[d] = std::min(view.dim[d].hi, sizes[d]);
    dense[d] = volume;
    volume *= sizes[d];
    if (at[d] >= end[d])
      return;
  }
  const unsigned last = dims - 1;
  const int64_t run = end[last] - at[last];
  for (;;) {
    int64_t offset = 0;
    int64_t element = 0;
    for (unsigned d = 0; d < dims; ++d) {
      offset += at[d] * view.dim[d].stride;
      element += at[d] * dense[d];
    }
    fn(view.data + offset * elementBytes, element, run);
    unsigned d = last;
    while (d-- > 0) {
      if (++at[d] < end[d])
        break;
      at[d] = view.dim[d].lo;
    }
    if (d == ~0u)
      return;
  }
}

/// Copies what exists of a view to a dense row-major box of `sizes`; the rest becomes zero.
void readView(const ViewVal &view, llvm::ArrayRef<int64_t> sizes, void *out);
/// Copies a dense box to the positions that exist.
void writeView(const ViewVal &view, llvm::ArrayRef<int64_t> sizes, const void *from);
/// Adds a dense box to the positions that exist, rounding to the element type.
void addToView(const ViewVal &view, llvm::ArrayRef<int64_t> sizes, const void *from);

} // namespace dtile::interpret
