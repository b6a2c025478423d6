// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// split-epilogue: lets the warpgroups hand over the rows of an output tile in parts.
//
// Expects: spaces whose store is deferred (specialize-stores) and whose loads after products have
// been
//   considered (prefetch-epilogue), before infer-layouts.
// Produces: attribute `epilogue_parts` on spaces with few stages, where the memory that this saves
//   is room for more, and that many `stages` on their loops. Shared memory then holds one part; the
//   next is written when it has left. Either
//   - groups take turns: a part has the rows of one group. While it waits, or writes, the others
//     multiply on, one stage more ahead. The wait comes once: from then on the groups end their
//     sums at different times; or
//   - all groups write each part: tiles of more rows, or transposed ones. They wait for all parts
//     but the last.
// Leaves alone: bodies that do more than multiply and store the sum: groups that take turns would
//   meet there, while one waits for what the other stores; and stores to peers.
#include "ir/analysis/communication.h"
#include "ir/analysis/row_gathers.h"
#include "ir/analysis/shared_memory_plan.h"
#include "ir/transform/pass.h"

namespace dtile::passes {
namespace {

using namespace dtile::ir;

/// Stages of which more pay little: one is multiplied, one is about to be left, and two come.
constexpr int64_t kEnoughStages = 4;
/// Of a transposed sum, a warpgroup has whole blocks of so many rows: its instruction's columns,
/// with those of the other group where two share them.
constexpr int64_t kTransposedRows = 16;

/// What a body is, where groups may be at different places of it: one staged loop, and around it
/// nothing at which they meet or for which they need shared memory.
struct SimpleBody {
  Op *loop = nullptr;
  /// The store of the loop's sum, or of that in another type, or transposed.
  Op *store = nullptr;
  bool isTransposed = false;

  explicit SimpleBody(Op &space);
  [[nodiscard]] bool isValid() const { return isSimple_ && loop && store; }

private:
  [[nodiscard]] bool isSum(const Value *tile) const;
  bool isSimple_ = true;
};

bool SimpleBody::isSum(const Value *tile) const {
  const Op *op = tile->definingOp();
  while (op && (op->is(OpKind::Cast) || op->is(OpKind::Trans)))
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
    } else if (isLoopOfEpilogue(op)) {
      // A tile that goes to several ranks leaves whole.
      isSimple_ &= tileStoreOfEpilogue(op) == nullptr;
    } else if (op.get(attr::epilogue)) {
      if (op.numOperands() == 0 || !op.operand(0)->type().isTile())
        continue;
      isSimple_ &= store == nullptr && isSum(op.operand(0));
      store = &op;
    } else if (op.is(OpKind::Wait)) {
      // Before the loop the groups may meet.
      isSimple_ &= loop == nullptr;
    } else if (isTile) {
      const bool isSumAgain = (op.is(OpKind::Cast) || op.is(OpKind::Trans)) && isSum(op.result());
      isTransposed ^= op.is(OpKind::Trans);
      isSimple_ &= op.is(OpKind::Splat) || isSumAgain || isForRows(op, LoadPath::Rows);
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

/// Rows of a tile of which each warpgroup has as many elements as the others.
int64_t sharedRows(const SimpleBody &body, int64_t groups, const TargetFacts &facts) {
  if (body.isTransposed)
    return kTransposedRows;
  const bool byColumns =
      llvm::any_of(body.loop->body().ops(), [](const Op &op) { return op.get(attr::by_columns); });
  return facts.groupRows * (byColumns ? 1 : groups);
}

/// The fewest parts that leave room for the most stages, up to enough of them; 0 where parts give
/// no more than `stages`.
int64_t partsFor(Op &space, const SimpleBody &body, int64_t groups, const TargetFacts &facts,
                 int64_t &stages) {
  const int64_t rows = body.store->operand(0)->type().shape()[0];
  const bool inTurns = !body.isTransposed && rows == groups * facts.groupRows;
  const int64_t least = inTurns ? facts.groupRows : sharedRows(body, groups, facts);
  int64_t found = 0;
  for (int64_t parts = 2; parts * least <= rows; ++parts) {
    if (rows % (parts * least) != 0)
      continue;
    const int64_t fit = StagedPlan(space, controlBegin(space), parts).stagesIn(sharedRoom(facts));
    if (std::min(fit, kEnoughStages) <= stages)
      continue;
    stages = std::min(fit, kEnoughStages);
    found = parts;
  }
  return found;
}

bool partOutput(Op &space, const TargetFacts &facts, PassContext &context) {
  const SimpleBody body(space);
  // What goes to peers leaves slowly.
  if (!body.isValid() || body.store->operand(1)->type().isRemote())
    return false;
  const int64_t groups = space.get(attr::warpgroups);
  if (groups < 2 || body.store->operand(0)->type().rank() != 2)
    return false;
  int64_t stages = body.loop->get(attr::stages);
  const int64_t parts = partsFor(space, body, groups, facts, stages);
  if (parts == 0)
    return false;
  space.set(attr::epilogue_parts, parts);
  body.loop->set(attr::stages, stages);
  context.remark(*body.store, "groups hand over their rows in " + llvm::Twine(parts) +
                                  " parts, which leaves room for " + llvm::Twine(stages) +
                                  " stages");
  return true;
}

} // namespace

bool splitEpilogue(Module &module, PassContext &context) {
  bool changed = false;
  if (!context.facts || context.facts->groupRows == 0)
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
