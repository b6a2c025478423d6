// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Walks from operands and enclosing conditions back to loads, gathers and atomics.
#include "ir/protocol/check/value_order.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace dtile::protocol {

using ir::Block;
using ir::Op;
using ir::OpKind;
using ir::Value;

namespace {

class Walk {
public:
  void value(const Value *value, bool isCarried);
  /// Conditions and bounds around an operation, up to its space.
  void around(const Op &op);

  llvm::MapVector<const Op *, bool> found;

private:
  void argument(const Value *value, bool isCarried);
  void results(const Op &op, unsigned index, bool isCarried);
  /// 1: seen, 2: seen as carried.
  llvm::DenseMap<const Value *, char> seen_;
};

void Walk::argument(const Value *value, bool isCarried) {
  const Block *block = value->argumentOf();
  const Op *op = block->parentOp();
  const unsigned index = value->index();
  if (op->is(OpKind::For)) {
    if (index == 0) {
      // Where a loop ends decides which of its positions there are, not what they are.
      this->value(op->operand(0), isCarried);
      return this->value(op->operand(2), isCarried);
    }
    this->value(op->operand(index + 2), isCarried);
    this->value(block->terminator()->operand(index - 1), true);
  } else if (op->is(OpKind::While)) {
    if (block == &op->body(1))
      return this->value(op->body(0).terminator()->operand(index + 1), isCarried);
    this->value(op->operand(index), isCarried);
    this->value(op->body(1).terminator()->operand(index), true);
  }
}

void Walk::results(const Op &op, unsigned index, bool isCarried) {
  if (op.is(OpKind::For)) {
    value(op.operand(index + 3), isCarried);
    value(op.body().terminator()->operand(index), true);
  } else if (op.is(OpKind::If)) {
    value(op.operand(0), isCarried);
    for (unsigned i = 0; i < 2; ++i)
      value(op.body(i).terminator()->operand(index), isCarried);
  } else if (op.is(OpKind::While)) {
    value(op.body(0).terminator()->operand(index + 1), true);
  }
}

void Walk::value(const Value *value, bool isCarried) {
  // Tokens order by themselves.
  if (value->type().isToken() || value->type().isAcquire())
    return;
  char &seen = seen_[value];
  const char now = isCarried ? 2 : 1;
  if (seen >= now)
    return;
  seen = now;
  const Op *op = value->definingOp();
  if (!op)
    return argument(value, isCarried);
  if (op->is(OpKind::Load) || op->is(OpKind::Gather) || ir::isAtomic(*op)) {
    bool &carried = found[op];
    carried |= isCarried;
    return;
  }
  if (op->numRegions() != 0)
    return results(*op, value->index(), isCarried);
  for (const Value *operand : op->operands())
    this->value(operand, isCarried);
}

void Walk::around(const Op &op) {
  for (const Op *inner = &op, *outer = op.parentOp(); outer && !outer->is(OpKind::Space);
       inner = outer, outer = outer->parentOp()) {
    if (outer->is(OpKind::If)) {
      value(outer->operand(0), false);
    } else if (outer->is(OpKind::For)) {
      for (unsigned i = 0; i < 3; ++i)
        value(outer->operand(i), false);
    } else if (outer->is(OpKind::While) && inner->parentBlock() == &outer->body(1)) {
      value(outer->body(0).terminator()->operand(0), false);
    }
  }
}

} // namespace

namespace {

void followRegion(Walk &walk, const Op &op) {
  for (const Value *operand : op.operands())
    if (operand->type().isView() || operand->type().isSignal())
      walk.value(operand, false);
  if (op.is(OpKind::Wait) && op.numOperands() > 1)
    walk.value(op.operand(1), false);
}

} // namespace

bool hasRegionFromData(const Op &op) {
  Walk walk;
  followRegion(walk, op);
  return !walk.found.empty();
}

bool hasPlaceFromData(const Op &op) {
  Walk walk;
  followRegion(walk, op);
  walk.around(op);
  return !walk.found.empty();
}

bool isMadeFromData(const Op &op) {
  Walk walk;
  for (const Value *operand : op.operands())
    walk.value(operand, false);
  walk.around(op);
  return !walk.found.empty();
}

bool ValueOrder::isAfterSpace(const Op &op) {
  const auto [it, isNew] = afterSpace_.try_emplace(&op, false);
  if (!isNew)
    return it->second;
  llvm::SmallVector<const Value *, 8> work(op.operands());
  llvm::SmallPtrSet<const Value *, 8> seen;
  bool found = false;
  while (!work.empty() && !found) {
    const Value *value = work.pop_back_val();
    if (!value->type().isToken() || !seen.insert(value).second)
      continue;
    if (const Block *block = value->argumentOf()) {
      const Op *around = block->parentOp();
      found = around->is(OpKind::Space);
      llvm::append_range(work, around->operands());
      continue;
    }
    const Op *made = value->definingOp();
    llvm::append_range(work, made->operands());
    for (unsigned i = 0; i < made->numRegions(); ++i)
      llvm::append_range(work, made->body(i).terminator()->operands());
  }
  return it->second = found;
}

const llvm::SmallVector<ValueSource, 2> &ValueOrder::sourcesOf(const Op &op) {
  const auto [it, isNew] = known_.try_emplace(&op);
  if (!isNew)
    return it->second;
  Walk walk;
  for (const Value *operand : op.operands())
    walk.value(operand, false);
  // A read may be done before it is known whether it is needed; nothing else may.
  if (!op.is(OpKind::Load) && !op.is(OpKind::Gather))
    walk.around(op);
  llvm::SmallVector<ValueSource, 2> &sources = it->second;
  for (const auto &[read, isCarried] : walk.found)
    if (read != &op || isCarried)
      sources.push_back({read, isCarried});
  return sources;
}

} // namespace dtile::protocol
