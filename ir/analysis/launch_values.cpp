// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ir/analysis/launch_values.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace dtile::ir {

bool isOfLaunch(const Value *value) {
  llvm::SmallVector<const Value *, 8> work{value};
  llvm::SmallPtrSet<const Value *, 16> seen;
  while (!work.empty()) {
    const Value *next = work.pop_back_val();
    if (!seen.insert(next).second)
      continue;
    const Op *op = next->definingOp();
    if (!op)
      return false;
    const bool isGiven = op->is(OpKind::Const) || op->is(OpKind::NumRanks) ||
                         op->is(OpKind::LaunchDim) || op->is(OpKind::Param) ||
                         op->is(OpKind::SignalParam);
    if (!isGiven && (!op->isPure() || op->numOperands() == 0 || op->numRegions() != 0))
      return false;
    llvm::append_range(work, op->operands());
  }
  return true;
}

bool isPrecondition(const Op &op) {
  if (!op.is(OpKind::Assert) || !isOfLaunch(op.operand(0)))
    return false;
  for (const Op *around = op.parentOp(); around; around = around->parentOp()) {
    if (!around->is(OpKind::Space) && !around->is(OpKind::For) && !around->is(OpKind::If))
      return false;
    // Of a loop, how often it runs; what it carries is another matter.
    const unsigned deciding = around->is(OpKind::For) ? 3 : around->numOperands();
    if (!llvm::all_of(around->operands().take_front(deciding), isOfLaunch))
      return false;
    if (around->is(OpKind::Space))
      return !around->has(attr::after_all);
  }
  return false;
}

} // namespace dtile::ir
