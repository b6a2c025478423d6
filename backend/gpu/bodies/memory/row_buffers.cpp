// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backend/gpu/bodies/memory/row_buffers.h"

#include "backend/gpu/bodies/memory/tile_access.h"
#include "ir/analysis/boxes/tensor_box.h"
#include "ir/analysis/shared_memory_plan.h"

namespace dtile::backend::gpu {

using ir::Op;

namespace {

/// What attribute `row_buffer` says of a load.
struct RowTile {
  explicit RowTile(const Op &load)
      : number(load.get(ir::attr::row_buffer)[0]), dim(unsigned(load.get(ir::attr::row_buffer)[1])),
        tiles(load.get(ir::attr::row_buffer)[2]) {}
  int64_t number;
  /// The dimension of the object along which the loop goes.
  unsigned dim;
  /// For how many there is room.
  int64_t tiles;
};

} // namespace

RowBuffers::RowBuffers(BodyLowering &body, Op &space) : body_(body) {
  ir::walk(space, [&](Op &op) {
    if (!op.is(ir::OpKind::Load) || !op.has(ir::attr::row_buffer))
      return;
    const RowTile row(op);
    const ir::Type type = op.result()->type();
    const TileInfo &info = body.info(type);
    const TileInfo::Run run = TileAccess::runOf(body, info, type.dtype());
    // Elements that are loaded one by one, and groups of several lengths, go without.
    if (run.length == 1 || info.size() % run.length != 0 || row.tiles <= 0 ||
        buffers_.contains(row.number))
      return;
    const int64_t word = int64_t(run.length) * dtypeBytes(type.dtype());
    const int64_t tile = ir::rowBufferBytes(type, body.threads());
    llvm::Value *base = body.gpu().shared(body.builder(), tile * row.tiles, ir::kScratchAlignBytes);
    buffers_[row.number] = {base, word, tile};
  });
}

std::optional<RowBuffers::Place> RowBuffers::place(Op &load) {
  if (!load.has(ir::attr::row_buffer))
    return std::nullopt;
  const RowTile row(load);
  const auto found = buffers_.find(row.number);
  if (found == buffers_.end())
    return std::nullopt;
  const Buffer &buffer = found->second;
  const std::optional<ir::TensorBox> box = ir::tensorBox(load.operand(0));
  if (!box || row.dim >= box->dims.size() || box->dims[row.dim].firsts.size() != 1)
    return std::nullopt;
  const ir::TensorBox::Dim &along = box->dims[row.dim];
  llvm::IRBuilder<> &b = body_.builder();
  llvm::Value *position = body_.scalar(along.firsts.front());
  llvm::Value *tile = b.CreateUDiv(position, b.getInt64(uint64_t(along.length)));
  Place place;
  place.exists = b.CreateICmpULT(tile, b.getInt64(uint64_t(row.tiles)));
  place.step = buffer.word * body_.threads();
  llvm::Value *offset = b.CreateAdd(
      b.CreateMul(b.CreateTrunc(tile, b.getInt32Ty()), b.getInt32(uint32_t(buffer.tile))),
      b.CreateMul(body_.thread(), b.getInt32(uint32_t(buffer.word))));
  place.address = b.CreateGEP(b.getInt8Ty(), buffer.base, offset);
  place.isFilled = load.get(ir::attr::from_buffer);
  return place;
}

} // namespace dtile::backend::gpu
