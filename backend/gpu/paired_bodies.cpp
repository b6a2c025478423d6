// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether a launch loads by TMA, and how many bodies it has whose programs share loads.
#include "backend/gpu/paired_bodies.h"

#include "backend/gpu/launch_function.h"
#include "backend/runtime/kernel_abi.h"
#include "ir/core/tile_order.h"
#include "ir/model/op_cost.h"

namespace dtile::backend::gpu {

using ir::Op;
using llvm::Value;

namespace {

class TmaFunction : public LaunchFunction {
public:
  using LaunchFunction::LaunchFunction;

  Value *byTma() {
    Value *all = b.getTrue();
    for (const auto &map : layout_->tensorMaps())
      all =
          b.CreateAnd(all, b.CreateICmpEQ(word(map->usable), b.getInt64(launch::Frame::kWholeMap)));
    const bool isUnstaged = llvm::any_of(layout_->kernel().body().ops(), [](Op &op) {
      return op.is(ir::OpKind::Space) && model::hasUnstagedBody(op);
    });
    return b.CreateSelect(all, b.getInt64(DTILE_WHOLE_WORDS),
                          b.getInt64(isUnstaged ? DTILE_UNSTAGED : DTILE_IN_PARTS));
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
  TmaFunction function(module, &frame);
  return function.lower(name, [&] { return function.byTma(); });
}

llvm::Function *lowerPairedCount(launch::LaunchModule &module, const launch::Frame &frame,
                                 Op &space, llvm::StringRef name) {
  TmaFunction function(module, &frame);
  return function.lower(name, [&] { return function.pairedCount(space); });
}

} // namespace dtile::backend::gpu
