// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Registers of layouts under a shape.
#include "backend/gpu/bodies/tile_info.h"

#include "frontend/base/check.h"

namespace dtile::backend::gpu {

using ir::Layout;
using ir::LayoutBits;

TileInfo::TileInfo(const Layout &layout, llvm::ArrayRef<int64_t> shape)
    : layout(layout), shape(shape), indices(layout.inside(shape)) {
  DTILE_CHECK(layout.isSimple() && layout.covers(shape), "a layout that code is generated for");
  slots.assign(layout.registers(), -1);
  for (auto [slot, index] : llvm::enumerate(indices))
    slots[index] = int32_t(slot);
}

TileInfo TileInfo::ofRows(int64_t first, int64_t end, llvm::SmallVectorImpl<unsigned> &its) const {
  TileInfo part = *this;
  part.indices.clear();
  part.slots.assign(layout.registers(), -1);
  for (unsigned slot = 0; slot < size(); ++slot) {
    const int64_t row = at(slot)[0];
    if (row < first || row >= end)
      continue;
    part.slots[indices[slot]] = int32_t(part.indices.size());
    part.indices.push_back(indices[slot]);
    its.push_back(slot);
  }
  return part;
}

bool TileInfo::isCopy(unsigned slot) const {
  for (auto [bit, way] : llvm::enumerate(layout.bits(LayoutBits::Register)))
    if (way == Layout::Position{} && (indices[slot] >> bit & 1) != 0)
      return true;
  return false;
}

TileInfo::Run TileInfo::longestRun() const {
  Run best{unsigned(shape.size()) - 1, 1};
  for (unsigned d = shape.size(); d-- > 0;)
    if (unsigned length = layout.contiguous(d); length > best.length)
      best = {d, length};
  return best;
}

void TileInfo::eachRun(
    Run run,
    llvm::function_ref<void(llvm::ArrayRef<unsigned>, const Layout::Position &)> body) const {
  DTILE_CHECK(run.length <= layout.contiguous(run.dim), "a run of neighbours");
  for (uint32_t first = 0; first < layout.registers(); first += run.length) {
    llvm::SmallVector<unsigned, 16> group;
    for (uint32_t index = first; index < first + run.length; ++index)
      if (slots[index] >= 0)
        group.push_back(unsigned(slots[index]));
    if (group.size() == run.length)
      body(group, layout.at(first));
    else
      for (unsigned slot : group)
        body(slot, at(slot));
  }
}

} // namespace dtile::backend::gpu
