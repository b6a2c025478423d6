// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// dce: removes what nothing needs.
//
// Expects: any well-formed module.
// Produces: no pure op or read of local memory, and no `for`, `if`, or `while` that is known to
//   end, without effects, whose results are unused; no carried value of a `for` that only feeds
//   itself, no unused result of an `if`; where there are kernels, no function that none of them
//   reaches.
// Why: lowering and the other passes leave such things behind.
// Leaves alone: ops with effects and their tokens, and the parameters of kernels and functions.
#include "ir/analysis/loop_ends.h"
#include "ir/transform/pass.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

namespace dtile::passes {

using namespace dtile::ir;

namespace {

/// Marks what is needed, from the effects backwards, and sweeps the rest.
class DeadCode {
public:
  explicit DeadCode(Module &module) : module_(module) {}
  bool run();

private:
  void removeFunctions();
  void reach(Op &function, llvm::DenseSet<Op *> &reached);
  [[nodiscard]] bool hasEffects(const Op &op);

  void markRoots(Block &block);
  void needOp(Op &op);
  void need(Value *value);
  void needResult(Op &op, unsigned i);
  void needArgument(Op &op, unsigned i);
  void propagate();

  void sweep(Block &block);
  void sweepFor(Op &loop);
  void sweepIf(Op &op);

