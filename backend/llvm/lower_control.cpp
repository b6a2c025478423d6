// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Structured control: `for`, `while` and `if` as blocks with phis for every part of what they
// carry.
#include "backend/llvm/lowering.h"

#include "frontend/base/check.h"

#include "llvm/IR/MDBuilder.h"

namespace dtile::backend {

using ir::Op;

llvm::BasicBlock *FunctionLowering::block(const llvm::Twine &name) {
  return llvm::BasicBlock::Create(context(), name, b.GetInsertBlock()->getParent());
}

void FunctionLowering::loop(llvm::Value *count, llvm::StringRef name,
                            llvm::function_ref<void(llvm::Value *)> body) {
  llvm::BasicBlock *before = b.GetInsertBlock();
  llvm::BasicBlock *header = block(name);
  llvm::BasicBlock *inside = block(name + ".body");
  llvm::BasicBlock *after = block(name + ".end");
  b.CreateBr(header);
  b.SetInsertPoint(header);
  llvm::PHINode *i = b.CreatePHI(b.getInt64Ty(), 2);
  i->addIncoming(b.getInt64(0), before);
  b.CreateCondBr(b.CreateICmpSLT(i, count), inside, after);
  b.SetInsertPoint(inside);
  body(i);
  i->addIncoming(b.CreateNSWAdd(i, b.getInt64(1)), b.GetInsertBlock());
  b.CreateBr(header);
  b.SetInsertPoint(after);
}

void FunctionLowering::when(llvm::Value *condition, llvm::StringRef name,
                            llvm::function_ref<void()> body) {
  llvm::BasicBlock *inside = block(name);
  llvm::BasicBlock *after = block(name + ".end");
  b.CreateCondBr(condition, inside, after);
  b.SetInsertPoint(inside);
  body();
  b.CreateBr(after);
  b.SetInsertPoint(after);
}

void FunctionLowering::whenRarely(llvm::Value *condition, llvm::StringRef name,
                                  llvm::function_ref<void()> body) {
  llvm::BasicBlock *before = b.GetInsertBlock();
  when(condition, name, body);
  before->getTerminator()->setMetadata(llvm::LLVMContext::MD_prof, unlikely());
}

llvm::MDNode *FunctionLowering::unlikely() const {
  return llvm::MDBuilder(context()).createUnlikelyBranchWeights();
}

llvm::SmallVector<llvm::PHINode *> FunctionLowering::phis(llvm::ArrayRef<ir::Value *> values) {
  llvm::SmallVector<llvm::PHINode *> result;
  for (ir::Value *value : values)
    for (llvm::Type *type : carriedTypes(value->type()))
      result.push_back(b.CreatePHI(type, 2, value->nameHint()));
  return result;
}

Parts FunctionLowering::allParts(llvm::ArrayRef<ir::Value *> values) {
  Parts all;
  for (ir::Value *value : values) {
    // What has no parts (a tile in memory, a token) need not be known.
    if (!partTypes(value->type()).empty())
      llvm::append_range(all, carried(value->type(), parts(value)));
  }
  return all;
}

void FunctionLowering::addIncoming(llvm::ArrayRef<llvm::PHINode *> phis,
                                   llvm::ArrayRef<llvm::Value *> values, llvm::BasicBlock *from) {
  for (auto [phi, value] : llvm::zip_equal(phis, values))
    phi->addIncoming(value, from);
}

void FunctionLowering::distribute(llvm::ArrayRef<llvm::Value *> all,
                                  llvm::ArrayRef<ir::Value *> values) {
  for (ir::Value *value : values) {
    size_t count = carriedTypes(value->type()).size();
    set(value, fromCarried(value->type(), all.take_front(count)));
    all = all.drop_front(count);
  }
}

namespace {

Parts asValues(llvm::ArrayRef<llvm::PHINode *> phis) { return Parts(phis.begin(), phis.end()); }

} // namespace

std::pair<llvm::Value *, llvm::Value *> FunctionLowering::loopBounds(Op &op) {
  return {scalar(op.operand(0)), scalar(op.operand(1))};
}

void FunctionLowering::lowerFor(Op &op) {
  const auto [first, end] = loopBounds(op);
  llvm::Value *step = scalar(op.operand(2));
  ir::Block &body = op.body();
  llvm::ArrayRef<ir::Value *> inits = op.operands().drop_front(3);
  llvm::ArrayRef<ir::Value *> carried = body.arguments().drop_front();

  moveTiles(op, inits, carried);
  Parts initParts = allParts(inits);
  llvm::BasicBlock *before = b.GetInsertBlock();
  llvm::BasicBlock *header = block("for");
  llvm::BasicBlock *inside = block("for.body");
  llvm::BasicBlock *after = block("for.end");
  b.CreateBr(header);

  b.SetInsertPoint(header);
  llvm::PHINode *position = b.CreatePHI(b.getInt64Ty(), 2, body.argument(0)->nameHint());
  position->addIncoming(first, before);
  llvm::SmallVector<llvm::PHINode *> state = phis(carried);
  addIncoming(state, initParts, before);
  set(body.argument(0), {position});
  b.CreateCondBr(b.CreateICmpSLT(position, end), inside, after);

  b.SetInsertPoint(inside);
  // Not in the header: LLVM rotates loops whose headers are short.
  distribute(asValues(state), carried);
  enterRegion(op, 0);
  lowerBlock(body);
  Op *yield = body.terminator();
  moveTiles(*yield, yield->operands(), carried);
  addIncoming(state, allParts(yield->operands()), b.GetInsertBlock());
  position->addIncoming(b.CreateAdd(position, step), b.GetInsertBlock());
  b.CreateBr(header);
  b.SetInsertPoint(after);
  distribute(asValues(state), op.results());
  leaveRegions(op);
}

void FunctionLowering::lowerWhile(Op &op) {
  ir::Block &test = op.body(0);
  ir::Block &body = op.body(1);
  moveTiles(op, op.operands(), test.arguments());
  Parts initParts = allParts(op.operands());
  llvm::BasicBlock *before = b.GetInsertBlock();
  llvm::BasicBlock *header = block("while");
  llvm::BasicBlock *inside = block("while.body");
  llvm::BasicBlock *after = block("while.end");
  b.CreateBr(header);

  b.SetInsertPoint(header);
  llvm::SmallVector<llvm::PHINode *> state = phis(test.arguments());
  addIncoming(state, initParts, before);
  distribute(asValues(state), test.arguments());
  enterRegion(op, 0);
  lowerBlock(test);
  Op *condition = test.terminator();
  llvm::ArrayRef<ir::Value *> passed = condition->operands().drop_front();
  moveTiles(*condition, passed, body.arguments());
  Parts passedParts = allParts(passed);
  distribute(passedParts, body.arguments());
  distribute(passedParts, op.results());
  b.CreateCondBr(scalar(condition->operand(0)), inside, after);

  b.SetInsertPoint(inside);
  enterRegion(op, 1);
  lowerBlock(body);
  Op *yield = body.terminator();
  moveTiles(*yield, yield->operands(), test.arguments());
  addIncoming(state, allParts(yield->operands()), b.GetInsertBlock());
  b.CreateBr(header);
  b.SetInsertPoint(after);
  leaveRegions(op);
}

void FunctionLowering::lowerIf(Op &op) {
  llvm::BasicBlock *whenTrue = block("if.then");
  llvm::BasicBlock *whenFalse = block("if.else");
  llvm::BasicBlock *after = block("if.end");
  b.CreateCondBr(scalar(op.operand(0)), whenTrue, whenFalse);

  llvm::BasicBlock *entries[] = {whenTrue, whenFalse};
  llvm::BasicBlock *exits[2];
  Parts results[2];
  for (unsigned i = 0; i < 2; ++i) {
    b.SetInsertPoint(entries[i]);
    enterRegion(op, i);
    lowerBlock(op.body(i));
    Op *yield = op.body(i).terminator();
    moveTiles(*yield, yield->operands(), op.results());
    results[i] = allParts(yield->operands());
    exits[i] = b.GetInsertBlock();
    b.CreateBr(after);
  }
  b.SetInsertPoint(after);
  llvm::SmallVector<llvm::PHINode *> merged = phis(op.results());
  for (unsigned i = 0; i < 2; ++i)
    addIncoming(merged, results[i], exits[i]);
  distribute(asValues(merged), op.results());
  leaveRegions(op);
}

} // namespace dtile::backend
