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

/// Copies elements [low, high) of a row to those of another, one of which is dense: by `strided`,
/// or as one block where the stride is 1. Goes on in a block of its own.
void copyRow(llvm::IRBuilder<> &b, llvm::Type *element, llvm::Value *to, llvm::Value *from,
             llvm::Value *stride, llvm::Value *low, llvm::Value *high,
             llvm::function_ref<void(llvm::Value *)> strided) {
  llvm::Function *function = b.GetInsertBlock()->getParent();
  auto *dense = llvm::BasicBlock::Create(b.getContext(), "dense", function);
  auto *apart = llvm::BasicBlock::Create(b.getContext(), "strided", function);
  auto *done = llvm::BasicBlock::Create(b.getContext(), "copied", function);
  b.CreateCondBr(b.CreateICmpEQ(stride, b.getInt64(1)), dense, apart);
  b.SetInsertPoint(dense);
  const unsigned bytes = element->getIntegerBitWidth() / 8;
  b.CreateMemCpy(b.CreateGEP(element, to, low), llvm::Align(bytes), b.CreateGEP(element, from, low),
                 llvm::Align(bytes), b.CreateMul(b.CreateSub(high, low), b.getInt64(bytes)));
  b.CreateBr(done);
  b.SetInsertPoint(apart);
  countedLoop(b, low, high, strided);
  b.CreateBr(done);
  b.SetInsertPoint(done);
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
  auto *done = llvm::BasicBlock::Create(context(), "done", helper);
  b.SetInsertPoint(entry);
  b.CreateMemSet(temp, b.getInt8(0), size, llvm::Align(1));
  b.CreateCondBr(b.CreateICmpSLT(low, high), copy, done);
  b.SetInsertPoint(copy);
  copyRow(b, element, temp, source, stride, low, high, [&](llvm::Value *i) {
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
  copyRow(b, element, destination, temp, stride, low, high, [&](llvm::Value *i) {
    llvm::Value *value = b.CreateLoad(element, b.CreateGEP(element, temp, i));
    b.CreateStore(value, b.CreateGEP(element, destination, b.CreateMul(i, stride)));
  });
  b.CreateRetVoid();
  return helper;
}

} // namespace dtile::backend::host
