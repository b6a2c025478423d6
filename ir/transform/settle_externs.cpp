// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// settle-externs: instructions of a target compute data alone.
//
// Expects: a module without calls.
// Produces: each `extern` whose value decides something replaced by its reference; what is left
//   stands in spaces, and goes to what is stored, sent or shown.
// Why: positions, sizes, branches and counts follow from the reference on every target. So what the
//   checker has shown holds whatever a target's instructions compute.
// Leaves alone: what is stored and loaded again, which the checker takes for any data.
#include "ir/core/op_classes.h"
#include "ir/transform/pass.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

namespace dtile::passes {

using namespace dtile::ir;

namespace {

/// Finds out which values decide something.
class Decisions {
public:
  bool decides(Value *value) {
    seen_.clear();
    return reaches(value);
  }

private:
  /// Whether something is decided by the value, or by what is computed from it.
  bool reaches(Value *value) {
    if (!seen_.insert(value).second)
      return false;
    return llvm::any_of(value->uses(),
                        [&](const Use &use) { return decidesIn(*use.user, use.index); });
  }

  bool anyReaches(llvm::ArrayRef<Value *> values) {
    return llvm::any_of(values, [&](Value *value) { return reaches(value); });
  }

  bool decidesIn(Op &user, unsigned index) {
    switch (user.kind()) {
    case OpKind::Store:
    case OpKind::Scatter:
    case OpKind::Put:
    case OpKind::PutSignal:
    case OpKind::ReduceAdd:
    case OpKind::ReduceAddScatter:
      return index != 0;
    case OpKind::Atomic:
    case OpKind::AtomicScatter:
      return index != 1;
    case OpKind::Print:
      return false;
    case OpKind::For:
      return index < 3 || carriedReach(user, index - 3);
    case OpKind::While:
      return reaches(user.body(0).arguments()[index]);
    case OpKind::Condition: {
      Op &loop = *user.parentOp();
      return index == 0 || reaches(loop.body(1).arguments()[index - 1]) ||
             reaches(loop.result(index - 1));
    }
    case OpKind::Yield:
      return yielded(*user.parentOp(), index);
    default:
      return !(isElementwise(user.kind()) || isTileOp(user.kind())) || reaches(user.result());
    }
  }

  bool yielded(Op &around, unsigned index) {
    switch (around.kind()) {
    case OpKind::For:
      return carriedReach(around, index);
    case OpKind::If:
      return reaches(around.result(index));
    case OpKind::While:
      return reaches(around.body(0).arguments()[index]);
    default:
      return true;
    }
  }

  bool carriedReach(Op &loop, unsigned index) {
    return reaches(loop.body().arguments()[index + 1]) || reaches(loop.result(index));
  }

  llvm::DenseSet<Value *> seen_;
};

bool isInSpace(const Op &op) {
  for (const Op *at = op.parentOp(); at; at = at->parentOp())
    if (at->is(OpKind::Space))
      return true;
  return false;
}

} // namespace

bool settleExterns(Module &module, PassContext &context) {
  llvm::SmallVector<Op *> externs;
  walk(module.body(), [&](Op &op) {
    if (op.is(OpKind::Extern))
      externs.push_back(&op);
  });
  Decisions decisions;
  bool changed = false;
  for (Op *op : externs) {
    if (isInSpace(*op) && !decisions.decides(op->result()))
      continue;
    context.remark(*op, "`" + op->get(attr::name) +
                            "` decides what a launch does here, so its reference is computed");
    op->result()->replaceAllUsesWith(op->operand(0));
    op->erase();
    changed = true;
  }
  return changed;
}

} // namespace dtile::passes
