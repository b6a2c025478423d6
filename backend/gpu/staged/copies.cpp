// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The thread that copies operands to the slots of the ring.
#include "backend/gpu/staged/walkers.h"

#include "frontend/base/check.h"

namespace dtile::backend::gpu {

using ir::Op;
using ir::OpKind;
using llvm::Value;

CopyLowering::CopyLowering(GpuModule &module, const KernelScaffold &kernel, const Ring &ring)
    : SliceLowering(module, kernel, ring, "copy") {
  for (auto &[load, tile] : ring.tiles)
    need(*tile.load);
}

void CopyLowering::lowerBodies(Op &space, const BodyRange &range) {
  // The first round finds every slot empty: the phase before the first counts as over.
  place_.begin(1);
  body_.begin(1);
  b.CreateStore(b.getFalse(), failed_);
  forEachBody(space, range, [&] { lowerBlock(space.body()); });
}

Value *CopyLowering::takeBody(const BodyRange &range) {
  Value *slot = body_.slot();
  waitOrLeave(body_.barrier(ring_.bodiesEmpty, slot), body_.phase());
  Value *number = countBody(range);
  b.CreateStore(number, bodyNumber());
  ops_.arrive(b, body_.barrier(ring_.bodiesFull, slot));
  body_.next();
  return number;
}

void CopyLowering::lowerOp(Op &op) {
  if (isStagedLoad(op))
    return copy(op);
  if (!isNeeded(op))
    return;
  SliceLowering::lowerOp(op);
}

Value *CopyLowering::map(const StagedTile &tile, const ir::TensorBox &box) {
  const launch::Frame::TensorMap *found = nullptr;
  for (const auto &map : kernel_.layout->tensorMaps())
    if (map->param == box.object && map->box == boxSizes(tile, box) &&
        map->swizzle == tile.swizzle)
      found = map.get();
  DTILE_CHECK(found, "a staged load has its tensor map");
  Value *address = frameAddress(found->offset);
  if (found->copies > 1) {
    Value *copy = scratchTurn(*box.object);
    address = b.CreateGEP(b.getInt8Ty(), address,
                          b.CreateMul(copy, b.getInt64(launch::Frame::kTensorMapBytes)));
  }
  return b.CreatePtrToInt(address, b.getInt64Ty());
}

void CopyLowering::copyBoxes(const StagedTile &tile, const ir::TensorBox &box, Value *slot,
                             Value *full) {
  Value *map = this->map(tile, box);
  for (int64_t i = 0; i < tile.boxes(); ++i) {
    llvm::SmallVector<Value *, 5> coordinates;
    for (const ir::TensorBox::Dim &dim : llvm::reverse(box.dims)) {
      Value *at = b.getInt64(dim.viewDim == 1u ? i * tile.swizzle / dtypeBytes(tile.dtype()) : 0);
      for (ir::Value *first : dim.firsts)
        at = b.CreateAdd(at, scalar(first));
      coordinates.push_back(b.CreateTrunc(at, b.getInt32Ty()));
    }
    ops_.copyBox(b, address(slot, tile.offset + i * tile.rows * tile.swizzle), map,
                 coordinates, full);
  }
}

void CopyLowering::copy(Op &load) {
  const StagedTile &tile = ring_.tiles.find(&load)->second;
  llvm::ArrayRef<Op *> loads = ring_.loadsOf.find(load.parentOp())->second;
  Value *slot = place_.slot();
  Value *full = place_.barrier(ring_.full, slot);
  if (&load == loads.front()) {
    waitOrLeave(place_.barrier(ring_.empty, slot), place_.phase());
    unsigned bytes = 0;
    for (Op *each : loads)
      bytes += ring_.tiles.find(each)->second.bytes();
    // One arrival either way.
    Value *failed = hasFailed();
    when(failed, "copy.skipped", [&] {
      b.CreateStore(b.getInt32(1), shared(ring_.failed));
      ops_.arrive(b, full);
    });
    when(b.CreateNot(failed), "copy.announced",
         [&] { ops_.arriveExpecting(b, full, b.getInt32(bytes)); });
  }
  when(b.CreateNot(hasFailed()), "copy", [&] {
    const ir::TensorBoxes &source = tile.source;
    if (!source.isFirst)
      return copyBoxes(tile, source.boxes[0], slot, full);
    Value *isFirst = scalar(source.isFirst);
    when(isFirst, "copy.first", [&] { copyBoxes(tile, source.boxes[0], slot, full); });
    when(b.CreateNot(isFirst), "copy.second",
         [&] { copyBoxes(tile, source.boxes[1], slot, full); });
  });
  if (&load == loads.back())
    place_.next();
}

} // namespace dtile::backend::gpu
