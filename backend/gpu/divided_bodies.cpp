// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The arithmetic of divided_bodies.h.
#include "backend/gpu/divided_bodies.h"

#include "backend/gpu/space_facts.h"
#include "backend/llvm/tile_order.h"
#include "ir/analysis/shared_memory_plan.h"
#include "ir/model/op_cost.h"

#include "llvm/IR/MDBuilder.h"

#include <limits>

namespace dtile::backend::gpu {

using ir::Op;
using ir::OpKind;
using llvm::Value;

Op *dividedLoop(const Op &space) {
  if (sharesBodies(space))
    return nullptr;
  for (Op &op : const_cast<Op &>(space).body().ops())
    if (op.is(OpKind::For) && op.get(ir::attr::split_rounds))
      return &op;
  return nullptr;
}

int64_t partialBytes(Op &kernel, int64_t threads) {
  int64_t most = 0;
  for (const Op &space : kernel.body().ops())
    if (const Op *loop = space.is(OpKind::Space) ? dividedLoop(space) : nullptr) {
      uint64_t elements = 0;
      for (const ir::Value *sum : loop->results())
        elements += sum->type().layout()->inside(sum->type().shape()).size();
      most = std::max(most, int64_t(llvm::alignTo(elements, ir::kExchangeGroup)));
    }
  return most * threads * int64_t(sizeof(float));
}

double partialTime(const Op &loop, const TargetFacts &machine) {
  double bytes = 0;
  for (const ir::Value *sum : loop.results())
    bytes += model::bytesOf(sum->type());
  // One has the sums and their flag reach memory, another sees the flag and reads them.
  return 2 * machine.timing.memoryLatency + bytes / machine.timing.localRate;
}

DividedBodies::DividedBodies(llvm::IRBuilder<> &builder, const BodyRange &range,
                             const LoopBounds &bounds)
    : b(builder), range_(range), bounds_(bounds) {
  const auto narrow = [&](Value *value) { return b.CreateTrunc(value, b.getInt32Ty()); };
  lanes_ = range.paired ? b.CreateZExt(range.paired, b.getInt32Ty()) : b.getInt32(0);
  Value *lanes = b.CreateZExt(lanes_, b.getInt64Ty());
  unit_ = b.CreateLShr(narrow(range.first), lanes_);
  Value *units = b.CreateLShr(range.step, lanes);
  Value *all = emitFewBlocks(b, b.CreateSub(range.count, range.first), range.step);
  // Divisions take their time: only where they are asked for. Elsewhere no body waits for one.
  llvm::Function *function = b.GetInsertBlock()->getParent();
  const auto block = [&](const char *name) {
    return llvm::BasicBlock::Create(b.getContext(), name, function);
  };
  llvm::BasicBlock *before = b.GetInsertBlock(), *divide = block("divided"),
                   *end = block("divided.end");
  b.CreateCondBr(range.divided, divide, end,
                 llvm::MDBuilder(b.getContext()).createUnlikelyBranchWeights());
  b.SetInsertPoint(divide);
  Value *bodies = b.CreateLShr(range.count, lanes);
  Value *whole = b.CreateZExt(b.CreateUDiv(narrow(bodies), narrow(units)), b.getInt64Ty());
  Value *first = b.CreateMul(whole, units);
  Value *left = narrow(b.CreateSub(bodies, first));
  Value *mostHalves = b.CreateLShr(narrow(units), 1);
  Value *mostQuarters = b.CreateLShr(narrow(units), 2);
  Value *isMany = b.CreateICmpUGT(left, b.CreateAdd(mostHalves, mostQuarters));
  Value *isFew = b.CreateICmpULE(left, mostQuarters);
  Value *halves = b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, left, mostHalves);
  halves = b.CreateSelect(b.CreateOr(isMany, isFew), b.getInt32(0), halves);
  Value *quarters = b.CreateSelect(isMany, b.getInt32(0), b.CreateSub(left, halves));
  const auto hasPart = [&](Value *count, unsigned shift) {
    return b.CreateICmpULT(unit_, b.CreateShl(count, shift));
  };
  Value *hasHalf = hasPart(halves, 1);
  Value *hasOne = b.CreateAnd(isMany, b.CreateICmpULT(unit_, left));
  const auto wide = [&](Value *is) { return b.CreateZExt(is, b.getInt64Ty()); };
  whole = b.CreateAdd(whole, wide(hasOne));
  Value *count = b.CreateAdd(whole, b.CreateAdd(wide(hasHalf), wide(hasPart(quarters, 2))));
  b.CreateBr(end);
  b.SetInsertPoint(end);
  const auto either = [&](Value *divided, Value *otherwise) {
    llvm::PHINode *phi = b.CreatePHI(divided->getType(), 2);
    phi->addIncoming(otherwise, before);
    phi->addIncoming(divided, divide);
    return phi;
  };
  rounds_ = either(whole, b.getInt64(std::numeric_limits<int64_t>::max()));
  first_ = either(first, b.getInt64(0));
  halves_ = either(halves, b.getInt32(0));
  quarters_ = either(quarters, b.getInt32(0));
  hasHalf_ = either(hasHalf, b.getFalse());
  count_ = either(count, all);
}

