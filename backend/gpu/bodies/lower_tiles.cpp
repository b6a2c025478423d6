// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ops on tiles that compute each element from elements of their operands: elementwise arithmetic,
// constants, and changes of shape and layout.
#include "backend/gpu/bodies/lower_body.h"

#include "frontend/base/check.h"
#include "ir/analysis/rounding.h"

namespace dtile::backend::gpu {

using ir::Layout;
using ir::LayoutBits;
using ir::Op;
using ir::OpKind;

void BodyLowering::lowerTileOp(Op &op) {
  const TileInfo &to = info(op.result()->type());
  if ((op.is(OpKind::Convert) || op.is(OpKind::Trans)) && copiedOperand(op.operand(0)) &&
      isReadByProducts(op.result()))
    return;
  switch (op.kind()) {
  case OpKind::Splat:
    return setRegisters(op.result(), Registers(to.size(), scalar(op.operand(0))));
  case OpKind::Iota:
    return setRegisters(op.result(), iota(op));
  case OpKind::Broadcast:
    return setRegisters(op.result(), broadcast(op));
  case OpKind::Reshape:
    return setRegisters(op.result(), reshape(op));
  case OpKind::Convert:
    // The product reads it from shared memory as it needs it.
    if (isStagedByDot(op))
      return;
    return setRegisters(op.result(), registers(op.operand(0), to.layout));
  case OpKind::Trans: {
    const ir::Type from = op.operand(0)->type(), type = op.result()->type();
    // Neither the registers' numbers change nor which of them are inside.
    return setRegisters(op.result(), convert(type.dtype(), type.shape(),
                                             info(from).layout.permuted(op.intsAttr("perm")),
                                             registers(op.operand(0)), to.layout));
  }
  default:
    break;
  }
  if (isElementwise(op.kind()))
    return setRegisters(op.result(), elementwise(op));
  giveUp(op, "cannot stand in a tile space");
}

Registers BodyLowering::elementwise(Op &op) {
  const TileInfo &to = info(op.result()->type());
  llvm::SmallVector<Registers, 3> operands;
  for (ir::Value *operand : op.operands())
    operands.push_back(operand->type().isTile() ? registers(operand, to.layout)
                                                : Registers(to.size(), scalar(operand)));
  Registers result;
  for (unsigned slot = 0; slot < to.size(); ++slot) {
    Registers elements;
    for (const Registers &operand : operands)
      elements.push_back(operand[slot]);
    result.push_back(arithmetic(op, elements));
  }
  return result;
}

llvm::Value *BodyLowering::arithmetic(const Op &op, llvm::ArrayRef<llvm::Value *> x) {
  const DType type = op.operand(0)->type().elementOrIndex();
  if (op.is(OpKind::Cmp))
    return arith_.compare(op.strAttr("pred"), type, x[0], x[1]);
  if (op.is(OpKind::Select))
    return b.CreateSelect(x[0], x[1], x[2]);
  if (op.is(OpKind::Cast))
    return arith_.cast(type, op.result()->type().dtype(), x[0]);
  if (x.size() == 1)
    return arith_.unary(op.kind(), type, x[0]);
  if (op.is(OpKind::Div) && isFloat(type) && ir::isRoundedToNarrow(*op.result()))
    return arith_.approximateQuotient(type, x[0], x[1], gpu_.device.divide());
  return arith_.binary(op.kind(), type, x[0], x[1]);
}

Registers BodyLowering::iota(Op &op) {
  const ir::Type type = op.result()->type();
  const TileInfo &to = info(type);
  // What only some iterations of a loop need would be kept in registers for all of them.
  llvm::Value *const outer = thread_;
  if (op.parentOp()->is(OpKind::If))
    thread_ = gpu_.device.opaque(b, thread_);
  llvm::Value *thread = threadPosition(to.layout, 0);
  thread_ = outer;
  llvm::Type *element = computeType(context(), type.dtype());
  Registers result;
  for (unsigned slot = 0; slot < to.size(); ++slot)
    result.push_back(
        b.CreateZExtOrTrunc(b.CreateAdd(thread, b.getInt32(uint32_t(to.at(slot)[0]))), element));
  return result;
}

Registers BodyLowering::broadcast(Op &op) {
  const ir::Type from = op.operand(0)->type(), type = op.result()->type();
  const TileInfo &to = info(type);
  // Every thread has the one element where it has any of its copies.
  Layout layout = to.layout;
  for (unsigned d = 0; d < type.rank(); ++d)
    if (from.shape()[d] == 1 && type.shape()[d] != 1)
      layout = layout.collapsed(d);
  layout = layout.withoutRegisterCopies();
  const TileInfo few(layout, from.shape());
  Registers values = registers(op.operand(0), layout);
  Registers result;
  for (unsigned slot = 0; slot < to.size(); ++slot) {
    Layout::Position at = to.at(slot);
    for (unsigned d = 0; d < type.rank(); ++d)
      if (from.shape()[d] == 1)
        at[d] = 0;
    result.push_back(values[slotOf(few, at)]);
  }
  return result;
}

unsigned BodyLowering::slotOf(const TileInfo &info, const Layout::Position &at) {
  for (unsigned slot = 0; slot < info.size(); ++slot)
    if (info.at(slot) == at)
      return slot;
  DTILE_UNREACHABLE("a register for the position");
}

Registers BodyLowering::reshape(Op &op) {
  const ir::Type from = op.operand(0)->type(), type = op.result()->type();
  const TileInfo &to = info(type);
  const TileInfo &have = info(from);
  if (std::optional<Layout> layout = have.layout.reshaped(from.shape(), type.shape())) {
    // The same registers are inside: sizes are powers of two, or only sizes of 1 differ.
    return convert(type.dtype(), type.shape(), *layout, registers(op.operand(0)), to.layout);
  }
  // Densely through shared memory, where the order of elements is that of both shapes.
  auto dense = [&](llvm::ArrayRef<int64_t> shape) {
    SharedTile tile;
    tile.dtype = type.dtype();
    tile.fastest = unsigned(shape.size()) - 1;
    tile.strides.resize(shape.size());
    int64_t stride = dtypeBytes(type.dtype());
    for (size_t d = shape.size(); d-- > 0; stride *= shape[d])
      tile.strides[d] = stride;
    tile.bytes = stride;
    return tile;
  };
  SharedTile written = dense(from.shape());
  SharedTile read = dense(type.shape());
  // Threads past the end read too, and what they get is not used.
  for (unsigned d = 0; d < type.rank(); ++d)
    read.bytes += to.extent(d) * read.strides[d];
  written.base = read.base = sharedScratch(read.bytes);
  writeShared(written, have, registers(op.operand(0)), /*onlyInside=*/true);
  programBarrier();
  Registers result = readShared(read, to);
  sharedRead();
  return result;
}

// Layouts.

std::optional<llvm::SmallVector<unsigned, 16>> BodyLowering::withinThreads(const TileInfo &from,
                                                                           const TileInfo &to) {
  for (LayoutBits which : {LayoutBits::Lane, LayoutBits::Warp})
    if (from.layout.bits(which) != to.layout.bits(which))
      return std::nullopt;
  std::map<Layout::Position, unsigned> slots;
  for (unsigned slot = 0; slot < from.size(); ++slot)
    slots.try_emplace(from.at(slot), slot);
  llvm::SmallVector<unsigned, 16> result;
  for (unsigned slot = 0; slot < to.size(); ++slot) {
    auto it = slots.find(to.at(slot));
    if (it == slots.end())
      return std::nullopt;
    result.push_back(it->second);
  }
  return result;
}

Registers BodyLowering::convert(DType dtype, llvm::ArrayRef<int64_t> shape, const Layout &from,
                                llvm::ArrayRef<llvm::Value *> registers, const Layout &to) {
  if (from == to)
    return Registers(registers);
  const TileInfo have(from, shape), want(to, shape);
  if (auto slots = withinThreads(have, want)) {
    Registers result;
    for (unsigned slot : *slots)
      result.push_back(registers[slot]);
    return result;
  }
  if (std::optional<Registers> result = withinWarps(dtype, have, registers, want))
    return *result;
  // The longer accesses decide the order.
  const TileInfo::Run write = have.longestRun(), read = want.longestRun();
  SharedTile tile = sharedTile(dtype, {&have, &want},
                               write.length > read.length ? write.dim : read.dim, /*padded=*/true);
  tile.base = sharedScratch(tile.bytes);
  writeShared(tile, have, registers);
  programBarrier();
  Registers result = readShared(tile, want);
  sharedRead();
  return result;
}

} // namespace dtile::backend::gpu
