// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backend/gpu/bodies/memory/shifted_words.h"

namespace dtile::backend::gpu {

using ir::Layout;

namespace {

/// Words from a byte on, of which twice `count` are there: by two words, by one, by bytes. `past`
/// counts modulo 4 `count`.
llvm::Value *shifted(llvm::IRBuilder<> &b, llvm::SmallVector<llvm::Value *, 8> words,
                     llvm::Value *past, unsigned elementBytes) {
  const unsigned count = unsigned(words.size()) / 2;
  llvm::Type *word = llvm::FixedVectorType::get(b.getInt32Ty(), count);
  for (unsigned step = count / 2; step > 0; step /= 2) {
    llvm::Value *moves = b.CreateIsNotNull(b.CreateAnd(past, b.getInt32(4 * step)));
    for (unsigned i = 0; i + step < words.size(); ++i)
      words[i] = b.CreateSelect(moves, words[i + step], words[i]);
    words.truncate(count + step);
  }
  llvm::Value *bits = b.CreateShl(b.CreateAnd(past, b.getInt32(3)), b.getInt32(3));
  llvm::Value *result = llvm::PoisonValue::get(word);
  for (unsigned i = 0; i < count; ++i) {
    llvm::Value *shifted = words[i];
    if (elementBytes % 4 != 0)
      shifted = b.CreateIntrinsic(llvm::Intrinsic::fshr, {b.getInt32Ty()},
                                  {words[i + 1], words[i], bits});
    result = b.CreateInsertElement(result, shifted, uint64_t(i));
  }
  return result;
}

} // namespace

llvm::Value *loadShifted(llvm::IRBuilder<> &b, llvm::Value *address, unsigned bytes,
                         unsigned elementBytes) {
  const unsigned count = bytes / 4;
  llvm::Type *word = llvm::FixedVectorType::get(b.getInt32Ty(), count);
  llvm::Value *last = b.CreateConstGEP1_64(b.getInt8Ty(), address, bytes - 1);
  llvm::SmallVector<llvm::Value *, 8> words;
  for (llvm::Value *within : {address, last}) {
    llvm::Value *begin =
        b.CreateIntrinsic(llvm::Intrinsic::ptrmask, {address->getType(), b.getInt64Ty()},
                          {within, b.getInt64(~uint64_t(bytes - 1))});
    llvm::Value *loaded = b.CreateAlignedLoad(word, begin, llvm::Align(bytes));
    for (unsigned i = 0; i < count; ++i)
      words.push_back(b.CreateExtractElement(loaded, uint64_t(i)));
  }
  llvm::Value *past = b.CreateTrunc(b.CreatePtrToInt(address, b.getInt64Ty()), b.getInt32Ty());
  return shifted(b, std::move(words), past, elementBytes);
}

llvm::Value *loadShiftedPart(llvm::IRBuilder<> &b, llvm::Value *address, unsigned bytes,
                             unsigned elementBytes, llvm::Value *begin, llvm::Value *end,
                             llvm::Value *zeros) {
  const unsigned count = bytes / 4;
  llvm::Type *word = llvm::FixedVectorType::get(b.getInt32Ty(), count);
  llvm::Value *place = b.CreateTrunc(b.CreatePtrToInt(address, b.getInt64Ty()), b.getInt32Ty());
  llvm::Value *past = b.CreateAnd(place, b.getInt32(bytes - 1));
  llvm::Value *first =
      b.CreateIntrinsic(llvm::Intrinsic::ptrmask, {address->getType(), b.getInt64Ty()},
                        {address, b.getInt64(~uint64_t(bytes - 1))});
  llvm::Value *second = b.CreateConstGEP1_64(b.getInt8Ty(), first, bytes);
  // The second word begins so far into the run.
  llvm::Value *boundary = b.CreateSub(b.getInt32(bytes), past);
  llvm::Value *inFirst =
      b.CreateICmpULT(begin, b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, boundary, end));
  llvm::Value *inSecond =
      b.CreateICmpUGT(end, b.CreateBinaryIntrinsic(llvm::Intrinsic::umax, boundary, begin));
  llvm::SmallVector<llvm::Value *, 8> words;
  for (auto [exists, at] : {std::pair(inFirst, first), std::pair(inSecond, second)}) {
    llvm::Value *loaded =
        b.CreateAlignedLoad(word, b.CreateSelect(exists, at, zeros), llvm::Align(bytes));
    for (unsigned i = 0; i < count; ++i)
      words.push_back(b.CreateExtractElement(loaded, uint64_t(i)));
  }
  llvm::Value *run = shifted(b, std::move(words), past, elementBytes);
  auto *elements = llvm::FixedVectorType::get(b.getIntNTy(8 * elementBytes), bytes / elementBytes);
  run = b.CreateBitCast(run, elements);
  for (unsigned i = 0; i < elements->getNumElements(); ++i) {
    llvm::Value *at = b.getInt32(i * elementBytes);
    llvm::Value *exists = b.CreateAnd(b.CreateICmpUGE(at, begin), b.CreateICmpULT(at, end));
    llvm::Value *element = b.CreateExtractElement(run, uint64_t(i));
    element = b.CreateSelect(exists, element, llvm::ConstantInt::get(element->getType(), 0));
    run = b.CreateInsertElement(run, element, uint64_t(i));
  }
  return run;
}

unsigned neighbouringLanes(const TileInfo &info, TileInfo::Run run) {
  unsigned count = 1;
  for (const Layout::Position &way : info.layout.bits(ir::LayoutBits::Lane)) {
    Layout::Position next{};
    next[run.dim] = int32_t(run.length * count);
    if (way != next)
      break;
    count *= 2;
  }
  return count;
}

ShiftedRun shiftRun(llvm::IRBuilder<> &b, const Device &device, llvm::Value *run,
                    llvm::Value *address, unsigned elementBytes) {
  constexpr unsigned kWord = 16;
  llvm::Type *i32 = b.getInt32Ty();
  llvm::Value *own = b.CreateBitCast(run, llvm::FixedVectorType::get(i32, kWord / 4));
  llvm::SmallVector<llvm::Value *, 8> words;
  for (const bool isBefore : {true, false})
    for (unsigned i = 0; i < kWord / 4; ++i) {
      llvm::Value *word = b.CreateExtractElement(own, uint64_t(i));
      words.push_back(isBefore ? device.shuffleUp(b, word) : word);
    }
  llvm::Value *place = b.CreatePtrToInt(address, b.getInt64Ty());
  llvm::Value *past = b.CreateAnd(b.CreateTrunc(place, i32), b.getInt32(kWord - 1));
  ShiftedRun result;
  result.isShifted = b.CreateIsNotNull(past);
  result.ofLaneBefore = past;
  // The last bytes of the lane before, then the own first ones.
  llvm::Value *from = b.CreateSub(b.getInt32(kWord), past);
  llvm::Value *moved = shifted(b, std::move(words), from, elementBytes);
  result.word = b.CreateBitCast(b.CreateSelect(result.isShifted, moved, own), run->getType());
  result.address = b.CreateIntrinsic(llvm::Intrinsic::ptrmask, {address->getType(), b.getInt64Ty()},
                                     {address, b.getInt64(~uint64_t(kWord - 1))});
  return result;
}

} // namespace dtile::backend::gpu
