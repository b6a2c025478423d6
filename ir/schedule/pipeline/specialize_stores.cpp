// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// specialize-stores: leaves the store at the end of a body to warps of its own.
//
// Expects: spaces whose loads are staged (stage-loads), before infer-layouts.
// Produces: attribute `epilogue` on the last store or put of a tile of each body, and on the awaits
//   and notifies of it after; or on those of a loop, as over the ranks. The groups that multiply
//   leave the tile in shared memory and go on to the next body; another warp stores it, and then
//   notifies.
// Why: stores, above all those to other ranks, take microseconds until they have landed, and a
//   notify has to wait for that. The matrix units would stand still.
// Leaves alone: bodies that do something else after the store, that give tokens away, or whose
//   store's place takes more than arithmetic to find; spaces in order; stores to other ranks whose
//   memory may not be mapped, as those warps copy in bulk.
#include "ir/core/builder.h"
#include "ir/schedule/pipeline/position_arithmetic.h"
#include "ir/transform/pass.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::passes {
namespace {

using namespace dtile::ir;

/// The end of a body: a store, and what only speaks of it.
struct Tail {
  Op *store = nullptr;
  llvm::SmallVector<Op *, 4> behind;
};

/// A tile of rows that goes to a window of the same shape.
bool isTileStore(const Op &op) {
  if (!op.is(OpKind::Store) && !op.is(OpKind::Put))
    return false;
  const Type tile = op.operand(0)->type();
  const Type view = op.operand(1)->type();
  // Tokens of other transfers would have to be awaited first, by the groups.
  const auto isToken = [](const Value *value) { return value->type().isToken(); };
  return tile.isTile() && tile.rank() == 2 && view.rank() == 2 && dtypeBytes(tile.dtype()) >= 2 &&
         llvm::none_of(op.operands(), isToken);
}

bool speaksOfStore(const Op &op) { return op.is(OpKind::Notify) || op.is(OpKind::Await); }

/// A loop, as over the ranks, that does no more than send a tile of before it, or notify.
bool isLoopOfSends(Op &op) {
  if (!op.is(OpKind::For) || op.numResults() > 0)
    return false;
  unsigned sends = 0;
  for (Op &inner : op.body().ops()) {
    const Op *tile = inner.is(OpKind::Put) ? inner.operand(0)->definingOp() : nullptr;
    if (tile && isTileStore(inner) && tile->parentBlock() != &op.body())
      ++sends;
    else if (&inner != op.body().terminator() && !isArithmetic(inner) && !speaksOfStore(inner))
      return false;
  }
  return sends <= 1;
}

/// Takes an op of a tail, unless something else is done there.
bool take(Op &op, Tail &tail) {
  if (speaksOfStore(op)) {
    tail.behind.push_back(&op);
    return true;
  }
  if (isTileStore(op)) {
    tail.store = &op;
    return true;
  }
  if (isLoopOfSends(op))
    return llvm::all_of(llvm::reverse(op.body().ops()), [&](Op &inner) {
      return &inner == op.body().terminator() || isArithmetic(inner) || take(inner, tail);
    });
  return isArithmetic(op);
}

/// The tail of a body, or one without a store.
Tail tailOf(Block &body) {
  Tail tail;
  for (Op &op : llvm::reverse(body.ops()))
    if (&op != body.terminator() && (!take(op, tail) || tail.store))
      break;
  return tail;
}

/// Whether what the tail needs besides the tile is arithmetic on the body's position, which another
/// warp can do again.
bool isSimple(const Tail &tail) {
  PositionArithmetic arithmetic;
  const auto isSimple = [&](const Op *op) {
    const Op *loop = op->parentOp();
    return arithmetic.areSimple(op->operands()) &&
           (!loop->is(OpKind::For) || arithmetic.areSimple(loop->operands()));
  };
  return isSimple(tail.store) && llvm::all_of(tail.behind, isSimple);
}

bool deferIn(Op &space, PassContext &context) {
  const bool givesTokens = space.body().terminator()->numOperands() > 0;
  if (!space.has(attr::warpgroups) || space.get(attr::ordered) || givesTokens)
    return false;
  const Tail tail = tailOf(space.body());
  if (!tail.store)
    return false;
  if (!context.areMapped && tail.store->operand(1)->type().isRemote()) {
    context.remark(*tail.store, "this store is not left to a warp of its own: the memory of other "
                                "ranks may not be mapped, and its warp stores in place only");
    return false;
  }
  if (!isSimple(tail)) {
    context.remark(*tail.store, "this store is not left to a warp of its own: where it goes is not "
                                "known from the body's position");
    return false;
  }
  tail.store->set(attr::epilogue, true);
  for (Op *op : tail.behind)
    op->set(attr::epilogue, true);
  context.remark(*tail.store, "this store is left to a warp of its own");
  return true;
}

} // namespace

bool specializeStores(Module &module, PassContext &context) {
  bool changed = false;
  for (Op &kernel : module.body().ops())
    if (kernel.is(OpKind::Kernel))
      for (Op &op : kernel.body().ops())
        if (op.is(OpKind::Space))
          changed |= deferIn(op, context);
  return changed;
}

} // namespace dtile::passes
