// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// split-epilogue: lets the warpgroups hand over their rows of a sum one after the other.
//
// Expects: spaces whose store is deferred (specialize-stores) and whose loads after products have
// been
//   considered (prefetch-epilogue), before infer-layouts.
// Produces: attribute `parts` on spaces with few stages, where the memory that this saves is room
//   for more, and that many `stages` on their loops. Shared memory then holds the rows of one
//   group; the next group waits until they have left.
// Why: while a group waits, or writes, the others multiply on, one stage more ahead. The wait comes
//   once: from then on the groups end their sums at different times.
// Leaves alone: bodies that do more than multiply and store the sum: the groups would meet there,
//   while one waits for what the other stores; sums whose groups have several blocks of rows; and
//   stores to peers.
#include "ir/analysis/communication.h"
#include "ir/analysis/row_gathers.h"
#include "ir/analysis/shared_memory_plan.h"
#include "ir/transform/pass.h"

namespace dtile::passes {
namespace {

using namespace dtile::ir;

/// Stages of which more pay little: one is multiplied, one is about to be left, and two come.
constexpr int64_t kEnoughStages = 4;

/// What a body is, where groups may be at different places of it: one staged loop, and around it
/// nothing at which they meet or for which they need shared memory.
struct SimpleBody {
  Op *loop = nullptr;
  /// The store of the loop's sum, or of that in another type.
  Op *store = nullptr;

  explicit SimpleBody(Op &space);
  [[nodiscard]] bool isValid() const { return isSimple_ && loop && store; }

private:
  [[nodiscard]] bool isSum(const Value *tile) const;
  bool isSimple_ = true;
};

bool SimpleBody::isSum(const Value *tile) const {
  const Op *op = tile->definingOp();
  if (op && op->is(OpKind::Cast))
    op = op->operand(0)->definingOp();
  return op && op == loop;
}

/// Whether an op is the deferred ops' alone: the groups leave it out, with its check
/// (backend/gpu/staged/mma_warpgroups.cpp, isForHelpers).
bool isForEpilogue(const Op &op) {
  return (op.is(OpKind::SigAt) || op.is(OpKind::SigSlice)) &&
         llvm::all_of(op.result()->uses(), [](const Use &use) {
           return use.user->get(attr::epilogue) || isForEpilogue(*use.user);
         });
}

/// A number that the caller has put there: nobody meets to read it.
bool isNumberOfInput(const Op &op) { return isLoadOfInput(op) && !op.result()->type().isTile(); }

SimpleBody::SimpleBody(Op &space) {
  for (Op &op : space.body().ops()) {
    const bool isTile = op.numResults() == 1 && op.result()->type().isTile();
    if (op.is(OpKind::For) && op.has(attr::stages)) {
      isSimple_ &= loop == nullptr;
      loop = &op;
    } else if (op.get(attr::epilogue)) {
      if (op.numOperands() == 0 || !op.operand(0)->type().isTile())
        continue;
      isSimple_ &= store == nullptr && isSum(op.operand(0));
      store = &op;
    } else if (op.is(OpKind::Wait)) {
      // Before the loop the groups may meet.
      isSimple_ &= loop == nullptr;
    } else if (isTile) {
      isSimple_ &= op.is(OpKind::Splat) || (op.is(OpKind::Cast) && isSum(op.result())) ||
                   isForRows(op, LoadPath::Rows);
    } else {
      // Before the loop a check may fail: all are told, and leave.
      const bool mayTrap = !loop && op.info().effects == Trap;
      isSimple_ &= op.isPure() || op.is(OpKind::Yield) || mayTrap || isForEpilogue(op) ||
                   isNumberOfInput(op);
    }
  }
  if (!loop)
    return;
  for (Op &op : loop->body().ops()) {
    const bool isTile = op.numResults() == 1 && op.result()->type().isTile();
    const bool isStaged = isStagedLoad(op) || op.is(OpKind::Trans) ||
                          (op.has(attr::warpgroups) && !op.has(attr::resident));
    isSimple_ &= isTile ? isStaged : op.isPure() || op.is(OpKind::Yield) || op.is(OpKind::Wait);
  }
}

bool partOutput(Op &space, const TargetFacts &facts, PassContext &context) {
  const SimpleBody body(space);
  // What goes to peers leaves slowly.
  if (!body.isValid() || body.store->operand(1)->type().isRemote())
    return false;
  const int64_t groups = space.get(attr::warpgroups);
  const Type tile = body.store->operand(0)->type();
  if (groups < 2 || tile.rank() != 2 || tile.shape()[0] != groups * facts.groupRows)
    return false;
  const StagedPlan plan(space, controlBegin(space), groups);
  const int64_t fit = plan.stagesIn(sharedRoom(facts));
  const int64_t stages = std::min(fit, kEnoughStages);
  if (stages <= body.loop->get(attr::stages))
    return false;
  space.set(attr::epilogue_parts, groups);
  body.loop->set(attr::stages, stages);
  context.remark(*body.store,
                 "groups hand over their rows one after the other, which leaves room for " +
                     llvm::Twine(stages) + " stages");
  return true;
}

} // namespace

bool splitEpilogue(Module &module, PassContext &context) {
  bool changed = false;
  if (!context.facts)
    return changed;
  for (Op &kernel : module.body().ops()) {
    if (!kernel.is(OpKind::Kernel))
      continue;
    for (Op &op : kernel.body().ops())
      if (op.is(OpKind::Space) && op.has(attr::warpgroups))
        changed |= partOutput(op, *context.facts, context);
  }
  return changed;
}

} // namespace dtile::passes
