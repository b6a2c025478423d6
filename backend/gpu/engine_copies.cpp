// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Bodies whose transfers are listed on the host: their index arithmetic, loops and branches, and a
// call of the runtime for each put and notify. Tokens need no code: a copy engine does one thing
// after the other.
#include "backend/gpu/engine_copies.h"

#include "backend/runtime/device_abi.h"

#include "llvm/ADT/STLExtras.h"

#include <cstddef>

namespace dtile::backend::gpu {

using ir::Op;
using ir::OpKind;
using launch::Runtime;

namespace {

class EngineCopies : public launch::FrameFunction {
public:
  EngineCopies(launch::LaunchModule &module, const launch::Frame &frame)
      : FrameFunction(module, &frame) {}

  llvm::Function *lower(Op &space, llvm::StringRef name);

protected:
  Parts outside(ir::Value *value) override;
  void lowerTargetOp(Op &op) override;
  void checkCell(Op &op, llvm::Value *position, llvm::Value *size) override {
    leaveUnless(b.CreateICmpULT(position, size));
  }
  void checkRank(Op &op, llvm::Value *rank) override {
    leaveUnless(b.CreateICmpULT(rank, fact(OpKind::NumRanks)));
  }

private:
  void call(Runtime callee, llvm::ArrayRef<llvm::Value *> arguments);
  /// Programs run the body, and say what is wrong.
  void leaveUnless(llvm::Value *isRight);
  void put(Op &op);
  void notify(ir::Value *cells);

  llvm::Value *handle_ = nullptr;
  llvm::Value *source_ = nullptr, *destination_ = nullptr;
};

void EngineCopies::call(Runtime callee, llvm::ArrayRef<llvm::Value *> arguments) {
  llvm::SmallVector<llvm::Value *, 4> all{handle_};
  llvm::append_range(all, arguments);
  b.CreateCall(launch_.runtime(callee), all);
}

void EngineCopies::leaveUnless(llvm::Value *isRight) {
  when(b.CreateNot(isRight), "leave", [&] { call(Runtime::engine_leave, {}); });
}

Parts EngineCopies::outside(ir::Value *value) {
  Op *op = value->definingOp();
  if (!op || !layout_->isVarying(value))
    return FrameFunction::outside(value);
  // Scratch objects of one copy, which the frame tells.
  llvm::IRBuilder<>::InsertPointGuard guard(b);
  b.SetInsertPoint(entry_);
  if (!op->is(OpKind::Param)) {
    lowerOp(*op);
    return Parts(parts(value));
  }
  if (launch::scratchCopies(*op) != 1) {
    giveUp(*op, "has copies that are taken in turn, and the copy engine writes one place");
    return Parts(parts(value));
  }
  llvm::SmallVector<llvm::Value *, 4> sizes;
  for (ir::Value *size : op->operands())
    sizes.push_back(scalar(size));
  const int64_t data = layout_->object(*op) + int64_t(offsetof(dtile_device_object, data));
  return launch::scratchView(views_, b, *op, loadFrame(data, b.getPtrTy()), sizes).parts();
}

void EngineCopies::put(Op &op) {
  // Of a target on this rank programs take care.
  if (!op.operand(1)->type().isRemote())
    return;
  View source = view(op.operand(0));
  View destination = view(op.operand(1));
  const auto emit = [&] {
    launch::storeRegion(launch_, b, views_, source_, source);
    launch::storeRegion(launch_, b, views_, destination_, destination);
    call(Runtime::engine_put,
         {source_, destination_, launch_.site(op, launch::objectName(op.operand(1)))});
  };
  if (source.dims.empty())
    return when(b.CreateAnd(b.CreateIsNotNull(source.data), b.CreateIsNotNull(destination.data)),
                "exists", emit);
  launch::cutToCommon(b, source, destination);
  emit();
}

void EngineCopies::notify(ir::Value *signal) {
  if (!signal->type().isRemote())
    return;
  launch::storeCells(launch_, b, views_, source_, cells(signal));
  call(Runtime::engine_notify, {source_});
}

void EngineCopies::lowerTargetOp(Op &op) {
  switch (op.kind()) {
  case OpKind::Put:
    return put(op);
  case OpKind::PutSignal:
    put(op);
    return notify(op.operand(2));
  case OpKind::Notify:
    return notify(op.operand(0));
  case OpKind::Await:
  case OpKind::TokenDone:
  case OpKind::TokenJoin:
    return;
  case OpKind::Assert:
    return leaveUnless(scalar(op.operand(0)));
  default:
    FrameFunction::lowerTargetOp(op);
  }
}

llvm::Function *EngineCopies::lower(Op &space, llvm::StringRef name) {
  llvm::Type *i64 = b.getInt64Ty();
  auto *type = llvm::FunctionType::get(b.getVoidTy(), {b.getPtrTy(), b.getPtrTy(), i64}, false);
  llvm::Function *function = launch_.function(name, type);
  begin(function, 1);
  handle_ = function->getArg(0);
  source_ = stackSlot(launch_.abi.region, "source");
  destination_ = stackSlot(launch_.abi.region, "destination");
  for (auto [argument, position] :
       llvm::zip(space.body().arguments(),
                 launch::positions(*this, b, space, fact(OpKind::Rank), function->getArg(2))))
    set(argument, {position});
  lowerBlock(space.body());
  b.CreateRetVoid();
  end();
  return function;
}

} // namespace

llvm::Function *lowerEngineCopies(launch::LaunchModule &module, const launch::Frame &frame,
                                  Op &space, llvm::StringRef name) {
  return EngineCopies(module, frame).lower(space, name);
}

} // namespace dtile::backend::gpu
