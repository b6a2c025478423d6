// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The sums of a body that programs share (divided_bodies.h): by way of memory, and a flag of each
// program that leaves them.
//
// A thread holds the same elements of the sums in all programs, so memory needs no layout of the
// tile: it holds groups of four elements, the threads' groups side by side. The flag is the number
// of the launch, and is written once in a launch at most, so nothing is reset.
#include "backend/gpu/staged/mma_warpgroups.h"

#include "backend/runtime/device_abi.h"
#include "frontend/base/check.h"
#include "ir/analysis/shared_memory_plan.h"

#include <cstddef>

namespace dtile::backend::gpu {

using ir::Op;
using llvm::Value;

namespace {

constexpr unsigned kGroup = ir::kExchangeGroup;
constexpr uint64_t kGroupBytes = ir::kExchangeGroupBytes;
constexpr uint64_t kFlagBytes = sizeof(uint64_t);
constexpr uint64_t kPlaces = DTILE_DEVICE_PARTIAL_PLACES;

/// The sums at one place as a thread sees them.
class PartialSums {
public:
  /// `base`: dtile_device_launch.partials. `place` (i32): its number. `bytes` are those of a place.
  PartialSums(llvm::IRBuilder<> &builder, Value *base, Value *place, int64_t bytes, Value *thread,
              unsigned threads)
      : b(builder), threads_(threads) {
    Value *number = b.CreateZExt(place, b.getInt64Ty());
    flag_ = at(base, b.CreateMul(number, b.getInt64(kFlagBytes)));
    Value *skipped = b.CreateMul(number, b.getInt64(uint64_t(bytes)));
    skipped =
        b.CreateAdd(skipped, b.getInt64(kFlagBytes * kPlaces * DTILE_DEVICE_PARTIAL_PROGRAMS));
    Value *own = b.CreateMul(b.CreateZExt(thread, b.getInt64Ty()), b.getInt64(kGroupBytes));
    sums_ = at(base, b.CreateAdd(skipped, own));
  }

  [[nodiscard]] Value *flag() const { return flag_; }

  void write(llvm::ArrayRef<Value *> elements) {
    for (size_t first = 0; first < elements.size(); first += kGroup) {
      Value *four = llvm::ConstantAggregateZero::get(fourFloats());
      for (size_t i = first; i < std::min(first + kGroup, elements.size()); ++i)
        four = b.CreateInsertElement(four, elements[i], uint64_t(i - first));
      b.CreateAlignedStore(four, group(first / kGroup), llvm::Align(kGroupBytes));
    }
  }

  void addTo(llvm::MutableArrayRef<Value *> elements) {
    for (size_t first = 0; first < elements.size(); first += kGroup) {
      Value *four =
          b.CreateAlignedLoad(fourFloats(), group(first / kGroup), llvm::Align(kGroupBytes));
      for (size_t i = first; i < std::min(first + kGroup, elements.size()); ++i)
        elements[i] = b.CreateFAdd(elements[i], b.CreateExtractElement(four, uint64_t(i - first)));
    }
  }

private:
  [[nodiscard]] llvm::Type *fourFloats() {
    return llvm::FixedVectorType::get(b.getFloatTy(), kGroup);
  }
  Value *at(Value *base, Value *offset) { return b.CreateInBoundsGEP(b.getInt8Ty(), base, offset); }
  Value *group(size_t number) {
    Value *sums = b.CreateAddrSpaceCast(sums_, b.getPtrTy(Device::kGlobal));
    return at(sums, b.getInt64(number * threads_ * kGroupBytes));
  }

