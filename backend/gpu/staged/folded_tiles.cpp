// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where tiles begin in the folded matrices of their tensors: what the load warp and the copy warps
// both ask (launch/frame.h says what is folded, ring.h how the tiles come).
#include "backend/gpu/staged/warp_role.h"

namespace dtile::backend::gpu {

using ir::Op;
using llvm::Value;

void HelperWarp::findFolded(Op &space) {
  if (ring_.folded.units == 0)
    return;
  const auto number = [&](int64_t offset) { return loadFrame(offset, b.getInt64Ty()); };
  ir::walk(space, [&](Op &op) {
    if (!isBox(op) || !ring_.paths.lookup(&op).isFolded)
      return;
    const StagedTile &tile = ring_.tiles.find(&op)->second;
    for (const ir::TensorBox &box : tile.source.boxes) {
      const auto &map = tensorMapOf(*kernel_.layout, tile, box, tile.rows);
      Value *first = frameAddress(map.offset), *last = frameAddress(map.folded.offset);
      Value *before = number(map.folded.before);
      if (map.copies > 1) {
        Value *copy = scratchTurn(*box.object);
        for (Value **its : {&first, &last})
          *its = b.CreateGEP(b.getInt8Ty(), *its,
                             b.CreateMul(copy, b.getInt64(launch::Frame::kTensorMapBytes)));
        before = b.CreateAlignedLoad(
            b.getInt64Ty(), b.CreateGEP(b.getInt64Ty(), frameAddress(map.folded.before), copy),
            llvm::Align(8));
      }
      FoldedTensor &tensor = folded_[&box];
      tensor.begin = {.row = b.getInt64(0),
                      .column = b.CreateTrunc(before, b.getInt32Ty()),
                      .pitch = b.CreateTrunc(number(map.folded.pitch), b.getInt32Ty()),
                      .rest = b.CreateTrunc(number(map.folded.rest), b.getInt32Ty()),
                      .firstMap = b.CreatePtrToInt(first, b.getInt64Ty()),
                      .lastMap = b.CreatePtrToInt(last, b.getInt64Ty())};
      for (size_t d = 0; d + 1 < box.dims.size(); ++d)
        tensor.rowsApart.push_back(
            number(map.folded.rowsApart + int64_t(d) * launch::Frame::kFrameWordBytes));
    }
  });
}

HelperWarp::FoldedPlace HelperWarp::placeOfBox(const ir::TensorBox &box) {
  const FoldedTensor &tensor = folded_.find(&box)->second;
  FoldedPlace place = tensor.begin;
  const auto first = [&](const ir::TensorBox::Dim &dim) {
    Value *sum = b.getInt64(0);
    for (ir::Value *position : dim.firsts)
      sum = b.CreateAdd(sum, scalar(position));
    return sum;
  };
  for (size_t d = 0; d + 1 < box.dims.size(); ++d)
    place.row = b.CreateAdd(place.row, b.CreateMul(first(box.dims[d]), tensor.rowsApart[d]));
  place.column = b.CreateAdd(place.column, b.CreateTrunc(first(box.dims.back()), b.getInt32Ty()));
  return place;
}

HelperWarp::FoldedPlace HelperWarp::foldedPlace(const StagedTile &tile) {
  const ir::TensorBoxes &source = tile.source;
  const FoldedPlace place = placeOfBox(source.boxes[0]);
  if (!source.isFirst)
    return place;
  Value *isFirst = scalar(source.isFirst);
  const FoldedPlace other = placeOfBox(source.boxes[1]);
  const auto either = [&](Value *FoldedPlace::*part) {
    return b.CreateSelect(isFirst, place.*part, other.*part);
  };
  return {either(&FoldedPlace::row),      either(&FoldedPlace::column),
          either(&FoldedPlace::pitch),    either(&FoldedPlace::rest),
          either(&FoldedPlace::firstMap), either(&FoldedPlace::lastMap)};
}

Value *HelperWarp::unitAddress() {
  return b.CreateAdd(ring_.firstUnit,
                     b.CreateMul(unit_.slot(), b.getInt32(uint32_t(ring_.folded.unitBytes))));
}

} // namespace dtile::backend::gpu