  Module &module_;
  llvm::DenseSet<const Value *> needed_;
  llvm::DenseSet<const Op *> neededOps_;
  llvm::DenseMap<const Op *, bool> functionEffects_;
  llvm::StringMap<Op *> functions_;
  std::vector<Value *> worklist_;
  bool changed_ = false;
};

bool isStructure(const Op &op) {
  return op.is(OpKind::For) || op.is(OpKind::While) || op.is(OpKind::If);
}

/// A loop without end is seen by everybody, whatever it computes.
bool mayNotEnd(Op &op) { return op.is(OpKind::While) && !isKnownToEnd(op); }

/// A read of this rank's memory, which nobody notices. One with a token is that token's use; one
/// that blocks until words have come keeps ranks together.
bool isPlainRead(const Op &op) {
  return (op.is(OpKind::Load) || op.is(OpKind::Gather)) && !op.operand(0)->type().isRemote() &&
         !op.get(attr::ll) &&
         llvm::none_of(op.operands(), [](const Value *v) { return v->type().isToken(); });
}

// Functions.

void DeadCode::reach(Op &function, llvm::DenseSet<Op *> &reached) {
  std::vector<Op *> open{&function};
  while (!open.empty()) {
    Op *current = open.back();
    open.pop_back();
    if (!reached.insert(current).second)
      continue;
    walk(*current, [&](Op &op) {
      if (!op.is(OpKind::Call))
        return;
      if (Op *callee = functions_.lookup(op.get(attr::callee)))
        open.push_back(callee);
    });
  }
}

void DeadCode::removeFunctions() {
  llvm::DenseSet<Op *> reached;
  bool hasKernels = false;
  for (Op &op : module_.body().ops())
    functions_[op.get(attr::name)] = &op;
  for (Op &op : module_.body().ops()) {
    if (!op.is(OpKind::Kernel))
      continue;
    hasKernels = true;
    reach(op, reached);
  }
  if (!hasKernels)
    return;
  for (auto it = module_.body().ops().begin(); it != module_.body().ops().end();) {
    Op &op = *it++;
    if (reached.contains(&op))
      continue;
    functions_.erase(op.get(attr::name));
    op.erase();
    changed_ = true;
  }
}

/// Whether an op must stay although nothing uses its results.
bool DeadCode::hasEffects(const Op &op) {
  if (op.is(OpKind::Call)) {
    Op *callee = functions_.lookup(op.get(attr::callee));
    if (!callee)
      return true;
    // A function that calls itself counts as having effects: it may not end.
    auto [it, isNew] = functionEffects_.try_emplace(callee, true);
    if (!isNew)
      return it->second;
    bool found = false;
    walk(callee->body(), [&](Op &inner) {
      if (!found && !inner.is(OpKind::Return) && !inner.is(OpKind::Yield) &&
          !inner.is(OpKind::Condition))
        found = isStructure(inner) ? mayNotEnd(inner) : hasEffects(inner);
    });
    functionEffects_[callee] = found;
    return found;
  }
  return !op.isPure() && !isPlainRead(op);
}

// Marking.

void DeadCode::need(Value *value) {
  if (needed_.insert(value).second)
    worklist_.push_back(value);
}

void DeadCode::needOp(Op &op) {
  for (Op *current = &op; current && neededOps_.insert(current).second;
       current = current->parentOp()) {
    // A carried value or a yielded one is needed only where its slot is.
    const unsigned own = current->is(OpKind::For) ? 3 : current->numOperands();
    const bool isSlotYield =
        current->is(OpKind::Yield) && current->parentOp() &&
        (current->parentOp()->is(OpKind::For) || current->parentOp()->is(OpKind::If));
    if (!isSlotYield)
      for (unsigned i = 0; i < own; ++i)
        need(current->operand(i));
    for (unsigned i = 0; i < current->numRegions(); ++i)
      if (Op *last = current->body(i).terminator())
        needOp(*last);
  }
}

void DeadCode::needResult(Op &op, unsigned i) {
  needOp(op);
  if (op.is(OpKind::For)) {
    need(op.operand(3 + i));
    need(op.body().terminator()->operand(i));
    need(op.body().argument(1 + i));
  } else if (op.is(OpKind::If)) {
    need(op.body(0).terminator()->operand(i));
    need(op.body(1).terminator()->operand(i));
  }
}

void DeadCode::needArgument(Op &op, unsigned i) {
  needOp(op);
  if (op.is(OpKind::For) && i > 0)
    needResult(op, i - 1);
}

void DeadCode::markRoots(Block &block) {
  for (Op &op : block.ops()) {
    for (unsigned i = 0; i < op.numRegions(); ++i)
      markRoots(op.body(i));
    const bool isSlotYield = op.is(OpKind::Yield) && isStructure(*op.parentOp());
    const bool isRoot =
        isStructure(op) ? mayNotEnd(op) : !op.is(OpKind::Condition) && hasEffects(op);
    if (!isSlotYield && isRoot)
      needOp(op);
  }
}

void DeadCode::propagate() {
  while (!worklist_.empty()) {
    Value *value = worklist_.back();
    worklist_.pop_back();
    if (Op *op = value->definingOp())
      needResult(*op, value->index());
    else if (Op *owner = value->argumentOf()->parentOp())
      needArgument(*owner, value->index());
  }
}

// Sweeping.

/// Slots go in two steps: what feeds them is in the body, and must lose its use before it is swept.
void DeadCode::sweepFor(Op &loop) {
  llvm::SmallVector<unsigned, 4> dead;
  for (unsigned i = loop.numResults(); i-- > 0;)
    if (!needed_.contains(loop.body().argument(1 + i)))
      dead.push_back(i);
  for (const unsigned i : dead) {
    loop.body().terminator()->removeOperand(i);
    loop.removeOperand(3 + i);
    loop.removeResult(i);
    changed_ = true;
  }
  sweep(loop.body());
  for (const unsigned i : dead)
    loop.body().removeArgument(1 + i);
}

void DeadCode::sweepIf(Op &op) {
  for (unsigned i = op.numResults(); i-- > 0;) {
    if (needed_.contains(op.result(i)))
      continue;
    op.body(0).terminator()->removeOperand(i);
    op.body(1).terminator()->removeOperand(i);
    op.removeResult(i);
    changed_ = true;
  }
}

/// Backwards, so that users go before what they use.
void DeadCode::sweep(Block &block) {
  for (auto it = block.ops().end(); it != block.ops().begin();) {
    Op &op = *--it;
    if (!neededOps_.contains(&op)) {
      ++it;
      op.erase();
      changed_ = true;
      continue;
    }
    if (op.is(OpKind::For)) {
      sweepFor(op);
      continue;
    }
    if (op.is(OpKind::If))
      sweepIf(op);
    for (unsigned i = 0; i < op.numRegions(); ++i)
      sweep(op.body(i));
  }
}

bool DeadCode::run() {
  removeFunctions();
  for (Op &function : module_.body().ops()) {
    needed_.clear();
    neededOps_.clear();
    markRoots(function.body());
    needOp(function);
    propagate();
    sweep(function.body());
  }
  return changed_;
}

} // namespace

bool eliminateDeadCode(Module &module, PassContext &context) { return DeadCode(module).run(); }

} // namespace dtile::passes
