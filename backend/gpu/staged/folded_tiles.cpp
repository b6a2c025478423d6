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
  ir::walk(space, [&](Op &op) {
    if (!isBox(op) || !ring_.paths.lookup(&op).isFolded)
      return;
    const StagedTile &tile = ring_.tiles.find(&op)->second;
    for (const ir::TensorBox &box : tile.source.boxes)
      folded_[&box] = foldedTensor(tile, box);
  });
}

HelperWarp::FoldedTensor HelperWarp::foldedTensor(const StagedTile &tile,
                                                  const ir::TensorBox &box) {
  const auto &map = tensorMapOf(*kernel_.layout, tile, box, tile.rows);
  // Most launches have no folded tensor: what is read of them is not moved to where all launches
  // come by.
  Value *frame = b.CreateGEP(b.getInt8Ty(), kernel_.frame, gpu_.device.opaque(b, b.getInt32(0)));
  const auto at = [&](int64_t offset) {
    return b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), frame, uint64_t(offset));
  };
  const auto number = [&](Value *address) -> Value * {
    llvm::LoadInst *load = b.CreateAlignedLoad(b.getInt64Ty(), address, llvm::Align(8));
    load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context(), {}));
    return load;
  };
  const auto narrow = [&](Value *value) { return b.CreateTrunc(value, b.getInt32Ty()); };
  Value *first = frameAddress(map.offset), *last = frameAddress(map.folded.offset);
  Value *before = at(map.folded.before);
  if (map.copies > 1) {
    Value *copy = scratchTurn(*box.object);
    for (Value **its : {&first, &last})
      *its = b.CreateGEP(b.getInt8Ty(), *its,
                         b.CreateMul(copy, b.getInt64(launch::Frame::kTensorMapBytes)));
    before = b.CreateGEP(b.getInt64Ty(), before, copy);
  }
  FoldedTensor tensor;
  tensor.begin = {.row = b.getInt64(0),
                  .column = narrow(number(before)),
                  .pitch = narrow(number(at(map.folded.pitch))),
                  .rest = narrow(number(at(map.folded.rest))),
                  .firstMap = b.CreatePtrToInt(first, b.getInt64Ty()),
                  .lastMap = b.CreatePtrToInt(last, b.getInt64Ty())};
  for (size_t d = 0; d + 1 < box.dims.size(); ++d)
    tensor.rowsApart.push_back(
        number(at(map.folded.rowsApart + int64_t(d) * launch::Frame::kFrameWordBytes)));
  return tensor;
}

HelperWarp::FoldedPlace HelperWarp::placeOfBox(const StagedTile &tile, const ir::TensorBox &box) {
  const auto known = folded_.find(&box);
  const FoldedTensor tensor = known != folded_.end() ? known->second : foldedTensor(tile, box);
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
  const FoldedPlace place = placeOfBox(tile, source.boxes[0]);
  if (!source.isFirst)
    return place;
  Value *isFirst = scalar(source.isFirst);
  const FoldedPlace other = placeOfBox(tile, source.boxes[1]);
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
