// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads, writes and evaluates the order of a tile space's bodies.
#include "ir/core/tile_order.h"

#include "frontend/base/check.h"
#include "ir/core/ir.h"

#include <algorithm>

namespace dtile::ir {

unsigned spaceDims(const Op &space) { return unsigned(space.get(attr::vars).size()); }

Value *rotationCenter(const Op &space, unsigned dim) {
  const unsigned at = 3 * spaceDims(space) + dim;
  return at < space.numOperands() ? space.operand(at) : nullptr;
}

void setRotationCenters(Op &space, llvm::ArrayRef<Value *> centers) {
  const unsigned dims = spaceDims(space);
  DTILE_CHECK(centers.size() == dims, "there is one center a dimension");
  llvm::SmallVector<Value *, 12> operands(space.operands().take_front(3 * dims));
  operands.append(centers.begin(), centers.end());
  space.setOperands(operands);
}

namespace {

llvm::SmallVector<int64_t, 4> listOr(const Op &space, AttrKey<std::vector<int64_t>> key,
                                     unsigned dims) {
  llvm::SmallVector<int64_t, 4> list(dims, 0);
  if (!space.has(key))
    return list;
  llvm::ArrayRef<int64_t> given = space.get(key);
  DTILE_CHECK(given.size() == dims, "a schedule attribute has one entry a dimension");
  std::copy(given.begin(), given.end(), list.begin());
  return list;
}

void setOrRemove(Op &space, AttrKey<std::vector<int64_t>> key,
                 const llvm::SmallVector<int64_t, 4> &list) {
  if (std::all_of(list.begin(), list.end(), [](int64_t v) { return v == 0; }))
    space.remove(key);
  else
    space.set(key, std::vector<int64_t>(list.begin(), list.end()));
}

int64_t floorMod(int64_t value, int64_t n) {
  int64_t rest = value % n;
  return rest < 0 ? rest + n : rest;
}

} // namespace

TileOrder TileOrder::fromSpace(const Op &space) {
  unsigned dims = spaceDims(space);
  TileOrder result;
  result.group = listOr(space, attr::group, dims);
  result.rotate = listOr(space, attr::rotate, dims);
  result.start = listOr(space, attr::start, dims);
  for (unsigned d = 0; d < dims; ++d)
    result.order.push_back(d);
  if (space.has(attr::order)) {
    llvm::ArrayRef<int64_t> given = space.get(attr::order);
    DTILE_CHECK(given.size() == dims, "the order names every dimension once");
    for (unsigned d = 0; d < dims; ++d)
      result.order[d] = static_cast<unsigned>(given[d]);
  }
  return result;
}

void TileOrder::toSpace(Op &space) const {
  std::vector<int64_t> list(order.begin(), order.end());
  bool isDefault = true;
  for (unsigned d = 0; d < order.size(); ++d)
    isDefault &= order[d] == d;
  if (isDefault)
    space.remove(attr::order);
  else
    space.set(attr::order, list);
  setOrRemove(space, attr::group, group);
  setOrRemove(space, attr::rotate, rotate);
  setOrRemove(space, attr::start, start);
}

std::optional<unsigned> TileOrder::pairedDimension() const {
  if (order.empty())
    return std::nullopt;
  const size_t last = order.size() - 1;
  // Of dimensions that are taken together, the first is the faster one.
  const bool isGrouped = last > 0 && group[order[last - 1]] > 0;
  const unsigned fastest = isGrouped ? order[last - 1] : order[last];
  const bool isEven = !isGrouped || group[fastest] % 2 == 0;
  return isEven && rotate[fastest] == 0 ? std::optional(fastest) : std::nullopt;
}

llvm::SmallVector<int64_t, 4> TileOrder::decode(llvm::ArrayRef<int64_t> blocks,
                                                llvm::ArrayRef<int64_t> centers,
                                                int64_t linear) const {
  llvm::SmallVector<int64_t, 4> block(blocks.size(), 0);
  // Innermost dimensions first: each takes its digit off the low end of `linear`.
  for (size_t i = order.size(); i-- > 0;) {
    unsigned inner = order[i];
    bool grouped = i > 0 && group[order[i - 1]] > 0;
    if (!grouped) {
      block[inner] = linear % blocks[inner];
      linear /= blocks[inner];
      continue;
    }
    unsigned outer = order[--i];
    int64_t both = blocks[outer] * blocks[inner];
    int64_t pair = linear % both;
    linear /= both;
    int64_t span = group[outer] * blocks[inner];
    int64_t first = pair / span * group[outer];
    int64_t size = std::min(blocks[outer] - first, group[outer]);
    block[outer] = first + pair % span % size;
    block[inner] = pair % span / size;
  }
  for (unsigned d = 0; d < block.size(); ++d)
    if (rotate[d] != 0)
      block[d] = floorMod(centers[d] + start[d] + rotate[d] * block[d], blocks[d]);
  return block;
}

} // namespace dtile::ir
