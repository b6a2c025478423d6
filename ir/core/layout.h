// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where the elements of a tile live when a program is many threads: a linear map over bits. Each
// bit of a register's number, of a lane's number in its warp and of a warp's number in the program
// leads some way along the dimensions of a box whose sizes are powers of two and that covers the
// tile; a place's element is the exclusive or of its bits' ways (K. Zhou et al., "Linear Layouts",
// 2025). A bit that leads nowhere means copies of the same elements.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace dtile::ir {

/// What a bit belongs to, in the order of the text form.
enum class LayoutBits : uint8_t { Register, Lane, Warp };

/// A value; equal layouts are interned by TypeContext when types carry them.
class Layout {
public:
  static constexpr unsigned kRank = 4;
  /// A position along each dimension; those past the rank are 0.
  using Position = std::array<int32_t, kRank>;
  /// One of a program's registers.
  struct Place {
    uint32_t index = 0, lane = 0, warp = 0;
    friend bool operator==(const Place &, const Place &) = default;
  };

  Layout() = default;
  explicit Layout(unsigned rank) : rank_(rank) {}

  [[nodiscard]] unsigned rank() const { return rank_; }
  [[nodiscard]] llvm::ArrayRef<Position> bits(LayoutBits which) const {
    return bits_[size_t(which)];
  }
  /// Appends the way of the next higher bit.
  void add(LayoutBits which, Position way) { bits_[size_t(which)].push_back(way); }
  /// The same for a way of `distance` along one dimension; 0 for a copy.
  void add(LayoutBits which, unsigned dim, int32_t distance);

  /// Number of registers, lanes, warps.
  [[nodiscard]] unsigned registers() const { return 1u << bits_[0].size(); }
  [[nodiscard]] unsigned lanes() const { return 1u << bits_[1].size(); }
  [[nodiscard]] unsigned warps() const { return 1u << bits_[2].size(); }

  /// The element that a place holds.
  [[nodiscard]] Position at(Place place) const;
  [[nodiscard]] Position at(uint32_t index, uint32_t lane = 0, uint32_t warp = 0) const {
    return at(Place{index, lane, warp});
  }
  /// A place that holds an element (of copies the one with the lowest numbers); none where the
  /// element is outside of the box.
  [[nodiscard]] std::optional<Place> find(Position position) const;
  /// Sizes of the box.
  [[nodiscard]] llvm::SmallVector<int64_t, 4> box() const;
  /// Every element of a tile of this shape is somewhere.
  [[nodiscard]] bool covers(llvm::ArrayRef<int64_t> shape) const;
  /// Every bit's way is along at most one dimension, by a power of two, and no two that lead
  /// somewhere are equal: positions of different bits then add up.
  [[nodiscard]] bool isSimple() const;
  /// A register holds elements of the shape in some thread. Of a simple layout.
  [[nodiscard]] bool isInside(uint32_t index, llvm::ArrayRef<int64_t> shape) const;
  /// The registers for which that is so, in order.
  [[nodiscard]] llvm::SmallVector<uint32_t, 16> inside(llvm::ArrayRef<int64_t> shape) const;
  /// Past the largest position along a dimension that one of these registers has in any thread.
  [[nodiscard]] int64_t extent(unsigned dim, llvm::ArrayRef<uint32_t> registers) const;
  /// How many consecutive registers, from any multiple of that, hold consecutive elements of a
  /// dimension.
  [[nodiscard]] unsigned contiguous(unsigned dim) const;

  /// With runs of `length` elements of a dimension in each thread's consecutive registers, and of
  /// `segment` in lanes of a warp (both powers of two), as far as bits of lanes and of registers
  /// that lead along that dimension can change places for that. The warps keep their elements.
  [[nodiscard]] Layout withRuns(unsigned dim, int64_t length, int64_t segment) const;

  /// Without a dimension: what led along it leads nowhere.
  [[nodiscard]] Layout withoutDim(unsigned dim) const;
  /// With a new dimension of size 1 before `dim`.
  [[nodiscard]] Layout withDim(unsigned dim) const;
  /// The same rank, with all of a dimension's elements where its first is.
  [[nodiscard]] Layout collapsed(unsigned dim) const;
  /// Dimension i of the result is dimension perm[i].
  [[nodiscard]] Layout permuted(llvm::ArrayRef<int64_t> perm) const;
  /// Without the registers that are copies of others.
  [[nodiscard]] Layout withoutRegisterCopies() const;
  /// The layout of the same elements, counted in row-major order, under another shape. Only where
  /// all sizes of both are powers of two, or the shapes differ by dimensions of 1.
  [[nodiscard]] std::optional<Layout> reshaped(llvm::ArrayRef<int64_t> from,
                                               llvm::ArrayRef<int64_t> to) const;

  friend bool operator==(const Layout &, const Layout &) = default;
  friend bool operator<(const Layout &a, const Layout &b);
  /// `[1:1 1:2 | 1:4 0:1 | 0:2]`: registers, lanes and warps, a `dimension:distance` a bit, `-` for
  /// one that leads nowhere, and `+` between the dimensions of a crooked way.
  [[nodiscard]] std::string str() const;
  /// Reads what str() writes; none for anything else.
  [[nodiscard]] static std::optional<Layout> parse(llvm::StringRef text, unsigned rank);

private:
  unsigned rank_ = 0;
  std::array<llvm::SmallVector<Position, 8>, 3> bits_;
};

/// What layouts of a machine are made from.
struct LayoutThreads {
  unsigned lanes = 32;
  unsigned warps = 4;
};

/// Rows of `vector` elements along dimension `order[0]` in each thread, then lanes and warps along
/// the dimensions in `order` (fastest first), then more registers: threads of a warp are
/// neighbours in memory. Threads that are left over hold copies.
[[nodiscard]] Layout blockedLayout(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<unsigned> order,
                                   int64_t vector, LayoutThreads threads);

/// About as many rows as columns in each thread of a tile of two dimensions: what products without
/// matrix instructions use. A thread has `runs` neighbours along each dimension (a power of two) as
/// far as there are so many for each, then come the lanes: an operand whose neighbours along that
/// dimension stand together is read in runs, one whose depth does in lines of lanes side by side.
[[nodiscard]] Layout outerProductLayout(llvm::ArrayRef<int64_t> shape, LayoutThreads threads,
                                        std::array<int64_t, 2> runs);

/// One matrix instruction's fragment, repeated by registers and warps until it covers a shape;
/// `atom` has no warps. `warpDims` says along which dimension each bit of the warp's number leads,
/// -1 for copies. Warps stand next to each other, then come their next registers, so that registers
/// past the end of a tile are past it in all warps.
[[nodiscard]] Layout repeatedLayout(const Layout &atom, llvm::ArrayRef<int64_t> shape,
                                    llvm::ArrayRef<int> warpDims);

/// Where the first (0) or second (1) operand of a product has to be for its sum to be in the layout
/// `sum`, which repeats `sumAtom`: repetitions of the operand's `atom` over `depth` elements of the
/// dimension that is summed over.
[[nodiscard]] Layout operandLayout(const Layout &sum, const Layout &sumAtom, const Layout &atom,
                                   unsigned operand, int64_t depth);

} // namespace dtile::ir
