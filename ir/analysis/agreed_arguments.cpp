// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ir/analysis/agreed_arguments.h"

#include "ir/analysis/clauses.h"
#include "ir/analysis/communication.h"
#include "ir/core/op_classes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace dtile::ir {

namespace {

/// The signal that cells are of; null where a region passes them on.
const Op *signalOf(const Value *cells) {
  const Op *op = cells->definingOp();
  while (op && !op->is(OpKind::SignalParam) && op->numOperands() != 0)
    op = op->operand(0)->definingOp();
  return op && op->is(OpKind::SignalParam) ? op : nullptr;
}

} // namespace

std::vector<const Op *> agreedArguments(Op &kernel) {
  llvm::SmallPtrSet<const Op *, 8> notifiedByPeers;
  walk(kernel, [&](const Op &op) {
    if (op.is(OpKind::SigAt))
      notifiedByPeers.insert(signalOf(op.operand(0)));
  });
  std::vector<const Op *> found;
  llvm::SmallPtrSet<const Value *, 16> seen;
  llvm::SmallVector<const Value *, 16> work;
  walk(kernel, [&](Op &op) {
    if (const Op *signal = op.enclosing(OpKind::SignalParam);
        signal && notifiedByPeers.contains(signal))
      llvm::append_range(work, op.operands());
  });
  while (!work.empty()) {
    const Value *value = work.pop_back_val();
    const Op *op = value->definingOp();
    if (!op || !seen.insert(value).second)
      continue;
    const bool isScalar =
        op->is(OpKind::ScalarParam) && isInteger(op->result()->type().elementOrIndex());
    if (isScalar || op->is(OpKind::LaunchDim))
      found.push_back(op);
    llvm::append_range(work, op->operands());
  }
  return found;
}

llvm::SmallPtrSet<const Op *, 8> comparedDims(Op &kernel) {
  llvm::SmallPtrSet<const Op *, 8> dims;
  for (Op &op : kernel.body().ops()) {
    const bool isSymmetric = op.is(OpKind::SignalParam) ||
                             (op.is(OpKind::Param) && (op.get(attr::mode) == ParamMode::Symm ||
                                                       op.get(attr::mode) == ParamMode::Scratch));
    if (op.is(OpKind::LaunchRequire) && op.get(attr::replicated))
      addDeterminingDims(*op.operand(1), dims);
    // What has the same elements has the same sizes.
    const bool isReplicated = op.is(OpKind::LaunchElements) && op.get(attr::kind) == "replicated";
    for (const Value *size : isReplicated ? op.operand(0)->definingOp()->operands() : op.operands())
      if (isSymmetric || isReplicated)
        addDeterminingDims(*size, dims);
  }
  return dims;
}

namespace {

/// Whether ranks see something of an op; `decided` gets the operands that say of which memory or
/// cells.
bool isSeenByPeers(const Op &op, llvm::SmallVectorImpl<const Value *> &decided) {
  if (op.is(OpKind::Barrier))
    return true;
  if (isViewOp(op.kind()) || op.is(OpKind::SigAt) || op.is(OpKind::SigSlice))
    return false;
  const size_t before = decided.size();
  for (Value *operand : op.operands()) {
    if (!operand->type().isView() && !operand->type().isSignal())
      continue;
    const Op *selection = rankSelectionOf(operand);
    const Op *rank = selection ? selection->operand(1)->definingOp() : nullptr;
    // What a rank does on itself is its own.
    if (selection && !(rank && rank->is(OpKind::Rank)))
      decided.push_back(operand);
  }
  return decided.size() > before;
}

} // namespace

std::vector<const Op *> dimsSeenByPeers(Op &kernel) {
  const llvm::SmallPtrSet<const Op *, 8> compared = comparedDims(kernel);
  llvm::SmallVector<const Value *, 16> work;
  walk(kernel, [&](Op &op) {
    if (!isSeenByPeers(op, work))
      return;
    for (const Op *around = op.parentOp(); around && around != &kernel; around = around->parentOp())
      llvm::append_range(work, around->operands());
  });
  std::vector<const Op *> found;
  llvm::SmallPtrSet<const Value *, 16> seen;
  while (!work.empty()) {
    const Value *value = work.pop_back_val();
    if (!seen.insert(value).second)
      continue;
    const Op *op = value->definingOp();
    // A position of a loop or a space lies within its bounds.
    if (!op)
      op = value->argumentOf()->parentOp();
    if (!op || op == &kernel)
      continue;
    if (op->is(OpKind::LaunchDim) && !compared.contains(op))
      found.push_back(op);
    llvm::append_range(work, op->operands());
  }
  llvm::sort(found, [](const Op *a, const Op *b) {
    return std::pair(a->get(attr::param), a->get(attr::dim)) <
           std::pair(b->get(attr::param), b->get(attr::dim));
  });
  return found;
}

bool isAxisSize(const Op &kernel, const Op &op) {
  if (!op.is(OpKind::ScalarParam) || !kernel.has(attr::mesh))
    return false;
  return llvm::any_of(kernel.get(attr::mesh), [&](llvm::StringRef axis) {
    return axis.split(' ').second == op.get(attr::name);
  });
}

} // namespace dtile::ir
