// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tiles through shared memory: how elements change threads.
#include "backend/gpu/bodies/lower_body.h"

#include "frontend/base/check.h"
#include "ir/analysis/shared_memory_plan.h"

#include "llvm/Support/MathExtras.h"

namespace dtile::backend::gpu {

using ir::Layout;

SharedTile BodyLowering::sharedTile(DType dtype, llvm::ArrayRef<const TileInfo *> layouts,
                                    unsigned fastest, bool padded) {
  SharedTile tile;
  tile.dtype = dtype;
  tile.fastest = fastest;
  const unsigned rank = layouts.front()->shape.size();
  tile.strides.assign(rank, 0);
  int64_t stride = dtypeBytes(dtype);
  // The fastest dimension, then the others from the last to the first.
  llvm::SmallVector<unsigned, 4> order{fastest};
  for (unsigned d = rank; d-- > 0;)
    if (d != fastest)
      order.push_back(d);
  for (unsigned d : order) {
    tile.strides[d] = stride;
    int64_t extent = 1;
    for (const TileInfo *layout : layouts)
      extent = std::max(extent, layout->extent(d));
    stride *= extent;
    // Rows begin in different banks.
    if (d == fastest && padded && rank > 1)
      stride = ir::paddedRowBytes(stride);
  }
  tile.bytes = int64_t(llvm::alignTo(stride, ir::kSharedWordBytes));
  return tile;
}

int64_t SharedTile::swizzled(int64_t offset) const {
  const int64_t added = offset >> swizzleShift & ((int64_t(1) << swizzleBits) - 1);
  return offset ^ added * ir::kSharedWordBytes;
}

llvm::Value *SharedTile::swizzled(llvm::IRBuilder<> &b, llvm::Value *offset) const {
  if (swizzleBits == 0)
    return offset;
  llvm::Value *added =
      b.CreateAnd(b.CreateLShr(offset, swizzleShift), b.getInt32((1u << swizzleBits) - 1));
  return b.CreateXor(offset, b.CreateMul(added, b.getInt32(ir::kSharedWordBytes)));
}

llvm::Value *SharedTile::address(llvm::IRBuilder<> &b, llvm::Value *thread, int64_t offset) const {
  // Bits that take part are added to the thread's; the others are apart from those.
  const int64_t bits = (int64_t(1) << swizzleBits) - 1;
  const int64_t mixed = offset & (bits * ir::kSharedWordBytes | bits << swizzleShift);
  if (mixed != 0)
    thread = b.CreateXor(thread, b.getInt32(uint32_t(swizzled(mixed))));
  return b.CreateConstInBoundsGEP1_32(b.getInt8Ty(), b.CreateGEP(b.getInt8Ty(), base, thread),
                                      unsigned(offset - mixed));
}

int64_t SharedTile::offset(unsigned dim, int64_t position) const {
  if (dim != fastest || boxLength == 0)
    return position * strides[dim];
  return position / boxLength * boxBytes + position % boxLength * strides[dim];
}

llvm::Value *SharedTile::offset(llvm::IRBuilder<> &b, unsigned dim, llvm::Value *position) const {
  llvm::Value *inBox = b.CreateMul(position, b.getInt32(uint32_t(strides[dim])));
  if (dim != fastest || boxLength == 0)
    return inBox;
  llvm::Value *box = b.CreateLShr(position, llvm::Log2_64(uint64_t(boxLength)));
  return b.CreateAdd(inBox,
                     b.CreateMul(box, b.getInt32(uint32_t(boxBytes - boxLength * strides[dim]))));
}

SharedTile SharedTile::permuted(llvm::ArrayRef<int64_t> perm) const {
  SharedTile tile = *this;
  for (auto [to, from] : llvm::enumerate(perm)) {
    tile.strides[to] = strides[from];
    if (from == fastest)
      tile.fastest = unsigned(to);
  }
  return tile;
}

llvm::Value *BodyLowering::sharedThread(const SharedTile &tile, const Layout &layout) {
  llvm::Value *offset = b.getInt32(0);
  for (unsigned d = 0; d < tile.strides.size(); ++d)
    offset = b.CreateAdd(offset, tile.offset(b, d, threadPosition(layout, d)));
  return tile.swizzled(b, offset);
}

namespace {

int64_t offsetOf(const SharedTile &tile, const Layout::Position &at) {
  int64_t offset = 0;
  for (unsigned d = 0; d < tile.strides.size(); ++d)
    offset += tile.offset(d, at[d]);
  return offset;
}

/// How many neighbours can be moved at once: every run starts at a multiple of its size.
unsigned accessLength(const SharedTile &tile, const TileInfo &info) {
  int64_t bytes = ir::kSharedWordBytes;
  for (auto [d, stride] : llvm::enumerate(tile.strides))
    if (d != tile.fastest && info.extent(unsigned(d)) > 1)
      bytes = std::min(bytes, int64_t(1) << llvm::countr_zero(uint64_t(stride)));
  const int64_t length = std::max<int64_t>(1, bytes / dtypeBytes(tile.dtype));
  return unsigned(std::min<int64_t>(length, info.layout.contiguous(tile.fastest)));
}

} // namespace

void BodyLowering::writeShared(const SharedTile &tile, const TileInfo &info,
                               llvm::ArrayRef<llvm::Value *> registers, bool onlyInside) {
  llvm::Value *mine = sharedThread(tile, info.layout);
  llvm::Type *element = memoryType(context(), tile.dtype);
  const unsigned bytes = dtypeBytes(tile.dtype);
  auto store = [&](llvm::ArrayRef<unsigned> slots, const Layout::Position &at) {
    llvm::SmallVector<llvm::Value *, 16> values;
    for (unsigned slot : slots)
      values.push_back(arith_.toMemory(tile.dtype, registers[slot]));
    b.CreateAlignedStore(packed(element, values), tile.address(b, mine, offsetOf(tile, at)),
                         llvm::Align(bytes * slots.size()));
  };
  if (!onlyInside)
    return info.eachRun({tile.fastest, accessLength(tile, info)}, store);
  llvm::SmallVector<llvm::Value *, 4> thread;
  for (unsigned d = 0; d < info.shape.size(); ++d)
    thread.push_back(info.overhangs(d) ? threadPosition(info.layout, d) : nullptr);
  info.eachRun({tile.fastest, 1}, [&](llvm::ArrayRef<unsigned> slots, const Layout::Position &at) {
    llvm::Value *inside = nullptr;
    for (auto [d, part] : llvm::enumerate(thread))
      if (part) {
        llvm::Value *position = b.CreateAdd(part, b.getInt32(uint32_t(at[d])));
        llvm::Value *fits = b.CreateICmpULT(position, b.getInt32(uint32_t(info.shape[d])));
        inside = inside ? b.CreateAnd(inside, fits) : fits;
      }
    if (!inside)
      return store(slots, at);
    when(inside, "inside", [&] { store(slots, at); });
  });
}

Registers BodyLowering::readShared(const SharedTile &tile, const TileInfo &info) {
  llvm::Value *mine = sharedThread(tile, info.layout);
  llvm::Type *element = memoryType(context(), tile.dtype);
  const unsigned bytes = dtypeBytes(tile.dtype);
  Registers result(info.size());
  info.eachRun({tile.fastest, accessLength(tile, info)}, [&](llvm::ArrayRef<unsigned> slots,
                                                             const Layout::Position &at) {
    llvm::Value *word = b.CreateAlignedLoad(packedType(element, slots.size()),
                                            tile.address(b, mine, offsetOf(tile, at)),
                                            llvm::Align(bytes * slots.size()));
    llvm::SmallVector<llvm::Value *, 16> values = unpacked(element, word, slots.size());
    for (auto [slot, value] : llvm::zip_equal(slots, values))
      result[slot] = arith_.fromMemory(tile.dtype, value);
  });
  return result;
}

// Pieces.

llvm::Value *BodyLowering::hasPiece(const TilePiece &piece) {
  if (piece.threadMask == 0)
    return nullptr;
  return b.CreateICmpEQ(b.CreateAnd(thread_, piece.threadMask), b.getInt32(piece.threads));
}

void BodyLowering::writePiece(const SharedTile &tile, const TilePiece &piece,
                              llvm::ArrayRef<llvm::Value *> registers) {
  Registers values;
  for (int32_t slot : piece.slots)
    values.push_back(slot >= 0 ? registers[slot]
                               : llvm::PoisonValue::get(registers.front()->getType()));
  const auto write = [&] { writeShared(tile, piece.info, values); };
  if (llvm::Value *has = hasPiece(piece))
    when(has, "piece", write);
  else
    write();
}

void BodyLowering::readPiece(const SharedTile &tile, const TilePiece &piece, Registers &registers) {
  llvm::Value *has = hasPiece(piece);
  // Threads that have none of it read what is not theirs, within the tile.
  for (auto [slot, value] : llvm::zip_equal(piece.slots, readShared(tile, piece.info))) {
    if (slot < 0)
      continue;
    llvm::Value *&known = registers[slot];
    known = has && known ? b.CreateSelect(has, value, known) : value;
  }
}

// Words.

llvm::Type *BodyLowering::packedType(llvm::Type *element, unsigned count) {
  const unsigned bits = element->getScalarSizeInBits() * count;
  if (count == 1)
    return element;
  if (element->isFloatingPointTy() || element->getScalarSizeInBits() >= 32)
    return llvm::FixedVectorType::get(element, count);
  return bits <= 32 ? static_cast<llvm::Type *>(b.getIntNTy(bits))
                    : llvm::FixedVectorType::get(b.getInt32Ty(), bits / 32);
}

llvm::Value *BodyLowering::packed(llvm::Type *element, llvm::ArrayRef<llvm::Value *> values) {
  if (values.size() == 1)
    return values.front();
  llvm::Value *vector =
      llvm::PoisonValue::get(llvm::FixedVectorType::get(element, unsigned(values.size())));
  for (auto [i, value] : llvm::enumerate(values))
    vector = b.CreateInsertElement(vector, value, i);
  return b.CreateBitCast(vector, packedType(element, unsigned(values.size())));
}

llvm::SmallVector<llvm::Value *, 16> BodyLowering::unpacked(llvm::Type *element, llvm::Value *word,
                                                            unsigned count) {
  if (count == 1)
    return {word};
  llvm::Value *vector = b.CreateBitCast(word, llvm::FixedVectorType::get(element, count));
  llvm::SmallVector<llvm::Value *, 16> values;
  for (unsigned i = 0; i < count; ++i)
    values.push_back(b.CreateExtractElement(vector, uint64_t(i)));
  return values;
}

} // namespace dtile::backend::gpu
