// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// prefetch-epilogue: leaves loads behind the products of a body to the warp that stores.
//
// Expects: spaces whose last store is deferred (specialize-stores), before infer-layouts.
// Produces: attribute `brought` on loads of tiles like the deferred one, after the last staged
//   loop. That warp has TMA bring them to where the tile will stand in shared memory,
//   as soon as the tile before has left and what they wait for has come; the groups that multiply
//   read them there.
// Why: the groups' registers are full of sums. Loads in the sums' layout touch memory in pieces of
//   16 bytes and spill; the matrix units stand still for as long as they take.
// Leaves alone: loads under conditions or of what the body writes, and those whose place or waits
//   take more than arithmetic to find, with a remark; bodies that await something themselves.
#include "ir/analysis/communication.h"
#include "ir/schedule/pipeline/position_arithmetic.h"
#include "ir/transform/pass.h"

namespace dtile::passes {
namespace {

using namespace dtile::ir;

/// Marks the loads of one space.
class EpiloguePrefetch {
public:
  EpiloguePrefetch(Op &space, PassContext &context) : space_(space), context_(context) {}
  bool run();

private:
  void visit(Op &op);
  void consider(Op &load);
  [[nodiscard]] bool isWritten(Value *view);
  [[nodiscard]] static bool isOrderedSimply(Value *after, PositionArithmetic &arithmetic);

  Op &space_;
  PassContext &context_;
  Op *store_ = nullptr;
  bool changed_ = false;
};

/// The deferred store itself comes after the load in the same body.
bool EpiloguePrefetch::isWritten(Value *view) {
  bool found = false;
  walk(space_.body(), [&](Op &op) {
    Value *written = &op == store_ ? nullptr : writtenView(op);
    found |= written && mayAlias(written, view);
  });
  return found;
}

/// What a load is after: waits whose cells are known from the position.
bool EpiloguePrefetch::isOrderedSimply(Value *after, PositionArithmetic &arithmetic) {
  Op *op = after->definingOp();
  if (!after->type().isAcquire() || !op)
    return false;
  if (op->is(OpKind::TokenJoin))
    return llvm::all_of(op->operands(),
                        [&](Value *joined) { return isOrderedSimply(joined, arithmetic); });
  return op->is(OpKind::Wait) && arithmetic.areSimple(op->operands());
}

void EpiloguePrefetch::consider(Op &load) {
  const Type tile = load.result()->type();
  const Type stored = store_->operand(0)->type();
  if (!tile.isTile() || tile.shape() != stored.shape() || tile.dtype() != stored.dtype() ||
      load.operand(0)->type().rank() != 2 || load.has(attr::via))
    return;
  const auto leave = [&](const llvm::Twine &why) {
    context_.remark(load, "this tile is not prefetched by the epilogue warp: " + why);
  };
  if (isWritten(load.operand(0)))
    return leave("its body writes there");
  PositionArithmetic arithmetic;
  const bool isSimple = arithmetic.isSimple(load.operand(0)) &&
                        llvm::all_of(load.operands().drop_front(), [&](Value *after) {
                          return isOrderedSimply(after, arithmetic);
                        });
  if (!isSimple)
    return leave("where it is, or what it waits for, is not known from the body's position");
  load.set(attr::via, LoadPath::Epilogue);
  context_.remark(load, "this tile is prefetched by the epilogue warp");
  changed_ = true;
}

/// Loads that run as often in each thread: in loops that count and carry tiles only, not under
/// conditions.
void EpiloguePrefetch::visit(Op &op) {
  if (op.is(OpKind::Load))
    return consider(op);
  const auto isTile = [](const Value *value) { return value->type().isTile(); };
  PositionArithmetic arithmetic;
  if (op.is(OpKind::For) && arithmetic.areSimple(op.operands().take_front(3)) &&
      llvm::all_of(op.results(), isTile))
    for (Op &inner : op.body().ops())
      visit(inner);
}

bool EpiloguePrefetch::run() {
  Op *lastLoop = nullptr;
  bool meets = false;
  for (Op &op : space_.body().ops()) {
    if (op.is(OpKind::For) && op.has(attr::stages))
      lastLoop = &op;
    if (op.get(attr::epilogue) && op.numOperands() > 0 && op.operand(0)->type().isTile())
      store_ = &op;
  }
  // What comes after an await, or a meeting, is after it whatever it names.
  walk(space_.body(), [&](Op &op) {
    meets |= op.is(OpKind::Barrier) || (op.is(OpKind::Await) && !op.get(attr::epilogue));
  });
  if (!lastLoop || !store_ || meets)
    return false;
  bool isBehind = false;
  for (Op &op : space_.body().ops()) {
    if (isBehind)
      visit(op);
    isBehind |= &op == lastLoop;
  }
  return changed_;
}

} // namespace

bool prefetchEpilogue(Module &module, PassContext &context) {
  bool changed = false;
  for (Op &kernel : module.body().ops())
    if (kernel.is(OpKind::Kernel))
      for (Op &op : kernel.body().ops())
        if (op.is(OpKind::Space))
          changed |= EpiloguePrefetch(op, context).run();
  return changed;
}

} // namespace dtile::passes
