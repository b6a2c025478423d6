// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Combiners and their neutral elements.
#include "backend/llvm/reductions.h"

#include "backend/llvm/arith.h"

#include "llvm/ADT/StringSwitch.h"

namespace dtile::backend {

using ir::OpKind;

OpKind combinerOf(llvm::StringRef kind) {
  return llvm::StringSwitch<OpKind>(kind)
      .Case("sum", OpKind::Add)
      .Case("prod", OpKind::Mul)
      .Case("max", OpKind::Max)
      .Case("min", OpKind::Min)
      .Case("any", OpKind::Or)
      .Case("all", OpKind::And);
}

llvm::Constant *neutralOf(llvm::LLVMContext &context, OpKind combiner, DType type) {
  llvm::Type *compute = computeType(context, type);
  const bool isSigned = dtypeClass(type) == DTypeClass::Int;
  const unsigned bits = compute->getScalarSizeInBits();
  switch (combiner) {
  case OpKind::Mul:
    return isFloat(type) ? llvm::ConstantFP::get(compute, 1.0) : llvm::ConstantInt::get(compute, 1);
  case OpKind::Max:
    if (isFloat(type))
      return llvm::ConstantFP::getNaN(compute);
    return llvm::ConstantInt::get(compute, isSigned ? llvm::APInt::getSignedMinValue(bits)
                                                    : llvm::APInt::getMinValue(bits));
  case OpKind::Min:
    if (isFloat(type))
      return llvm::ConstantFP::getNaN(compute);
    return llvm::ConstantInt::get(compute, isSigned ? llvm::APInt::getSignedMaxValue(bits)
                                                    : llvm::APInt::getMaxValue(bits));
  case OpKind::And:
    return llvm::Constant::getAllOnesValue(compute);
  default:
    return llvm::Constant::getNullValue(compute);
  }
}

} // namespace dtile::backend
