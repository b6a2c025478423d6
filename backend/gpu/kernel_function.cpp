// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What code on the device sees of its launch: values of the frame, this launch's copies of scratch
// objects, and the derived counts of signals.
#include "backend/gpu/kernel_function.h"

#include "frontend/base/check.h"

#include "llvm/ADT/SetVector.h"

#include <cstddef>

namespace dtile::backend::gpu {

using ir::Op;
using ir::OpKind;

// Parameters.

llvm::Value *KernelFunction::frameAddress(int64_t offset) {
  return b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), kernel_.frame, offset);
}

llvm::Value *KernelFunction::loadFrame(int64_t offset, llvm::Type *type) {
  llvm::Value *&known = kernel_.loaded[offset];
  if (!known) {
    llvm::IRBuilder<>::InsertPointGuard guard(b);
    b.SetInsertPoint(kernel_.entry->getTerminator());
    b.SetCurrentDebugLocation({});
    llvm::LoadInst *load = b.CreateAlignedLoad(type, frameAddress(offset), llvm::Align(8));
    // Parameters are constant.
    load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context(), {}));
    known = load;
  }
  return known;
}

llvm::Value *KernelFunction::launchFact(llvm::Value *fact, const InKinds &in) {
  if (!llvm::isa<llvm::Constant>(fact))
    kernel_.facts.push_back({fact, in});
  return fact;
}

void KernelFunction::noteWholeWords(WholeWords::Access access) {
  if (kernel_.layout->tensorMaps().empty() && !gpu_.isBatchInvariant)
    kernel_.accesses.push_back(std::move(access));
}

Parts KernelFunction::outside(ir::Value *value) {
  if (partTypes(value->type()).empty())
    return {};
  DTILE_CHECK(!kernel_.layout->isVarying(value), "what varies is lowered by lowerCaptured");
  Parts parts;
  for (auto [part, type] : llvm::zip_equal(kernel_.layout->parts(value), partTypes(value->type())))
    parts.push_back(part.constant ? part.constant : loadFrame(part.offset, type));
  return parts;
}

llvm::Value *KernelFunction::fact(OpKind kind) {
  return kind == OpKind::Rank ? kernel_.rank : kind == OpKind::NumRanks ? kernel_.ranks : epoch();
}

llvm::Value *KernelFunction::epoch(llvm::IRBuilder<> &at) const {
  if (kernel_.epoch)
    return kernel_.epoch;
  return at.CreateLShr(gpu_.device.opaque(at, kernel_.ended), DTILE_DEVICE_PART_BITS, "epoch");
}

// Values of the kernel's region.

void KernelFunction::lowerCaptured(Op &user) {
  ir::Block &region = kernel_.kernel->body();
  llvm::SmallPtrSet<Op *, 16> needed;
  llvm::SmallVector<Op *, 16> open;
  auto need = [&](Op &inner) {
    for (ir::Value *operand : inner.operands()) {
      Op *op = operand->definingOp();
      if (!op || op->parentBlock() != &region)
        continue;
      const bool isLowered = operand->type().isTile() || kernel_.layout->isVarying(operand);
      if (isLowered && needed.insert(op).second)
        open.push_back(op);
    }
  };
  ir::walk(user, need);
  while (!open.empty())
    ir::walk(*open.pop_back_val(), need);
  for (Op &op : region.ops()) {
    if (!needed.contains(&op))
      continue;
    if (op.is(OpKind::Param))
      lowerScratch(op);
    else
      lowerOp(op);
  }
}

llvm::Value *KernelFunction::scratchLaunches(const Op &param) {
  const int64_t object = kernel_.layout->object(param);
  llvm::Value *parts =
      b.CreateLoad(b.getInt64Ty(),
                   loadFrame(object + int64_t(offsetof(dtile_device_object, turn)), b.getPtrTy()));
  return b.CreateLShr(parts, DTILE_DEVICE_PART_BITS);
}

