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
    const bool isSpace = around->is(OpKind::Space);
    // What a loop carries is another matter than how often it runs.
    const unsigned decides = isSpace                   ? around->numOperands()
                             : around->is(OpKind::For) ? 3
                             : around->is(OpKind::If)  ? 1
                                                       : 0;
    if (decides == 0 && !isSpace)
      return false;
    if (!llvm::all_of(around->operands().take_front(decides), isOfLaunch))
      return false;
    if (isSpace)
      return !around->hasAttr("after_all");
  }
  return false;
}

} // namespace dtile::ir
