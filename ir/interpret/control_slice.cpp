// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A backward slice from the operations that others can see. A loop that only computes is left out,
// bounds and all: that its length comes from data then matters to nobody. A `while` that may never
// end is seen by others, whatever it computes, and so is a stop at a cell or a rank that there is
// not.
#include "ir/interpret/control_slice.h"

#include "frontend/base/check.h"
#include "ir/analysis/clauses.h"
#include "ir/analysis/loop_ends.h"

namespace dtile::interpret {

using ir::Block;
using ir::Op;
using ir::OpKind;
using ir::Value;

const Op *rootParam(const Value *view) {
  const Op *op = view->definingOp();
  while (op && op->isPure() && op->numOperands() != 0 && !op->is(OpKind::ViewSelect))
    op = op->operand(0)->definingOp();
  if (op && op->is(OpKind::ViewSelect)) {
    const Op *first = rootParam(op->operand(1));
    return first == rootParam(op->operand(2)) ? first : nullptr;
  }
  // sig.slice may trap, so it is not pure.
  while (op && !op->is(OpKind::Param) && !op->is(OpKind::SignalParam) && op->numOperands() != 0)
    op = op->operand(0)->definingOp();
  const bool isParam = op && (op->is(OpKind::Param) || op->is(OpKind::SignalParam));
  return isParam ? op : nullptr;
}

namespace {

/// Memory that no kernel writes.
bool isReadOnly(const Value *view) {
  if (const Op *op = view->definingOp(); op && op->is(OpKind::ViewSelect))
    return isReadOnly(op->operand(1)) && isReadOnly(op->operand(2));
  const Op *param = rootParam(view);
  return param && param->is(OpKind::Param) && param->get(ir::attr::mode) == ir::ParamMode::In;
}

/// Whether a read is after tokens: what uses its value is after them, too.
bool isOrdered(const Op &read) {
  return read.is(OpKind::Load) ? read.numOperands() > 1 : ir::numTrailingTokens(read) > 0;
}

bool readsMemory(const Op &op) {
  return op.is(OpKind::Load) || op.is(OpKind::Gather) || ir::isAtomic(op);
}

class Slicer {
public:
  explicit Slicer(Op &kernel) : kernel_(kernel) {}

  ControlSlice run();

private:
  void need(Value *value);
  void needResult(Op &op, unsigned index);
  void needArgument(Block &block, unsigned index);
  void needFrom(Op &op, unsigned first);
  void mark(Op &op);
  void needOperands(Op &op);
  void drain();
  /// Whether it is computed from what was read; `inputsToo`, or only from what a kernel may write.
  bool dependsOnData(Value *value, llvm::DenseSet<Value *> &seen, bool inputsToo = true);
  bool isInsideSignal(Op &op);
  bool isReachedWithoutData(Op &op);