llvm::Value *KernelFunction::scratchTurn(const Op &param) {
  return b.CreateURem(scratchLaunches(param), b.getInt64(uint64_t(launch::scratchCopies(param))));
}

void KernelFunction::lowerScratch(Op &param) {
  const int64_t object = kernel_.layout->object(param);
  auto field = [&](size_t offset, llvm::Type *type) {
    return loadFrame(object + int64_t(offset), type);
  };
  llvm::Value *data = field(offsetof(dtile_device_object, data), b.getPtrTy());
  if (launch::scratchCopies(param) > 1) {
    llvm::Value *bytes = field(offsetof(dtile_device_object, copy_bytes), b.getInt64Ty());
    data = b.CreateGEP(b.getInt8Ty(), data, b.CreateMul(scratchTurn(param), bytes));
  }
  // Memory that nothing has written holds 0.
  if (param.get(ir::attr::ll))
    numbers_[&param] =
        b.CreateTrunc(b.CreateAdd(scratchLaunches(param), b.getInt64(1)), b.getInt32Ty());
  llvm::SmallVector<llvm::Value *, 4> sizes;
  for (ir::Value *size : param.operands())
    sizes.push_back(scalar(size));
  set(param.result(), launch::scratchView(views_, b, param, data, sizes).parts());
}

void KernelFunction::lowerTargetOp(Op &op) {
  giveUp(op, "cannot be used where only sizes and counts are computed");
}

// Signals.

llvm::Value *KernelFunction::cellsObject(const Op &signalParam) {
  return frameAddress(kernel_.layout->object(signalParam));
}

llvm::Value *KernelFunction::cellNumber(const Op &signalParam, llvm::Value *cell) {
  llvm::Value *first = loadFrame(kernel_.layout->object(signalParam), b.getPtrTy());
  llvm::Value *bytes =
      b.CreateSub(b.CreatePtrToInt(cell, b.getInt64Ty()), b.CreatePtrToInt(first, b.getInt64Ty()));
  return b.CreateExactSDiv(bytes, b.getInt64(sizeof(uint64_t)));
}

llvm::Value *KernelFunction::expected(Op &signalParam, llvm::Value *cell) {
  llvm::Function *&function = kernel_.expected[&signalParam];
  if (!function) {
    llvm::Type *p = b.getPtrTy();
    llvm::Type *i64 = b.getInt64Ty();
    std::string name = ("dtile." + kernel_.kernel->get(ir::attr::name) + "." +
                        signalParam.get(ir::attr::name) + ".expected")
                           .str();
    function = gpu_.function(
        name, llvm::FunctionType::get(i64, {p, p, i64, i64, i64, i64}, /*isVarArg=*/false));
    gpu_.debug.describe(*function, signalParam);
    auto *entry = llvm::BasicBlock::Create(context(), "entry", function);
    auto *start = llvm::BasicBlock::Create(context(), "start", function);
    llvm::BranchInst::Create(start, entry);
    KernelScaffold scaffold;
    scaffold.kernel = kernel_.kernel;
    scaffold.layout = kernel_.layout;
    scaffold.function = function;
    scaffold.entry = entry;
    scaffold.launch = function->getArg(0);
    scaffold.frame = function->getArg(1);
    scaffold.rank = function->getArg(2);
    scaffold.ranks = function->getArg(3);
    scaffold.epoch = function->getArg(4);
    KernelFunction f(gpu_, scaffold);
    f.builder().SetInsertPoint(start);
    gpu_.debug.moveTo(f.builder(), signalParam);
    f.lowerCaptured(signalParam);
    f.builder().CreateRet(launch::expectedCount(f, f.builder(), signalParam, function->getArg(5)));
  }
  return b.CreateCall(function,
                      {kernel_.launch, kernel_.frame, kernel_.rank, kernel_.ranks, epoch(), cell});
}

} // namespace dtile::backend::gpu
