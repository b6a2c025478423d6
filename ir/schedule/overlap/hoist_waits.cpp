// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// hoist-waits: a loop that waits for one rank's tile after the other waits for all of them first.
//
// Expects: loops such as `for hop in 0..W { sum += part[hop, m, n] after wait(sent[hop, …]); }` in
//   spaces beside staged products (stage-loads).
// Produces: the waits in a loop of their own before it. Code keeps what comes after them there, so
//   loads need no acquires.
// Why: a wait whose cell is complete takes most of a microsecond, and the next rank's loads would
//   begin after it. Without waits, loads of several ranks are on their way at once (batch-loads),
//   and the tiles can be sliced (slice-bodies).
// Leaves alone: loops that do more than wait, load and compute elementwise, as the work of one
//   iteration then covers the wait of the next; loops that take cells in the order of arrival;
//   kernels without staged products, whose messages may carry flags (ll-messages).
#include "ir/core/builder.h"
#include "ir/core/op_classes.h"
#include "ir/schedule/beside_products.h"
#include "ir/schedule/pipeline/position_arithmetic.h"
#include "ir/transform/pass.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace dtile::passes {
namespace {

using namespace dtile::ir;

/// Whether an iteration waits for cells that its number alone chooses, loads, and computes.
bool onlyWaitsAndLoads(Op &loop) {
  PositionArithmetic arithmetic;
  const auto isLoad = [](const Use &use) { return use.user->is(OpKind::Load); };
  bool waits = false;
  for (Op &op : loop.body().ops()) {
    if (op.is(OpKind::Wait)) {
      waits = true;
      // An acquire that is joined, or carried, orders more than the iteration's loads.
      if (!arithmetic.areSimple(op.operands()) || !llvm::all_of(op.result()->uses(), isLoad))
        return false;
    } else if (op.is(OpKind::Load)) {
      if (!op.attrs().empty())
        return false;
    } else if (!op.isPure() && !op.is(OpKind::SigSlice) && !op.is(OpKind::Yield)) {
      return false;
    } else if (isTileOp(op.kind()) && !op.is(OpKind::Splat)) {
      return false;
    }
  }
  return waits;
}

/// Ops of a block that its waits need, and the waits.
llvm::SmallPtrSet<const Op *, 8> neededToWait(Block &block) {
  llvm::SmallPtrSet<const Op *, 8> needed;
  for (Op &op : llvm::reverse(block.ops())) {
    if (!op.is(OpKind::Wait) && !needed.contains(&op))
      continue;
    needed.insert(&op);
    for (const Value *operand : op.operands())
      if (const Op *from = operand->definingOp())
        needed.insert(from);
  }
  return needed;
}

void hoist(Op &loop) {
  Builder builder(loop.parentBlock()->module());
  builder.setInsertionPoint(&loop);
  builder.setLoc(loop.loc());
  Op *waits = builder.op(OpKind::For, loop.operands().take_front(3));
  ValueMap map;
  map[loop.body().argument(0)] =
      waits->body().addArgument(builder.types().index(), loop.body().argument(0)->nameHint());
  builder.setInsertionPointToEnd(waits->body());
  const auto needed = neededToWait(loop.body());
  for (Op &op : loop.body().ops())
    if (needed.contains(&op))
      cloneOp(builder, op, map);
  builder.op(OpKind::Yield, {});
  for (Op &op : llvm::make_early_inc_range(llvm::reverse(loop.body().ops()))) {
    if (op.is(OpKind::Wait)) {
      while (!op.result()->uses().empty()) {
        const Use use = op.result()->uses().front();
        use.user->removeOperand(use.index);
      }
      op.erase();
    } else if (op.is(OpKind::SigSlice) && op.result()->uses().empty()) {
      op.erase();
    }
  }
}

} // namespace

bool hoistWaits(Module &module, PassContext &context) {
  llvm::SmallVector<Op *, 4> loops;
  for (Op *space : spacesBesideProducts(module))
    for (Op &op : space->body().ops())
      if (op.is(OpKind::For) && op.attrs().empty() && onlyWaitsAndLoads(op))
        loops.push_back(&op);
  for (Op *loop : loops) {
    context.remark(*loop, "it waits for all that it loads before it loads the first");
    hoist(*loop);
  }
  return !loops.empty();
}

} // namespace dtile::passes