  Op &kernel_;
  ControlSlice slice_;
  std::vector<Value *> work_;
};

void Slicer::need(Value *value) {
  if (slice_.needed.insert(value).second)
    work_.push_back(value);
}

void Slicer::needFrom(Op &op, unsigned first) {
  for (unsigned i = first; i < op.numOperands(); ++i)
    need(op.operand(i));
}

void Slicer::mark(Op &op) {
  if (!slice_.runs.insert(&op).second)
    return;
  if (Op *parent = op.parentOp(); parent && parent != &kernel_)
    mark(*parent);
  needOperands(op);
}

/// Operands that decide what the operation does, besides the elements that it moves.
void Slicer::needOperands(Op &op) {
  switch (op.kind()) {
  case OpKind::Store:
    return needFrom(op, 1);
  case OpKind::Put:
  case OpKind::PutSignal:
  case OpKind::ReduceAdd:
    if (op.operand(0)->type().isView())
      need(op.operand(0));
    return needFrom(op, 1);
  case OpKind::Gather:
  case OpKind::Scatter:
  case OpKind::AtomicScatter:
  case OpKind::ReduceAddScatter: {
    need(op.operand(ir::indexedView(op)));
    return needFrom(op, op.numOperands() - ir::numTrailingTokens(op));
  }
  case OpKind::Atomic:
    need(op.operand(0));
    return needFrom(op, op.numOperands() - ir::numTrailingTokens(op));
  case OpKind::For:
    for (unsigned i = 0; i < 3; ++i)
      need(op.operand(i));
    return;
  case OpKind::If:
    return need(op.operand(0));
  case OpKind::While:
    return need(op.body(0).terminator()->operand(0));
  default:
    return needFrom(op, 0);
  }
}

void Slicer::needResult(Op &op, unsigned index) {
  switch (op.kind()) {
  case OpKind::For:
    return needArgument(op.body(), index + 1);
  case OpKind::If:
    need(op.body(0).terminator()->operand(index));
    return need(op.body(1).terminator()->operand(index));
  case OpKind::While:
    return need(op.body(0).terminator()->operand(index + 1));
  case OpKind::Gather:
  case OpKind::Atomic:
  case OpKind::AtomicScatter:
    return needFrom(op, 0);
  default:
    return;
  }
}

void Slicer::needArgument(Block &block, unsigned index) {
  Op *op = block.parentOp();
  need(block.argument(index));
  if (op->is(OpKind::For) && index != 0) {
    need(op->operand(index + 2));
    need(block.terminator()->operand(index - 1));
  } else if (op->is(OpKind::While)) {
    if (&block == &op->body(0)) {
      need(op->operand(index));
      need(op->body(1).terminator()->operand(index));
    } else {
      need(op->body(0).terminator()->operand(index + 1));
    }
  }
}

void Slicer::drain() {
  while (!work_.empty()) {
    Value *value = work_.back();
    work_.pop_back();
    if (Op *op = value->definingOp()) {
      mark(*op);
      needResult(*op, value->index());
      continue;
    }
    Block *block = value->argumentOf();
    if (Op *op = block->parentOp(); op->is(OpKind::For) || op->is(OpKind::While)) {
      mark(*op);
      needArgument(*block, value->index());
    }
  }
}

bool Slicer::dependsOnData(Value *value, llvm::DenseSet<Value *> &seen, bool inputsToo) {
  if (!seen.insert(value).second)
    return false;
  const auto any = [&](llvm::ArrayRef<Value *> values) {
    return llvm::any_of(values, [&](Value *v) { return dependsOnData(v, seen, inputsToo); });
  };
  Op *op = value->definingOp();
  const bool isArgument = op == nullptr;
  Op *around = isArgument ? value->argumentOf()->parentOp() : op;
  const unsigned index = value->index();
  // Of what a loop or a branch carries, each value has its own sources: a count beside a sum of
  // data is no data. How often a loop runs is one of them.
  switch (around->kind()) {
  case OpKind::For: {
    const llvm::ArrayRef<Value *> bounds = around->operands().take_front(3);
    if (isArgument && index == 0)
      return any(bounds);
    const unsigned carried = isArgument ? index - 1 : index;
    return any(bounds) ||
           any({around->operand(carried + 3), around->body().terminator()->operand(carried)});
  }
  case OpKind::While: {
    Op &condition = *around->body(0).terminator();
    Value *goesOn = condition.operand(0);
    if (isArgument && value->argumentOf() == &around->body(0))
      return any({goesOn, around->operand(index), around->body(1).terminator()->operand(index)});
    return any({goesOn, condition.operand(index + 1)});
  }
  case OpKind::If:
    if (!isArgument)
      return any({op->operand(0), op->body(0).terminator()->operand(index),
                  op->body(1).terminator()->operand(index)});
    return false;
  default:
    if (isArgument)
      return false;
  }
  if (inputsToo && op->is(OpKind::ScalarParam))
    return true;
  if (readsMemory(*op) && (inputsToo || ir::isAtomic(*op) || !isReadOnly(op->operand(0))))
    return true;
  if (any(op->operands()))
    return true;
  for (unsigned i = 0; i < op->numRegions(); ++i)
    if (!op->is(OpKind::SignalParam) && any(op->body(i).terminator()->operands()))
      return true;
  return false;
}

bool Slicer::isInsideSignal(Op &op) { return op.enclosing(OpKind::SignalParam) != nullptr; }

/// Whether neither what an operation is given nor whether it is reached comes from data.
bool Slicer::isReachedWithoutData(Op &op) {
  llvm::DenseSet<Value *> seen;
  const auto isKnown = [&](Value *value) { return !dependsOnData(value, seen); };
  if (!llvm::all_of(op.operands(), isKnown))
    return false;
  for (Op *around = op.parentOp(); around != &kernel_ && !slice_.runs.contains(around);
       around = around->parentOp()) {
    const bool isLoop = around->is(OpKind::For);
    if ((!isLoop && !around->is(OpKind::If)) ||
        !llvm::all_of(around->operands().take_front(isLoop ? 3 : 1), isKnown))
      return false;
  }
  return true;
}

ControlSlice Slicer::run() {
  std::vector<Op *> asserts;
  std::vector<Op *> clauses;
  std::vector<Op *> named;
  std::vector<Op *> indexed;
  for (Op &top : kernel_.body().ops())
    walk(top, [&](Op &op) {
      if (op.is(OpKind::Assert)) {
        asserts.push_back(&op);
        return;
      }
      // It shows what data is, and a slice has none.
      if (op.is(OpKind::Print))
        return;
      // What launches are refused for decides nothing in those that are not.
      if (ir::isClause(op)) {
        clauses.push_back(&op);
        return;
      }
      if (ir::isIndexed(op))
        indexed.push_back(&op);
      if (op.is(OpKind::SigSlice) || op.is(OpKind::SigAt) || op.is(OpKind::ViewAt))
        named.push_back(&op);
      const bool isPlainRead = (op.is(OpKind::Load) || op.is(OpKind::Gather)) &&
                               isReadOnly(op.operand(0)) && !isOrdered(op);
      const bool isStructure = op.is(OpKind::For) || op.is(OpKind::If) || op.is(OpKind::While) ||
                               op.is(OpKind::Yield) || op.is(OpKind::Condition) ||
                               op.is(OpKind::Return);
      const bool isBodyEnd = op.is(OpKind::Yield) && op.parentOp()->is(OpKind::Space);
      const bool isSeen = !op.isPure() && !isPlainRead && !isStructure && !op.is(OpKind::SigSlice);
      const bool isProlog = op.is(OpKind::LaunchDim) || op.is(OpKind::ScalarParam);
      const bool mayNotEnd = op.is(OpKind::While) && !ir::isKnownToEnd(op);
      if (isInsideSignal(op) || isSeen || isProlog || mayNotEnd)
        mark(op);
      if (isInsideSignal(op) || isBodyEnd)
        needFrom(op, 0);
    });
  drain();
  // Positions that are known without data are worth knowing; the others only name an object.
  for (Op *op : indexed) {
    if (!slice_.runs.contains(op))
      continue;
    const unsigned first = ir::firstIndexTile(*op);
    const unsigned end = op->numOperands() - ir::numTrailingTokens(*op);
    bool isData = false;
    for (unsigned i = first; i < end; ++i) {
      llvm::DenseSet<Value *> seen;
      isData |= dependsOnData(op->operand(i), seen);
    }
    if (isData) {
      slice_.indexed.push_back(op);
      continue;
    }
    for (unsigned i = first; i < end; ++i)
      need(op->operand(i));
  }
  for (Op *op : asserts) {
    llvm::DenseSet<Value *> seen;
    Op *parent = op->parentOp();
    const bool isReached = parent == &kernel_ || slice_.runs.contains(parent);
    if (isReached && !dependsOnData(op->operand(0), seen))
      mark(*op);
  }
  // A cell or a rank that is named must exist, whether or not something happens there.
  for (Op *op : named)
    if (!slice_.runs.contains(op) && isReachedWithoutData(*op))
      mark(*op);
  drain();
  for (Op &top : kernel_.body().ops())
    walk(top, [&](Op &op) {
      if (op.numResults() == 0 || !slice_.needed.contains(op.result()))
        return;
      if (readsMemory(op))
        slice_.data.push_back(&op);
      // The operands of derived counts come from here too.
      if (op.is(OpKind::ScalarParam))
        slice_.scalars.push_back(&op);
    });
  for (Op *op : clauses)
    mark(*op);
  // What is assumed of inputs is checked in runs; nothing else depends on it.
  for (Op *op : asserts) {
    llvm::DenseSet<Value *> seen;
    Op *parent = op->parentOp();
    if (ir::isAssumption(*op) && (parent == &kernel_ || slice_.runs.contains(parent)) &&
        !dependsOnData(op->operand(0), seen, /*inputsToo=*/false))
      mark(*op);
  }
  drain();
  return std::move(slice_);
}

} // namespace

ControlSlice sliceControl(Op &kernel) { return Slicer(kernel).run(); }

ControlSlice wholeKernel(const Op &kernel) {
  ControlSlice slice;
  slice.isWhole = true;
  for (const Op &op : kernel.body().ops())
    if (op.is(OpKind::ScalarParam))
      slice.scalars.push_back(&op);
  return slice;
}

} // namespace dtile::interpret
