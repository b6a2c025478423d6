// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether a launch loads by TMA, and how many bodies it has whose programs share loads.
#include "backend/gpu/paired_bodies.h"

#include "backend/runtime/kernel_abi.h"
#include "ir/core/tile_order.h"
#include "ir/model/op_cost.h"

namespace dtile::backend::gpu {

using ir::Op;
using llvm::Value;

namespace {

/// Functions of the frame alone.
class LaunchFunction : public launch::FrameFunction {
public:
  using FrameFunction::FrameFunction;

  llvm::Function *lower(llvm::StringRef name, llvm::function_ref<Value *()> value) {
    llvm::Function *function = launch_.function(
        name, llvm::FunctionType::get(b.getInt64Ty(), {b.getPtrTy()}, /*isVarArg=*/false));
    begin(function, 0);
    b.CreateRet(value());
    end();
    return function;
  }

  Value *byTma() {
    Value *all = b.getTrue();
    for (const auto &map : layout_->tensorMaps())
      all = b.CreateAnd(all, b.CreateICmpEQ(loadFrame(map->usable, b.getInt64Ty()),
                                            b.getInt64(launch::Frame::kWholeMap)));
    const bool isUnstaged = llvm::any_of(layout_->kernel().body().ops(), [](Op &op) {
      return op.is(ir::OpKind::Space) && model::hasUnstagedBody(op);
    });
    return b.CreateSelect(all, b.getInt64(DTILE_BY_TMA),
                          b.getInt64(isUnstaged ? DTILE_UNSTAGED : DTILE_BY_COPY_WARPS));
  }

  Value *pairedCount(Op &space) {
    Value *count = b.getInt64(1);
    for (Value *blocks : launch::blockCounts(*this, b, space, b.getTrue()))
      count = b.CreateMul(count, blocks);
    const unsigned paired = *ir::TileOrder::fromSpace(space).pairedDimension();
    Value *hasTwo = b.CreateICmpSGT(launch::blockCounts(*this, b, space)[paired], b.getInt64(1));
    return b.CreateSelect(hasTwo, count, b.getInt64(0));
  }
};

} // namespace

bool mayPairBodies(Op &space) {
  bool may = false;
  ir::walk(space, [&](Op &op) { may |= op.is(ir::OpKind::Load) && op.get(ir::attr::multicast); });
  return may;
}

llvm::Function *lowerByTma(launch::LaunchModule &module, const launch::Frame &frame,
                           llvm::StringRef name) {
  LaunchFunction function(module, &frame);
  return function.lower(name, [&] { return function.byTma(); });
}

llvm::Function *lowerPairedCount(launch::LaunchModule &module, const launch::Frame &frame,
                                 Op &space, llvm::StringRef name) {
  LaunchFunction function(module, &frame);
  return function.lower(name, [&] { return function.pairedCount(space); });
}

} // namespace dtile::backend::gpu
