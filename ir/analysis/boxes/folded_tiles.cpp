// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ir/analysis/boxes/folded_tiles.h"

#include "ir/analysis/boxes/tensor_box.h"
#include "ir/analysis/shared_memory_plan.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

namespace dtile::ir {

namespace {

/// Rows of a unit, of all its boxes: small units are on their way while others are shifted.
constexpr int64_t kMostUnitRows = 128;

/// Elements of a row of a box, at most (PTX ISA, "Tensors").
constexpr int64_t kMostCopyColumns = 256;

int64_t placesInWord(Type tile) { return kSharedWordBytes / int64_t(dtypeBytes(tile.dtype())); }

} // namespace

FoldedTile::FoldedTile(Type tile, int64_t swizzle)
    : fold(placesInWord(tile)), unitRows(tile.shape()[0]), unitBoxes(1) {
  const int64_t element = dtypeBytes(tile.dtype());
  const int64_t boxes = tile.shape()[1] * element / swizzle;
  while (unitRows > kMostUnitRows && unitRows % (2 * fold) == 0)
    unitRows /= 2;
  if (boxes % 2 == 0 && 2 * unitRows <= kMostUnitRows &&
      2 * swizzle + kSharedWordBytes <= kMostCopyColumns * element)
    unitBoxes = 2;
  rowBytes = unitBoxes * swizzle + kSharedWordBytes;
  copyRows = unitRows / fold;
  copyBytes = int64_t(llvm::alignTo(uint64_t(copyRows * rowBytes), kBankLineBytes));
  units = tile.shape()[0] / unitRows * (boxes / unitBoxes);
}

bool FoldedTile::isPossible(Op &load) {
  if (!comesVia(load, LoadPath::Tma) ||
      load.result()->type().shape()[0] % placesInWord(load.result()->type()) != 0)
    return false;
  const std::optional<TensorBoxes> source = tensorBoxes(load.operand(0));
  const auto hasRows = [](const TensorBox &box) {
    return box.dims.back().viewDim == 1u &&
           llvm::any_of(box.dims, [](const auto &dim) { return dim.viewDim == 0u; });
  };
  return source && llvm::all_of(source->boxes, hasRows);
}

FoldedRing::FoldedRing(Op &space) {
  // Products have two stages at least; the rest hides the latency of memory.
  constexpr int64_t kFewestUnits = 2;
  StageBytes stage;
  int64_t allStages = 0, bytes = 0;
  bool arePossible = true;
  walk(space, [&](Op &op) {
    if (op.is(OpKind::For) && op.has(attr::stages)) {
      stage.unite(StageBytes(op));
      allStages = std::max(allStages, op.get(attr::stages));
    }
    if (!isStagedLoad(op))
      return;
    arePossible &= FoldedTile::isPossible(op);
    if (arePossible)
      bytes = std::max(bytes, FoldedTile(op.result()->type(), op.get(attr::swizzle)).unitBytes());
  });
  if (!arePossible || bytes == 0)
    return;
  const int64_t room = std::min(allStages / 2, allStages - kFewestStages) * stage.bytes();
  const int64_t count = std::min(room / bytes, kMostUnits);
  if (count < kFewestUnits)
    return;
  units = count;
  unitBytes = bytes;
  stages = (count * bytes + stage.bytes() - 1) / stage.bytes();
}

} // namespace dtile::ir
