// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads senders off the positions of notified cells: `ready@peer[rank(), r]` is notified by the
// rank of its first position, and `turn@((rank() + 1) % W)` by the rank before.
#include "ir/analysis/notifiers.h"

#include "ir/analysis/communication.h"
#include "ir/core/constants.h"

#include "llvm/ADT/STLExtras.h"

#include <numeric>
#include <optional>

namespace dtile::ir {

namespace {

bool isRank(const Value *value) {
  const Op *op = value->definingOp();
  return op && op->is(OpKind::Rank);
}

/// How far a rank is after `rank`, where that is a constant modulo the number of ranks.
std::optional<int64_t> stepsFromRank(const Value *rank) {
  if (isRank(rank))
    return 0;
  const Op *op = rank->definingOp();
  if (!op)
    return std::nullopt;
  const auto isWhole = [](const Value *value) {
    const Op *by = value->definingOp();
    return by && by->is(OpKind::NumRanks);
  };
  if (op->is(OpKind::Rem) && isWhole(op->operand(1)))
    return stepsFromRank(op->operand(0));
  if (!op->is(OpKind::Add) && !op->is(OpKind::Sub))
    return std::nullopt;
  const bool adds = op->is(OpKind::Add);
  const auto left = stepsFromRank(op->operand(0));
  if (left && isWhole(op->operand(1)))
    return left;
  if (const auto step = constantOf(op->operand(1)); left && step)
    return adds ? *left + *step : *left - *step;
  const auto right = stepsFromRank(op->operand(1));
  if (const auto step = constantOf(op->operand(0)); adds && right && step)
    return *right + *step;
  return std::nullopt;
}

void findSender(Value *cells, Notifier &found) {
  llvm::SmallVector<const Op *> steps;
  const Op *at = nullptr;
  for (const Op *op = cells->definingOp(); op && op != found.signal;
       op = op->operand(0)->definingOp()) {
    steps.push_back(op);
    if (op->is(OpKind::SigAt))
      at = op;
  }
  llvm::SmallVector<int64_t, 4> live(found.signal->numOperands());
  std::iota(live.begin(), live.end(), 0);
  for (const Op *op : llvm::reverse(steps)) {
    if (!op->is(OpKind::SigSlice))
      continue;
    unsigned next = 1;
    llvm::SmallVector<int64_t, 4> left;
    for (auto [i, letter] : llvm::enumerate(op->get(attr::dims))) {
      if (letter != 'i') {
        left.push_back(live[i]);
        next += letter == 'r' ? 2 : 0;
        continue;
      }
      if (isRank(op->operand(next++))) {
        found.from = Notifier::From::Position;
        found.value = live[i];
        return;
      }
    }
    live = left;
  }
  const std::optional<int64_t> steps0 = at ? stepsFromRank(at->operand(1)) : int64_t(0);
  if (steps0) {
    found.from = Notifier::From::Before;
    found.value = *steps0;
  }
}

} // namespace

llvm::SmallVector<Notifier> notifiersIn(Op &space) {
  llvm::SmallVector<Notifier> all;
  walk(space, [&](Op &op) {
    if (!op.is(OpKind::Notify) && !op.is(OpKind::PutSignal))
      return;
    Value *cells = cellsOf(op);
    Notifier found{&op, objectOf(cells)};
    if (!found.signal || !found.signal->is(OpKind::SignalParam))
      return;
    findSender(cells, found);
    const bool isKnown = llvm::any_of(all, [&](const Notifier &other) {
      return other.signal == found.signal && other.from == found.from &&
             other.value == found.value && other.op->loc() == op.loc();
    });
    if (!isKnown)
      all.push_back(found);
  });
  return all;
}

} // namespace dtile::ir
