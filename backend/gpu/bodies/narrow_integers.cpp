// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Conversions by arithmetic: those of integers run at a fraction of its rate. The bits of a byte
// become the last ones of a float of known exponent, whose distance from the number is known; the
// difference is exact (Kim et al., "Who Says Elephants Can't Run", 2022, section 3.1).
#include "backend/gpu/bodies/narrow_integers.h"

namespace dtile::backend::gpu {

using llvm::Value;

namespace {

/// A word whose halves are two bytes, as halves of f16. 1024 + x has x in its last bits.
Value *toHalves(llvm::IRBuilderBase &b, bool isSigned, Value *word) {
  constexpr uint32_t k1024 = 0x64006400;
  llvm::Type *halves = llvm::FixedVectorType::get(b.getHalfTy(), 2);
  // From -128 ... 127 to 0 ... 255.
  if (isSigned)
    word = b.CreateXor(word, b.getInt32(0x00800080));
  Value *moved = b.CreateBitCast(b.CreateOr(word, b.getInt32(k1024)), halves);
  return b.CreateFSub(moved, llvm::ConstantFP::get(halves, isSigned ? 1152.0 : 1024.0));
}

/// The same of bf16 and signed bytes. Seven bits have room in 128 + x; the eighth makes the number
/// that is subtracted 256 instead of 128.
Value *toBf16(llvm::IRBuilderBase &b, Value *word) {
  constexpr uint32_t k128 = 0x43004300;
  llvm::Type *pair = llvm::FixedVectorType::get(b.getBFloatTy(), 2);
  const auto with128 = [&](uint32_t bits) {
    Value *some = b.CreateAnd(word, b.getInt32(bits));
    return b.CreateBitCast(b.CreateOr(some, b.getInt32(k128)), pair);
  };
  return b.CreateFSub(with128(0x007f007f), with128(0x00800080));
}

} // namespace

bool widensPairs(const Device &device, DType from, DType to) {
  if (!device.subtractsPairs())
    return false;
  return (to == DType::F16 && (from == DType::I8 || from == DType::U8)) ||
         (to == DType::BF16 && from == DType::I8);
}

std::pair<Value *, Value *> widenPair(llvm::IRBuilderBase &b, DType from, DType to, Value *first,
                                      Value *second) {
  Value *bytes = llvm::PoisonValue::get(llvm::FixedVectorType::get(b.getInt8Ty(), 2));
  bytes = b.CreateInsertElement(bytes, first, uint64_t(0));
  bytes = b.CreateInsertElement(bytes, second, uint64_t(1));
  Value *halves = b.CreateZExt(bytes, llvm::FixedVectorType::get(b.getInt16Ty(), 2));
  Value *word = b.CreateBitCast(halves, b.getInt32Ty());
  Value *pair = to == DType::F16 ? toHalves(b, from == DType::I8, word) : toBf16(b, word);
  const auto wide = [&](uint64_t i) {
    return b.CreateFPExt(b.CreateExtractElement(pair, i), b.getFloatTy());
  };
  return {wide(0), wide(1)};
}

} // namespace dtile::backend::gpu
