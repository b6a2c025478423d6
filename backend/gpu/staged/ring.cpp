// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Staged tiles and their slots.
#include "backend/gpu/staged/ring.h"

#include "frontend/base/check.h"

#include "llvm/Support/MathExtras.h"

namespace dtile::backend::gpu {

using ir::Op;
using ir::OpKind;

StagedTile stagedTile(Op &load) {
  StagedTile tile(load.result()->type(), load.intAttr("swizzle"));
  tile.load = &load;
  if (isPicked(load))
    return tile;
  std::optional<ir::TensorBoxes> source = ir::tensorBoxes(load.operand(0));
  DTILE_CHECK(source, "a staged load is a box");
  tile.source = std::move(*source);
  return tile;
}

ir::Value *keptOperand(const Op &dot) {
  ir::Value *tile = dot.operand(0);
  while (tile->definingOp() && tile->definingOp()->is(OpKind::Convert))
    tile = tile->definingOp()->operand(0);
  return tile;
}

KeptTile::KeptTile(ir::Type tile, int64_t swizzle) : BoxedTile(tile, swizzle) {
  // As the copy engine would put it there.
  shared.dtype = dtype;
  shared.strides = {swizzle, int64_t(dtypeBytes(dtype))};
  shared.fastest = 1;
  shared.bytes = bytes();
  shared.boxLength = swizzle / int64_t(dtypeBytes(dtype));
  shared.boxBytes = boxBytes();
  shared.exchangeFrom = 7;
  shared.exchangeBits = llvm::Log2_64(uint64_t(swizzle) / 16);
}

llvm::SmallVector<int32_t, 4> boxSizes(const StagedTile &tile, const ir::TensorBox &box) {
  llvm::SmallVector<int32_t, 4> sizes;
  for (const ir::TensorBox::Dim &dim : box.dims)
    sizes.push_back(!dim.viewDim        ? 1
                    : *dim.viewDim == 0 ? int32_t(tile.rows)
                                        : int32_t(tile.swizzle / dtypeBytes(tile.dtype)));
  return sizes;
}

Ring::Ring(Op &space) {
  llvm::SmallPtrSet<const Op *, 2> loopsWithSums;
  ir::walk(space, [&](Op &op) {
    if (isStagedLoad(op)) {
      tiles[&op] = stagedTile(op);
      (isPicked(op) ? gathersOf : loadsOf)[op.parentOp()].push_back(&op);
      if (isPicked(op))
        picked[&op] = nullptr;
    }
    if (isFetched(op))
      loadsOf[op.parentOp()].push_back(&op);
    if (op.is(OpKind::For) && op.hasAttr("stages"))
      stages = std::max(stages, op.intAttr("stages"));
    if (op.is(OpKind::Dot) && op.hasAttr("groups")) {
      sums = std::max(sums, op.result()->type().elements());
      hasManySums |= op.boolAttrOr("awaited", false) || !loopsWithSums.insert(op.parentOp()).second;
      if (const int64_t swizzle = op.intAttrOr("kept", 0))
        kept.try_emplace(keptOperand(op), op.operand(0)->type(), swizzle);
    }
    if (isDeferred(op)) {
      if (!output)
        output.emplace();
      output->deferred.push_back(&op);
      if (!op.is(OpKind::Notify) && !op.is(OpKind::Await))
        output->shape.assign(op.operand(0)->type().shape().begin(),
                             op.operand(0)->type().shape().end());
    }
  });
  for (const Op &op : space.body().ops())
    if (op.is(OpKind::For) && op.hasAttr("stages"))
      lastLoop = &op;
  if (output) {
    output->parts = space.intAttrOr("parts", 1);
    output->partRows = output->shape[0] / output->parts;
    ir::walk(space, [&](Op &op) {
      if (isBrought(op))
        output->brought.push_back(&op);
    });
  }
  for (auto &[loop, loads] : loadsOf) {
    int64_t bytes = 0;
    const auto place = [&](Op *load) {
      StagedTile &tile = tiles[load];
      tile.offset = bytes;
      bytes += int64_t(llvm::alignTo(tile.bytes(), kSlotAlign));
    };
    for (Op *load : loads)
      if (isBox(*load))
        place(load);
    for (Op *gather : gathersOf.lookup(loop))
      place(gather);
    slotBytes = std::max(slotBytes, bytes);
  }
  // Behind the boxes of all loops: the copy engine is not in order with plain accesses.
  const int64_t boxBytes = slotBytes;
  for (auto &[loop, loads] : loadsOf) {
    int64_t bytes = boxBytes;
    for (const Op *load : loads) {
      if (!isFetched(*load))
        continue;
      fetched[load] = bytes;
      bytes += TargetFacts::fetchedBytes(load->result()->type().elements());
    }
    slotBytes = std::max(slotBytes, int64_t(llvm::alignTo(bytes, kSlotAlign)));
  }
}

} // namespace dtile::backend::gpu
