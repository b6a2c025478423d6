// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory of other ranks. Where a peer is mapped, plain accesses reach it at an address of this
// device; where it is not, functions of the device library send what is stored there. Code for a
// provider whose peers may be either asks at run time, once a view: then the address stands for the
// peer's until the word is sent. Nothing loads what is not mapped: such kernels say where they
// would (GpuModule::needsMapped), and are refused there.
#include "backend/gpu/bodies/lower_body.h"
#include "backend/launch/launch_module.h"

namespace dtile::backend::gpu {

using ir::Op;

const Op &BodyLowering::reachingOp(const ir::Value *value) const {
  const Op *op = value->definingOp();
  return op ? *op : *kernel_.kernel;
}

View BodyLowering::located(ir::Value *value) {
  View found = view(value);
  if (!found.rank)
    return found;
  gpu_.needsMapped(reachingOp(value), launch::objectName(value));
  llvm::Value *there = call(DeviceCall::peer, {kernel_.launch, found.data, found.rank});
  // An element that does not exist has no address on any rank.
  if (found.dims.empty())
    there = b.CreateSelect(b.CreateIsNull(found.data), found.data, there);
  found.data = there;
  return found;
}

View BodyLowering::locatedToSend(ir::Value *value) {
  View found = view(value);
  if (!found.rank || gpu_.areMapped)
    return located(value);
  llvm::Value *there = call(DeviceCall::peer, {kernel_.launch, found.data, found.rank});
  // An element that does not exist has no address on any rank.
  llvm::Value *isFar = b.CreateIsNull(there);
  found.far = found.dims.empty() ? b.CreateAnd(isFar, b.CreateIsNotNull(found.data)) : isFar;
  llvm::Value *stays = found.dims.empty() ? b.CreateOr(isFar, b.CreateIsNull(found.data)) : isFar;
  found.data = b.CreateSelect(stays, found.data, there);
  return found;
}

llvm::Value *BodyLowering::either(llvm::Value *condition, llvm::function_ref<llvm::Value *()> there,
                                  llvm::function_ref<llvm::Value *()> here) {
  if (!condition)
    return here();
  llvm::BasicBlock *far = block("far"), *near = block("near"), *after = block("sent");
  b.CreateCondBr(condition, far, near);
  b.SetInsertPoint(far);
  llvm::Value *first = there();
  llvm::BasicBlock *firstEnd = b.GetInsertBlock();
  b.CreateBr(after);
  b.SetInsertPoint(near);
  llvm::Value *second = here();
  llvm::BasicBlock *secondEnd = b.GetInsertBlock();
  b.CreateBr(after);
  b.SetInsertPoint(after);
  if (!first)
    return nullptr;
  llvm::PHINode *result = b.CreatePHI(first->getType(), 2);
  result->addIncoming(first, firstEnd);
  result->addIncoming(second, secondEnd);
  return result;
}

void BodyLowering::storeWord(const View &to, llvm::Value *word, llvm::Value *address,
                             unsigned align) {
  (void)either(
      to.far,
      [&]() -> llvm::Value * {
        const auto bits = unsigned(word->getType()->getPrimitiveSizeInBits().getFixedValue());
        llvm::Type *i64 = b.getInt64Ty();
        llvm::Value *all = b.CreateBitCast(word, b.getIntNTy(bits));
        llvm::Value *low = b.CreateZExtOrTrunc(all, i64);
        llvm::Value *high = bits > 64 ? b.CreateTrunc(b.CreateLShr(all, uint64_t(64)), i64)
                                      : static_cast<llvm::Value *>(b.getInt64(0));
        call(DeviceCall::store_far, {kernel_.launch, b.CreateAddrSpaceCast(address, b.getPtrTy()),
                                     to.rank, low, high, b.getInt32(bits / 8)});
        return nullptr;
      },
      [&]() -> llvm::Value * {
        b.CreateAlignedStore(word, address, llvm::Align(align));
        return nullptr;
      });
}

bool BodyLowering::isSentAtomically(DType type) { return isInteger(type) && dtypeBits(type) >= 32; }

llvm::Value *BodyLowering::fetchAddFar(const View &cell, DType type, llvm::Value *value) {
  llvm::Value *bits = b.CreateZExt(arith_.toMemory(type, value), b.getInt64Ty());
  llvm::Value *old = call(DeviceCall::fetch_add_far,
                          {kernel_.launch, b.CreateAddrSpaceCast(cell.data, b.getPtrTy()),
                           cell.rank, bits, b.getInt32(dtypeBytes(type))});
  return b.CreateTrunc(old, b.getIntNTy(dtypeBits(type)));
}

void BodyLowering::addAt(const View &to, DType type, llvm::Value *address, llvm::Value *value,
                         bool isOwn) {
  (void)either(
      to.far,
      [&]() -> llvm::Value * {
        llvm::Value *bits = b.CreateZExt(arith_.toMemory(type, value), b.getInt64Ty());
        call(DeviceCall::add_far, {kernel_.launch, b.CreateAddrSpaceCast(address, b.getPtrTy()),
                                   to.rank, bits, b.getInt32(dtypeBytes(type))});
        return nullptr;
      },
      [&]() -> llvm::Value * {
        atomicAdd(type, address, value, isOwn);
        return nullptr;
      });
}

} // namespace dtile::backend::gpu
