// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elements of tiles of one dimension that a thread finds by itself, wherever those of the tile are
// (ir/analysis/row_gathers.h): numbers of rows for threads that copy these.
#include "backend/gpu/bodies/lower_body.h"

namespace dtile::backend::gpu {

using ir::Op;
using ir::OpKind;
using llvm::Value;

Value *BodyLowering::element(ir::Value *tile, Value *position, Elements &known) {
  if (Value *found = known.lookup(tile))
    return found;
  Value *found = computeElement(tile, position, known);
  known[tile] = found;
  return found;
}

Value *BodyLowering::computeElement(ir::Value *tile, Value *position, Elements &known) {
  Op &op = *tile->definingOp();
  switch (op.kind()) {
  case OpKind::Splat:
    return scalar(op.operand(0));
  case OpKind::Iota:
    return arith_.cast(DType::I64, tile->type().dtype(), position);
  case OpKind::Convert:
    return element(op.operand(0), position, known);
  case OpKind::Load:
  case OpKind::Gather: {
    const auto [place, exists] = placeOfElement(op, position, known);
    Value *there = b.CreateSelect(exists, place, zeroBytes(b));
    const DType type = op.operand(0)->type().dtype();
    return arith_.fromMemory(type, b.CreateAlignedLoad(memoryType(context(), type), there,
                                                       llvm::Align(dtypeBytes(type))));
  }
  default:
    break;
  }
  Registers operands;
  for (ir::Value *operand : op.operands())
    operands.push_back(operand->type().isTile() ? element(operand, position, known)
                                                : scalar(operand));
  return arithmetic(op, operands);
}

BodyLowering::Place BodyLowering::placeOfElement(Op &read, Value *position, Elements &known) {
  const View from = located(read.operand(0));
  llvm::SmallVector<Value *, 4> at{position};
  if (read.is(OpKind::Gather)) {
    at.clear();
    for (ir::Value *index : read.operands().slice(1, from.dims.size()))
      at.push_back(arith_.cast(index->type().dtype(), DType::I64, element(index, position, known)));
  }
  Value *address = b.CreateAddrSpaceCast(views_.address(from, at), b.getPtrTy(Device::kGlobal));
  return {address, views_.contains(from, at)};
}

} // namespace dtile::backend::gpu
