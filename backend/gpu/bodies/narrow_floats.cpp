// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Widens one-byte floats, two in a word at a time.
#include "backend/gpu/bodies/narrow_floats.h"

#include "frontend/base/check.h"

namespace dtile::backend::gpu {

using llvm::Value;

namespace {

/// A word whose two halves are e5m2 followed by zeros: the exponents of f16 are as long.
Value *fromE5m2(llvm::IRBuilderBase &, Value *pair) { return pair; }

/// A word whose two halves are e4m3 followed by zeros. Three bits become the upper three of ten;
/// the exponent is 8 too small then, also where the number is subnormal.
Value *fromE4m3(llvm::IRBuilderBase &b, Value *pair) {
  llvm::Type *halves = llvm::FixedVectorType::get(b.getHalfTy(), 2);
  Value *sign = b.CreateAnd(pair, 0x80008000);
  Value *rest = b.CreateAnd(pair, 0x7f007f00);
  Value *bits = b.CreateOr(sign, b.CreateLShr(rest, 1));
  Value *scaled = b.CreateFMul(b.CreateBitCast(bits, halves), llvm::ConstantFP::get(halves, 256.0));
  // All ones are the only NaN: 0x8000 after the addition, and ones from there to the quiet bit.
  Value *isNan = b.CreateAnd(b.CreateAdd(rest, b.getInt32(0x01000100)), 0x80008000);
  Value *nan = b.CreateSub(isNan, b.CreateLShr(isNan, 6));
  return b.CreateOr(b.CreateBitCast(scaled, b.getInt32Ty()), nan);
}

} // namespace

void appendHalves(llvm::IRBuilderBase &b, DType dtype, Value *word,
                  llvm::SmallVectorImpl<Value *> &words) {
  DTILE_CHECK(dtype == DType::F8E4M3 || dtype == DType::F8E5M2, "a one-byte float");
  for (unsigned shift : {0u, 16u}) {
    Value *low = b.CreateAnd(b.CreateLShr(word, shift), 0xff);
    Value *high = b.CreateAnd(b.CreateLShr(word, shift + 8), 0xff);
    Value *pair = b.CreateOr(b.CreateShl(low, 8), b.CreateShl(high, 24));
    words.push_back(dtype == DType::F8E5M2 ? fromE5m2(b, pair) : fromE4m3(b, pair));
  }
}

} // namespace dtile::backend::gpu
