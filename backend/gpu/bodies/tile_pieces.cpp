// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Pieces of tiles by bits of positions. Layouts are linear over bits: what is left of one without
// some bits is a layout again, so that a piece moves as a smaller tile does.
#include "backend/gpu/bodies/tile_pieces.h"

#include "frontend/base/check.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <optional>
#include <tuple>

namespace dtile::backend::gpu {

using ir::Layout;
using ir::LayoutBits;

namespace {

int64_t powerOfTwoFor(int64_t size) { return int64_t(llvm::PowerOf2Ceil(uint64_t(size))); }

/// A power of two, without the bits below it that are fixed.
int32_t compressed(int32_t distance, int32_t fixed) {
  return distance >> llvm::popcount(uint32_t(fixed) & uint32_t(distance - 1));
}

/// A way in the box of a piece; nowhere where it changes a fixed bit.
Layout::Position compressed(const Layout::Position &way, const PositionBits &fixed) {
  Layout::Position result{};
  for (unsigned d = 0; d < Layout::kRank; ++d)
    if (way[d] != 0 && (way[d] & fixed[d]) == 0)
      result[d] = compressed(way[d], fixed[d]);
  return result;
}

bool isFixed(const Layout::Position &way, const PositionBits &fixed) {
  return llvm::any_of(llvm::zip_equal(way, fixed), [](const auto &pair) {
    return (std::get<0>(pair) & std::get<1>(pair)) != 0;
  });
}

bool isSet(const Layout::Position &way, const PositionBits &at) { return isFixed(way, at); }

Layout layoutOf(const Layout &whole, const PositionBits &fixed) {
  Layout layout(whole.rank());
  for (const Layout::Position &way : whole.bits(LayoutBits::Register))
    if (!isFixed(way, fixed))
      layout.add(LayoutBits::Register, compressed(way, fixed));
  for (LayoutBits which : {LayoutBits::Lane, LayoutBits::Warp})
    for (const Layout::Position &way : whole.bits(which))
      layout.add(which, compressed(way, fixed));
  return layout;
}

llvm::SmallVector<int64_t, 4> shapeOf(llvm::ArrayRef<int64_t> whole, const PositionBits &fixed) {
  llvm::SmallVector<int64_t, 4> shape;
  for (auto [d, size] : llvm::enumerate(whole))
    shape.push_back(powerOfTwoFor(size) >> llvm::popcount(uint32_t(fixed[d])));
  return shape;
}

bool isRegisterBit(const Layout &layout, unsigned dim, int32_t distance) {
  return llvm::any_of(layout.bits(LayoutBits::Register),
                      [&](const Layout::Position &way) { return way[dim] == distance; });
}

} // namespace

TilePiece::TilePiece(const TileInfo &whole, const PositionBits &fixed, const PositionBits &at)
    : info(layoutOf(whole.layout, fixed), shapeOf(whole.shape, fixed)) {
  unsigned bit = 0;
  for (LayoutBits which : {LayoutBits::Lane, LayoutBits::Warp})
    for (const Layout::Position &way : whole.layout.bits(which)) {
      if (isFixed(way, fixed)) {
        threadMask |= 1u << bit;
        threads |= isSet(way, at) ? 1u << bit : 0;
      }
      ++bit;
    }
  for (uint32_t index : info.indices) {
    // The register of the tile: bits that are left, in order, and those of `at` between them.
    uint32_t all = 0;
    unsigned left = 0;
    for (auto [i, way] : llvm::enumerate(whole.layout.bits(LayoutBits::Register))) {
      const bool value = isFixed(way, fixed) ? isSet(way, at) : (index >> left++ & 1) != 0;
      all |= value ? 1u << i : 0;
    }
    slots.push_back(whole.slots[all]);
  }
}

void eachPiece(llvm::ArrayRef<int64_t> shape, const PositionBits &fixed,
               llvm::function_ref<void(const PositionBits &at)> body) {
  PositionBits at{};
  while (true) {
    if (llvm::all_of(llvm::enumerate(shape),
                     [&](const auto &dim) { return at[dim.index()] < dim.value(); }))
      body(at);
    // The next value of the bits of the first dimension that has one.
    unsigned d = 0;
    while (d < shape.size() && (at[d] = (at[d] - fixed[d]) & fixed[d]) == 0)
      ++d;
    if (d == shape.size())
      return;
  }
}

PositionBits choosePieces(const TileInfo &from, const TileInfo &to, unsigned fastest, int64_t room,
                          llvm::function_ref<int64_t(const PositionBits &fixed)> bytesOf) {
  PositionBits fixed{};
  while (bytesOf(fixed) > room) {
    // Reads of other threads' pieces are in vain, writes are skipped.
    using Cost = std::tuple<bool, bool, bool, int32_t>;
    std::optional<std::pair<Cost, unsigned>> best;
    for (auto [d, size] : llvm::enumerate(from.shape))
      for (int32_t distance = 1; distance < size; distance *= 2) {
        if ((fixed[d] & distance) != 0)
          continue;
        const unsigned dim = unsigned(d);
        const bool isInRun =
            dim == fastest &&
            distance < int32_t(std::max(from.layout.contiguous(dim), to.layout.contiguous(dim)));
        const Cost cost{!isRegisterBit(to.layout, dim, distance),
                        !isRegisterBit(from.layout, dim, distance), isInRun, -distance};
        if (!best || cost < best->first)
          best = {cost, dim};
      }
    if (!best)
      break;
    fixed[best->second] |= -std::get<3>(best->first);
  }
  return fixed;
}

ProductBlocks ProductBlocks::whole(llvm::ArrayRef<int64_t> sum, int64_t depth) {
  return {powerOfTwoFor(sum[0]), powerOfTwoFor(sum[1]), powerOfTwoFor(depth)};
}

PositionBits ProductBlocks::fixed(unsigned operand, const ProductBlocks &whole) const {
  const auto above = [](int64_t block, int64_t all) { return int32_t(all - block); };
  PositionBits bits{};
  bits[operand] = operand == 0 ? above(rows, whole.rows) : above(columns, whole.columns);
  bits[1 - operand] = above(depth, whole.depth);
  return bits;
}

ProductBlocks chooseBlocks(const TileInfo &sum, const ProductBlocks &whole,
                           const ProductBlocks &least, int64_t room,
                           llvm::function_ref<int64_t(const ProductBlocks &)> bytesOf) {
  // What is multiplied between two meetings of the threads should take longer than these.
  constexpr int64_t kGoodDepth = 8;
  ProductBlocks blocks = whole;
  const auto canCut = [&](unsigned dim, int64_t size, int64_t smallest) {
    return size > smallest && isRegisterBit(sum.layout, dim, int32_t(size / 2));
  };
  while (bytesOf(blocks) > room) {
    const bool cutRows = canCut(0, blocks.rows, least.rows);
    const bool cutColumns = canCut(1, blocks.columns, least.columns);
    if (blocks.depth > std::max(least.depth, kGoodDepth))
      blocks.depth /= 2;
    else if (cutRows && (blocks.rows >= blocks.columns || !cutColumns))
      blocks.rows /= 2;
    else if (cutColumns)
      blocks.columns /= 2;
    else if (blocks.depth > least.depth)
      blocks.depth /= 2;
    else
      break;
  }
  return blocks;
}

} // namespace dtile::backend::gpu
