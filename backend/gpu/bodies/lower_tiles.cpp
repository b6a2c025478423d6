// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ops on tiles that compute each element from elements of their operands: elementwise arithmetic,
// constants, and changes of shape and layout.
#include "backend/gpu/bodies/lower_body.h"
#include "backend/gpu/bodies/narrow_integers.h"
#include "backend/llvm/instructions.h"
#include "ir/core/op_classes.h"

#include "frontend/base/check.h"
#include "ir/analysis/rounding.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"

namespace dtile::backend::gpu {

using ir::Layout;
using ir::LayoutBits;
using ir::Op;
using ir::OpKind;

void BodyLowering::lowerTileOp(Op &op) {
  const TileInfo &to = info(op.result()->type());
  if ((op.is(OpKind::Convert) || op.is(OpKind::Trans)) && asyncOperand(op.operand(0)) &&
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
  case OpKind::Take:
    return setRegisters(op.result(), take(op));
  case OpKind::Convert:
    // The product reads it from shared memory as it needs it.
    if (isStagedByDot(op))
      return;
    return setRegisters(op.result(), registers(op.operand(0), to.layout));
  case OpKind::Trans: {
    const ir::Type from = op.operand(0)->type(), type = op.result()->type();
    // Neither the registers' numbers change nor which of them are inside.
    return setRegisters(op.result(), convert(type.dtype(), type.shape(),
                                             info(from).layout.permuted(op.get(ir::attr::perm)),
                                             registers(op.operand(0)), to.layout));
  }
  default:
    break;
  }
  if (ir::isElementwise(op.kind()))
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
  if (op.is(OpKind::Cast)) {
    const DType from = op.operand(0)->type().elementOrIndex(), type = op.result()->type().dtype();
    if (to.size() % 2 == 0 && widensPairs(gpu_.device, from, type)) {
      for (unsigned slot = 0; slot < to.size(); slot += 2) {
        const auto [first, second] =
            widenPair(b, from, type, operands[0][slot], operands[0][slot + 1]);
        result.append({first, second});
      }
      return result;
    }
  }
  if (op.is(OpKind::Div) && isFloat(op.result()->type().dtype()) &&
      ir::isRoundedToNarrow(*op.result()))
    return approximateQuotients(op, operands[0], operands[1]);
  if (op.is(OpKind::Exp) && op.result()->type().dtype() == DType::F32 &&
      gpu_.device.exp2() != llvm::Intrinsic::not_intrinsic && ir::isRoundedToNarrow(*op.result())) {
    for (llvm::Value *x : operands[0])
      result.push_back(arith_.approximateExp(x));
    return result;
  }
  for (unsigned slot = 0; slot < to.size(); ++slot) {
    Registers elements;
    for (const Registers &operand : operands)
      elements.push_back(operand[slot]);
    result.push_back(arithmetic(op, elements));
  }
  return result;
}

/// Quotients that may be 2 units in the last place away: where several elements have one divisor,
/// as those of a row do, its reciprocal is computed once.
Registers BodyLowering::approximateQuotients(Op &op, llvm::ArrayRef<llvm::Value *> x,
                                             llvm::ArrayRef<llvm::Value *> y) {
  const DType type = op.operand(0)->type().elementOrIndex();
  llvm::SmallMapVector<llvm::Value *, llvm::Value *, 16> reciprocals;
  for (llvm::Value *divisor : y)
    reciprocals.insert({divisor, nullptr});
  Registers result;
  if (type != DType::F32 || 2 * reciprocals.size() > y.size()) {
    for (auto [dividend, divisor] : llvm::zip_equal(x, y))
      result.push_back(arith_.approximateQuotient(type, dividend, divisor, gpu_.device.divide()));
    return result;
  }
  for (auto &[divisor, reciprocal] : reciprocals)
    reciprocal =
        arith_.binary(OpKind::Div, type, llvm::ConstantFP::get(divisor->getType(), 1), divisor);
  for (auto [dividend, divisor] : llvm::zip_equal(x, y))
    result.push_back(arith_.binary(OpKind::Mul, type, dividend, reciprocals[divisor]));
  return result;
}

llvm::Value *BodyLowering::arithmetic(const Op &op, llvm::ArrayRef<llvm::Value *> x) {
  const DType type = op.operand(0)->type().elementOrIndex();
  if (op.is(OpKind::Cmp))
    return arith_.compare(op.get(ir::attr::pred), type, x[0], x[1]);
  if (op.is(OpKind::Select))
    return b.CreateSelect(x[0], x[1], x[2]);
  if (op.is(OpKind::Cast))
    return arith_.cast(type, op.result()->type().dtype(), x[0]);
  if (op.is(OpKind::Bitcast))
    return arith_.bitcast(type, op.result()->type().dtype(), x[0]);
  if (op.is(OpKind::Extern))
    return x[0];
  if (op.is(OpKind::Asm))
    return emitInstructions(b, arith_, op, x, module_.placeOf(op.loc()));
  if (x.size() == 1)
    return arith_.unary(op.kind(), type, x[0]);
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
  return reorder(op);
}

namespace {

/// A tile whose elements stand in row-major order.
SharedTile denseTile(DType dtype, llvm::ArrayRef<int64_t> shape) {
  SharedTile tile;
  tile.dtype = dtype;
  tile.fastest = unsigned(shape.size()) - 1;
  tile.strides.resize(shape.size());
  int64_t stride = dtypeBytes(dtype);
  for (size_t d = shape.size(); d-- > 0; stride *= shape[d])
    tile.strides[d] = stride;
  tile.bytes = stride;
  return tile;
}

} // namespace

Registers BodyLowering::reorder(Op &op) {
  const ir::Type from = op.operand(0)->type(), type = op.result()->type();
  const TileInfo &to = info(type), &have = info(from);
  SharedTile written = denseTile(type.dtype(), from.shape());
  SharedTile read = denseTile(type.dtype(), type.shape());
  // Threads past the end read too, and what they get is not used.
  for (unsigned d = 0; d < type.rank(); ++d)
    read.bytes += to.extent(d) * read.strides[d];
  if (read.bytes > gpu_.sharedRoom())
    return reorderInPieces(op);
  written.base = read.base = sharedScratch(read.bytes);
  writeShared(written, have, registers(op.operand(0)), /*onlyInside=*/true);
  programBarrier();
  Registers result = readShared(read, to);
  sharedRead();
  return result;
}

Registers BodyLowering::reorderInPieces(Op &op) {
  const ir::Type from = op.operand(0)->type(), type = op.result()->type();
  const auto written = elementsIn(denseTile(type.dtype(), from.shape()), info(from));
  const auto read = elementsIn(denseTile(type.dtype(), type.shape()), info(type));
  return movedInPieces(from, registers(op.operand(0)), written, read,
                       Registers(read.size(), nullptr));
}

/// Elements of a tile by their positions along an axis, which other threads have.
Registers BodyLowering::take(Op &op) {
  const ir::Type from = op.operand(0)->type(), type = op.result()->type();
  const TileInfo &to = info(type);
  const SharedTile tile = denseTile(from.dtype(), from.shape());
  const TakenPositions positions{unsigned(op.get(ir::attr::axis)),
                                 registers(op.operand(1), to.layout), from.shape()};
  llvm::Constant *none = llvm::Constant::getNullValue(computeType(context(), from.dtype()));
  return movedInPieces(from, registers(op.operand(0)), elementsIn(tile, info(from)),
                       elementsIn(tile, to, &positions), Registers(to.size(), none));
}

BodyLowering::SharedElements BodyLowering::elementsIn(const SharedTile &tile, const TileInfo &info,
                                                      const TakenPositions *taken) {
  llvm::SmallVector<llvm::Value *, 4> thread;
  for (unsigned d = 0; d < info.shape.size(); ++d)
    thread.push_back(threadPosition(info.layout, d));
  SharedElements elements;
  for (unsigned slot = 0; slot < info.size(); ++slot) {
    SharedElement found{b.getInt32(0), b.getTrue()};
    for (unsigned d = 0; d < info.shape.size(); ++d) {
      llvm::Value *position = b.CreateAdd(thread[d], b.getInt32(uint32_t(info.at(slot)[d])));
      llvm::Value *exists = nullptr;
      if (taken && taken->axis == d) {
        llvm::Value *wanted = taken->positions[slot];
        exists = b.CreateICmpULT(
            wanted, llvm::ConstantInt::get(wanted->getType(), uint64_t(taken->shape[d])));
        position = b.CreateZExtOrTrunc(wanted, b.getInt32Ty());
      } else if (info.overhangs(d)) {
        exists = b.CreateICmpULT(position, b.getInt32(uint32_t(info.shape[d])));
      }
      found.offset =
          b.CreateAdd(found.offset, b.CreateMul(position, b.getInt32(uint32_t(tile.strides[d]))));
      if (exists)
        found.exists = b.CreateAnd(found.exists, exists);
    }
    elements.push_back(found);
  }
  return elements;
}

Registers BodyLowering::movedInPieces(ir::Type tile, llvm::ArrayRef<llvm::Value *> values,
                                      const SharedElements &written, const SharedElements &read,
                                      Registers result) {
  const DType dtype = tile.dtype();
  const llvm::Align align(dtypeBytes(dtype));
  const int64_t all = tile.elements() * int64_t(dtypeBytes(dtype));
  // Elements do not lie across words. Behind a piece is a word for what is not of it.
  constexpr int64_t kWord = 16;
  const int64_t words = std::min(int64_t(llvm::divideCeil(all, kWord)),
                                 std::max<int64_t>(gpu_.sharedRoom() / kWord - 1, 1));
  const int64_t piece = words * kWord;
  llvm::Type *memory = memoryType(context(), dtype);
  for (int64_t first = 0; first < all; first += piece) {
    llvm::Value *base = sharedScratch(piece + kWord);
    const auto placeOf = [&](const SharedElement &element) {
      llvm::Value *offset = b.CreateSub(element.offset, b.getInt32(uint32_t(first)));
      llvm::Value *isHere =
          b.CreateAnd(element.exists, b.CreateICmpULT(offset, b.getInt32(uint32_t(piece))));
      offset = b.CreateSelect(isHere, offset, b.getInt32(uint32_t(piece)));
      return std::pair(b.CreateGEP(b.getInt8Ty(), base, offset), isHere);
    };
    for (auto [value, element] : llvm::zip_equal(values, written))
      b.CreateAlignedStore(arith_.toMemory(dtype, value), placeOf(element).first, align);
    programBarrier();
    for (auto [known, element] : llvm::zip_equal(result, read)) {
      const auto [place, isHere] = placeOf(element);
      llvm::Value *value = arith_.fromMemory(dtype, b.CreateAlignedLoad(memory, place, align));
      known = known ? b.CreateSelect(isHere, value, known) : value;
    }
    sharedRead();
  }
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
  const unsigned fastest = write.length > read.length ? write.dim : read.dim;
  SharedTile tile = sharedTile(dtype, {&have, &want}, fastest, /*padded=*/true);
  if (tile.bytes > gpu_.sharedRoom())
    return convertInPieces(dtype, have, registers, want, fastest);
  tile.base = sharedScratch(tile.bytes);
  writeShared(tile, have, registers);
  programBarrier();
  Registers result = readShared(tile, want);
  sharedRead();
  return result;
}

Registers BodyLowering::convertInPieces(DType dtype, const TileInfo &from,
                                        llvm::ArrayRef<llvm::Value *> registers, const TileInfo &to,
                                        unsigned fastest) {
  const auto placeFor = [&](const TilePiece &written, const TilePiece &read) {
    return sharedTile(dtype, {&written.info, &read.info}, fastest, /*padded=*/true);
  };
  const PositionBits fixed =
      choosePieces(from, to, fastest, gpu_.sharedRoom(), [&](const PositionBits &bits) {
        return placeFor(TilePiece(from, bits, {}), TilePiece(to, bits, {})).bytes;
      });
  Registers result(to.size());
  eachPiece(to.shape, fixed, [&](const PositionBits &at) {
    const TilePiece written(from, fixed, at), read(to, fixed, at);
    SharedTile tile = placeFor(written, read);
    tile.base = sharedScratch(tile.bytes);
    writePiece(tile, written, registers);
    programBarrier();
    readPiece(tile, read, result);
    sharedRead();
  });
  return result;
}

} // namespace dtile::backend::gpu
