// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// carry-awaits: lets a transfer of one loop iteration finish during the next.
//
// Expects: `for` loops after issue-early: an await of this iteration's transfers stands as late as
//   it can.
// Produces: where such an await is the last thing that an iteration does, its tokens are carried to
//   the next iteration, which awaits them before its first op that conflicts with the transfers.
//   Those of the last iteration are awaited after the loop.
// Why: what an iteration does before it touches the transfer's memory again hides the transfer.
// Leaves alone: loops where nothing stands before the conflict, and awaits that order something
//   else in their own iteration.
#include "ir/analysis/loop_positions.h"
#include "ir/analysis/ordering.h"
#include "ir/core/builder.h"
#include "ir/transform/pass.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::passes {
namespace {

using namespace dtile::ir;

/// The transfers of this block whose tokens the await takes; empty where a token comes from
/// elsewhere.
llvm::SmallVector<Op *, 4> awaitedTransfers(Op &await) {
  llvm::SmallVector<Op *, 4> transfers;
  for (Value *token : await.operands()) {
    Op *op = token->definingOp();
    bool isOwn = op && isTransfer(*op) && op->parentBlock() == await.parentBlock();
    if (!isOwn || !token->hasOneUse())
      return {};
    transfers.push_back(op);
  }
  return transfers;
}

/// The await that ends the iteration: after it nothing has effects.
Op *lastAwait(Block &body) {
  for (Op &op : llvm::reverse(body.ops())) {
    if (op.is(OpKind::Await))
      return &op;
    if (&op != body.terminator() && !effectsOf(op).empty())
      return nullptr;
  }
  return nullptr;
}

/// The first op of the iteration that must not start before the last iteration's transfers are
/// complete.
Op *firstConflict(Block &body, const Effectful &transfers, bool &hidesWork) {
  hidesWork = false;
  for (Op &op : body.ops()) {
    Effectful effects = effectsOf(op);
    // A notify after the await says that the transfers are complete; a wait may depend on that.
    bool speaks = llvm::any_of(effects, [](Op *e) { return e->hasEffect(Signal | Wait | Order); });
    if (speaks || mustStayBehind(transfers, effects) || &op == body.terminator())
      return &op;
    hidesWork |= !effects.empty();
  }
  return nullptr;
}

bool carry(Op &loop, PassContext &context) {
  Block &body = loop.body();
  Op *await = lastAwait(body);
  if (!await)
    return false;
  llvm::SmallVector<Op *, 4> transfers = awaitedTransfers(*await);
  if (transfers.empty())
    return false;
  bool hidesWork = false;
  Op *conflict = firstConflict(body, Effectful(transfers.begin(), transfers.end()), hidesWork);
  if (!hidesWork || conflict == body.terminator())
    return false;

  Builder builder(body.module());
  builder.setLoc(await->loc());
  llvm::SmallVector<Value *, 4> carried, results;
  Op *yield = body.terminator();
  for (Op *transfer : transfers) {
    builder.setInsertionPoint(&loop);
    loop.addOperand(builder.op(OpKind::TokenDone, {})->result());
    carried.push_back(body.addArgument(builder.types().token(), "last"));
    results.push_back(loop.addResult(builder.types().token(), "last"));
    yield->addOperand(transfer->result());
  }
  await->erase();
  builder.setInsertionPoint(conflict);
  builder.op(OpKind::Await, carried);
  builder.setInsertionPoint(&*std::next(loop.getIterator()));
  builder.op(OpKind::Await, results);
  context.remark(loop, "transfers of an iteration finish during the next");
  return true;
}

} // namespace

bool carryAwaits(Module &module, PassContext &context) {
  bool changed = false;
  for (Op *loop : loopsOfSpaces(module))
    changed |= carry(*loop, context);
  return changed;
}

} // namespace dtile::passes
