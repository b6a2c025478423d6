// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Atomic updates of elements in global memory, by functions of the device library: LLVM's
// `atomicrmw` has no scope on every device.
#include "backend/gpu/bodies/lower_body.h"

#include "frontend/base/check.h"

namespace dtile::backend::gpu {

using ir::Op;
using ir::OpKind;

bool BodyLowering::isOwn(const ir::Value *view) const {
  if (view->type().isRemote())
    return false;
  while (const Op *op = view->definingOp()) {
    if (op->is(OpKind::Param))
      return op->get(ir::attr::mode) == ir::ParamMode::In ||
             op->get(ir::attr::mode) == ir::ParamMode::Out ||
             op->get(ir::attr::mode) == ir::ParamMode::InOut;
    if (op->numOperands() == 0 || op->hasEffect(ir::Control) || op->is(OpKind::ViewSelect))
      break;
    view = op->operand(0);
  }
  return false;
}

/// A fence of each thread, before which all have met where it releases, and after which they meet
/// where it acquires: one thread's atomic speaks for all of them.
void BodyLowering::lowerMemoryFence(const Op &op) {
  const bool releases = op.get(ir::attr::kind) == "release";
  const bool own = isOwn(op.operand(0));
  if (releases && !alone_)
    sync();
  if (releases && !own) {
    // A fence for all ranks, and what went to memory that is not mapped has landed there.
    quiet();
  } else {
    const llvm::SyncScope::ID scope =
        own ? gpu_.context().getOrInsertSyncScopeID(gpu_.device.rankScope())
            : llvm::SyncScope::ID(llvm::SyncScope::System);
    b.CreateFence(llvm::AtomicOrdering::AcquireRelease, scope);
  }
  if (!releases && !alone_)
    sync();
}

void BodyLowering::atomicAdd(DType type, llvm::Value *address, llvm::Value *value, bool isOwn) {
  llvm::Value *distance = b.getInt32(isOwn ? 0 : 1);
  llvm::Value *memory = arith_.toMemory(type, value);
  switch (type) {
  case DType::I32:
  case DType::U32:
    call(DeviceCall::add_i32, {address, memory, distance});
    return;
  case DType::I64:
  case DType::U64:
    call(DeviceCall::add_i64, {address, memory, distance});
    return;
  case DType::F32:
    call(DeviceCall::add_f32, {address, b.CreateBitCast(memory, b.getInt32Ty()), distance});
    return;
  case DType::F64:
    call(DeviceCall::add_f64, {address, b.CreateBitCast(memory, b.getInt64Ty()), distance});
    return;
  case DType::F16:
  case DType::BF16: {
    // As a pair with its neighbour, to which -0 is added: that leaves every number as it is.
    llvm::Value *number = b.CreatePtrToInt(address, b.getInt64Ty());
    llvm::Value *isHigh = b.CreateICmpNE(b.CreateAnd(number, b.getInt64(2)), b.getInt64(0));
    llvm::Value *bits = b.CreateZExt(memory, b.getInt32Ty());
    llvm::Value *high = b.CreateOr(b.CreateShl(bits, 16), b.getInt32(0x8000));
    llvm::Value *low = b.CreateOr(bits, b.getInt32(0x80000000u));
    llvm::Value *pair = b.CreateSelect(isHigh, high, low);
    llvm::Value *word =
        b.CreateGEP(b.getInt8Ty(), address, b.CreateSelect(isHigh, b.getInt64(-2), b.getInt64(0)));
    call(type == DType::F16 ? DeviceCall::add_f16x2 : DeviceCall::add_bf16x2,
         {word, pair, distance});
    return;
  }
  case DType::Bool:
  case DType::I8:
  case DType::I16:
  case DType::U8:
  case DType::U16:
  case DType::F8E4M3:
  case DType::F8E5M2:
    View cell;
    cell.data = address;
    atomicUpdate(type, cell, isOwn,
                 [&](llvm::Value *old) { return arith_.binary(OpKind::Add, type, old, value); });
    return;
  }
}

unsigned BodyLowering::addedAtOnce(DType type) {
  return type == DType::F32 ? 4 : type == DType::F16 || type == DType::BF16 ? 8 : 1;
}

void BodyLowering::atomicAdd(DType type, llvm::Value *address, llvm::ArrayRef<llvm::Value *> values,
                             bool isOwn) {
  const bool isF32 = type == DType::F32;
  const bool isHalf = type == DType::F16 || type == DType::BF16;
  if (values.size() == 1 || !(isF32 || isHalf)) {
    llvm::Type *element = memoryType(context(), type);
    for (auto [i, value] : llvm::enumerate(values))
      atomicAdd(type, b.CreateConstGEP1_64(element, address, i), value, isOwn);
    return;
  }
  // Elements as words of 32 bits.
  llvm::SmallVector<llvm::Value *, 4> words;
  auto bits = [&](llvm::Value *value, unsigned width) {
    return b.CreateZExt(b.CreateBitCast(arith_.toMemory(type, value), b.getIntNTy(width)),
                        b.getInt32Ty());
  };
  for (size_t i = 0; i < values.size(); i += isF32 ? 1 : 2)
    words.push_back(
        isF32 ? bits(values[i], 32)
              : b.CreateOr(bits(values[i], 16), b.CreateShl(bits(values[i + 1], 16), 16)));
  llvm::Value *distance = b.getInt32(isOwn ? 0 : 1);
  const DeviceCall four = isF32                ? DeviceCall::add_f32x4
                          : type == DType::F16 ? DeviceCall::add_f16x8
                                               : DeviceCall::add_bf16x8;
  const DeviceCall one = isF32                ? DeviceCall::add_f32
                         : type == DType::F16 ? DeviceCall::add_f16x2
                                              : DeviceCall::add_bf16x2;
  if (words.size() == 4) {
    call(four, {address, words[0], words[1], words[2], words[3], distance});
    return;
  }
  for (auto [i, word] : llvm::enumerate(words))
    call(one, {b.CreateConstGEP1_64(b.getInt32Ty(), address, i), word, distance});
}

llvm::Value *
BodyLowering::atomicUpdate(DType type, const View &cell, bool isOwn,
                           llvm::function_ref<llvm::Value *(llvm::Value *old)> update) {
  const unsigned bits = dtypeBits(type) < 8 ? 8 : dtypeBits(type);
  llvm::Type *element = b.getIntNTy(bits);
  llvm::Type *word = b.getIntNTy(std::max(bits, 32u));
  llvm::Value *distance = b.getInt32(isOwn ? 0 : 1);
  llvm::Value *address = cell.data;
  // The aligned word around the element, and where in it the element is.
  llvm::Value *shift = nullptr;
  if (bits < 32) {
    llvm::Value *number = b.CreatePtrToInt(address, b.getInt64Ty());
    llvm::Value *rest = b.CreateAnd(number, b.getInt64(3));
    address = b.CreateGEP(b.getInt8Ty(), address, b.CreateNeg(rest));
    shift = b.CreateTrunc(b.CreateShl(rest, 3), word);
  }
  llvm::Value *first = either(
      cell.far, [&] { return fetchAddFar(cell, type, arith_.zero(type)); },
      [&]() -> llvm::Value * {
        auto *load =
            b.CreateAlignedLoad(word, address, llvm::Align(word->getIntegerBitWidth() / 8));
        load->setVolatile(true);
        return load;
      });

  llvm::BasicBlock *before = b.GetInsertBlock();
  llvm::BasicBlock *again = block("exchange");
  llvm::BasicBlock *done = block("exchange.end");
  b.CreateBr(again);
  b.SetInsertPoint(again);
  llvm::PHINode *seen = b.CreatePHI(word, 2, "seen");
  seen->addIncoming(first, before);
  llvm::Value *part = shift ? b.CreateLShr(seen, shift) : seen;
  llvm::Value *raw = b.CreateTrunc(part, element);
  llvm::Value *old = arith_.fromMemory(type, b.CreateBitCast(raw, memoryType(context(), type)));
  llvm::Value *next = b.CreateBitCast(arith_.toMemory(type, update(old)), element);
  llvm::Value *desired = b.CreateZExt(next, word);
  if (shift) {
    llvm::Value *mask =
        b.CreateShl(llvm::ConstantInt::get(word, llvm::APInt::getLowBitsSet(32, bits)), shift);
    desired = b.CreateOr(b.CreateAnd(seen, b.CreateNot(mask)), b.CreateShl(desired, shift));
  }
  llvm::Value *now = either(
      cell.far,
      [&] {
        llvm::Value *old64 =
            call(DeviceCall::swap_far,
                 {kernel_.launch, b.CreateAddrSpaceCast(address, b.getPtrTy()), cell.rank,
                  b.CreateZExt(seen, b.getInt64Ty()), b.CreateZExt(desired, b.getInt64Ty()),
                  b.getInt32(word->getIntegerBitWidth() / 8)});
        return b.CreateTrunc(old64, word);
      },
      [&]() -> llvm::Value * {
        return call(word->isIntegerTy(64) ? DeviceCall::swap_i64 : DeviceCall::swap_i32,
                    {address, seen, desired, distance});
      });
  seen->addIncoming(now, b.GetInsertBlock());
  b.CreateCondBr(b.CreateICmpEQ(now, seen), done, again);
  b.SetInsertPoint(done);
  return old;
}

} // namespace dtile::backend::gpu
