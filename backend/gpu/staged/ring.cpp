// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Staged tiles and their slots.
#include "backend/gpu/staged/ring.h"

#include "frontend/base/check.h"
#include "ir/analysis/boxes/box_starts.h"

#include "llvm/Support/MathExtras.h"

namespace dtile::backend::gpu {

using ir::Op;
using ir::OpKind;

StagedTile stagedTile(Op &load) {
  StagedTile tile(load.result()->type(), load.get(ir::attr::swizzle));
  tile.load = &load;
  if (isGathered(load))
    return tile;
  std::optional<ir::TensorBoxes> source = ir::tensorBoxes(load.operand(0));
  DTILE_CHECK(source, "a staged load is a box");
  tile.source = std::move(*source);
  return tile;
}

SharedTile BoxedTile::layout() const {
  // As TMA puts it there.
  SharedTile shared;
  shared.dtype = dtype;
  shared.strides = {swizzle, int64_t(dtypeBytes(dtype))};
  shared.fastest = 1;
  shared.bytes = bytes();
  shared.boxLength = swizzle / int64_t(dtypeBytes(dtype));
  shared.boxBytes = boxBytes();
  shared.swizzleShift = llvm::Log2_64(ir::kBankLineBytes);
  shared.swizzleBits = llvm::Log2_64(uint64_t(swizzle / ir::kSharedWordBytes));
  return shared;
}

BoxedTile BoxedTile::transposed() const {
  BoxedTile tile = *this;
  tile.rows = columns();
  tile.rowBytes = rows * int64_t(dtypeBytes(dtype));
  return tile;
}

ResidentTile::ResidentTile(ir::Type tile, int64_t swizzle)
    : BoxedTile(tile, swizzle), shared(layout()) {}

llvm::SmallVector<int32_t, 4> boxSizes(const StagedTile &tile, const ir::TensorBox &box,
                                       int64_t rows) {
  llvm::SmallVector<int32_t, 4> sizes;
  for (const ir::TensorBox::Dim &dim : box.dims)
    sizes.push_back(!dim.viewDim        ? 1
                    : *dim.viewDim == 0 ? int32_t(rows)
                                        : int32_t(tile.swizzle / dtypeBytes(tile.dtype)));
  return sizes;
}

launch::Frame::TensorMap neededTensorMap(const StagedTile &tile, const ir::TensorBox &box,
                                         int64_t rows) {
  launch::Frame::TensorMap map;
  map.param = box.object;
  map.box = boxSizes(tile, box, rows);
  map.swizzle = int32_t(tile.swizzle);
  map.isTf32 = tile.isTf32();
  map.wholeElements = ir::kBoxStartBytes / int64_t(dtypeBytes(tile.dtype));
  const auto wholes = ir::wholesOfStart(box, map.wholeElements);
  DTILE_CHECK(wholes, "stage-loads knows where boxes begin");
  map.wholes = *wholes;
  if (rows == tile.rows && ir::FoldedTile::isPossible(*tile.load)) {
    const ir::FoldedTile its = tile.folded();
    map.folded.rows = int32_t(its.copyRows);
    map.folded.columns = int32_t(its.rowBytes / int64_t(dtypeBytes(tile.dtype)));
    map.folded.rowDim =
        unsigned(llvm::find_if(box.dims, [](const auto &dim) { return dim.viewDim == 0u; }) -
                 box.dims.begin());
  }
  return map;
}

const launch::Frame::TensorMap &tensorMapOf(const launch::Frame &frame, const StagedTile &tile,
                                            const ir::TensorBox &box, int64_t rows) {
  const launch::Frame::TensorMap needed = neededTensorMap(tile, box, rows);
  const auto found =
      llvm::find_if(frame.tensorMaps(), [&](const auto &map) { return map->isFor(needed); });
  DTILE_CHECK(found != frame.tensorMaps().end(), "a staged load has its tensor map");
  return **found;
}

namespace {

/// Whether a product is added to a tile that its loop carries, and nothing else is done with it.
bool isOnlyAdded(const Op &dot) {
  const ir::Value *sum = dot.operand(2), *result = dot.result();
  return sum->argumentOf() == dot.parentBlock() && sum->hasOneUse() && result->hasOneUse() &&
         result->uses()[0].user == dot.parentBlock()->terminator();
}

/// Registers of all threads for a product's first operand, where it is not in shared memory.
int64_t registersOfFirst(const Op &dot) {
  const Op *op = ir::sourceOfFactor(*dot.operand(0));
  const bool isShared =
      dot.has(ir::attr::resident) || (op && isStagedLoad(*op) && !isReadLoad(*op));
  const ir::Type tile = dot.operand(0)->type();
  const int64_t words = tile.elements() * int64_t(dtypeBytes(tile.dtype())) / ir::kRegisterBytes;
  return isShared ? 0 : words;
}

} // namespace

Ring::Ring(Op &space) : folded(space) {
  llvm::SmallPtrSet<const Op *, 2> loopsWithSums;
  llvm::DenseMap<const Op *, int64_t> readIn;
  ir::walk(space, [&](Op &op) {
    if (isStagedLoad(op)) {
      tiles[&op] = stagedTile(op);
      (isGathered(op) ? gathersOf : loadsOf)[op.parentOp()].push_back(&op);
      if (isGathered(op))
        picked[&op] = nullptr;
      transposes |= tiles[&op].isTransposed();
    }
    hasReads |= isScalarLoad(op) || isReadLoad(op);
    if (isReadLoad(op))
      readIn[op.parentOp()] += op.result()->type().elements();
    if (isScalarLoad(op))
      loadsOf[op.parentOp()].push_back(&op);
    if (isPassedNumber(op))
      passed.push_back(&op);
    if (op.is(OpKind::For) && op.has(ir::attr::stages))
      stages = std::max(stages, op.get(ir::attr::stages));
    if (op.is(OpKind::Dot) && op.has(ir::attr::warpgroups)) {
      sums = std::max(sums, op.result()->type().elements());
      hasManySums |= !loopsWithSums.insert(op.parentOp()).second ||
                     (op.get(ir::attr::awaited) && !isOnlyAdded(op));
      readIn[op.parentOp()] += registersOfFirst(op);
      if (const int64_t swizzle = op.getOr(ir::attr::resident, 0))
        kept.try_emplace(ir::residentOperand(op), op.operand(0)->type(), swizzle);
    }
    if (isOfEpilogue(op)) {
      if (!output)
        output.emplace();
      output->deferred.push_back(&op);
      if (!op.is(OpKind::Notify) && !op.is(OpKind::Await))
        output->shape.assign(op.operand(0)->type().shape().begin(),
                             op.operand(0)->type().shape().end());
    }
  });
  for (const auto &[loop, registers] : readIn)
    read = std::max(read, registers);
  for (const Op &op : space.body().ops())
    if (op.is(OpKind::For) && op.has(ir::attr::stages))
      lastLoop = &op;
  if (output) {
    output->parts = space.getOr(ir::attr::epilogue_parts, 1);
    output->partRows = output->shape[0] / output->parts;
    ir::walk(space, [&](Op &op) {
      if (isEpilogueLoad(op))
        output->brought.push_back(&op);
    });
  }
  for (auto &[loop, loads] : loadsOf) {
    ir::StageBytes stage;
    const auto place = [&](Op *load) { tiles[load].offset = stage.addBox(load->result()->type()); };
    for (Op *load : loads)
      if (isBox(*load))
        place(load);
    for (Op *gather : gathersOf.lookup(loop))
      place(gather);
    for (const Op *load : loads)
      if (isScalarLoad(*load))
        fetched[load] = stage.addScalars(load->result()->type());
    slot.unite(stage);
  }
  for (auto &[load, offset] : fetched)
    offset += slot.boxes;
}

} // namespace dtile::backend::gpu
