// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ir/analysis/agreed_arguments.h"

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

bool isAxisSize(const Op &kernel, const Op &op) {
  if (!op.is(OpKind::ScalarParam) || !kernel.has(attr::mesh))
    return false;
  return llvm::any_of(kernel.get(attr::mesh), [&](llvm::StringRef axis) {
    return axis.split(' ').second == op.get(attr::name);
  });
}

} // namespace dtile::ir