DividedBodies::Item DividedBodies::item(Value *number) const {
  Value *isWhole = b.CreateICmpULT(number, rounds_);
  Value *whole = b.CreateAdd(range_.first, b.CreateMul(number, range_.step));
  // Whole bodies are not to wait for the arithmetic of others.
  llvm::Function *function = b.GetInsertBlock()->getParent();
  llvm::BasicBlock *before = b.GetInsertBlock();
  auto *divide = llvm::BasicBlock::Create(b.getContext(), "item.part", function);
  auto *end = llvm::BasicBlock::Create(b.getContext(), "item", function);
  b.CreateCondBr(isWhole, end, divide, llvm::MDBuilder(b.getContext()).createLikelyBranchWeights());
  b.SetInsertPoint(divide);
  Value *isHalf = b.CreateAnd(b.CreateICmpEQ(number, rounds_), hasHalf_);
  Value *log = b.CreateSelect(isHalf, b.getInt32(1), b.getInt32(2));
  // Bodies of as many parts, of which each unit has one.
  Value *alike = b.CreateSelect(isHalf, halves_, quarters_);
  // Which part: units 0 to `alike` - 1 have the first one.
  Value *part = b.getInt32(0), *within = unit_;
  for (unsigned i = 1; i < kMostParts; ++i) {
    Value *isBehind = b.CreateICmpUGE(unit_, b.CreateMul(alike, b.getInt32(i)));
    part = b.CreateAdd(part, b.CreateZExt(isBehind, b.getInt32Ty()));
    within = b.CreateSub(within, b.CreateSelect(isBehind, alike, b.getInt32(0)));
  }
  const auto wide = [&](Value *value) { return b.CreateZExt(value, b.getInt64Ty()); };
  // Where a unit has one more round, nothing else is left.
  Value *behind = b.CreateSelect(isHalf, b.getInt32(0), halves_);
  Value *divided = b.CreateAdd(first_, wide(b.CreateAdd(behind, within)));
  if (range_.paired)
    divided = b.CreateAdd(b.CreateShl(divided, wide(lanes_)), wide(range_.half));
  Value *iterations = emitBlockCount(b, bounds_.first, bounds_.end, bounds_.step);
  const auto place = [&](Value *at) {
    Value *skipped = b.CreateLShr(b.CreateMul(iterations, wide(at)), wide(log));
    return b.CreateAdd(bounds_.first, b.CreateMul(skipped, bounds_.step));
  };
  Value *parts = b.CreateShl(b.getInt32(1), log), *next = b.CreateAdd(part, b.getInt32(1));
  Value *isLast = b.CreateICmpEQ(next, parts);
  Value *first = place(part), *last = b.CreateSelect(isLast, bounds_.end, place(next));
  Value *distance = b.CreateShl(alike, lanes_);
  divide = b.GetInsertBlock();
  b.CreateBr(end);
  b.SetInsertPoint(end);
  const auto either = [&](Value *ofWhole, Value *ofPart) {
    llvm::PHINode *phi = b.CreatePHI(ofPart->getType(), 2);
    phi->addIncoming(ofWhole, before);
    phi->addIncoming(ofPart, divide);
    return phi;
  };
  return {.body = either(whole, divided),
          .bounds = {either(bounds_.first, first), either(bounds_.end, last), bounds_.step},
          .parts = either(b.getInt32(1), parts),
          .part = either(b.getInt32(0), part),
          .distance = either(b.getInt32(0), distance)};
}

} // namespace dtile::backend::gpu
