// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Helpers that bodies share: zeros, and partial rows.
#include "backend/host/host_module.h"

namespace dtile::backend::host {

llvm::Constant *HostModule::zeros() {
  if (!zeros_) {
    llvm::Type *type = llvm::ArrayType::get(llvm::Type::getInt8Ty(context()), 64);
    zeros_ = new llvm::GlobalVariable(module, type, /*isConstant=*/true,
                                      llvm::GlobalValue::PrivateLinkage,
                                      llvm::Constant::getNullValue(type), "dtile.zeros");
    zeros_->setAlignment(llvm::Align(64));
  }
  return zeros_;
}

namespace {

/// Emits `for (i = low; i < high; ++i) body(i)`.
void countedLoop(llvm::IRBuilder<> &b, llvm::Value *low, llvm::Value *high,
                 llvm::function_ref<void(llvm::Value *)> body) {
  llvm::Function *function = b.GetInsertBlock()->getParent();
  llvm::BasicBlock *before = b.GetInsertBlock();
  auto *header = llvm::BasicBlock::Create(b.getContext(), "loop", function);
  auto *inside = llvm::BasicBlock::Create(b.getContext(), "loop.body", function);
  auto *after = llvm::BasicBlock::Create(b.getContext(), "loop.end", function);
  b.CreateBr(header);
  b.SetInsertPoint(header);
  llvm::PHINode *i = b.CreatePHI(b.getInt64Ty(), 2);
  i->addIncoming(low, before);
  b.CreateCondBr(b.CreateICmpSLT(i, high), inside, after);
  b.SetInsertPoint(inside);
  body(i);
  i->addIncoming(b.CreateNSWAdd(i, b.getInt64(1)), inside);
  b.CreateBr(header);
  b.SetInsertPoint(after);
}

} // namespace

llvm::Function *HostModule::fillRow(unsigned bytes) {
  llvm::Function *&helper = fillRows_[bytes];
  if (helper)
    return helper;
  llvm::IRBuilder<> b(context());
  llvm::Type *p = b.getPtrTy();
  llvm::Type *l = b.getInt64Ty();
  auto *type = llvm::FunctionType::get(b.getVoidTy(), {p, p, l, l, l, l}, false);
  helper = function("dtile.fill_row." + std::to_string(bytes), type);
  helper->addFnAttr(llvm::Attribute::NoInline);
  llvm::Value *temp = helper->getArg(0), *source = helper->getArg(1), *size = helper->getArg(2);
  llvm::Value *stride = helper->getArg(3), *low = helper->getArg(4), *high = helper->getArg(5);
  llvm::Type *element = b.getIntNTy(bytes * 8);
  auto *entry = llvm::BasicBlock::Create(context(), "entry", helper);
  auto *copy = llvm::BasicBlock::Create(context(), "copy", helper);
  auto *dense = llvm::BasicBlock::Create(context(), "dense", helper);
  auto *strided = llvm::BasicBlock::Create(context(), "strided", helper);
  auto *done = llvm::BasicBlock::Create(context(), "done", helper);
  b.SetInsertPoint(entry);
  b.CreateMemSet(temp, b.getInt8(0), size, llvm::Align(1));
  b.CreateCondBr(b.CreateICmpSLT(low, high), copy, done);
  b.SetInsertPoint(copy);
  b.CreateCondBr(b.CreateICmpEQ(stride, b.getInt64(1)), dense, strided);
  b.SetInsertPoint(dense);
  llvm::Value *count = b.CreateMul(b.CreateSub(high, low), b.getInt64(bytes));
  b.CreateMemCpy(b.CreateGEP(element, temp, low), llvm::Align(bytes),
                 b.CreateGEP(element, source, low), llvm::Align(bytes), count);
  b.CreateBr(done);
  b.SetInsertPoint(strided);
  countedLoop(b, low, high, [&](llvm::Value *i) {
    llvm::Value *value =
        b.CreateLoad(element, b.CreateGEP(element, source, b.CreateMul(i, stride)));
    b.CreateStore(value, b.CreateGEP(element, temp, i));
  });
  b.CreateBr(done);
  b.SetInsertPoint(done);
  b.CreateRetVoid();
  return helper;
}

llvm::Function *HostModule::spillRow(unsigned bytes) {
  llvm::Function *&helper = spillRows_[bytes];
  if (helper)
    return helper;
  llvm::IRBuilder<> b(context());
  llvm::Type *p = b.getPtrTy();
  llvm::Type *l = b.getInt64Ty();
  helper = function("dtile.spill_row." + std::to_string(bytes),
                    llvm::FunctionType::get(b.getVoidTy(), {p, p, l, l, l}, false));
  helper->addFnAttr(llvm::Attribute::NoInline);
  llvm::Value *destination = helper->getArg(0), *temp = helper->getArg(1);
  llvm::Value *stride = helper->getArg(2), *low = helper->getArg(3), *high = helper->getArg(4);
  llvm::Type *element = b.getIntNTy(bytes * 8);
  b.SetInsertPoint(llvm::BasicBlock::Create(context(), "entry", helper));
  countedLoop(b, low, high, [&](llvm::Value *i) {
    llvm::Value *value = b.CreateLoad(element, b.CreateGEP(element, temp, i));
    b.CreateStore(value, b.CreateGEP(element, destination, b.CreateMul(i, stride)));
  });
  b.CreateRetVoid();
  return helper;
}

} // namespace dtile::backend::host
