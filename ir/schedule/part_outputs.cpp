// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// part-outputs: lets the groups of warps hand over their rows of a sum one after the other.
//
// Expects: spaces whose store is deferred (defer-stores) and whose loads behind products have been
//   considered (bring-tiles), before infer-layouts.
// Produces: attribute `parts` on spaces with few stages, where the memory that this saves is room
//   for more, and that many `stages` on their loops. Shared memory then holds the rows of one
//   group; the next group waits until they have left.
// Why: while a group waits, or writes, the others multiply on, one stage more ahead. The wait comes
//   once: from then on the groups end their sums at different times.
// Leaves alone: tiles that are more than a sum in another type (which thread has which rows is only
//   known of sums), sums whose groups have several blocks of rows, stores to peers, and spaces that
//   bring tiles to where the sum will stand.
#include "ir/transform/pass.h"

namespace dtile::passes {
namespace {

using namespace dtile::ir;

/// What a program's barriers take in front of the stages, aligned as those.
constexpr int64_t kBarrierBytes = 1024;
/// Shared memory that the driver takes of each program.
constexpr int64_t kReservedBytes = 1024;
/// Stages of which more pay little: one is multiplied, one is about to be left, and two come.
constexpr int64_t kEnoughStages = 4;
/// Bytes that a row of the stored tile is longer than its elements.
constexpr int64_t kRowPadding = 16;

/// The staged loop whose sum a store is of, or null.
Op *loopOf(const Op &store) {
  Op *op = store.operand(0)->definingOp();
  if (op && op->is(OpKind::Cast))
    op = op->operand(0)->definingOp();
  return op && op->is(OpKind::For) && op->hasAttr("stages") ? op : nullptr;
}

/// Bytes of one iteration's staged loads.
int64_t stageBytes(Op &loop) {
  int64_t bytes = 0;
  for (Op &op : loop.body().ops())
    if (op.is(OpKind::Load) && op.hasAttr("swizzle"))
      bytes += op.result()->type().elements() * dtypeBytes(op.result()->type().dtype());
  return bytes;
}

bool partOutput(Op &space, const TargetFacts &facts, PassContext &context) {
  Op *store = nullptr;
  bool isOther = false;
  llvm::SmallVector<Op *, 2> loops;
  walk(space.body(), [&](Op &op) {
    if (op.is(OpKind::For) && op.hasAttr("stages"))
      loops.push_back(&op);
    isOther |= op.boolAttrOr("brought", false);
    if (!op.boolAttrOr("deferred", false) || op.numOperands() == 0 ||
        !op.operand(0)->type().isTile())
      return;
    isOther |= store != nullptr;
    store = &op;
  });
  if (isOther || !store || loops.size() != 1 || loopOf(*store) != loops.front())
    return false;
  const int64_t groups = space.intAttr("groups");
  const Type tile = store->operand(0)->type();
  // What goes to peers leaves slowly.
  if (store->operand(1)->type().isRemote())
    return false;
  if (groups < 2 || tile.rank() != 2 || tile.shape()[0] != groups * facts.groupRows)
    return false;
  const int64_t row = tile.shape()[1] * int64_t(dtypeBytes(tile.dtype())) + kRowPadding;
  const int64_t room = facts.sharedBytes - kReservedBytes - kBarrierBytes - facts.groupRows * row;
  const int64_t stages = room / stageBytes(*loops.front());
  const int64_t stagesNow = loops.front()->intAttr("stages");
  if (stagesNow >= kEnoughStages || stages <= stagesNow)
    return false;
  const int64_t more = std::min(stages, kEnoughStages);
  space.setAttr("parts", groups);
  loops.front()->setAttr("stages", more);
  context.remark(*store, "groups hand over their rows one after the other, which leaves room for " +
                             llvm::Twine(more) + " stages");
  return true;
}

} // namespace

bool partOutputs(Module &module, PassContext &context) {
  bool changed = false;
  if (!context.facts)
    return changed;
  for (Op &kernel : module.body().ops())
    if (kernel.is(OpKind::Kernel))
      for (Op &op : kernel.body().ops())
        if (op.is(OpKind::Space) && op.hasAttr("groups"))
          changed |= partOutput(op, *context.facts, context);
  return changed;
}

} // namespace dtile::passes
