// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Barriers that all ranks come to in one order: they stand in one body, in it itself or in a loop
// of it that goes round equally often on all ranks. So the k-th barrier of a rank is the k-th of
// all, and what is before it on one rank comes before what is after it on another.
#include "ir/protocol/prove/prover.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::protocol::prove {

namespace {

/// The loop around a barrier; null where it stands in the body itself.
Op *loopOf(Op *barrier) {
  Op *around = barrier->parentOp();
  return around->is(OpKind::For) ? around : nullptr;
}

/// Whether all ranks compute the same: of W, sizes and scalars.
bool isAgreed(const Value *value) {
  const Op *op = value->definingOp();
  if (!op || op->numRegions() != 0)
    return false;
  const bool isGiven = op->is(OpKind::Const) || op->is(OpKind::NumRanks) ||
                       op->is(OpKind::LaunchDim) || op->is(OpKind::ScalarParam);
  return isGiven ||
         (op->isPure() && op->numOperands() != 0 && llvm::all_of(op->operands(), isAgreed));
}

bool isAround(const Op *loop, const Op *op) {
  for (const Op *at = op->parentOp(); at; at = at->parentOp())
    if (at == loop)
      return true;
  return false;
}

} // namespace

bool Prover::areBarriersMet() const {
  return !barriers_.empty() && llvm::all_of(barriers_, [&](Op *barrier) {
    const Op *space = spaceOf(barrier);
    const Op *loop = loopOf(barrier);
    return space == spaceOf(barriers_.front()) && space->get(ir::attr::vars).empty() &&
           !space->has(ir::attr::after_all) &&
           (loop ? loop->parentOp() : barrier->parentOp()) == space &&
           (!loop || llvm::all_of(loop->operands().take_front(3), isAgreed));
  });
}

bool Prover::meetsBefore(Op *op) const {
  return hasMetBarriers_ && llvm::any_of(barriers_, [&](Op *barrier) {
           const Op *loop = loopOf(barrier);
           return spaceOf(barrier) == spaceOf(op) && isBefore(barrier, op) &&
                  (!loop || isAround(loop, op));
         });
}

bool Prover::meetsAfter(Op *op) const {
  return hasMetBarriers_ && llvm::any_of(barriers_, [&](Op *barrier) {
           const Op *loop = loopOf(barrier);
           return spaceOf(barrier) == spaceOf(op) && isBefore(op, barrier) &&
                  (!loop || isAround(loop, op));
         });
}

bool Prover::isMetBetween(Op *first, Op *second) const {
  return hasMetBarriers_ && spaceOf(first) == spaceOf(second) &&
         llvm::any_of(barriers_, [&](Op *barrier) {
           // Of a loop around both it depends on the iterations; one around neither may be empty.
           const Op *loop = loopOf(barrier);
           return spaceOf(barrier) == spaceOf(first) && isBefore(first, barrier) &&
                  isBefore(barrier, second) &&
                  (!loop || isAround(loop, first) != isAround(loop, second));
         });
}

std::vector<Prover::Rounds> Prover::roundsOf(Op *first, Op *second) const {
  std::vector<Rounds> rounds;
  if (!hasMetBarriers_ || spaceOf(first) != spaceOf(second))
    return rounds;
  for (Op *barrier : barriers_) {
    Op *loop = loopOf(barrier);
    if (!loop || !isAround(loop, first) || !isAround(loop, second))
      continue;
    auto it = llvm::find_if(rounds, [&](const Rounds &one) { return one.loop == loop; });
    if (it == rounds.end())
      it = rounds.insert(rounds.end(), {.loop = loop, .isSameMet = false, .untilMet = 2});
    // After the first in its round, or in front of the second in its own: one round later.
    if (isBefore(first, barrier) || isBefore(barrier, second))
      it->untilMet = 1;
    it->isSameMet |= isBefore(first, barrier) && isBefore(barrier, second);
  }
  return rounds;
}

} // namespace dtile::protocol::prove