  llvm::IRBuilder<> &b;
  unsigned threads_;
  Value *flag_, *sums_;
};

} // namespace

void MmaWarpgroups::addPartial(Op &loop) {
  Registers all;
  for (ir::Value *sum : loop.results())
    llvm::append_range(all, registers(sum));
  const int64_t bytes = partialBytes(*kernel_.kernel, threads_);
  DTILE_CHECK(all.size() * sizeof(float) * threads_ <= size_t(bytes), "each thread has its part");
  const auto sumsOf = [&](Value *program) {
    constexpr size_t kPartials = offsetof(dtile_device_launch, partials);
    Value *field = b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), kernel_.launch, kPartials);
    Value *base = b.CreateAlignedLoad(b.getPtrTy(), field, llvm::Align(8), "partials");
    Value *isHalf = b.CreateICmpEQ(item_->parts, b.getInt32(2));
    Value *kind = b.CreateSelect(isHalf, b.getInt32(0), b.getInt32(1));
    Value *place = b.CreateAdd(b.CreateMul(program, b.getInt32(kPlaces)), kind);
    return PartialSums(b, base, place, bytes, kernel_.thread, threads_);
  };
  const auto programOf = [&](Value *part) {
    Value *distance = b.CreateMul(b.CreateTrunc(part, b.getInt32Ty()), item_->distance);
    return b.CreateAdd(kernel_.program, distance);
  };
  Value *launch = b.CreateAdd(epoch(), b.getInt64(1));
  Value *isLeader = b.CreateIsNull(kernel_.thread);
  Value *others = b.CreateZExt(b.CreateSub(item_->parts, b.getInt32(1)), b.getInt64Ty());

  llvm::BasicBlock *whole = b.GetInsertBlock();
  llvm::BasicBlock *part = block("partial"), *leaves = block("partial.leaves"),
                   *first = block("partial.first"), *adds = block("partial.adds"),
                   *merge = block("partial.end");
  b.CreateCondBr(b.CreateIsNull(others), merge, part);
  b.SetInsertPoint(part);
  b.CreateCondBr(b.CreateIsNull(item_->part), first, leaves);

  b.SetInsertPoint(leaves);
  PartialSums own = sumsOf(kernel_.program);
  own.write(all);
  sync();
  when(isLeader, "tell", [&] { call(DeviceCall::tell_partial, {own.flag(), launch}); });
  b.CreateBr(bodyEnd_);

  b.SetInsertPoint(first);
  when(isLeader, "await", [&] {
    BodyLowering::loop(others, "others", [&](Value *i) {
      Value *flag = sumsOf(programOf(b.CreateAdd(i, b.getInt64(1)))).flag();
      Value *late = call(DeviceCall::await_partial, {kernel_.launch, flag, launch});
      whenRarely(b.CreateIsNotNull(late), "late", [&] {
        report(gpu_.site(loop, "the sums of another program never came"), {});
        b.CreateStore(b.getInt32(1), shared(ring_.failed));
      });
    });
  });
  sync();
  llvm::BasicBlock *before = b.GetInsertBlock();
  b.CreateBr(adds);
  b.SetInsertPoint(adds);
  // In the order of the parts, of which there are two at least.
  llvm::PHINode *number = b.CreatePHI(b.getInt64Ty(), 2);
  llvm::SmallVector<llvm::PHINode *, 16> carried;
  Registers sums;
  for (Value *element : all) {
    carried.push_back(b.CreatePHI(element->getType(), 2));
    carried.back()->addIncoming(element, before);
    sums.push_back(carried.back());
  }
  Value *next = b.CreateAdd(number, b.getInt64(1));
  sumsOf(programOf(next)).addTo(sums);
  llvm::BasicBlock *last = b.GetInsertBlock();
  number->addIncoming(b.getInt64(0), before);
  number->addIncoming(next, last);
  for (auto [phi, sum] : llvm::zip_equal(carried, sums))
    phi->addIncoming(sum, last);
  llvm::BasicBlock *added = block("partial.added");
  b.CreateCondBr(b.CreateICmpULT(next, others), adds, added);
  b.SetInsertPoint(added);
  if (ring_.output && ring_.lastLoop == &loop)
    awaitOutputRead();
  goOnWith(loop, {all, whole}, {sums, b.GetInsertBlock()}, merge);
}

} // namespace dtile::backend::gpu
