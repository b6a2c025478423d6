// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Instructions of elementwise operations: they pick a loop when decoded, and write in place of an
// operand that nobody else has.
#include "ir/interpret/elements.h"
#include "ir/interpret/state.h"

namespace dtile::interpret {

using ir::OpKind;

namespace {

struct UnaryInfo : InstrInfo {
  UnaryKernel kernel = nullptr;
  TileDesc in;
  TileDesc out;
};
struct BinaryInfo : InstrInfo {
  BinaryKernel kernel = nullptr;
  TileDesc in;
  TileDesc out;
};
struct SelectInfo : InstrInfo {
  SelectKernel kernel = nullptr;
  TileDesc out;
};

// Scalars.

Step scalarUnary(Body &body, const Instr &instr) {
  const auto &info = static_cast<const UnaryInfo &>(*instr.info);
  Scalar out = 0;
  info.kernel(&body.scalar(instr.operands[0]), &out, 1);
  body.frame->scalars[instr.result] = out;
  return Step::Next;
}

Step scalarBinary(Body &body, const Instr &instr) {
  const auto &info = static_cast<const BinaryInfo &>(*instr.info);
  Scalar out = 0;
  info.kernel(&body.scalar(instr.operands[0]), &body.scalar(instr.operands[1]), &out, 1);
  body.frame->scalars[instr.result] = out;
  return Step::Next;
}

Step scalarCopy(Body &body, const Instr &instr) {
  body.frame->scalars[instr.result] = body.scalar(instr.operands[0]);
  return Step::Next;
}

Step scalarSelect(Body &body, const Instr &instr) {
  const bool holds = (body.scalar(instr.operands[0]) & 0xFF) != 0;
  body.frame->scalars[instr.result] = body.scalar(instr.operands[holds ? 1 : 2]);
  return Step::Next;
}

// Positions are most of what runs: i64 and index without the call through the table.
template <OpKind K> Step indexBinary(Body &body, const Instr &instr) {
  const Scalar a = body.scalar(instr.operands[0]);
  const Scalar b = body.scalar(instr.operands[1]);
  Scalar &out = body.frame->scalars[instr.result];
  if constexpr (K == OpKind::Add)
    out = a + b;
  else if constexpr (K == OpKind::Sub)
    out = a - b;
  else if constexpr (K == OpKind::Mul)
    out = a * b;
  else if constexpr (K == OpKind::Min)
    out = int64_t(a) < int64_t(b) ? a : b;
  else
    out = int64_t(a) > int64_t(b) ? a : b;
  return Step::Next;
}

Handler indexHandler(OpKind kind) {
  switch (kind) {
  case OpKind::Add:
    return indexBinary<OpKind::Add>;
  case OpKind::Sub:
    return indexBinary<OpKind::Sub>;
  case OpKind::Mul:
    return indexBinary<OpKind::Mul>;
  case OpKind::Min:
    return indexBinary<OpKind::Min>;
  case OpKind::Max:
    return indexBinary<OpKind::Max>;
  default:
    return nullptr;
  }
}

// Tiles.

/// The operand's memory where it may be overwritten, else new memory.
TileRef outputLike(Body &body, const TileRef &operand, const TileDesc &in, const TileDesc &out) {
  const bool fits = operand.isUnique() && in.elementBytes == out.elementBytes;
  return fits ? operand : body.machine.tiles.allocate(out.bytes());
}

Step tileUnary(Body &body, const Instr &instr) {
  const auto &info = static_cast<const UnaryInfo &>(*instr.info);
  TileRef in = body.take(instr.operands[0]);
  TileRef out = outputLike(body, in, info.in, info.out);
  info.kernel(in.data(), out.data(), info.out.elements);
  body.frame->tiles[instr.result] = std::move(out);
  return Step::Next;
}

Step tileBinary(Body &body, const Instr &instr) {
  const auto &info = static_cast<const BinaryInfo &>(*instr.info);
  TileRef a = body.take(instr.operands[0]);
  TileRef b = body.take(instr.operands[1]);
  TileRef out = outputLike(body, a.isUnique() ? a : b, info.in, info.out);
  info.kernel(a.data(), b.data(), out.data(), info.out.elements);
  body.frame->tiles[instr.result] = std::move(out);
  return Step::Next;
}

Step tileCopy(Body &body, const Instr &instr) {
  TileRef tile = body.take(instr.operands[0]);
  body.frame->tiles[instr.result] = std::move(tile);
  return Step::Next;
}

Step tileSelect(Body &body, const Instr &instr) {
  const auto &info = static_cast<const SelectInfo &>(*instr.info);
  TileRef a = body.take(instr.operands[1]);
  TileRef b = body.take(instr.operands[2]);
  TileRef out = outputLike(body, a.isUnique() ? a : b, info.out, info.out);
  info.kernel(static_cast<const uint8_t *>(body.tile(instr.operands[0]).data()), a.data(), b.data(),
              out.data(), info.out.elements);
  body.frame->tiles[instr.result] = std::move(out);
  return Step::Next;
}

/// A bool chooses between whole tiles.
Step tileChoose(Body &body, const Instr &instr) {
  const bool holds = (body.scalar(instr.operands[0]) & 0xFF) != 0;
  TileRef chosen = body.tile(instr.operands[holds ? 1 : 2]);
  body.frame->tiles[instr.result] = std::move(chosen);
  return Step::Next;
}

void bindUnary(Instr &instr, UnaryKernel kernel) {
  const bool isTile = instr.op->result()->type().isTile();
  if (!kernel) {
    instr.run = isTile ? tileCopy : scalarCopy;
    return;
  }
  auto info = std::make_unique<UnaryInfo>();
  info->kernel = kernel;
  info->in = TileDesc(instr.op->operand(0)->type());
  info->out = TileDesc(instr.op->result()->type());
  instr.info = std::move(info);
  instr.run = isTile ? tileUnary : scalarUnary;
}

void bindBinary(Instr &instr, BinaryKernel kernel) {
  auto info = std::make_unique<BinaryInfo>();
  info->kernel = kernel;
  info->in = TileDesc(instr.op->operand(0)->type());
  info->out = TileDesc(instr.op->result()->type());
  const bool isTile = instr.op->result()->type().isTile();
  instr.run = isTile ? tileBinary : scalarBinary;
  if (!isTile && info->in.dtype == DType::I64)
    if (Handler direct = indexHandler(instr.op->kind()))
      instr.run = direct;
  instr.info = std::move(info);
}

void bindSelect(Instr &instr) {
  const ir::Type type = instr.op->result()->type();
  if (!instr.op->operand(0)->type().isTile()) {
    instr.run = type.isTile() ? tileChoose : scalarSelect;
    return;
  }
  auto info = std::make_unique<SelectInfo>();
  info->out = TileDesc(type);
  info->kernel = selectKernel(info->out.elementBytes);
  instr.info = std::move(info);
  instr.run = tileSelect;
}

} // namespace

void bindElementwise(Instr &instr) {
  const ir::Op &op = *instr.op;
  const DType type = op.operand(0)->type().elementOrIndex();
  switch (op.kind()) {
  case OpKind::Select:
    return bindSelect(instr);
  case OpKind::Cast:
    return bindUnary(instr, castKernel(type, op.result()->type().elementOrIndex()));
  // Elements are kept as they are in memory.
  case OpKind::Bitcast:
    return bindUnary(instr, nullptr);
  // The reference's value, as it is.
  case OpKind::Extern:
    return bindUnary(instr, castKernel(type, type));
  case OpKind::Cmp:
    return bindBinary(instr, compareKernel(predicateFromName(op.get(ir::attr::pred)), type));
  default:
    if (op.numOperands() == 1)
      return bindUnary(instr, unaryKernel(op.kind(), type));
    return bindBinary(instr, binaryKernel(op.kind(), type));
  }
}

} // namespace dtile::interpret
