// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backend/gpu/staged/word_shift.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::backend::gpu {

using llvm::Value;

TwoWords loadWords(llvm::IRBuilder<> &b, Value *first, Value *second) {
  auto *type = llvm::FixedVectorType::get(b.getInt32Ty(), kParts);
  TwoWords parts;
  for (Value *address : {first, second}) {
    Value *word = b.CreateAlignedLoad(type, b.CreateIntToPtr(address, b.getPtrTy(Device::kShared)),
                                      llvm::Align(ir::kSharedWordBytes));
    for (uint64_t i = 0; i < kParts; ++i)
      parts.push_back(b.CreateExtractElement(word, i));
  }
  return parts;
}

WordParts across(llvm::IRBuilder<> &b, llvm::ArrayRef<Value *> parts, unsigned first, Value *bits) {
  WordParts word;
  for (unsigned i = first; i < first + kParts; ++i)
    word.push_back(
        b.CreateIntrinsic(llvm::Intrinsic::fshr, {b.getInt32Ty()}, {parts[i + 1], parts[i], bits}));
  return word;
}

WordParts across(llvm::IRBuilder<> &b, TwoWords parts, Value *bytes) {
  for (unsigned step : {2u, 1u}) {
    Value *moves = b.CreateIsNotNull(b.CreateAnd(bytes, b.getInt32(step * uint32_t(kPartBytes))));
    for (size_t i = 0; i + step < parts.size(); ++i)
      parts[i] = b.CreateSelect(moves, parts[i + step], parts[i]);
  }
  Value *bits = b.CreateShl(b.CreateAnd(bytes, b.getInt32(uint32_t(kPartBytes - 1))), 3);
  return across(b, parts, 0, bits);
}

Value *firstBytes(llvm::IRBuilder<> &b, Value *bytes) {
  bytes = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, bytes, b.getInt32(uint32_t(kPartBytes)));
  bytes = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, bytes, b.getInt32(0));
  Value *ones = b.CreateShl(b.getInt64(1), b.CreateZExt(b.CreateShl(bytes, 3), b.getInt64Ty()));
  return b.CreateTrunc(b.CreateSub(ones, b.getInt64(1)), b.getInt32Ty());
}

Value *wordOf(llvm::IRBuilder<> &b, llvm::ArrayRef<Value *> parts) {
  Value *word = llvm::PoisonValue::get(llvm::FixedVectorType::get(b.getInt32Ty(), kParts));
  for (auto [i, part] : llvm::enumerate(parts))
    word = b.CreateInsertElement(word, part, uint64_t(i));
  return word;
}

} // namespace dtile::backend::gpu
