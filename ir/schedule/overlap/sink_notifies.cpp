// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// sink-notifies: a notify of a put that stands under a condition stands there as well.
//
// Expects: a put that a rank may not make, as where its own part is read in place:
//   `var gone = done; if peer != rank() { gone = put(…); } notify(s@peer[…], after: gone);`.
// Produces: the notify in both branches, behind the put where there is one.
// Why: a provider sends a put and the notify behind it as one message. Elsewhere the notify takes a
//   fence, which may wait for all that is under way to all ranks.
// Leaves alone: conditions that give other values, or that put tiles, whose threads send words;
//   notifies between which and the put anything else touches memory; spaces with warp roles.
#include "ir/analysis/communication.h"
#include "ir/core/builder.h"
#include "ir/transform/pass.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::passes {
namespace {

using namespace dtile::ir;

/// Whether a branch puts memory last, or sends nothing.
bool isOnePut(const Block &branch) {
  const Op *token = branch.terminator()->operand(0)->definingOp();
  if (!token)
    return false;
  return token->is(OpKind::TokenDone) ||
         (token->is(OpKind::Put) && token->parentBlock() == &branch &&
          token->operand(0)->type().isView());
}

/// The condition under which the notify's puts are made, where it may stand there as well; or null.
Op *conditionOf(const Op &notify) {
  Op *condition = nullptr;
  for (Value *token : notify.operands().drop_front()) {
    if (token->type().isAcquire())
      continue;
    if (condition || !token->definingOp())
      return nullptr;
    condition = token->definingOp();
  }
  if (!condition || !condition->is(OpKind::If) || condition->numResults() != 1 ||
      putsToldBy(notify).empty())
    return nullptr;
  if (condition->parentBlock() != notify.parentBlock() || !condition->result()->hasOneUse() ||
      !isOnePut(condition->body(0)) || !isOnePut(condition->body(1)))
    return nullptr;
  // It moves behind what is between them.
  for (const Op *op = &*std::next(condition->getIterator()); op != &notify;
       op = &*std::next(op->getIterator()))
    if (op->numRegions() > 0 || (op->info().effects & ~Trap) != 0)
      return nullptr;
  return condition;
}

void sink(Op &notify, Op &condition) {
  condition.moveBefore(&notify);
  Builder builder(notify.parentBlock()->module());
  for (unsigned i = 0; i < condition.numRegions(); ++i) {
    Op *yield = condition.body(i).terminator();
    ValueMap map;
    map[condition.result()] = yield->operand(0);
    builder.setInsertionPoint(yield);
    cloneOp(builder, notify, map);
    yield->removeOperand(0);
  }
  notify.erase();
  condition.removeResult(0);
}

} // namespace

bool sinkNotifies(Module &module, PassContext &context) {
  llvm::SmallVector<Op *, 8> notifies;
  walk(module.body(), [&](Op &op) {
    if (op.is(OpKind::Notify) && !op.enclosing(OpKind::Space)->has(attr::warpgroups))
      notifies.push_back(&op);
  });
  bool changed = false;
  for (Op *notify : notifies)
    if (Op *condition = conditionOf(*notify)) {
      context.remark(*notify, "it stands where what it is after is put, and is sent with it");
      sink(*notify, *condition);
      changed = true;
    }
  return changed;
}

} // namespace dtile::passes
